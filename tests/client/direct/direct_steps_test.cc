// Between each two steps of a direct read, its owner makes whole changes: each change at each
// place, and each pair of changes at each pair of places. The read's result must have existed
// meanwhile.
//
// A single thread, without chance: the reader is compiled with a call between its steps.
#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "tests/client/direct/direct_fixture.h"

namespace {

std::function<void()>* g_between_steps = nullptr;

}  // namespace

void DirectReadStep(int /*step*/) {
  if (g_between_steps != nullptr) (*g_between_steps)();
}

namespace tidepool::internal {
namespace {

using storage::PutOptions;
using storage::TinyStore;

// Every record of these tests takes a multiple of 64 bytes. Reused memory thus has headers at the
// places of earlier headers.
constexpr std::size_t kKeyBytes = 4;
constexpr std::size_t kShort = 24;
constexpr std::size_t kLong = kShort + 64;
// In segments of their own, and with a part in the record.
constexpr std::size_t kLarge = 2500;
constexpr std::size_t kLarger = 3840 + 24;

std::string KeyOf(char kind, int i) {
  std::string digits = std::to_string(i);
  return kind + std::string(kKeyBytes - 1 - digits.size(), '0') + digits;
}

// Hashes of few bits, so that keys share buckets and tags: two keys have equal tags.
constexpr std::uint64_t kFewHashBits = 0xf;

std::string TwinOf(const std::string& key, std::uint64_t hash_mask) {
  const std::uint64_t wanted = KeyHash(AsBytes(key)) & hash_mask & kFewHashBits;
  for (int i = 0;; ++i) {
    if ((KeyHash(AsBytes(KeyOf('t', i))) & kFewHashBits) == wanted) return KeyOf('t', i);
  }
}

// Returns a key that goes to the new bucket when its bucket is split.
std::string MovingKey() {
  for (int i = 0;; ++i) {
    if ((KeyHash(AsBytes(KeyOf('a', i))) & 64) != 0) return KeyOf('a', i);
  }
}

struct State {
  std::string value;  // "<absent>"
  std::uint64_t version = 0;

  friend bool operator==(const State&, const State&) = default;
};

class SteppedRead {
 public:
  SteppedRead(std::uint64_t hash_mask, bool large)
      : fixture_(Options(hash_mask)),
        key_(MovingKey()),
        twin_(TwinOf(key_, hash_mask)),
        bytes_(large ? kLarge : kShort),
        more_bytes_(large ? kLarger : kLong) {
    fixture_.Put(twin_, std::string(kShort, 't'));
    Put(std::string(bytes_, 'i'));
    states_.clear();
    Note();
  }

