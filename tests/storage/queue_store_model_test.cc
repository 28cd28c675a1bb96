// Random operations against containers of the standard library, with leases, expiry, a clock that
// jumps, tiny segments that compaction moves, and memory that runs out. A second partition applies
// every change that the first publishes, and must be an equal queue in the end. In one test the
// queue moves to another core again and again, and must continue as if it had not moved.
#include <catch2/catch.hpp>

#include <deque>
#include <map>
#include <memory>
#include <set>

#include "tests/storage/image_copy.h"
#include "tests/storage/queue_fixture.h"
#include "tests/support/random.h"

namespace tidepool::storage {
namespace {

struct Expected {
  std::string value;
  std::uint64_t expiry_ms = 0;
  std::uint64_t deliveries = 0;
  std::uint64_t deadline_ms = 0;  // 0: ready.
};

// Applies the first queue's changes to another core's queue, renumbered to its partition.
class Follower final : public LogObserver {
 public:
  explicit Follower(Partition* to) : to_(to) {}
  void OnRecord(const LogRecord& record) override {
    LogRecord copy = record;
    copy.partition = to_->id();
    REQUIRE(to_->Apply(copy) == record.lsn);
    ++records_;
  }
  std::uint64_t records() const { return records_; }

 private:
  Partition* const to_;
  std::uint64_t records_ = 0;
};

class Model {
 public:
  // `pushes` of a hundred steps are pushes: 40 leave the queue short, 70 fill the memory.
  Model(const StoreOptions& options, std::uint64_t pushes, test::Random* random)
      : by_priority_(options.partition.kind == Kind::kPriority),
        options_(options),
        fixture_here_(std::make_unique<QueueFixture>(options)),
        pushes_(pushes),
        random_(*random) {}

  void Run(int steps, int check_every) {
    for (int step = 0; step < steps; ++step) {
      INFO("step " << step);
      Step();
      if (step % check_every == 0) Check();
    }
    Check();
  }
  QueueFixture& fixture() { return *fixture_here_; }
  std::uint64_t refused() const { return refused_; }
  std::uint64_t moves_given_up() const { return moves_given_up_; }

  // To another core, where some memory is taken, unless there is no room; then it stays.
  void Move(std::uint64_t taken_bytes = 0) {
    auto target = std::make_unique<QueueFixture>(options_);
    auto other =
        target->core->AddPartition(PartitionId(NamespaceId(2), 0), Term(1), options_.partition);
    REQUIRE(other.ok());
    for (std::uint64_t bytes = 0; bytes < taken_bytes; bytes += 500) {
      (*other)->queue().Push(AsBytes(std::string(500, 'o')), {}, target->core->NowMs());
    }
    QueueFixture& here = fixture();
    const std::uint64_t taken = target->core->usage().live_bytes;
    // Clocks of other machines show other times.
    target->clock.AdvanceNs(here.clock.MonotonicNs() + random_.Below(1'000'000) * 1'000'000);
    target->core->DropPartition(target->partition->id());
    target->Settle();
    const PartitionId id = here.partition->id();
    const Term term = here.partition->term();
    const StatusCode copied = CopyImage(*here.core, *target->core, id, options_.partition);
    target->core->CheckInvariants();
    if (copied != StatusCode::kOk) {
      REQUIRE(copied == StatusCode::kResourceExhausted);
      target->core->DropIncoming(id);
      target->Settle();
      target->core->CheckInvariants();
      here.partition->Thaw();
      ++moves_given_up_;
      return;
    }
    target->partition = target->core->Adopt(id, Term(term.value() + 1));
    REQUIRE(target->partition != nullptr);
    target->queue = &target->partition->queue();
    const Lsn before = here.partition->last_lsn();
    const std::uint64_t ahead_ms = target->core->NowMs() - here.core->NowMs();
    here.core->DropPartition(id);
    here.Settle();
    here.core->CheckInvariants();
    REQUIRE(here.core->usage().live_bytes == others_bytes_);
    others_bytes_ = taken;
    REQUIRE(target->partition->last_lsn() > before);
    fixture_here_ = std::move(target);
    for (auto& [key, item] : items_) {
      if (item.deadline_ms != 0) item.deadline_ms += ahead_ms;
      if (item.expiry_ms != 0) item.expiry_ms += ahead_ms;
    }
  }

