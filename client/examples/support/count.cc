#include "client/examples/support/count.h"

#include "client/examples/support/combiner.h"
#include "client/examples/support/reads.h"

namespace support {
namespace {

using tidepool::Result;
using tidepool::Status;

// Each process reads all files, which costs some 3 ns per letter, and takes every n-th block of
// letters. A genome in a single record is thus shared as evenly as a million reads.
constexpr std::uint64_t kBlockLetters = 4'096;

template <typename Word>
class Counter final : public SequenceSink {
 public:
  Counter(int letters, Pass pass, const CountMap<Word>& map, Team* team)
      : pass_(pass), window_(letters), adds_(map.Buffered()), team_(team) {}

  void BeginSequence() override { window_.Break(); }

  bool OnLetters(std::string_view letters) override {
    while (!letters.empty()) {
      const std::uint64_t left = kBlockLetters - at_ % kBlockLetters;
      const std::string_view now = letters.substr(0, left);
      const auto size = static_cast<std::uint64_t>(team_->size());
      const bool ours = at_ / kBlockLetters % size == static_cast<std::uint64_t>(team_->rank());
      if (ours) {
        CountLetters(now);
      } else {
        for (const char c : now) window_.Push(CodeOf(c));
      }
      at_ += now.size();
      letters.remove_prefix(now.size());
      if (at_ % kBlockLetters == 0) status_ = team_->Beat();
      if (!status_.ok()) return false;
    }
    return true;
  }

  // Why reading was stopped.
  const Status& status() const { return status_; }

  Result<Counted> Finish() {
    combiner_.Drain([this](Word word, std::uint64_t count) { Add(word, count); });
    if (Status flushed = adds_.Flush(); !flushed.ok()) return flushed;
    return Counted{windows_, adds_.counts().operations};
  }

 private:
  static std::uint8_t CodeOf(char c) { return kCodes[static_cast<unsigned char>(c)]; }
  void Add(Word word, std::uint64_t count) {
    switch (pass_) {
      case Pass::kCountAll:
        return adds_.Add(ToKey(word), static_cast<std::int64_t>(count));
      case Pass::kSight:
        adds_.Add(ToKey(word), 0);
        if (count > 1) adds_.Add(ToKey(word), 0);  // A repeated k-mer must be stored.
        return;
      case Pass::kCountStored:
        return adds_.AddIfPresent(ToKey(word), static_cast<std::int64_t>(count));
    }
  }
  void CountLetters(std::string_view letters) {
    for (const char c : letters) {
      if (!window_.Push(CodeOf(c))) continue;
      ++windows_;
      combiner_.Count(window_.canonical(),
                      [this](Word word, std::uint64_t count) { Add(word, count); });
    }
  }

  const Pass pass_;
  KmerWindow<Word> window_;
  Combiner<Word> combiner_;
  decltype(std::declval<CountMap<Word>>().Buffered()) adds_;
  Team* const team_;
  std::uint64_t at_ = 0;  // Letters of all files until here.
  std::uint64_t windows_ = 0;
  Status status_;
};

}  // namespace

template <typename Word>
Result<Counted> CountReads(const std::vector<std::string>& reads, int letters, Pass pass,
                           const CountMap<Word>& map, Team* team) {
  Counter<Word> counter(letters, pass, map, team);
  for (const std::string& path : reads) {
    Status status = ReadSequences(path, &counter);
    if (!counter.status().ok()) return counter.status();
    if (!status.ok()) return status;
  }
  return counter.Finish();
}

template Result<Counted> CountReads<Word8>(const std::vector<std::string>&, int, Pass,
                                           const CountMap<Word8>&, Team*);
template Result<Counted> CountReads<Word16>(const std::vector<std::string>&, int, Pass,
                                            const CountMap<Word16>&, Team*);

}  // namespace support
