// Queues and filters that move from node to node while programs use them: nothing is lost, seen
// twice or overtaken.
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/sdk_fixture.h"
#include "tests/support/random.h"
#include "tidepool/bloom_filter.h"
#include "tidepool/tidepool.h"

namespace tidepool::testing {
namespace {

using namespace std::chrono_literals;

constexpr auto kWait = std::chrono::milliseconds(kPatienceMs);

struct Fixture {
  Fixture()
      : cluster({.nodes = 3, .cores = 2}), client((cluster.WaitReady(), ConnectTo(cluster))) {}

  std::uint32_t HomeOf(const BytesItems& queue) const { return queue.space().OwnerOf({}); }

  TestCluster cluster;
  Client client;
};

std::vector<std::string> ValuesOf(const BytesItems& queue, std::size_t items_max) {
  auto batch = queue.PopMany(items_max);
  RequireOk(batch.status());
  std::vector<std::string> values;
  for (const ItemBatch::View& item : *batch) values.emplace_back(item.value);
  return values;
}

// Runs functions on their own threads. An exception ends the test when they are joined.
class Threads {
 public:
  ~Threads() {
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }
  void Run(std::function<void()> function) {
    threads_.emplace_back([this, function = std::move(function)] {
      try {
        function();
      } catch (const std::exception& error) {
        const std::lock_guard lock(mutex_);
        if (failure_.empty()) failure_ = error.what();
        failed = true;
      }
    });
  }
  std::string Join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    return failure_;
  }
  std::atomic<bool> failed{false};

