// Crash loop for queues: a program pushes, takes under leases and acks while its daemon is killed
// again and again. Afterwards the queue has the state of a single moment: its items, their order,
// and the leased items, under the leases that the program has.
//
// TP_CRASH_ROUNDS=N: number of kills of each kind (default 30).
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/client/fault/crash_rounds.h"
#include "tests/support/random.h"

namespace tidepool::testing {
namespace {

constexpr std::size_t kItemsMax = 120;  // A single message shows all of them.
constexpr std::size_t kOperationsMax = 20'000;

std::string ValueOf(std::uint64_t number) {
  std::string value = std::to_string(number) + "/";
  value.resize(value.size() + number * 7'919 % 300, 'v');
  return value;
}
std::uint64_t NumberIn(std::string_view value) { return std::stoull(std::string(value)); }

struct Operation {
  enum class What { kPush, kLease, kAck, kPop } what = What::kPush;
  std::uint64_t number = 0;  // Number of the item; of a lease or pop: of the first item.
};

struct QueueState {
  std::deque<std::uint64_t> ready;
  std::set<std::uint64_t> leased;

  void Apply(const Operation& operation) {
    switch (operation.what) {
      case Operation::What::kPush:
        ready.push_back(operation.number);
        return;
      case Operation::What::kAck:
        leased.erase(operation.number);
        return;
      case Operation::What::kLease:
      case Operation::What::kPop:
        if (ready.empty()) return;
        if (operation.what == Operation::What::kLease) leased.insert(ready.front());
        ready.pop_front();
    }
  }
};

using ItemIds = std::map<std::uint64_t, ItemId>;  // By number.
// No item is ever given back, so each is delivered once.
ItemLease LeaseOf(const ItemIds& ids, std::uint64_t number) { return {ids.at(number), 1}; }

class QueueWriter {
 public:
  QueueWriter(const TestCluster& cluster, Durability durability, const QueueState& state,
              const ItemIds& known, std::uint64_t first_number, std::uint64_t seed)
      : before(state),
        ids(known),
        client_(ConnectTo(cluster)),
        queue_(Open<BytesQueue>(client_, "q", Durable(durability))),
        state_(state),
        number_(first_number),
        random_(seed) {
    operations.reserve(kOperationsMax);
  }
  void Run() {
    const bool persists = random_() % 2 == 0;
    while (operations.size() < kOperationsMax) {
      if (persists && random_() % 150 == 0) {
        failure = client_.Persist("q");
        if (!failure.ok()) return;
        durable = operations.size();
        continue;
      }
      failure = RunOne();
      if (!failure.ok()) return;
      state_.Apply(operations.back());
      ++answered;
    }
  }
  void Stop() { client_.Close(); }

  const QueueState before;
  std::vector<Operation> operations;
  ItemIds ids;
  std::size_t durable = 0;
  std::atomic<std::size_t> answered{0};
  Status failure;  // Status of the operation that ended the writer.
  std::uint64_t number() const { return number_; }

 private:
  Status RunOne() {
    const std::size_t items = state_.ready.size() + state_.leased.size();
    const std::uint64_t dice = random_() % 8;
    if (items < kItemsMax && (dice < 4 || items == 0)) {
      operations.push_back({Operation::What::kPush, ++number_});
      const auto id = queue_.Push(ValueOf(number_));
      if (id.ok()) ids[number_] = *id;
      return id.status();
    }
    if (!state_.leased.empty() && (dice < 6 || state_.ready.empty())) {
      auto acked = state_.leased.begin();
      std::advance(acked, static_cast<std::ptrdiff_t>(random_() % state_.leased.size()));
      operations.push_back({Operation::What::kAck, *acked});
      return queue_.Ack(LeaseOf(ids, *acked));
    }
    const bool leases_it = dice != 7;
    operations.push_back(
        {leases_it ? Operation::What::kLease : Operation::What::kPop, state_.ready.front()});
    PopOptions options;
    if (leases_it) options.lease = std::chrono::hours(1);
    const auto item = queue_.Pop(options);
    if (!item.ok()) return item.status();
    if (NumberIn(item->value) == state_.ready.front()) return OkStatus();
    return Status(StatusCode::kInternal, "another item than the first one");
  }

  Client client_;
  BytesQueue queue_;
  QueueState state_;
  std::uint64_t number_;
  std::mt19937_64 random_;
};

// Returns the last moment at which the queue had these ready items and this number of leased items.
// No value: there was no such moment.
std::optional<std::size_t> MomentOf(const QueueWriter& writer,
                                    const std::deque<std::uint64_t>& ready, std::size_t leased,
                                    QueueState* state) {
  std::optional<std::size_t> moment;
  QueueState now = writer.before;
  for (std::size_t done = 0;; ++done) {
    if (now.ready == ready && now.leased.size() == leased) {
      moment = done;
      *state = now;
    }
    if (done == writer.operations.size()) return moment;
    now.Apply(writer.operations[done]);
  }
}

void KillQueueAgainAndAgain(Durability durability) {
  test::Random random(std::string(ToString(durability)).c_str());
  DurableCluster cluster;
  QueueState state;
  ItemIds ids;
  std::uint64_t number = 0;
  std::size_t lost = 0;
  const int rounds = CrashRounds();
  for (int round = 0; round < rounds; ++round) {
    INFO("round " << round);
    QueueWriter writer(*cluster, durability, state, ids, number, random.Word());
    KillInMidWork(&cluster, &writer, AnswersMin(durability) + random.Below(1'000), random.OneIn(4));
    Client client = ConnectTo(*cluster);
    const auto queue = Open<BytesQueue>(client, "q", Durable(durability));
    std::deque<std::uint64_t> ready;
    const auto items = queue.PeekMany(2 * kItemsMax);
    RequireOk(items.status());
    ids = writer.ids;
    for (const ItemBatch::View& item : *items) {
      ids[NumberIn(item.value)] = item.id;
      REQUIRE(item.value == ValueOf(NumberIn(item.value)));
      ready.push_back(NumberIn(item.value));
    }
    const auto length = queue.Length();
    RequireOk(length.status());
    REQUIRE(length->ready == ready.size());
    const auto moment = MomentOf(writer, ready, length->leased, &state);
    REQUIRE(moment.has_value());
    CHECK(*moment >= (durability == Durability::kSync ? writer.answered.load() : writer.durable));
    lost += writer.operations.size() - *moment;
    number = writer.number();
  }
  WARN(ToString(durability) << ": " << rounds << " kills, " << number << " pushes; " << lost
                            << " operations are gone");
}

TEST_CASE("A queue comes back as it was at one moment, each time", "[crash]") {
  KillQueueAgainAndAgain(Durability::kAsync);
}

TEST_CASE("Nothing that a sync queue has answered is gone after a kill", "[crash]") {
  KillQueueAgainAndAgain(Durability::kSync);
}

}  // namespace
}  // namespace tidepool::testing
