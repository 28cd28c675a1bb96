// The additional promise of an async namespace with a single partition: it comes back in the state
// of a single moment, also from a daemon with several cores.
//
// TP_CRASH_ROUNDS=N: number of kills (default 4).
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/fault/crash_rounds.h"

namespace tidepool::testing {
namespace {

constexpr std::uint64_t kMomentKeys = 64;
// Checkpoints of a round before its kill, so that the last checkpoint has the round's own puts.
constexpr std::size_t kMomentMarks = 2;

NamespaceOptions OfOneMoment() {
  NamespaceOptions options = Durable(Durability::kAsync);
  options.partitions = 1;
  return options;
}

std::string MomentKey(std::uint64_t number) { return "k" + std::to_string(number % kMomentKeys); }

// Puts the numbers after `first` one after the other, each under the key of its turn.
class CountingWriter {
 public:
  CountingWriter(const TestCluster& cluster, std::uint64_t first)
      : client_(ConnectTo(cluster)),
        map_(Open<BytesMap>(client_, "moment", OfOneMoment())),
        number_(first) {}
  void Run() {
    std::optional<WallTime> last_checkpoint;
    for (;;) {
      ++number_;
      Receipt receipt;
      PutOptions options;
      options.receipt = &receipt;
      if (!map_.Put(MomentKey(number_), std::to_string(number_), options).ok()) return;
      if (receipt.durable_at != last_checkpoint) ++marks;
      last_checkpoint = receipt.durable_at;
    }
  }
  // From another thread.
  void Stop() { client_.Close(); }

  std::atomic<std::size_t> marks{0};
  std::uint64_t number() const { return number_; }

 private:
  Client client_;
  BytesMap map_;
  std::uint64_t number_;
};

// Kills the daemon while the writer writes; returns when the daemon serves again.
void KillBetweenMarks(DurableCluster* cluster, CountingWriter* writer) {
  std::thread thread([writer] { writer->Run(); });
  const bool in_time = WaitUntil([&] { return writer->marks >= kMomentMarks; });
  (*cluster)->Kill(0);
  writer->Stop();
  thread.join();
  REQUIRE(in_time);
  cluster->StartAll();
}

// Returns the number under each key; 0: none.
std::vector<std::uint64_t> NumbersIn(const TestCluster& cluster) {
  Client client = ConnectTo(cluster);
  const BytesMap map = Open<BytesMap>(client, "moment", OfOneMoment());
  std::vector<std::uint64_t> numbers(kMomentKeys);
  for (std::uint64_t key = 0; key < kMomentKeys; ++key) {
    const auto got = map.Get(MomentKey(key));
    if (got.code() == StatusCode::kNotFound) continue;
    RequireOk(got.status());
    numbers[key] = std::stoull(got->bytes);
  }
  return numbers;
}

// Returns the greatest number, if the keys have the state of the moment when it was put.
std::uint64_t CheckOneMoment(const std::vector<std::uint64_t>& numbers) {
  std::uint64_t newest = 0;
  for (const std::uint64_t number : numbers) newest = std::max(newest, number);
  for (std::uint64_t key = 0; key < kMomentKeys; ++key) {
    const std::uint64_t behind = (newest + kMomentKeys - key) % kMomentKeys;
    const std::uint64_t expected = newest > behind ? newest - behind : 0;
    CHECK(numbers[key] == expected);
  }
  return newest;
}

TEST_CASE("An async namespace of one partition comes back as it was at one moment", "[crash]") {
  DurableCluster cluster(1, 2);
  std::uint64_t first = 0;
  for (int round = 0; round < FromEnvironment("TP_CRASH_ROUNDS", 4); ++round) {
    CountingWriter writer(*cluster, first);
    KillBetweenMarks(&cluster, &writer);
    const std::uint64_t newest = CheckOneMoment(NumbersIn(*cluster));
    INFO("round " << round << ": " << newest << " of " << writer.number() << " came back");
    // The writer continues after the recovered number, so that each key has its turn again.
    first = newest;
  }
  CHECK(first > 0);
}

}  // namespace
}  // namespace tidepool::testing