  // ---- Whole changes of the owner.
  void PutInPlace() { Put(std::string(bytes_, Letter())); }  // Unless it is large.
  void PutAnew() { Put(std::string(more_bytes_, Letter())); }
  void Append() {
    fixture_.Append(key_, std::string(64, Letter()));
    Note();
  }
  void Delete() {
    fixture_.Delete(key_);
    Note();
  }
  void DeleteTwin() { fixture_.Delete(twin_); }
  // In another slot than before.
  void DeleteTwinAndPutAgain() {
    DeleteTwin();
    Delete();
    PutAnew();
  }
  // Nothing of this is to be seen but its end.
  void Batch() {
    fixture_.partition->SetBusy(true);
    fixture_.Delete(key_);
    fixture_.Put(key_, std::string(bytes_, '?'));
    fixture_.Delete(twin_);
    fixture_.Put(key_, std::string(bytes_, Letter()));
    fixture_.partition->SetBusy(false);
    Note();
  }
  // All that is dead is used again, for records with as many bytes.
  void Reuse() {
    const bool has_twin = fixture_.Delete(twin_).code == StatusCode::kOk;
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < 130; ++i) fixture_.Put(KeyOf('r', i), std::string(kShort, 'r'));
      fixture_.Settle();
      for (int i = 0; i < 130; ++i) fixture_.Delete(KeyOf('r', i));
      fixture_.Settle();
    }
    // More large values than were freed so far.
    for (int i = 0; bytes_ == kLarge && i < 20; ++i) {
      fixture_.Put(KeyOf('l', i), std::string(kLarger, 'l'));
    }
    for (int i = 0; i < 260; ++i) fixture_.Put(KeyOf('s', i), std::string(kShort, 's'));
    if (has_twin) fixture_.Put(twin_, std::string(kShort, 't'));
  }
  void PutAnewAndReuse() {
    PutAnew();
    Reuse();
  }
  void Grow() {
    for (int i = 0; i < 750; ++i) fixture_.Put(KeyOf('g', i), std::string(kShort, 'g'));
  }
  // No reader may find later changes here.
  void Move() {
    fixture_.partition->Freeze();
    fixture_.Put(key_, std::string(bytes_, 'y'));
    Reuse();
  }
  void DropAndReuse() {
    const PartitionId id = fixture_.partition->id();
    fixture_.core->DropPartition(id);
    fixture_.Settle();
    fixture_.partition = fixture_.core->AddPartition(id, Term(7), {}).value();
    fixture_.store = &fixture_.partition->hash();
    fixture_.Put(key_, std::string(bytes_, 'x'));
    Reuse();
  }
  void LeaseRunsOut() { fixture_.clock.AdvanceNs(kLeaseNs); }
  void LeaseRunsOutAndComesBack() {
    LeaseRunsOut();
    fixture_.ShowLease();
  }

  using Action = void (SteppedRead::*)();

  // Makes these changes after these numbers of steps. False: the read ended before the last change.
  bool Run(const std::vector<std::pair<int, Action>>& actions) {
    int step = 0;
    std::size_t next = 0;
    std::function<void()> between = [&] {
      ++step;
      while (next < actions.size() && actions[next].first == step) {
        (this->*actions[next++].second)();
      }
    };
    g_between_steps = &between;
    read_ = fixture_.Read(key_);
    g_between_steps = nullptr;
    if (read_.outcome == DirectRead::Outcome::kFound) {
      found_ = {std::string(AsText(Bytes(fixture_.room).first(read_.value_bytes))), read_.version};
    } else {
      found_ = {"<absent>", 0};
    }
    return next == actions.size();
  }
  bool IsExplained() const {
    if (read_.outcome == DirectRead::Outcome::kAskOwner) return true;
    return std::find(states_.begin(), states_.end(), found_) != states_.end();
  }
  bool WasAnswered() const { return read_.outcome != DirectRead::Outcome::kAskOwner; }
  std::string Found() const { return found_.value + " " + std::to_string(found_.version); }

 private:
  static storage::StoreOptions Options(std::uint64_t hash_mask) {
    storage::StoreOptions options = TinyStore(1 << 20);
    options.core.hash_mask = hash_mask;
    return options;
  }
  void Put(const std::string& value) {
    fixture_.Put(key_, value);
    Note();
  }
  char Letter() { return static_cast<char>('A' + letter_++ % 26); }
  void Note() {
    const auto now = fixture_.Get(key_);
    states_.push_back(now.code == StatusCode::kOk ? State{fixture_.Text(now), now.version.value()}
                                                  : State{"<absent>", 0});
  }

  DirectFixture fixture_;
  const std::string key_;
  const std::string twin_;  // With few bits of hash it has the tag and the bucket of the key.
  const std::size_t bytes_;
  const std::size_t more_bytes_;
  int letter_ = 0;
  std::vector<State> states_;  // States since the read began, including the state at its begin.
  DirectRead read_;
  State found_;
};

