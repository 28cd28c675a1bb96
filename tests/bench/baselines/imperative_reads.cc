#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "client/examples/contigs/graph.h"
#include "client/examples/support/combiner.h"
#include "client/examples/support/kmer.h"
#include "client/examples/support/reads.h"
#include "tests/bench/baselines/buffered.h"
#include "tests/bench/baselines/imperative.h"
#include "tests/bench/baselines/table.h"
#include "tests/bench/baselines/ucx_window.h"

namespace tidepool::baselines {
namespace {

using contigs::Edges;
using support::KmerWindow;
using Word = support::Word8;

// Each rank reads all files and takes every n-th block of letters, as our programs do.
constexpr std::uint64_t kBlockLetters = 4'096;
// All ranks flush together, after so many blocks of each.
constexpr std::uint64_t kBlocksAtATime = 256;
// What one rank can get then, if keys are spread as hashes are.
constexpr std::size_t kEntriesMax = 2 * kBlockLetters * kBlocksAtATime;

// A filter of 64-bit blocks in the memory of all ranks, as BCL has it: an insert is one
// fetch-and-or, whose answer says whether the key was there.
template <typename Window>
class Filter {
 public:
  Filter(const Ranks& ranks, Window* window, std::size_t start, std::size_t blocks)
      : ranks_(static_cast<std::uint64_t>(ranks.size())),
        window_(*window),
        start_(start),
        blocks_(blocks) {}
  // 16 bits for each key, of which four are set: 1 key in 100 errs.
  static std::size_t BlocksFor(std::uint64_t keys) { return keys / 4 + 1; }

  bool InsertAndTell(std::uint64_t key) {
    const std::uint64_t hash = Mix(~key);
    std::uint64_t bits = 0;
    for (int i = 0; i < 4; ++i) bits |= std::uint64_t{1} << (hash >> (6 * i) & 63);
    const std::size_t block = static_cast<std::size_t>((hash >> 32) * blocks_ >> 32);
    const std::uint64_t before =
        window_.FetchOr({static_cast<int>((hash >> 24 & 0xff) % ranks_), start_ + 8 * block}, bits);
    return (before & bits) == bits;
  }

 private:
  const std::uint64_t ranks_;
  Window& window_;
  const std::size_t start_;
  const std::uint64_t blocks_;
};

// What a pass over the reads does with a k-mer; as support::Pass.
enum class Pass { kCountAll, kSight, kCountStored };

template <typename Window>
class Counter final : public support::SequenceSink {
 public:
  Counter(const Ranks& ranks, int letters, Pass pass, BufferedInserts<Window>* buffered,
          Filter<Window>* filter)
      : ranks_(ranks), pass_(pass), buffered_(*buffered), filter_(*filter), window_(letters) {}

  void BeginSequence() override { window_.Break(); }
  bool OnLetters(std::string_view letters) override {
    while (!letters.empty()) {
      const std::string_view now = letters.substr(0, kBlockLetters - at_ % kBlockLetters);
      const std::uint64_t block = at_ / kBlockLetters;
      const auto size = static_cast<std::uint64_t>(ranks_.size());
      const bool is_own = block % size == static_cast<std::uint64_t>(ranks_.rank());
      for (const char c : now) {
        if (window_.Push(support::kCodes[static_cast<unsigned char>(c)]) && is_own) {
          combiner_.Count(window_.canonical(),
                          [this](Word word, std::uint64_t n) { Add(word, n); });
        }
      }
      at_ += now.size();
      letters.remove_prefix(now.size());
      // All ranks come here at the same letter.
      if (at_ % (kBlockLetters * kBlocksAtATime * size) == 0) Flush();
    }
    return true;
  }
  void Finish() {
    combiner_.Drain([this](Word word, std::uint64_t count) { Add(word, count); });
    Flush();
  }

 private:
  void Add(Word word, std::uint64_t count) {
    if (pass_ == Pass::kSight) {
      const bool seen = filter_.InsertAndTell(word);
      if (!seen && count == 1) return;
      count = 0;  // It is stored, and counted by the next pass.
    }
    buffered_.Insert(word, &count);
  }
  void Flush() {
    buffered_.Flush(
        [](char* at, const char* value) {
          std::uint64_t sum = 0;
          std::uint64_t more = 0;
          std::memcpy(&sum, at, 8);
          std::memcpy(&more, value, 8);
          sum += more;
          std::memcpy(at, &sum, 8);
        },
        pass_ != Pass::kCountStored);
  }

