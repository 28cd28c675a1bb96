// Between each two steps of a direct read its owner does whole things, each at each place, and each
// two of them at each two places: what the read finds must have been there meanwhile.
//
// One thread, no chance: the reader is compiled with a call between its steps.
#include <catch2/catch.hpp>

#include <functional>
#include <string>
#include <vector>

#include "tests/client/direct_fixture.h"

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

// The key that is read, and one with the same tag in the same bucket.
struct Keys {
  std::string read;
  std::string twin;
};

// Of 4 bits of hash: sixteen keys in one bucket have one hash.
constexpr std::uint64_t kHashMask = 0xf;

Keys TwinKeys() {
  const std::uint64_t wanted = KeyHash(AsBytes("a")) & kHashMask;
  for (int i = 0;; ++i) {
    std::string twin = "twin" + std::to_string(i);
    if ((KeyHash(AsBytes(twin)) & kHashMask) == wanted) return {"a", std::move(twin)};
  }
}

struct State {
  std::string value;  // "<absent>"
  std::uint64_t version = 0;

  friend bool operator==(const State&, const State&) = default;
};

class SteppedRead {
 public:
  SteppedRead() : fixture_(Options()) {
    fixture_.Put(keys_.twin, "twin");
    Put(std::string(24, 'i'));
    states_.clear();
    Note();
  }

  // ---- What the owner may do, whole.
  void Put(const std::string& value) {
    fixture_.Put(keys_.read, value);
    Note();
  }
  void PutInPlace() { Put(std::string(24, Letter())); }
  void PutAnew() { Put(std::string(300, Letter())); }
  void Delete() {
    fixture_.Delete(keys_.read);
    Note();
  }
  // Behind the twin, that is: in another slot than before.
  void DeleteTwinAndPutAgain() {
    fixture_.Delete(keys_.twin);
    Delete();
    PutAnew();
  }
  void DeleteTwin() { fixture_.Delete(keys_.twin); }
  // Nothing of this is to be seen but its end.
  void Batch() {
    fixture_.partition->SetBusy(true);
    fixture_.Delete(keys_.read);
    fixture_.Put(keys_.read, "between");
    fixture_.Delete(keys_.twin);
    fixture_.Put(keys_.read, std::string(24, Letter()));
    fixture_.partition->SetBusy(false);
    Note();
  }
  // All that is dead is used again, first for records of the same shape.
  void Reuse() {
    for (int i = 0; i < 120; ++i) {
      fixture_.Put("reuse" + std::to_string(i), std::string(200, 'r'));
      if (i % 4 != 0) fixture_.Delete("reuse" + std::to_string(i));
    }
    fixture_.Settle();
  }
  // What is written from then on nobody may find here.
  void Move() {
    fixture_.partition->Freeze();
    fixture_.Put(keys_.read, std::string(24, 'y'));
    Reuse();
  }
  void DropAndReuse() {
    const PartitionId id = fixture_.partition->id();
    fixture_.core->DropPartition(id);
    fixture_.Settle();
    fixture_.partition = fixture_.core->AddPartition(id, Term(7), {}).value();
    fixture_.store = &fixture_.partition->hash();
    fixture_.Put(keys_.read, std::string(24, 'x'));
    Reuse();
  }

  using Action = void (SteppedRead::*)();

  // Does these when so many steps are done. False: the read was over before the last of them.
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
    read_ = fixture_.Read(keys_.read);
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
  static storage::StoreOptions Options() {
    storage::StoreOptions options = TinyStore(1 << 20);
    options.core.hash_mask = kHashMask;
    return options;
  }
  char Letter() { return static_cast<char>('A' + letter_++ % 26); }
  void Note() {
    const auto now = fixture_.Get(keys_.read);
    states_.push_back(now.code == StatusCode::kOk
                          ? State{std::string(AsText(now.value)), now.version.value()}
                          : State{"<absent>", 0});
  }

  DirectFixture fixture_;
  const Keys keys_ = TwinKeys();
  int letter_ = 0;
  std::vector<State> states_;  // Since the read began, the one that it began with included.
  DirectRead read_;
  State found_;
};

struct Named {
  const char* name;
  SteppedRead::Action action;
};
constexpr Named kActions[] = {{"PutInPlace", &SteppedRead::PutInPlace},
                              {"PutAnew", &SteppedRead::PutAnew},
                              {"Delete", &SteppedRead::Delete},
                              {"DeleteTwin", &SteppedRead::DeleteTwin},
                              {"DeleteTwinAndPutAgain", &SteppedRead::DeleteTwinAndPutAgain},
                              {"Batch", &SteppedRead::Batch},
                              {"Reuse", &SteppedRead::Reuse},
                              {"Move", &SteppedRead::Move},
                              {"DropAndReuse", &SteppedRead::DropAndReuse}};

TEST_CASE("DirectReadFindsWhatWasThereWhateverItsOwnerDoesBetweenTwoSteps") {
  int runs = 0;
  int answered = 0;
  for (const Named& first : kActions) {
    for (int step = 1;; ++step) {
      SteppedRead read;
      if (!read.Run({{step, first.action}})) break;
      CAPTURE(first.name, step, read.Found());
      REQUIRE(read.IsExplained());
      ++runs;
      answered += read.WasAnswered() ? 1 : 0;
    }
  }
  REQUIRE(runs > 100);
  REQUIRE(answered > 50);
}

TEST_CASE("DirectReadFindsWhatWasThereWhateverItsOwnerDoesInTwoPlaces") {
  int runs = 0;
  for (const Named& first : kActions) {
    for (const Named& second : kActions) {
      // A partition that is gone does nothing more.
      if (first.action == &SteppedRead::Move || first.action == &SteppedRead::DropAndReuse) break;
      for (int step = 1, left = 1; left != 0; ++step) {
        left = 0;
        for (int later = step;; ++later, ++left, ++runs) {
          SteppedRead read;
          if (!read.Run({{step, first.action}, {later, second.action}})) break;
          CAPTURE(first.name, step, second.name, later, read.Found());
          REQUIRE(read.IsExplained());
        }
      }
    }
  }
  REQUIRE(runs > 1000);
}

}  // namespace
}  // namespace tidepool::internal
