// A daemon that is killed at random moments, again and again, while a program writes. The data
// afterwards is the state of a single moment, not before the last requested durable moment.
//
// TP_CRASH_ROUNDS=N: number of kills of each kind (default 30).
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "proto/base/failpoint.h"
#include "tests/client/fault/crash_rounds.h"
#include "tests/support/random.h"

namespace tidepool::testing {
namespace {

constexpr int kKeys = 400;
constexpr std::size_t kOperationsMax =
    20'000;  // Operations of a round; a writer that is not killed by then is slow.

std::string KeyOf(int key) { return "key" + std::to_string(key); }

// State of a key: the number of the operation that has put it, or no value.
using State = std::optional<std::uint64_t>;

struct Operation {
  int key = 0;
  State result;
};

// Sizes from some bytes to pages, so that segments fill and are compacted, and a few with segments
// of their own.
std::string ValueOf(std::uint64_t number) {
  const std::uint64_t more = number * 7'919;
  std::string value = std::to_string(number) + "/";
  value.resize(value.size() + (number % 97 == 0 ? (1 << 20) + more % (4 << 20) : more % 3'000),
               static_cast<char>('a' + number % 26));
  return value;
}
State NumberIn(const std::string& value) {
  const std::uint64_t number = std::strtoull(value.c_str(), nullptr, 10);
  if (value != ValueOf(number)) throw std::runtime_error("a value that nobody has put");
  return number;
}

// A program that writes, one operation after the other, until the daemon is gone.
template <typename Map>
class Writer {
 public:
  Writer(const TestCluster& cluster, Durability durability, std::uint64_t first_number,
         std::uint64_t seed)
      : client_(ConnectTo(cluster)),
        map_(Open<Map>(client_, "d", Durable(durability))),
        number_(first_number),
        random_(seed) {
    operations.reserve(kOperationsMax);
  }
  void Run() {
    const bool persists = random_() % 2 == 0;
    while (operations.size() < kOperationsMax) {
      if (persists && random_() % 150 == 0) {
        failure = client_.Persist("d");
        if (!failure.ok()) return;
        durable = operations.size();
        continue;
      }
      const int key = static_cast<int>(random_() % kKeys);
      const bool deletes = random_() % 4 == 0;
      const std::uint64_t number = ++number_;
      // Before it is sent: it may take effect although no answer comes.
      operations.push_back({key, deletes ? State() : State(number)});
      const Status done =
          deletes ? map_.Delete(KeyOf(key)) : map_.Put(KeyOf(key), ValueOf(number)).status();
      failure = done == StatusCode::kNotFound ? OkStatus() : done;
      if (!failure.ok()) return;
      ++answered;
    }
  }

  // Called by another thread. Ends operations under way, which would wait ten seconds for the
  // daemon.
  void Stop() { client_.Close(); }

  std::vector<Operation> operations;
  std::size_t durable = 0;  // Number of operations made durable by a Persist that has returned.
  std::atomic<std::size_t> answered{0};
  Status failure;  // Status of the operation that ended the writer.
  std::uint64_t number() const { return number_; }

 private:
  Client client_;
  Map map_;
  std::uint64_t number_;
  std::mt19937_64 random_;
};

template <typename Map>
std::vector<State> ReadAll(const Map& map) {
  std::vector<State> states(kKeys);
  std::uint64_t present = 0;
  for (int key = 0; key < kKeys; ++key) {
    const auto got = map.Get(KeyOf(key));
    if (got.code() == StatusCode::kNotFound) continue;
    RequireOk(got.status());
    states[static_cast<std::size_t>(key)] = NumberIn(got->bytes);
    ++present;
  }
  if (map.Length().value() != present) throw std::runtime_error("there are keys that nobody knows");
  return states;
}

// Returns the moments (numbers of finished operations) at which all keys had their present state.
std::vector<std::size_t> MomentsOf(const std::vector<State>& before,
                                   const std::vector<Operation>& operations,
                                   const std::vector<State>& found) {
  std::vector<State> now = before;
  int differences = 0;
  const auto differs = [&](std::size_t key) { return now[key] == found[key] ? 0 : 1; };
  for (std::size_t key = 0; key < found.size(); ++key) differences += differs(key);
  std::vector<std::size_t> moments;
  if (differences == 0) moments.push_back(0);
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const auto key = static_cast<std::size_t>(operations[i].key);
    differences -= differs(key);
    now[key] = operations[i].result;
    differences += differs(key);
    if (differences == 0) moments.push_back(i + 1);
  }
  return moments;
}

// Known state of the keys after each crash.
struct Known {
  std::vector<State> states = std::vector<State>(kKeys);
  std::uint64_t number = 0;
  std::size_t lost = 0;