 private:
  std::mutex mutex_;
  std::string failure_;
  std::vector<std::thread> threads_;
};

TEST_CASE("A moved queue has its items, leases and numbers", "[kinds]") {
  Fixture fixture;
  const BytesQueue queue = Open<BytesQueue>(fixture.client, "q", {.home = Home::Node(0)});
  for (int i = 1; i <= 2000; ++i) RequireOk(queue.Push(std::to_string(i)).status());
  const auto kept = queue.Pop({.lease = 1h});
  const auto given_back = queue.Pop({.lease = 1h});
  RequireOk(kept.status());
  RequireOk(queue.Nack(given_back->lease()));
  const std::string large(3 << 20, 'L');
  RequireOk(queue.Push(large).status());
  for (const std::uint32_t node : {1u, 2u, 2u, 0u, 1u}) {
    RequireOk(fixture.client.Migrate("q", Home::Node(node)));
    CHECK(fixture.HomeOf(queue) == node);
    CHECK(queue.Length()->ready == 2000);
    CHECK(queue.Length()->leased == 1);
  }
  RequireOk(queue.Ack(kept->lease()));
  CHECK(queue.Ack(given_back->lease()).code() == StatusCode::kFailedPrecondition);
  const auto pushed = queue.Push("last");
  RequireOk(pushed.status());
  CHECK(*pushed == 2002);
  const auto again = queue.Pop({.lease = 1h});
  CHECK(again->value == "2");
  CHECK(again->deliveries == 2);
  const std::vector<std::string> rest = ValuesOf(queue, 3000);
  REQUIRE(rest.size() == 2000);
  for (std::size_t i = 0; i < 1998; ++i) REQUIRE(rest[i] == std::to_string(i + 3));
  CHECK(rest[1998] == large);
  CHECK(rest[1999] == "last");
}

TEST_CASE("A moved priority queue keeps its order and its capacity", "[kinds]") {
  Fixture fixture;
  const auto queue =
      Open<BytesPriorityQueue>(fixture.client, "p", {.capacity = 100, .home = Home::Node(0)});
  for (std::uint64_t i = 0; i < 100; ++i) {
    RequireOk(queue.Push(i * 37 % 10, std::to_string(i)).status());
  }
  RequireOk(fixture.client.Migrate("p", Home::Node(2)));
  CHECK(queue.Push(0, "too much").code() == StatusCode::kResourceExhausted);
  const auto batch = queue.PopMany(100);
  RequireOk(batch.status());
  REQUIRE(batch->size() == 100);
  for (std::size_t i = 1; i < 100; ++i) {
    const auto& before = (*batch)[i - 1];
    const auto& item = (*batch)[i];
    CHECK(std::pair(before.priority, before.id) < std::pair(item.priority, item.id));
  }
}

TEST_CASE("A moved filter knows what it knew, and inserters are told once", "[kinds]") {
  Fixture fixture;
  const auto filter = Open<BytesBloom>(fixture.client, "b", {.expected_items = 100'000});
  std::atomic<bool> stop{false};
  std::atomic<int> next{0};
  std::atomic<int> told_new{0};
  Threads threads;
  for (int t = 0; t < 2; ++t) {
    threads.Run([&] {
      while (!stop) {
        const int i = next++;
        // Both consumers of a pair see each value: one gets it, whatever moves meanwhile.
        for (int twice = 0; twice < 2; ++twice) {
          const auto is_new = filter.Insert(std::to_string(i));
          RequireOk(is_new.status());
          told_new += *is_new ? 1 : 0;
        }
      }
    });
  }
  for (const std::uint32_t node : {1u, 0u, 2u}) {
    RequireOk(fixture.client.Migrate("b", Home::Node(node)));
  }
  stop = true;
  CHECK(threads.Join() == "");
  for (const char* value : {"1", "x", "y"}) CHECK(filter.space().OwnerOf(value) == 2);
  int known = 0;
  for (int i = 0; i < next; ++i) known += *filter.Contains(std::to_string(i)) ? 1 : 0;
  CHECK(known == next);
  CHECK(told_new <= next);
  CHECK(told_new >= next - next / 100 - 5);  // But where the filter errs.
}

TEST_CASE("What cannot move is refused with the reason", "[kinds]") {
  Fixture fixture;
  Open<BytesMap>(fixture.client, "admit", {.prefilter = Prefilter::kAdmit});
  Open<BytesOrderedMap>(fixture.client, "ordered");
  const BytesQueue queue = Open<BytesQueue>(fixture.client, "q", {.home = Home::Node(1)});
  for (const char* name : {"admit", "ordered"}) {
    const Status refused = fixture.client.Migrate(name, Home::Node(1));
    CHECK(refused.code() == StatusCode::kUnimplemented);
    CHECK_FALSE(refused.remedy().empty());
  }
  CHECK(fixture.client.Migrate("none", Home::Node(1)).code() == StatusCode::kNotFound);
  CHECK(fixture.client.Migrate("q", Home::Node(7)).code() == StatusCode::kInvalidArgument);
  CHECK(fixture.client.Migrate("q", Home()).code() == StatusCode::kInvalidArgument);
  CHECK(fixture.client.Migrate("q", Home::Node(1)).ok());
  CHECK(fixture.HomeOf(queue) == 1);
}

TEST_CASE("Pops and pushes that wait go on waiting at the new home", "[kinds]") {
  Fixture fixture;
  const BytesQueue queue =
      Open<BytesQueue>(fixture.client, "q", {.capacity = 2, .home = Home::Node(0)});
  Future<Item> first = queue.PopAsync({.wait = kWait});
  CHECK(first.Wait(50ms).code() == StatusCode::kDeadlineExceeded);
  RequireOk(fixture.client.Migrate("q", Home::Node(1)));
  RequireOk(fixture.client.Migrate("q", Home::Node(2)));
  RequireOk(queue.Push("a").status());
  CHECK(first.Wait()->value == "a");
  RequireOk(queue.Push("b").status());
  RequireOk(queue.Push("c").status());
  Future<ItemId> push = queue.PushAsync("d", {.wait = kWait});
  CHECK(push.Wait(50ms).code() == StatusCode::kDeadlineExceeded);
  RequireOk(fixture.client.Migrate("q", Home::Node(0)));
  CHECK(queue.Pop()->value == "b");
  RequireOk(push.Wait().status());
  CHECK(ValuesOf(queue, 9) == std::vector<std::string>{"c", "d"});
}

// A producer's items are in their order in both kinds: by priority they are equals.
Status PushOne(const BytesQueue& queue, int /*producer*/, std::string_view value) {
  return queue.Push(value).status();
}
Status PushOne(const BytesPriorityQueue& queue, int producer, std::string_view value) {
  return queue.Push(static_cast<Priority>(producer), value).status();
}
Status PushMany(const BytesQueue& queue, int /*producer*/,
                const std::vector<std::string_view>& values) {
  return queue.MultiPush(values).FirstFailure();
}
Status PushMany(const BytesPriorityQueue& queue, int producer,
                const std::vector<std::string_view>& values) {
  std::vector<PrioritizedValue> items;
  for (const std::string_view value : values) {
    items.push_back({static_cast<Priority>(producer), value});
  }
  return queue.MultiPush(items).FirstFailure();
}

// Producers and consumers on clients of their own, and a queue that never rests.
template <typename Queue>
struct Traffic {
  Traffic(Fixture* of, int producers, int consumers, bool by_lease)
      : fixture(*of), producing(producers) {
    for (int p = 0; p < producers; ++p) {
      threads.Run([this, p] {
        Produce(p);
        --producing;
      });
    }
    for (int c = 0; c < consumers; ++c) {
      threads.Run([this, by_lease] { Consume(by_lease); });
    }
  }
  void Produce(int producer) {
    Client client = ConnectTo(fixture.cluster);
    const auto queue = Open<Queue>(client, "q");
    for (int i = 0; !stop && !threads.failed; ++i) {
      const std::string stem = std::to_string(producer) + ":";
      if (i % 16 != 0) {
        RequireOk(PushOne(queue, producer, stem + std::to_string(i)));
      } else {
        std::vector<std::string> values;
        for (int k = 0; k < 50; ++k) values.push_back(stem + std::to_string(i + k));
        const std::vector<std::string_view> views(values.begin(), values.end());
        RequireOk(PushMany(queue, producer, views));
        i += 49;
      }
      ++pushes;
      const std::lock_guard lock(mutex);
      last_pushed[producer] = i;
    }
  }
  void Consume(bool by_lease) {
    Client client = ConnectTo(fixture.cluster);
    const auto queue = Open<Queue>(client, "q");
    std::map<int, int> last;
    for (;;) {
      const bool final = producing == 0;
      const PopOptions options = {.lease = by_lease ? 1h : 0h, .wait = 100ms};
      auto batch = queue.PopMany(7, options);
      if (batch.code() == StatusCode::kDeadlineExceeded) {
        if (final || threads.failed) return;
        continue;
      }
      RequireOk(batch.status());
      for (const ItemBatch::View& item : *batch) {
        if (by_lease) RequireOk(queue.Ack(item.lease()));
        const std::string value(item.value);
        const int producer = std::stoi(value);
        const int number = std::stoi(value.substr(value.find(':') + 1));
        const auto before = last.find(producer);
        if (before != last.end() && before->second >= number) {
          throw std::runtime_error("overtaken: " + value + " after " +
                                   std::to_string(before->second));
        }
        last[producer] = number;
        const std::lock_guard lock(mutex);
        if (!seen.insert(value).second) throw std::runtime_error("seen twice: " + value);
      }
    }
  }
  // Ends the traffic. Returns the error, or nothing.
  std::string End() {
    stop = true;
    if (std::string failure = threads.Join(); !failure.empty()) return failure;
    std::size_t pushed = 0;
    for (const auto& [producer, last] : last_pushed) {
      for (int i = 0; i <= last; ++i) {
        const std::string value = std::to_string(producer) + ":" + std::to_string(i);
        if (!seen.contains(value)) return "lost: " + value;
      }
      pushed += static_cast<std::size_t>(last) + 1;
    }
    return pushed == seen.size() ? "" : "more items than were pushed";
  }

  Fixture& fixture;
  std::atomic<int> producing;
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> pushes{0};
  std::mutex mutex;
  std::map<int, int> last_pushed;
  std::set<std::string> seen;
  Threads threads;
};

TEMPLATE_TEST_CASE("Nothing is lost, doubled or overtaken while a queue moves under load",
                   "[kinds]", BytesQueue, BytesPriorityQueue) {
  Fixture fixture;
  Open<TestType>(fixture.client, "q", {.home = Home::Node(0)});
  const bool by_lease = GENERATE(false, true);
  Traffic<TestType> traffic(&fixture, 3, 2, by_lease);
  for (std::uint32_t move = 1; move <= 30; ++move) {
    const std::uint64_t before = traffic.pushes;
    RequireOk(fixture.client.Migrate("q", Home::Node(move % 3)));
    // Some work at each place.
    REQUIRE(WaitUntil([&] { return traffic.pushes > before + 20 || traffic.threads.failed; }));
    if (traffic.threads.failed) break;
  }
  CHECK(traffic.End() == "");
  UNSCOPED_INFO(traffic.seen.size() << " items");
}

}  // namespace
}  // namespace tidepool::testing