struct Named {
  const char* name;
  SteppedRead::Action action;
};
constexpr Named kActions[] = {{"PutInPlace", &SteppedRead::PutInPlace},
                              {"PutAnew", &SteppedRead::PutAnew},
                              {"Append", &SteppedRead::Append},
                              {"Delete", &SteppedRead::Delete},
                              {"DeleteTwin", &SteppedRead::DeleteTwin},
                              {"DeleteTwinAndPutAgain", &SteppedRead::DeleteTwinAndPutAgain},
                              {"Batch", &SteppedRead::Batch},
                              {"Reuse", &SteppedRead::Reuse},
                              {"PutAnewAndReuse", &SteppedRead::PutAnewAndReuse},
                              {"Grow", &SteppedRead::Grow},
                              {"Move", &SteppedRead::Move},
                              {"DropAndReuse", &SteppedRead::DropAndReuse}};
constexpr std::uint64_t kHashMasks[] = {kFewHashBits, ~0ull};

bool Ends(SteppedRead::Action action) {
  return action == &SteppedRead::Move || action == &SteppedRead::DropAndReuse;
}

TEST_CASE("DirectReadFindsWhatWasThereWhateverItsOwnerDoesBetweenTwoSteps") {
  const bool large = GENERATE(false, true);
  int answered = 0;
  for (const std::uint64_t hash_mask : kHashMasks) {
    for (const Named& first : kActions) {
      for (int step = 1;; ++step) {
        SteppedRead read(hash_mask, large);
        if (!read.Run({{step, first.action}})) break;
        CAPTURE(large, hash_mask, first.name, step, read.Found());
        REQUIRE(read.IsExplained());
        answered += read.WasAnswered() ? 1 : 0;
      }
    }
  }
  REQUIRE(answered > 100);
}

TEST_CASE("DirectReadFindsWhatWasThereWhateverItsOwnerDoesInTwoPlaces") {
  const bool large = GENERATE(false, true);
  int runs = 0;
  const auto check = [&](const Named& first, const Named& second) {
    for (int step = 1, later = 1;; ++step) {
      for (later = step;; ++later, ++runs) {
        SteppedRead read(kFewHashBits, large);
        if (!read.Run({{step, first.action}, {later, second.action}})) break;
        CAPTURE(large, first.name, step, second.name, later, read.Found());
        REQUIRE(read.IsExplained());
      }
      if (later == step) return;
    }
  };
  for (const Named& first : kActions) {
    if (Ends(first.action)) continue;  // A partition that is gone does nothing more.
    for (const Named& second : kActions) check(first, second);
  }
  REQUIRE(runs > 1000);
}

// The clock is read last, and the lease before all else.
TEST_CASE("DirectReadThatEndsBehindTheLeaseItBeganUnderIsRefused") {
  const bool large = GENERATE(false, true);
  for (const auto action : {&SteppedRead::LeaseRunsOut, &SteppedRead::LeaseRunsOutAndComesBack}) {
    for (int step = 2;; ++step) {
      SteppedRead read(~0ull, large);
      if (!read.Run({{step, action}})) break;
      CAPTURE(large, step);
      REQUIRE(!read.WasAnswered());
    }
  }
}

TEST_CASE("DirectReadFindsKeysWhoseTagsAreMadeAgainBetweenTwoSteps") {
  constexpr int kKeys = 90'000;  // After eight doublings.
  const auto key_of = [](int i) { return "key" + std::to_string(i); };
  bool is_over = false;
  for (int step = 1; !is_over; ++step) {
    DirectFixture fixture(TinyStore(48ull << 20));
    for (int i = 0; i < kKeys; ++i) fixture.Put(key_of(i), "v");
    REQUIRE(fixture.store->index().RebuildDue());
    int steps = 0;
    std::function<void()> between = [&] {
      if (++steps == step) fixture.Settle();
    };
    g_between_steps = &between;
    const std::string found = fixture.Direct(key_of(7));
    g_between_steps = nullptr;
    is_over = steps < step;
    CAPTURE(step);
    REQUIRE(found == "v");
    REQUIRE((fixture.store->index().rebuilt_buckets() > 0) != is_over);
  }
}

}  // namespace
}  // namespace tidepool::internal