  // The daemon serves again. `writer`: null, if there was no writer.
  template <typename Map>
  void Compare(const TestCluster& cluster, Durability durability, const Writer<Map>* writer) {
    Client client = ConnectTo(cluster);
    const std::vector<State> found = ReadAll(Open<Map>(client, "d", Durable(durability)));
    if (writer == nullptr) {
      REQUIRE(found == states);
      return;
    }
    const std::vector<std::size_t> moments = MomentsOf(states, writer->operations, found);
    REQUIRE_FALSE(moments.empty());
    CHECK(moments.back() >=
          (durability == Durability::kSync ? writer->answered.load() : writer->durable));
    lost += writer->operations.size() - moments.back();
    states = found;
    number = writer->number();
  }
};

template <typename Map>
void KillAgainAndAgain(Durability durability) {
  test::Random random(std::string(ToString(durability)).c_str());
  DurableCluster cluster;
  Known known;
  const int rounds = CrashRounds();
  for (int round = 0; round < rounds; ++round) {
    INFO("round " << round);
    Writer<Map> writer(*cluster, durability, known.number, random.Word());
    KillInMidWork(&cluster, &writer, AnswersMin(durability) + random.Below(1'000), random.OneIn(4));
    known.Compare(*cluster, durability, &writer);
  }
  WARN(ToString(durability) << ": " << rounds << " kills, " << known.number
                            << " operations, of which " << known.lost << " are gone");
}

// Works beside the compared namespace until the daemon is gone. Fills memory and device with values
// that come and go, or makes namespace after namespace.
void MakeTrouble(Client& client, bool catalog) {
  std::mt19937_64 random(1);
  const std::string value(4'000, 'v');
  constexpr std::size_t kBatch = 64;
  for (int i = 0;; ++i) {
    if (catalog) {
      if (!client.OpenOrCreate<BytesMap>("extra" + std::to_string(i), Durable()).ok()) return;
      continue;
    }
    const auto map = client.OpenOrCreate<BytesMap>("trouble", {.on_loss = OnLoss::kEmpty});
    if (!map.ok()) return;
    std::vector<std::string> keys;
    std::vector<KeyValue> batch;
    keys.reserve(kBatch);
    for (std::size_t k = 0; k < kBatch; ++k) {
      keys.push_back(std::to_string(random() % 30'000));
      batch.push_back({keys.back(), value});
    }
    const Status put = map->MultiPut(batch).FirstFailure();
    if (!put.ok() && put != StatusCode::kResourceExhausted) return;
  }
}

// Until the daemon has killed itself.
template <typename Map>
void WriteUntilItDies(DurableCluster* cluster, Writer<Map>* writer, bool catalog) {
  Client client = ConnectTo(**cluster);
  std::thread trouble([&] { MakeTrouble(client, catalog); });
  std::thread thread([&] { writer->Run(); });
  const int code = (*cluster)->process(0).Wait();
  writer->Stop();
  client.Close();
  thread.join();
  trouble.join();
  REQUIRE(code == 128 + SIGKILL);
}

// False: it has died before it served.
bool StartsWith(DurableCluster* cluster, const std::string& failpoint) {
  (*cluster)->Kill(0);
  const std::size_t before = (*cluster)->Log(0).size();
  cluster->Start(0, failpoint);
  REQUIRE(WaitUntil([&] {
    return !(*cluster)->process(0).running() ||
           (*cluster)->Log(0).find("joined cluster", before) != std::string::npos;
  }));
  return (*cluster)->process(0).running();
}

TEST_CASE("A daemon that dies between two writes that belong together loses nothing", "[crash]") {
  test::Random random("failpoints");
  DurableCluster cluster;
  Known known;
  {
    Client client = ConnectTo(*cluster);  // Without it there is no catalog.
    (void)Open<BytesMap>(client, "d", Durable(Durability::kSync));
  }
  for (const std::string_view name : failpoint::kNames) {
    const bool recovers = name.starts_with("recovery.");
    bool died_in_start = false;
    // A start passes these points too, and passes them first.
    for (std::uint64_t nth = recovers ? 1 : 1 + random.Below(2);
         !StartsWith(&cluster, std::string(name) + ":" + std::to_string(nth)); nth += 2) {
      INFO(name << ", time " << nth);
      died_in_start = true;
      REQUIRE(cluster->process(0).Wait() == 128 + SIGKILL);
      cluster.StartAll();
      known.Compare<BytesMap>(*cluster, Durability::kSync, nullptr);
      if (recovers) break;
    }
    INFO(name);
    REQUIRE((died_in_start || !recovers));
    if (recovers) continue;
    cluster->WaitReady();
    Writer<BytesMap> writer(*cluster, Durability::kSync, known.number, random.Word());
    WriteUntilItDies(&cluster, &writer, name.starts_with("catalog."));
    cluster.StartAll();
    known.Compare(*cluster, Durability::kSync, &writer);
  }
}

TEST_CASE("A killed daemon comes back as it was at one moment, each time", "[crash]") {
  KillAgainAndAgain<BytesMap>(Durability::kAsync);
}

TEST_CASE("Nothing that a sync namespace has answered is gone after a kill", "[crash]") {
  KillAgainAndAgain<BytesMap>(Durability::kSync);
}

TEST_CASE("Nor of an ordered one, which is in order again", "[crash]") {
  KillAgainAndAgain<BytesOrderedMap>(Durability::kSync);
}

TEST_CASE("A history that was never is recognised", "[crash]") {
  const std::vector<State> before = {State(), State(7)};
  const std::vector<Operation> operations = {{0, 8}, {1, 9}, {0, State()}};
  CHECK(MomentsOf(before, operations, {State(), State(7)}) == std::vector<std::size_t>{0});
  CHECK(MomentsOf(before, operations, {State(8), State(9)}) == std::vector<std::size_t>{2});
  CHECK(MomentsOf(before, operations, {State(), State(9)}) == std::vector<std::size_t>{3});
  // The later change without the earlier change; an overwritten value; an unknown value.
  CHECK(MomentsOf(before, operations, {State(8), State()}).empty());
  CHECK(MomentsOf(before, {{1, 9}, {0, 8}}, {State(8), State(7)}).empty());
  CHECK(MomentsOf(before, operations, {State(5), State(7)}).empty());
}

}  // namespace
}  // namespace tidepool::testing
