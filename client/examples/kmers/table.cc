#include "client/examples/kmers/table.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "client/examples/support/out_parts.h"
#include "client/examples/support/own_records.h"

namespace kmers {
namespace {

using support::KeyOf;
using support::LostPart;
using support::OutFile;
using support::PartOf;
using support::RemoveParts;
using tidepool::Result;
using tidepool::Status;
using tidepool::StatusCode;

template <typename Word>
struct Entry {
  Word word;
  std::uint64_t count;
};
using Histogram = std::map<std::uint64_t, std::uint64_t>;

void AppendNumber(std::uint64_t number, std::string* out) {
  char text[24];
  const auto end = std::to_chars(text, text + sizeof text, number).ptr;
  out->append(text, end);
}

// Handles this process's partitions of the table.
template <typename Word>
Status ReadEntries(const CountMap<Word>& map, std::uint64_t count_min, Team* team,
                   std::vector<Entry<Word>>* entries) {
  return support::ForOwnRecords(map.bytes(), team, [&](const tidepool::Record& record) -> Status {
    KeyOf<Word> key;
    std::uint64_t count = 0;
    if (!support::ReadAs(record.key, &key) || !support::ReadAs(record.value, &count)) {
      return Status(StatusCode::kDataLoss, "a record of the table is no count of a k-mer");
    }
    if (count >= count_min) entries->push_back({support::ToWord(key), count});
    return {};
  });
}

template <typename Word>
Status WriteTablePart(const std::string& path, int letters,
                      const std::vector<Entry<Word>>& entries) {
  constexpr std::size_t kWriteBytes = 1 << 20;
  OutFile file(path);
  if (Status status = file.Open(); !status.ok()) return status;
  std::string text;
  for (const Entry<Word>& entry : entries) {
    support::AppendText(entry.word, letters, &text);
    text.push_back(' ');
    AppendNumber(entry.count, &text);
    text.push_back('\n');
    if (text.size() < kWriteBytes) continue;
    file.Write(text);
    text.clear();
  }
  file.Write(text);
  return file.Finish();
}

Status WriteHistogram(const std::string& path, const Histogram& histogram) {
  OutFile file(path);
  if (Status status = file.Open(); !status.ok()) return status;
  for (const auto& [count, keys] : histogram) {
    file.Write(std::to_string(count) + " " + std::to_string(keys) + "\n");
  }
  return file.Finish();
}

Status JoinHistograms(const std::string& path, int parts) {
  Histogram sum;
  for (int rank = 0; rank < parts; ++rank) {
    std::ifstream part(PartOf(path, rank));
    if (!part) return LostPart(PartOf(path, rank));
    for (std::uint64_t count = 0, keys = 0; part >> count >> keys;) sum[count] += keys;
  }
  return WriteHistogram(path, sum);
}

}  // namespace

template <typename Word>
Result<std::uint64_t> WriteResults(const Options& options, const CountMap<Word>& map, Team* team) {
  std::vector<Entry<Word>> entries;
  // The filter has let a few k-mers through that come once.
  const std::uint64_t count_min = options.admit ? 2 : 1;
  if (Status status = ReadEntries<Word>(map, count_min, team, &entries); !status.ok())
    return status;
  const bool alone = team->size() == 1;
  if (!options.table.empty()) {
    std::sort(entries.begin(), entries.end(),
              [](const auto& a, const auto& b) { return a.word < b.word; });
    Status status = WriteTablePart(PartOf(options.table, *team), options.letters, entries);
    if (!status.ok()) return status;
  }
  if (!options.histogram.empty()) {
    Histogram histogram;
    for (const Entry<Word>& entry : entries) ++histogram[entry.count];
    if (Status status = WriteHistogram(PartOf(options.histogram, *team), histogram); !status.ok()) {
      return status;
    }
  }
  if (Status status = team->Meet("written"); !status.ok()) return status;
  if (alone || team->rank() != 0) return std::uint64_t{entries.size()};
  Status joined;
  if (!options.table.empty()) joined = support::JoinSortedParts(options.table, team->size());
  if (joined.ok() && !options.histogram.empty()) {
    joined = JoinHistograms(options.histogram, team->size());
  }
  if (!options.table.empty()) RemoveParts(options.table, team->size());
  if (!options.histogram.empty()) RemoveParts(options.histogram, team->size());
  if (!joined.ok()) return joined;
  return std::uint64_t{entries.size()};
}

template Result<std::uint64_t> WriteResults<Word8>(const Options&, const CountMap<Word8>&, Team*);
template Result<std::uint64_t> WriteResults<Word16>(const Options&, const CountMap<Word16>&, Team*);

}  // namespace kmers
