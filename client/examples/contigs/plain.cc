#include "client/examples/contigs/plain.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "client/examples/contigs/graph.h"
#include "client/examples/support/reads.h"

namespace contigs {
namespace {

using support::Word16;
using support::Word8;

struct Hash {
  std::size_t operator()(Word16 word) const {
    return static_cast<std::size_t>(
        (static_cast<Word8>(word) ^ static_cast<Word8>(word >> 64) * 31) * 0x9e3779b97f4a7c15ull >>
        16);
  }
};

template <typename Word>
class Plain final : public support::SequenceSink {
 public:
  explicit Plain(int letters) : kmers_(letters), window_(letters) {}

  void BeginSequence() override { window_.Break(); }
  bool OnLetters(std::string_view letters) override {
    for (const char c : letters) {
      if (window_.Push(support::kCodes[static_cast<unsigned char>(c)]))
        ++counts_[window_.canonical()];
    }
    return true;
  }

  std::vector<std::string> Unitigs(std::uint64_t count_min) {
    std::erase_if(counts_, [&](const auto& node) { return node.second < count_min; });
    std::vector<std::string> unitigs;
    for (auto& [node, count] : counts_) {
      if (count == kSeen) continue;
      // Goes back to the begin. A ring has no begin, and starts at its least node.
      Word first = node;
      Word least = node;
      bool ring = false;
      for (auto before = Joined(kmers_.Reverse(first)); before.has_value();
           before = Joined(kmers_.Reverse(first))) {
        first = kmers_.Reverse(*before);
        if (kmers_.Key(first) < kmers_.Key(least)) least = first;
        ring = first == node;
        if (ring) break;
      }
      if (ring) first = kmers_.Key(least);
      std::string text;
      support::AppendText(first, kmers_.letters(), &text);
      counts_[kmers_.Key(first)] = kSeen;
      for (auto next = Joined(first); next.has_value() && *next != first; next = Joined(*next)) {
        text.push_back("ACGT"[static_cast<unsigned>(*next) & 3]);
        counts_[kmers_.Key(*next)] = kSeen;
      }
      unitigs.push_back(support::SmallerDirection(std::move(text)));
    }
    std::sort(unitigs.begin(), unitigs.end());
    return unitigs;
  }

 private:
  static constexpr std::uint64_t kSeen = ~std::uint64_t{0};

  // Returns the only successor; no value if there are none or several.
  std::optional<Word> Following(Word word) const {
    std::optional<Word> only;
    for (int letter = 0; letter < 4; ++letter) {
      const Word next = kmers_.Next(word, letter);
      if (!counts_.contains(kmers_.Key(next))) continue;
      if (only.has_value()) return std::nullopt;
      only = next;
    }
    return only;
  }
  // Returns the successor in the same unitig. A predecessor of a node is a successor of its
  // reverse.
  std::optional<Word> Joined(Word word) const {
    const auto next = Following(word);
    if (!next.has_value() || kmers_.Key(*next) == kmers_.Key(word)) return std::nullopt;
    return Following(kmers_.Reverse(*next)).has_value() ? next : std::nullopt;
  }

  Kmers<Word> kmers_;
  support::KmerWindow<Word> window_;
  std::unordered_map<Word, std::uint64_t, Hash> counts_;
};

}  // namespace

template <typename Word>
tidepool::Result<std::vector<std::string>> PlainUnitigs(const std::vector<std::string>& reads,
                                                        int letters, std::uint64_t count_min) {
  Plain<Word> plain(letters);
  for (const std::string& path : reads) {
    if (auto status = support::ReadSequences(path, &plain); !status.ok()) return status;
  }
  return plain.Unitigs(count_min);
}

template tidepool::Result<std::vector<std::string>> PlainUnitigs<Word8>(
    const std::vector<std::string>&, int, std::uint64_t);
template tidepool::Result<std::vector<std::string>> PlainUnitigs<Word16>(
    const std::vector<std::string>&, int, std::uint64_t);

}  // namespace contigs