 private:
  // (priority, id): the order of delivery.
  using Key = std::pair<std::uint64_t, std::uint64_t>;

  std::uint64_t now_ms() { return fixture().core->NowMs(); }
  // Removes expired items, like each operation that meets them.
  void Refresh() {
    for (auto& [key, item] : items_) {
      if (item.deadline_ms != 0 && item.deadline_ms <= now_ms()) item.deadline_ms = 0;
    }
    std::erase_if(items_, [this](const auto& each) {
      const Expected& item = each.second;
      return item.deadline_ms == 0 && item.expiry_ms != 0 && item.expiry_ms <= now_ms();
    });
  }

  void Step() {
    Refresh();
    if (random_.Below(100) < pushes_) return Push();
    const std::uint64_t choice = 40 + random_.Below(60);
    if (choice < 52) {
      Pop();
    } else if (choice < 68) {
      Lease();
    } else if (choice < 82) {
      EndLease();
    } else if (choice < 88) {
      Peek();
    } else if (choice < 94) {
      fixture().AdvanceMs(random_.Below(30));
    } else {
      fixture().core->BackgroundSlice(1'000'000);
    }
  }
  void Push() {
    PushOptions options;
    options.priority = random_.Below(5) << (8 * random_.Below(8));
    if (random_.OneIn(6)) options.ttl_ms = 1 + random_.Below(100);
    const std::string value = std::to_string(random_.Word()) + std::string(random_.Size(300), 'v');
    const PushOutcome outcome = fixture().Push(value, options);
    if (outcome.code != StatusCode::kOk) {
      REQUIRE(outcome.code == StatusCode::kResourceExhausted);
      REQUIRE(!outcome.at_capacity);
      ++refused_;
      // Makes room, so that the run does not stay at the limit.
      for (int i = 0; i < 50; ++i) Pop();
      return;
    }
    // A queue that had no item yet begins where its term does.
    if (last_id_ == 0) last_id_ = (fixture().partition->term().value() - 1ull) << 40;
    REQUIRE(outcome.id == ++last_id_);
    const std::uint64_t expiry_ms = options.ttl_ms == kTtlDefault ? 0 : now_ms() + options.ttl_ms;
    items_[{by_priority_ ? options.priority : 0, outcome.id}] = {value, expiry_ms, 0, 0};
  }
  std::vector<Key> FirstReady(std::uint64_t count) const {
    std::vector<Key> keys;
    for (const auto& [key, item] : items_) {
      if (keys.size() == count) break;
      if (item.deadline_ms == 0) keys.push_back(key);
    }
    return keys;
  }
  void Pop() {
    const std::vector<Key> keys = FirstReady(1 + random_.Below(4));
    const std::vector<Seen> seen = fixture().Pop(std::max<std::size_t>(keys.size(), 1));
    REQUIRE(seen.size() == keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const Expected& item = items_.at(keys[i]);
      REQUIRE(seen[i] == Seen{keys[i].second, item.deliveries, item.value});
      items_.erase(keys[i]);
    }
  }
  void Lease() {
    const std::uint64_t visibility_ms = 1 + random_.Below(100);
    const std::vector<Key> keys = FirstReady(1 + random_.Below(4));
    const std::vector<Seen> seen =
        fixture().Lease(std::max<std::size_t>(keys.size(), 1), visibility_ms);
    REQUIRE(seen.size() == keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      Expected& item = items_.at(keys[i]);
      ++item.deliveries;
      item.deadline_ms = now_ms() + visibility_ms;
      REQUIRE(seen[i] == Seen{keys[i].second, item.deliveries, item.value});
      handed_out_.push_back({keys[i], item.deliveries});
    }
  }
  // Ends any earlier lease: most leases are over.
  void EndLease() {
    if (handed_out_.empty()) return;
    const std::size_t at =
        random_.OneIn(3) ? random_.Below(handed_out_.size()) : handed_out_.size() - 1;
    const auto [key, deliveries] = handed_out_[at];
    handed_out_.erase(handed_out_.begin() + static_cast<std::ptrdiff_t>(at));
    const bool ack = random_.Below(3) != 0;
    const Seen item{key.second, deliveries, ""};
    const StatusCode code = ack ? fixture().Ack(item) : fixture().Nack(item);
    const auto found = items_.find(key);
    if (found == items_.end()) {
      // An expired item that no operation has met yet is there, but not leased.
      REQUIRE((code == StatusCode::kNotFound || code == StatusCode::kFailedPrecondition));
      return;
    }
    if (found->second.deadline_ms == 0 || found->second.deliveries != deliveries) {
      REQUIRE(code == StatusCode::kFailedPrecondition);
      return;
    }
    REQUIRE(code == StatusCode::kOk);
    found->second.deadline_ms = 0;
    if (ack) items_.erase(found);
  }
  void Peek() {
    const std::vector<Key> keys = FirstReady(20);
    const std::vector<Seen> seen = fixture().Peek(20);
    REQUIRE(seen.size() == keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const Expected& item = items_.at(keys[i]);
      REQUIRE(seen[i] == Seen{keys[i].second, item.deliveries, item.value});
    }
  }
  void Check() {
    Refresh();
    fixture().core->CheckInvariants();
    fixture().queue->ReleaseOverdue(now_ms());
    std::uint64_t leased = 0;
    std::uint64_t next_ms = kNeverMs;
    for (const auto& [key, item] : items_) {
      if (item.deadline_ms == 0) continue;
      ++leased;
      next_ms = std::min(next_ms, item.deadline_ms);
    }
    REQUIRE(fixture().queue->Length().leased == leased);
    REQUIRE(fixture().queue->NextTimeoutMs() == next_ms);
    // Includes expired items that no operation has met.
    REQUIRE(fixture().queue->size() >= items_.size());
  }