  const Ranks& ranks_;
  const Pass pass_;
  BufferedInserts<Window>& buffered_;
  Filter<Window>& filter_;
  KmerWindow<Word> window_;
  support::Combiner<Word> combiner_;
  std::uint64_t at_ = 0;
};

// While unitigs are made a node's value has its edges in the lowest 8 bits, and above them:
constexpr std::uint64_t kClaimed = 1 << 8;  // It is an end at which somebody has begun or come in.
constexpr std::uint64_t kVisited = 1 << 9;  // It lies on a unitig that has ends.
constexpr std::uint64_t kNoNode = ~std::uint64_t{0};

// Walks from one end of each unitig to the other, a get for each node. A walker claims the end that
// it begins at, and the one that it comes to: where two have begun at both ends the one with the
// smaller key says what they have found.
template <typename Window>
class Walker {
 public:
  Walker(Window* window, Table<Window>* table, BufferedInserts<Window>* buffered,
         const ImperativeOptions& options)
      : window_(*window),
        table_(*table),
        buffered_(*buffered),
        count_min_(options.count_min),
        kmers_(options.letters) {}

  // All ranks call it.
  std::vector<std::string> Unitigs() {
    FindEdges();
    for (const Node& node : own_) WalkFrom(node);
    MarkVisited();
    for (const Node& node : own_) WalkRing(node);
    window_.Barrier();
    return std::move(unitigs_);
  }

 private:
  struct Node {
    Word word = 0;  // In the direction of a walk.
    Edges edges = 0;
  };

  // Which of the eight possible neighbours there are, of all own nodes.
  void FindEdges() {
    std::vector<char*> values;
    table_.ForOwn([&](std::uint64_t key, char* value) {
      values.push_back(value);
      std::uint64_t count = 0;
      std::memcpy(&count, value, 8);
      Node node{key, 0};
      if (count >= count_min_) {
        for (int letter = 0; letter < 4; ++letter) {
          if (IsNode(kmers_.Next(key, letter))) node.edges |= static_cast<Edges>(1 << letter);
          if (IsNode(kmers_.Previous(key, letter))) {
            node.edges |= static_cast<Edges>(16 << letter);
          }
        }
        own_.push_back(node);
      }
      found_.push_back(count >= count_min_ ? node.edges : kNoNode);
    });
    window_.Barrier();  // Until here all needed the counts.
    for (std::size_t i = 0; i < values.size(); ++i) std::memcpy(values[i], &found_[i], 8);
    window_.Barrier();
  }
  bool IsNode(Word word) {
    std::uint64_t count = 0;
    return table_.FindOnly(kmers_.Key(word), &count) && count >= count_min_;
  }

  // A node that must be there, as it reads in the direction of `word`.
  Node Read(Word word, Place* where, std::uint64_t* value) {
    const Word key = kmers_.Key(word);
    if (!table_.Locate(key, value, where) || *value == kNoNode) Fail("a node is lost");
    const auto edges = static_cast<Edges>(*value);
    return {word, key == word ? edges : contigs::Reversed(edges)};
  }
  Node Reversed(const Node& node) const {
    return {kmers_.Reverse(node.word), contigs::Reversed(node.edges)};
  }
  // The only node that follows, by the node's own edges.
  bool OnlyFollower(const Node& node, Word* next) const {
    const int letter = contigs::OnlyOne(contigs::Following(node.edges));
    if (letter < 0) return false;
    *next = kmers_.Next(node.word, letter);
    return kmers_.Key(*next) != kmers_.Key(node.word);
  }

  // Ends are nodes at which no unitig can go on, and those beside a node with several edges there.
  void WalkFrom(const Node& own) {
    for (const Node& node : {own, Reversed(own)}) {
      Word next = 0;
      if (!OnlyFollower(node, &next)) Walk(Reversed(node));
      if (std::popcount(contigs::Following(node.edges)) < 2) continue;
      for (int letter = 0; letter < 4; ++letter) {
        if ((contigs::Following(node.edges) >> letter & 1) == 0) continue;
        Place where;
        std::uint64_t value = 0;
        Walk(Read(kmers_.Next(node.word, letter), &where, &value));
      }
    }
  }
  bool Claim(Word word) {
    for (;;) {
      Place where;
      std::uint64_t value = 0;
      Read(word, &where, &value);
      if ((value & kClaimed) != 0) return false;
      if (window_.CompareAndSwap(where, value, value | kClaimed) == value) return true;
    }
  }
  void Walk(Node node) {
    const Word first = kmers_.Key(node.word);
    if (!Claim(node.word)) return;
    std::string text;
    std::vector<Word> passed{first};
    support::AppendText(node.word, kmers_.letters(), &text);
    for (Word next = 0; OnlyFollower(node, &next);) {
      Place where;
      std::uint64_t value = 0;
      const Node beside = Read(next, &where, &value);
      if (std::popcount(contigs::Before(beside.edges)) != 1) break;
      node = beside;
      text.push_back("ACGT"[static_cast<unsigned>(node.word) & 3]);
      passed.push_back(kmers_.Key(node.word));
    }
    const Word last = passed.back();
    if (last != first && !Claim(node.word) && last < first) return;
    unitigs_.push_back(support::SmallerDirection(std::move(text)));
    const std::uint64_t nothing = 0;
    for (const Word key : passed) buffered_.Insert(key, &nothing);
  }

