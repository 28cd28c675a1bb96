#include "client/examples/kmers/table.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kmers {
namespace {

using tidepool::Result;
using tidepool::Status;
using tidepool::StatusCode;

template <typename Word>
struct Entry {
  Word word;
  std::uint64_t count;
};
using Histogram = std::map<std::uint64_t, std::uint64_t>;

Status CannotWrite(const std::string& path) {
  const StatusCode code = errno == EACCES   ? StatusCode::kPermissionDenied
                          : errno == ENOENT ? StatusCode::kNotFound
                                            : StatusCode::kResourceExhausted;
  return Status(code, "cannot write " + path + ": " + std::strerror(errno));
}

// A file that gets its name when it is complete.
class OutFile {
 public:
  explicit OutFile(std::string path) : path_(std::move(path)), unfinished_(path_ + ".tmp") {}
  ~OutFile() {
    if (file_ == nullptr) return;
    std::fclose(file_);
    std::remove(unfinished_.c_str());
  }
  OutFile(const OutFile&) = delete;
  OutFile& operator=(const OutFile&) = delete;

  Status Open() {
    file_ = std::fopen(unfinished_.c_str(), "wb");
    return file_ == nullptr ? CannotWrite(path_) : Status();
  }
  // What cannot be written shows in Finish().
  void Write(const std::string& text) { std::fwrite(text.data(), 1, text.size(), file_); }
  Status Finish() {
    const bool failed = std::ferror(file_) != 0;
    const bool closed = std::fclose(std::exchange(file_, nullptr)) == 0;
    if (!failed && closed && std::rename(unfinished_.c_str(), path_.c_str()) == 0) return {};
    Status status = CannotWrite(path_);
    std::remove(unfinished_.c_str());
    return status;
  }

 private:
  const std::string path_;
  const std::string unfinished_;
  std::FILE* file_ = nullptr;
};

std::string PartOf(const std::string& path, int rank) {
  return path + ".part-" + std::to_string(rank);
}

void AppendNumber(std::uint64_t number, std::string* out) {
  char text[24];
  const auto end = std::to_chars(text, text + sizeof text, number).ptr;
  out->append(text, end);
}

// This process's partitions of the table: every n-th one.
template <typename Word>
Status ReadPartitions(const CountMap<Word>& map, std::uint64_t count_min, Team* team,
                      std::vector<Entry<Word>>* entries) {
  const std::uint32_t partitions = map.space().partitions();
  for (auto p = static_cast<std::uint32_t>(team->rank()); p < partitions;
       p += static_cast<std::uint32_t>(team->size())) {
    for (tidepool::Cursor at{.partition = p}; !at.at_end && at.partition == p;) {
      const auto page = map.bytes().Iterate(at);
      if (!page.ok()) return page.status();
      for (const tidepool::Record& record : page->records()) {
        KeyOf<Word> key;
        std::uint64_t count = 0;
        if (record.key.size() != sizeof key || record.value.size() != sizeof count) {
          return Status(StatusCode::kDataLoss, "a record of the table is no count of a k-mer");
        }
        std::memcpy(&key, record.key.data(), sizeof key);
        std::memcpy(&count, record.value.data(), sizeof count);
        if (count >= count_min) entries->push_back({ToWord(key), count});
      }
      at = page->next();
      if (Status status = team->Beat(); !status.ok()) return status;
    }
  }
  return {};
}

template <typename Word>
Status WriteTablePart(const std::string& path, int letters,
                      const std::vector<Entry<Word>>& entries) {
  constexpr std::size_t kWriteBytes = 1 << 20;
  OutFile file(path);
  if (Status status = file.Open(); !status.ok()) return status;
  std::string text;
  for (const Entry<Word>& entry : entries) {
    AppendText(entry.word, letters, &text);
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

Status LostPart(const std::string& path) {
  return Status(StatusCode::kNotFound, "cannot read " + path,
                "the tables must be written where all processes see them");
}

// Parts are sorted, and no k-mer is in two of them.
Status JoinTables(const std::string& path, int parts) {
  struct Part {
    std::ifstream file;
    std::string line;
  };
  std::vector<std::unique_ptr<Part>> heap;
  // Keys have one length, so whole lines compare as their keys do.
  const auto later = [](const auto& a, const auto& b) { return a->line > b->line; };
  for (int rank = 0; rank < parts; ++rank) {
    auto part = std::make_unique<Part>();
    part->file.open(PartOf(path, rank), std::ios::binary);
    if (!part->file) return LostPart(PartOf(path, rank));
    if (std::getline(part->file, part->line)) heap.push_back(std::move(part));
  }
  std::make_heap(heap.begin(), heap.end(), later);
  OutFile out(path);
  if (Status status = out.Open(); !status.ok()) return status;
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    Part& first = *heap.back();
    first.line.push_back('\n');
    out.Write(first.line);
    if (std::getline(first.file, first.line)) {
      std::push_heap(heap.begin(), heap.end(), later);
    } else {
      heap.pop_back();
    }
  }
  return out.Finish();
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

void RemoveParts(const std::string& path, int parts) {
  for (int rank = 0; rank < parts; ++rank) std::remove(PartOf(path, rank).c_str());
}

}  // namespace

template <typename Word>
Result<std::uint64_t> WriteResults(const Options& options, const CountMap<Word>& map, Team* team) {
  std::vector<Entry<Word>> entries;
  // The filter has let a few k-mers through that come once.
  const std::uint64_t count_min = options.admit ? 2 : 1;
  if (Status status = ReadPartitions<Word>(map, count_min, team, &entries); !status.ok())
    return status;
  const bool alone = team->size() == 1;
  const auto name = [&](const std::string& path) {
    return alone ? path : PartOf(path, team->rank());
  };
  if (!options.table.empty()) {
    std::sort(entries.begin(), entries.end(),
              [](const auto& a, const auto& b) { return a.word < b.word; });
    Status status = WriteTablePart(name(options.table), options.letters, entries);
    if (!status.ok()) return status;
  }
  if (!options.histogram.empty()) {
    Histogram histogram;
    for (const Entry<Word>& entry : entries) ++histogram[entry.count];
    if (Status status = WriteHistogram(name(options.histogram), histogram); !status.ok()) {
      return status;
    }
  }
  if (Status status = team->Meet("written"); !status.ok()) return status;
  if (alone || team->rank() != 0) return std::uint64_t{entries.size()};
  Status joined;
  if (!options.table.empty()) joined = JoinTables(options.table, team->size());
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
