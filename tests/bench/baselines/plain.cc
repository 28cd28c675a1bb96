// The applications in the memory of one process on one thread, without a service or messages: what
// distributing them costs, and from which size on it pays.
//
//   plain --test kmers -k 31 reads.fq
//
// One JSON object per phase: wall seconds. The same readers, keys, sort and tree as the programs in
// client/examples, on absl::flat_hash_map or std::unordered_map.
#include <absl/container/flat_hash_map.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "client/examples/contigs/plain.h"
#include "client/examples/isx/keys.h"
#include "client/examples/support/kmer.h"
#include "client/examples/support/lap.h"
#include "client/examples/support/program.h"
#include "client/examples/support/reads.h"
#include "client/examples/tree/cell.h"
#include "client/examples/tree/plain.h"

namespace tidepool::baselines {
namespace {

using Word = support::Word8;

struct Options {
  std::string test = "kmers";
  int letters = 31;
  std::uint64_t count_min = 2;
  std::uint64_t keys = 1 << 24;
  int processes = 2;
  std::uint64_t centres = 12;
  int levels = 8;
  int axis = 0;
  std::string out;
  std::vector<std::string> reads;
};

// -1: go on.
int ParseOptions(int argc, char** argv, Options* options) {
  CLI::App app("The applications in one process. One JSON object per phase: wall seconds.");
  app.add_option("--test", options->test)
      ->check(CLI::IsMember({"kmers", "contigs", "isx", "tree"}));
  app.add_option("-k", options->letters)->check(CLI::Range(3, support::kLettersInOneWord));
  app.add_option("--min", options->count_min,
                 "kmers, contigs: those that come less often are errors");
  app.add_option("--operations", options->keys, "isx: keys of each process");
  app.add_option("--processes", options->processes, "isx: whose keys are sorted")
      ->check(CLI::Range(1, 1'000));
  app.add_option("--m", options->centres, "tree: points around which it is deep");
  app.add_option("--nmax", options->levels, "tree: levels")->check(CLI::Range(2, tree::kLevelsMax));
  app.add_option("--axis", options->axis, "tree: to differentiate along")->check(CLI::Range(0, 2));
  app.add_option("--out", options->out, "contigs, kmers: write what is found here");
  app.add_option("reads", options->reads);
  const int code = support::Parse(&app, argc, argv);
  if (code == 2) std::fputs(app.help().c_str(), stderr);
  return code;
}

void Print(std::string_view phase, double seconds) {
  std::printf("{\"phase\": \"%.*s\", \"seconds\": %.6f}\n", static_cast<int>(phase.size()),
              phase.data(), seconds);
}

Status Write(const std::string& path, const std::vector<std::string>& lines) {
  if (path.empty()) return {};
  std::ofstream file(path);
  for (const std::string& line : lines) file << line << '\n';
  file.close();
  return file ? OkStatus() : Status(StatusCode::kUnavailable, "cannot write " + path);
}

class Counter final : public support::SequenceSink {
 public:
  explicit Counter(int letters) : window_(letters) {}

  void BeginSequence() override { window_.Break(); }
  bool OnLetters(std::string_view letters) override {
    for (const char c : letters) {
      if (window_.Push(support::kCodes[static_cast<unsigned char>(c)]))
        ++counts_[window_.canonical()];
    }
    return true;
  }
  // As the k-mer program writes its table.
  std::vector<std::string> Lines(int letters, std::uint64_t count_min) const {
    std::vector<std::string> lines;
    for (const auto& [word, count] : counts_) {
      if (count < count_min) continue;
      std::string text;
      support::AppendText(word, letters, &text);
      lines.push_back(text + " " + std::to_string(count));
    }
    return lines;
  }

 private:
  support::KmerWindow<Word> window_;
  absl::flat_hash_map<Word, std::uint64_t> counts_;
};

Status RunKmers(const Options& options) {
  support::Lap lap;
  Counter counter(options.letters);
  for (const std::string& path : options.reads) {
    if (Status status = support::ReadSequences(path, &counter); !status.ok()) return status;
  }
  Print("kmers", lap.Seconds());
  return Write(options.out, counter.Lines(options.letters, options.count_min));
}

Status RunContigs(const Options& options) {
  support::Lap lap;
  const auto unitigs =
      contigs::PlainUnitigs<Word>(options.reads, options.letters, options.count_min);
  if (!unitigs.ok()) return unitigs.status();
  Print("contigs", lap.Seconds());
  return Write(options.out, *unitigs);
}

Status RunIsx(const Options& options) {
  support::Lap lap;
  isx::Keys keys;
  isx::Keys room;
  keys.reserve(options.keys * static_cast<std::uint64_t>(options.processes));
  for (int rank = 0; rank < options.processes; ++rank) {
    isx::KeySource source(rank);
    for (std::uint64_t i = 0; i < options.keys; ++i) keys.push_back(source.Next());
  }
  isx::Sort(0, isx::Key{1} << isx::kKeyBits, &keys, &room);
  Print("isx", lap.Seconds());
  // As the others' buckets.
  const isx::Buckets buckets(options.processes);
  for (int i = 0; i < options.processes; ++i) {
    const auto begin = std::lower_bound(keys.begin(), keys.end(), buckets.First(i));
    const auto end = i + 1 == options.processes
                         ? keys.end()
                         : std::lower_bound(begin, keys.end(), buckets.First(i + 1));
    isx::Digest digest;
    digest.Add(keys.data() + (begin - keys.begin()), static_cast<std::size_t>(end - begin));
    std::printf("bucket %d    %s\n", i, digest.Text().c_str());
  }
  return {};
}

Status RunTree(const Options& options) {
  support::Lap lap;
  static_cast<void>(tree::PlainRun(options.centres, options.levels, options.axis));
  Print("tree", lap.Seconds());
  return {};
}

}  // namespace
}  // namespace tidepool::baselines

int main(int argc, char** argv) {
  using namespace tidepool::baselines;
  Options options;
  if (const int code = ParseOptions(argc, argv, &options); code >= 0) return code;
  const std::map<std::string, std::function<tidepool::Status(const Options&)>> tests = {
      {"kmers", RunKmers}, {"contigs", RunContigs}, {"isx", RunIsx}, {"tree", RunTree}};
  return tidepool::Report(tests.at(options.test)(options));
}