  void MarkVisited() {
    buffered_.Flush([](char* at, const char*) {
      std::uint64_t value = 0;
      std::memcpy(&value, at, 8);
      value |= kVisited;
      std::memcpy(at, &value, 8);
    });
    std::vector<Node> left;
    table_.ForOwn([&](std::uint64_t key, const char* at) {
      std::uint64_t value = 0;
      std::memcpy(&value, at, 8);
      if (value != kNoNode && (value & kVisited) == 0) {
        left.push_back({key, static_cast<Edges>(value)});
      }
    });
    own_.swap(left);
  }
  // Each node of a ring walks around it; the least says what it has found.
  void WalkRing(const Node& own) {
    std::string text;
    support::AppendText(own.word, kmers_.letters(), &text);
    Node node = own;
    for (Word next = 0; OnlyFollower(node, &next) && next != own.word;) {
      if (kmers_.Key(next) < own.word) return;
      Place where;
      std::uint64_t value = 0;
      node = Read(next, &where, &value);
      text.push_back("ACGT"[static_cast<unsigned>(node.word) & 3]);
    }
    unitigs_.push_back(support::SmallerDirection(std::move(text)));
  }

  Window& window_;
  Table<Window>& table_;
  BufferedInserts<Window>& buffered_;
  const std::uint64_t count_min_;
  contigs::Kmers<Word> kmers_;
  std::vector<Node> own_;
  std::vector<std::uint64_t> found_;
  std::vector<std::string> unitigs_;
};

void Write(const Ranks& ranks, const std::string& out, const std::string& text) {
  if (out.empty()) return;
  const std::string path = out + "." + std::to_string(ranks.rank());
  std::FILE* const file = std::fopen(path.c_str(), "w");
  if (file == nullptr) Fail("cannot write " + path);
  const bool ok = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) != 0 || !ok) Fail("cannot write " + path);
}

}  // namespace

template <typename Window>
void RunReads(const Ranks& ranks, const ImperativeOptions& options) {
  TableOptions table_options;
  table_options.buckets = 2 * options.entries / static_cast<std::uint64_t>(ranks.size()) + 1'024;
  BufferOptions buffer_options;
  buffer_options.start = table_options.buckets * Table<Window>::BucketBytes(8);
  buffer_options.entries_max = std::max<std::size_t>(kEntriesMax, 2 * options.entries);
  const std::size_t filter_start =
      buffer_options.start + BufferedInserts<Window>::Bytes(buffer_options);
  const std::size_t filter_blocks = options.filter ? Filter<Window>::BlocksFor(options.entries) : 1;
  Window window(filter_start + 8 * filter_blocks);
  Table<Window> table(ranks, &window, table_options);
  BufferedInserts<Window> buffered(ranks, &window, &table, buffer_options);
  Filter<Window> filter(ranks, &window, filter_start, filter_blocks);
  const auto pass = [&](Pass what) {
    Counter<Window> counter(ranks, options.letters, what, &buffered, &filter);
    for (const std::string& path : options.reads) {
      if (auto status = support::ReadSequences(path, &counter); !status.ok()) {
        Fail(status.ToString());
      }
    }
    counter.Finish();
  };
  PrintPhase(ranks, "kmers", {Measure(ranks, &window, 1, [&] {
               if (!options.filter) return pass(Pass::kCountAll);
               pass(Pass::kSight);
               pass(Pass::kCountStored);
             })});
  if (options.test == "kmers") {
    std::string text;
    table.ForOwn([&](std::uint64_t word, const char* value) {
      std::uint64_t count = 0;
      std::memcpy(&count, value, 8);
      if (options.filter && count < 2) return;  // The filter has erred.
      support::AppendText(word, options.letters, &text);
      text += " " + std::to_string(count) + "\n";
    });
    return Write(ranks, options.out, text);
  }
  Walker<Window> walker(&window, &table, &buffered, options);
  std::vector<std::string> unitigs;
  PrintPhase(ranks, "unitigs", {Measure(ranks, &window, 1, [&] { unitigs = walker.Unitigs(); })});
  std::string text;
  for (const std::string& unitig : unitigs) text += unitig + "\n";
  Write(ranks, options.out, text);
}

template void RunReads<MpiWindow>(const Ranks&, const ImperativeOptions&);
template void RunReads<UcxWindow>(const Ranks&, const ImperativeOptions&);

}  // namespace tidepool::baselines