  const bool by_priority_;
  const StoreOptions options_;
  std::unique_ptr<QueueFixture> fixture_here_;
  const std::uint64_t pushes_;
  test::Random& random_;
  std::map<Key, Expected> items_;
  std::vector<std::pair<Key, std::uint64_t>> handed_out_;
  std::uint64_t last_id_ = 0;
  std::uint64_t refused_ = 0;
  std::uint64_t moves_given_up_ = 0;
  std::uint64_t others_bytes_ = 0;  // Live, of the other partition here.
};

StoreOptions Small(Kind kind, std::uint64_t memory_bytes) {
  StoreOptions options = OfKind(kind, TinyStore(memory_bytes));
  options.core.tree_page_bytes = 512;
  return options;
}

// Everything of a queue that an operation can see.
std::string StateOf(QueueFixture& fixture) {
  std::string state;
  for (const Seen& item : fixture.Peek(~0ull)) {
    state +=
        std::to_string(item.id) + "," + std::to_string(item.deliveries) + "," + item.value + "\n";
  }
  return state + std::to_string(fixture.Length().first) + " " +
         std::to_string(fixture.Length().second) + " " +
         std::to_string(fixture.queue->NextTimeoutMs());
}

TEST_CASE("QueueDoesWhatItsModelDoes") {
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority);
  test::Random random("QueueDoesWhatItsModelDoes");
  Model model(Small(kind, 4 << 20), 40, &random);
  model.Run(20'000, 200);
  REQUIRE(model.fixture().core->counters().compacted_segments > 0);
}

TEST_CASE("QueueDoesWhatItsModelDoesAtTheBrimOfMemory") {
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority);
  test::Random random("QueueDoesWhatItsModelDoesAtTheBrimOfMemory");
  Model model(Small(kind, 160 << 10), 70, &random);
  model.Run(20'000, 200);
  REQUIRE(model.refused() > 0);
  REQUIRE(model.fixture().core->counters().compacted_segments > 0);
}

StoreOptions Spilling(Kind kind, std::uint64_t memory_bytes, std::uint64_t slots) {
  StoreOptions options = Small(kind, memory_bytes);
  options.slots = slots;
  return options;
}

TEST_CASE("QueueThatLeavesMemoryDoesWhatItsModelDoes") {
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority);
  test::Random random("QueueThatLeavesMemoryDoesWhatItsModelDoes");
  Model model(Spilling(kind, 240 << 10, 2'000), 60, &random);
  model.Run(30'000, 200);
  REQUIRE(model.fixture().core->counters().spill.spilled_segments > 0);
  REQUIRE(model.fixture().fetches > 0);
}

TEST_CASE("QueueThatFillsItsDeviceDoesWhatItsModelDoes") {
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority);
  test::Random random("QueueThatFillsItsDeviceDoesWhatItsModelDoes");
  Model model(Spilling(kind, 240 << 10, 40), 75, &random);
  model.Run(30'000, 200);
  REQUIRE(model.refused() > 0);
  REQUIRE(model.fixture().fetches > 0);
}

TEST_CASE("QueueThatLeavesMemoryMovesAgainAndAgain") {
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority);
  test::Random random("QueueThatLeavesMemoryMovesAgainAndAgain");
  Model model(Spilling(kind, 400 << 10, 2'000), 70, &random);
  for (int round = 0; round < 40; ++round) {
    model.Run(static_cast<int>(random.Below(600)), 200);
    model.Move();
  }
  REQUIRE(model.fixture().core->counters().spill.spilled_segments > 0);
}

TEST_CASE("QueueThatMovesAgainAndAgainDoesWhatItsModelDoes") {
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority);
  test::Random random("QueueThatMovesAgainAndAgainDoesWhatItsModelDoes");
  Model model(Small(kind, 4 << 20), 45, &random);
  for (int round = 0; round < 100; ++round) {
    model.Run(static_cast<int>(random.Below(200)), 50);
    model.Move();
  }
  REQUIRE(model.moves_given_up() == 0);
}

TEST_CASE("QueueThatFindsNoRoomElsewhereStaysAsItIs") {
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority);
  test::Random random("QueueThatFindsNoRoomElsewhereStaysAsItIs");
  Model model(Small(kind, 160 << 10), 75, &random);
  for (int round = 0; round < 60; ++round) {
    model.Run(200, 100);
    model.Move(round % 2 * 60'000);
  }
  REQUIRE(model.refused() > 0);
  REQUIRE(model.moves_given_up() > 0);
  REQUIRE(model.moves_given_up() < 60);
}

TEST_CASE("QueueThatObeysEveryPublishedChangeIsTheSameQueue") {
  const Kind kind = GENERATE(Kind::kQueue, Kind::kPriority);
  test::Random random("QueueThatObeysEveryPublishedChangeIsTheSameQueue");
  QueueFixture second(Small(kind, 8 << 20));
  Follower follower(second.partition);
  Model model(Small(kind, 4 << 20), 40, &random);
  QueueFixture& first = model.fixture();
  first.partition->AddObserver(&follower);
  for (int round = 0; round < 20; ++round) {
    model.Run(500, 500);
    first.queue->ReleaseOverdue(first.core->NowMs());
    // Both clocks show an equal time, so overdue and expired items are equal too.
    second.clock.AdvanceNs(first.clock.MonotonicNs() - second.clock.MonotonicNs());
    REQUIRE(StateOf(second) == StateOf(first));
    REQUIRE(second.partition->last_lsn() == first.partition->last_lsn());
    second.core->CheckInvariants();
  }
  REQUIRE(follower.records() > 1000);
  // The new owner continues in the old owner's state.
  first.partition->RemoveObserver(&follower);
  REQUIRE(second.Push("next").id == first.Push("next").id);
}

}  // namespace
}  // namespace tidepool::storage
