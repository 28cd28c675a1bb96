// Queues through the SDK, against real daemons, a std::deque and a std::multimap.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/client/sdk_fixture.h"
#include "tests/support/random.h"
#include "tidepool/tidepool.h"

namespace tidepool::testing {
namespace {

using namespace std::chrono_literals;
using test::Random;

std::vector<std::string_view> ViewsOf(const std::vector<std::string>& values) {
  return {values.begin(), values.end()};
}

// Returns a value that names its number, and is seldom large enough to travel in parts.
std::string RandomValue(Random& random, std::uint64_t number) {
  const std::size_t bytes = random.OneIn(200) ? 30'000 + random.Below(70'000) : random.Size(600);
  return std::to_string(number) + ":" + std::string(bytes, 'v');
}

struct Leased {
  ItemLease lease;
  std::string value;
};

TEST_CASE("RandomOperationsAgreeWithADeque", "[kinds]") {
  Random random("RandomOperationsAgreeWithADeque");
  Client client = ConnectTo(Cluster());
  const BytesQueue queue = Open<BytesQueue>(client, "queue.model");
  std::deque<std::pair<ItemId, std::string>> model;
  std::map<ItemId, Leased> leased;
  ItemId next_id = 1;
  for (int step = 0; step < 3000; ++step) {
    switch (random.Below(7)) {
      case 0: {
        const std::string value = RandomValue(random, next_id);
        REQUIRE(queue.Push(value).value_or(0) == next_id);
        model.emplace_back(next_id++, value);
        break;
      }
      case 1: {
        std::vector<std::string> values(random.Below(40));
        for (std::string& value : values) value = RandomValue(random, random.Word());
        const PushBatch batch = random.OneIn(2) ? queue.MultiPush(ViewsOf(values))
                                                : *queue.MultiPushAsync(ViewsOf(values)).Wait();
        RequireOk(batch.FirstFailure());
        REQUIRE(batch.size() == values.size());
        for (std::size_t i = 0; i < values.size(); ++i) {
          REQUIRE(batch.id(i) == next_id);
          model.emplace_back(next_id++, values[i]);
        }
        break;
      }
      case 2:
      case 3: {
        const bool lease = random.OneIn(3);
        const auto item = queue.Pop({.lease = lease ? 1h : 0ms});
        if (model.empty()) {
          REQUIRE(item.code() == StatusCode::kNotFound);
          break;
        }
        RequireOk(item.status());
        REQUIRE(item->id == model.front().first);
        REQUIRE(item->value == model.front().second);
        if (lease) leased[item->id] = {item->lease(), item->value};
        model.pop_front();
        break;
      }
      case 4: {
        const std::size_t count = 1 + random.Below(60);
        const auto items = queue.PopMany(count);
        RequireOk(items.status());
        REQUIRE(items->size() == std::min(count, model.size()));
        for (const ItemBatch::View& item : *items) {
          REQUIRE(item.id == model.front().first);
          REQUIRE(item.value == model.front().second);
          model.pop_front();
        }
        break;
      }
      case 5: {
        const auto item = queue.Peek();
        REQUIRE(item.ok() == !model.empty());
        if (item.ok()) REQUIRE(item->value == model.front().second);
        break;
      }
      case 6: {
        if (leased.empty()) break;
        const auto at =
            std::next(leased.begin(), static_cast<std::ptrdiff_t>(random.Below(leased.size())));
        if (random.OneIn(2)) {
          RequireOk(queue.Ack(at->second.lease));
        } else {
          RequireOk(queue.Nack(at->second.lease));
          const std::pair<ItemId, std::string> item(at->first, at->second.value);
          model.insert(std::lower_bound(model.begin(), model.end(), item), item);
        }
        leased.erase(at);
        break;
      }
    }
    if (step % 100 == 0) {
      const auto length = queue.Length();
      RequireOk(length.status());
      REQUIRE(length->ready == model.size());
      REQUIRE(length->leased == leased.size());
    }
  }
}

TEST_CASE("RandomPrioritiesAgreeWithAMultimap", "[kinds]") {
  Random random("RandomPrioritiesAgreeWithAMultimap");
  Client client = ConnectTo(Cluster());
  const BytesPriorityQueue queue = Open<BytesPriorityQueue>(client, "priority.model");
  std::multimap<Priority, std::string> model;  // Equal priorities stay in the order of insertion.
  for (int step = 0; step < 2000; ++step) {
    const Priority priority = random.OneIn(5) ? random.Word() : random.Below(5);
    switch (random.Below(4)) {
      case 0: {
        const std::string value = RandomValue(random, static_cast<std::uint64_t>(step));
        RequireOk(queue.Push(priority, value).status());
        model.emplace(priority, value);
        break;
      }
      case 1: {
        std::vector<std::pair<Priority, std::string>> items(random.Below(20));
        std::vector<PrioritizedValue> views;
        for (auto& [of, value] : items) {
          of = random.Below(4);
          value = RandomValue(random, random.Word());
          views.push_back({of, value});
          model.emplace(of, value);
        }
        RequireOk(queue.MultiPush(views).FirstFailure());
        break;
      }
      case 2: {
        const auto item = queue.Pop();
        REQUIRE(item.ok() == !model.empty());
        if (model.empty()) break;
        REQUIRE(item->priority == model.begin()->first);
        REQUIRE(item->value == model.begin()->second);
        model.erase(model.begin());
        break;
      }
      case 3: {
        const std::size_t count = 1 + random.Below(30);
        const auto items = queue.PopMany(count);
        RequireOk(items.status());
        REQUIRE(items->size() == std::min(count, model.size()));
        for (const ItemBatch::View& item : *items) {
          REQUIRE(item.priority == model.begin()->first);
          REQUIRE(item.value == model.begin()->second);
          model.erase(model.begin());
        }
        break;
      }
    }
  }
}

TEST_CASE("ManyProducersAndConsumersLoseAndDoubleNothing", "[kinds]") {
  constexpr int kProducers = 3;
  constexpr int kConsumers = 3;
  constexpr int kItems = 2000;  // Items of each producer.
  Client client = ConnectTo(Cluster());
  const BytesQueue queue = Open<BytesQueue>(client, "queue.many", {.capacity = 500});
  std::vector<std::thread> threads;
  std::vector<std::vector<std::string>> taken(kConsumers);
  std::atomic<int> left{kProducers * kItems};
  for (int p = 0; p < kProducers; ++p) {
    threads.emplace_back([&, p] {
      Client own = ConnectTo(Cluster());
      const BytesQueue to = Open<BytesQueue>(own, "queue.many", {.capacity = 500});
      for (int i = 0; i < kItems; i += 10) {
        std::vector<std::string> values;
        for (int j = i; j < i + 10; ++j) {
          values.push_back(std::to_string(p) + "/" + std::to_string(j));
        }
        const PushBatch batch = to.MultiPush(ViewsOf(values), {.wait = 60s});
        if (!batch.AllOk()) std::printf("%s\n", batch.FirstFailure().ToString().c_str());
      }
    });
  }
  for (int c = 0; c < kConsumers; ++c) {
    threads.emplace_back([&, c] {
      Client own = ConnectTo(Cluster());
      const BytesQueue from = Open<BytesQueue>(own, "queue.many", {.capacity = 500});
      while (left > 0) {
        const auto items = from.PopMany(7, {.wait = 200ms});
        if (!items.ok()) continue;
        left -= static_cast<int>(items->size());
        for (const ItemBatch::View& item : *items) {
          taken[static_cast<std::size_t>(c)].emplace_back(item.value);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::string> all;
  std::size_t count = 0;
  for (const auto& values : taken) {
    std::map<char, int> last;  // Last item of each producer that this consumer saw.
    for (const std::string& value : values) {
      const int number = std::stoi(value.substr(2));
      CHECK((last.count(value[0]) == 0 || last[value[0]] < number));
      last[value[0]] = number;
    }
    count += values.size();
    all.insert(values.begin(), values.end());
  }
  CHECK(count == kProducers * kItems);
  CHECK(all.size() == kProducers * kItems);
}

TEST_CASE("AFullQueueRefusesOrLetsWait", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const BytesQueue queue = Open<BytesQueue>(client, "queue.full", {.capacity = 3});
  const std::vector<std::string> values = {"a", "b", "c", "d", "e"};
  const PushBatch batch = queue.MultiPush(ViewsOf(values));
  CHECK(batch.pushed() == 3);
  CHECK(batch.status(2).ok());
  CHECK(batch.status(3).code() == StatusCode::kResourceExhausted);
  CHECK(batch.id(4) == 0);
  CHECK(batch.FirstFailure().ToString().find("item 3 of 5") != std::string::npos);
  CHECK(queue.Push("f").code() == StatusCode::kResourceExhausted);
  CHECK(queue.Push("f", {.wait = 30ms}).code() == StatusCode::kDeadlineExceeded);
  std::vector<Result<Item>> popped;
  std::thread consumer([&] {
    popped.push_back(queue.Pop());
    popped.push_back(queue.Pop());
  });
  CHECK(queue.Push("f", {.wait = 60s}).ok());
  consumer.join();
  CHECK(popped[0]->value == "a");
  CHECK(popped[1]->value == "b");
  CHECK(queue.MultiPush(ViewsOf({"g"}), {.wait = 60s}).AllOk());
  CHECK(queue.Pop()->value == "c");
  CHECK(queue.Pop()->value == "f");
  CHECK(queue.Pop()->value == "g");
  CHECK(queue.Pop().code() == StatusCode::kNotFound);
}

TEST_CASE("AFullMemoryRefusesPushesAndLeavesPops", "[kinds]") {
  TestCluster cluster({.nodes = 1, .memory = "64MiB"});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  const BytesQueue queue = Open<BytesQueue>(client, "q");
  const std::string value(100'000, 'v');
  std::size_t pushed = 0;
  Status refused;
  while (pushed < 10'000 && refused.ok()) {
    refused = queue.Push(value).status();
    pushed += refused.ok() ? 1 : 0;
  }
  CHECK(refused.code() == StatusCode::kResourceExhausted);
  CHECK(pushed > 200);
  std::size_t popped = 0;
  while (queue.Pop().ok()) ++popped;
  CHECK(popped == pushed);
  CHECK(queue.Push(value).ok());
}

TEST_CASE("ABlockingPopEndsWithThePushOfAnother", "[kinds]") {
  Client client = ConnectTo(Cluster());
  Client other = ConnectTo(Cluster());
  const BytesQueue queue = Open<BytesQueue>(client, "queue.wait");
  const BytesQueue theirs = Open<BytesQueue>(other, "queue.wait");
  CHECK(queue.Pop({.wait = 30ms}).code() == StatusCode::kDeadlineExceeded);
  CHECK(queue.PopMany(3, {.wait = 30ms}).code() == StatusCode::kDeadlineExceeded);
  CHECK(queue.PopMany(3)->empty());
  // Longer than a message waits at the daemon.
  Future<Item> waiter = queue.PopAsync({.wait = 60s});
  CHECK(waiter.Wait(1'500ms).code() == StatusCode::kDeadlineExceeded);
  RequireOk(theirs.Push("a").status());
  CHECK(waiter.Wait()->value == "a");
  std::thread producer([&] { RequireOk(theirs.MultiPush(ViewsOf({"b", "c"})).FirstFailure()); });
  const auto items = queue.PopMany(5, {.wait = kWaitForEver});
  producer.join();
  RequireOk(items.status());
  CHECK((*items)[0].value == "b");
}

TEST_CASE("ALargePushThatWaitsHoldsUpNoOtherWait", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const BytesQueue queue = Open<BytesQueue>(client, "queue.large-wait", {.capacity = 1});
  const BytesQueue other = Open<BytesQueue>(client, "queue.large-wait-2", {.capacity = 1});
  const std::string large(200'000, 'L');
  for (const BytesQueue& each : {queue, other}) RequireOk(each.Push("first").status());
  std::vector<Future<ItemId>> pushes;
  for (const BytesQueue& each : {queue, other, queue, other}) {
    pushes.push_back(each.PushAsync(large, {.wait = 60s}));
    CHECK(pushes.back().Wait(50ms).code() == StatusCode::kDeadlineExceeded);
  }
  // Only this client can make room.
  for (const char* value : {"first", large.c_str(), large.c_str()}) {
    for (const BytesQueue& each : {queue, other}) {
      auto item = each.PopAsync({.wait = 60s}).Wait(30s);
      RequireOk(item.status());
      CHECK(item->value == value);
    }
  }
  for (auto& push : pushes) RequireOk(push.Wait().status());
}

TEST_CASE("AFenceIsForPushesThatWaitButNotForPops", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const BytesQueue full = Open<BytesQueue>(client, "queue.fence-full", {.capacity = 1});
  const BytesQueue empty = Open<BytesQueue>(client, "queue.fence-empty");
  Future<Item> pop = empty.PopAsync({.wait = 60s});
  RequireOk(client.WaitForAll());
  RequireOk(full.Push("first").status());
  Future<ItemId> push = full.PushAsync("second", {.wait = 60s});
  CHECK(client.WaitForAll(50ms).code() == StatusCode::kDeadlineExceeded);
  RequireOk(full.Pop().status());
  RequireOk(client.WaitForAll());
  CHECK(push.Ready());
  CHECK_FALSE(pop.Ready());
}

TEST_CASE("WhatEndedABatchEarlyIsInTheBatch", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const BytesQueue queue = Open<BytesQueue>(client, "queue.early");
  // A message holds some thousands of items, and this number may be under leases.
  constexpr std::size_t kLeasesMax = 65'536;
  const std::vector<std::string> values(kLeasesMax + 10, "v");
  RequireOk(queue.MultiPush(ViewsOf(values)).FirstFailure());
  const auto items = queue.PopMany(values.size(), {.lease = 1h});
  RequireOk(items.status());
  CHECK(items->size() == kLeasesMax);
  CHECK(items->status().code() == StatusCode::kResourceExhausted);
  CHECK(queue.PopMany(5)->status().ok());
}

TEST_CASE("WhileOneThreadWaitsOthersGoOn", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const BytesQueue idle = Open<BytesQueue>(client, "queue.idle");
  const BytesQueue busy = Open<BytesQueue>(client, "queue.busy");
  Future<Item> waiter = idle.PopAsync({.wait = 60s});
  // More frames than the window allows behind an unanswered frame.
  for (int i = 0; i < 1500; ++i) {
    RequireOk(busy.Push("x").status());
    RequireOk(busy.Pop().status());
  }
  CHECK(!waiter.Ready());
  RequireOk(idle.Push("end").status());
  CHECK(waiter.Wait()->value == "end");
}

TEST_CASE("ALeaseThatRunsOutGivesTheItemToTheNext", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const BytesQueue queue = Open<BytesQueue>(client, "queue.lease");
  RequireOk(queue.Push("a").status());
  const auto first = queue.Pop({.lease = 50ms});
  RequireOk(first.status());
  CHECK(first->deliveries == 1);
  const auto second = queue.Pop({.lease = 1h, .wait = 60s});
  RequireOk(second.status());
  CHECK(second->id == first->id);
  CHECK(second->deliveries == 2);
  CHECK(queue.Ack(first->lease()).code() == StatusCode::kFailedPrecondition);
  CHECK(queue.Nack(first->lease()).code() == StatusCode::kFailedPrecondition);
  CHECK(queue.Length()->leased == 1);
  RequireOk(queue.Ack(second->lease()));
  CHECK(queue.Ack(second->lease()).code() == StatusCode::kNotFound);
  CHECK(queue.AckAsync(second->lease()).Wait().code() == StatusCode::kNotFound);
  const auto length = queue.Length();
  CHECK(length->ready + length->leased == 0);
}

TEST_CASE("ManyLeasesAreAckedAtOnce", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const BytesQueue queue = Open<BytesQueue>(client, "queue.acks");
  std::vector<std::string> values(300, "v");
  RequireOk(queue.MultiPush(ViewsOf(values)).FirstFailure());
  const auto items = queue.PopMany(300, {.lease = 1h});
  RequireOk(items.status());
  REQUIRE(items->size() == 300);
  std::vector<ItemLease> leases = items->leases();
  leases[7].deliveries = 9;
  const std::vector<Status> acked = queue.MultiAck(leases);
  REQUIRE(acked.size() == 300);
  for (std::size_t i = 0; i < acked.size(); ++i) CHECK(acked[i].ok() == (i != 7));
  CHECK(queue.Length()->leased == 1);
}

TEST_CASE("ItemsOfAnySizeComeBackAsTheyWere", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const BytesQueue queue = Open<BytesQueue>(client, "queue.sizes");
  std::vector<std::string> values;
  for (const std::size_t bytes :
       {0, 1, 32'700, 32'757, 32'768, 32'769, 60'000, 1'048'576, 5'000'000}) {
    values.emplace_back(bytes, static_cast<char>('a' + values.size()));
  }
  RequireOk(queue.MultiPush(ViewsOf(values)).FirstFailure());
  RequireOk(queue.MultiPushAsync(ViewsOf(values)).Wait()->FirstFailure());
  for (const std::string& value : values) RequireOk(queue.Push(value).status());
  const auto leased = queue.PopMany(values.size(), {.lease = 1h});
  RequireOk(leased.status());
  REQUIRE(leased->size() == values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    CHECK(((*leased)[i].value == values[i]));
    RequireOk(queue.Nack((*leased)[i].lease()));
  }
  for (int round = 0; round < 3; ++round) {
    for (const std::string& value : values) {
      const auto item = round == 2 ? queue.PopAsync().Wait() : queue.Pop();
      RequireOk(item.status());
      CHECK((item->value == value));
    }
  }
}

TEST_CASE("ALargeItemWaitsForRoomToo", "[kinds]") {
  Client client = ConnectTo(Cluster());
  Client other = ConnectTo(Cluster());
  const BytesQueue queue = Open<BytesQueue>(client, "queue.large", {.capacity = 1});
  const BytesQueue theirs = Open<BytesQueue>(other, "queue.large", {.capacity = 1});
  RequireOk(queue.Push("first").status());
  const std::string large(2'000'000, 'L');
  Future<ItemId> pushed = queue.PushAsync(large, {.ttl = 1h, .wait = 60s});
  // Beyond the end of a message's wait: the value goes up again.
  CHECK(pushed.Wait(1'300ms).code() == StatusCode::kDeadlineExceeded);
  CHECK(theirs.Pop()->value == "first");
  CHECK(pushed.Wait().ok());
  const auto item = theirs.Pop({.wait = 60s});
  RequireOk(item.status());
  CHECK((item->value == large));
}

TEST_CASE("ItemsExpire", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const BytesQueue queue = Open<BytesQueue>(client, "queue.ttl", {.ttl = 1ms});
  RequireOk(queue.Push("gone").status());
  RequireOk(queue.Push("stays", {.ttl = 0ms}).status());
  // Whenever it is asked, an item that has expired is not there.
  REQUIRE(WaitUntil([&] { return queue.Peek()->value == "stays"; }));
  CHECK(queue.Pop()->value == "stays");
}

struct Job {
  std::uint64_t number = 0;
  double weight = 0;
  friend bool operator==(const Job&, const Job&) = default;
};

TEST_CASE("TypedQueuesEncodeAndDecode", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const auto jobs = Open<Queue<Job>>(client, "queue.jobs");
  RequireOk(jobs.Push({1, 0.5}).status());
  RequireOk(jobs.MultiPush(std::vector<Job>{{2, 1.5}, {3, 2.5}}).FirstFailure());
  CHECK(jobs.Peek()->value == Job{1, 0.5});
  CHECK(jobs.Pop()->value == Job{1, 0.5});
  const auto rest = jobs.PopMany(9, {.lease = 1h});
  RequireOk(rest.status());
  REQUIRE(rest->size() == 2);
  CHECK(rest->value(1).value() == Job{3, 2.5});
  RequireOk(jobs.Ack(rest->lease(0)));
  RequireOk(jobs.Nack(rest->lease(1)));
  CHECK(jobs.PopAsync().Wait()->value == Job{3, 2.5});
  // Bytes that are no Job give an error.
  RequireOk(jobs.bytes().Push("x").status());
  CHECK(jobs.Pop().code() == StatusCode::kFailedPrecondition);
  const auto other = client.OpenOrCreate<Queue<std::string>>("queue.jobs");
  CHECK(other.code() == StatusCode::kFailedPrecondition);
  CHECK(client.Open<BytesPriorityQueue>("queue.jobs").code() == StatusCode::kFailedPrecondition);

  const auto urgent = Open<PriorityQueue<std::string>>(client, "priority.typed");
  RequireOk(urgent.Push(5, "later").status());
  const std::multimap<Priority, std::string> more = {{9, "last"}, {1, "first"}};
  RequireOk(urgent.MultiPush(more).FirstFailure());
  CHECK(urgent.Pop()->value == "first");
  CHECK(urgent.Pop()->priority == 5);
  CHECK(urgent.Pop()->value == "last");
}

TEST_CASE("AQueueLiesOnItsHome", "[kinds]") {
  TestCluster cluster({.nodes = 3});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  for (const std::uint32_t node : {2u, 0u, 1u, 1u}) {
    const std::string name = "q" + std::to_string(node);
    const BytesQueue queue = Open<BytesQueue>(client, name, {.home = Home::Node(node)});
    CHECK(queue.space().OwnerOf("") == node);
    RequireOk(queue.Push("x").status());
    const auto urgent =
        Open<BytesPriorityQueue>(client, "p" + std::to_string(node), {.home = Home::Node(node)});
    CHECK(urgent.space().OwnerOf("") == node);
    RequireOk(urgent.Push(1, "x").status());
    const auto filter = Open<BytesBloom>(client, "b" + std::to_string(node),
                                         {.expected_items = 10'000, .home = Home::Node(node)});
    for (const char* value : {"x", "y", "z", "u", "v", "w"}) {
      CHECK(filter.space().OwnerOf(value) == node);
      RequireOk(filter.Insert(value).status());
    }
  }
  CHECK(client.OpenOrCreate<BytesMap>("map", {.partitions = 3, .home = Home::Node(2)})
            ->space()
            .OwnerOf("k") == 2);
  CHECK(client.OpenOrCreate<BytesQueue>("here", {.home = Home::Local()}).ok());
  CHECK(client.OpenOrCreate<BytesQueue>("bad", {.home = Home::Node(3)}).code() ==
        StatusCode::kInvalidArgument);
  CHECK(client.OpenOrCreate<BytesPriorityQueue>("bad", {.partitions = 2}).code() ==
        StatusCode::kInvalidArgument);
  CHECK(client.OpenOrCreate<BytesMap>("bad", {.capacity = 2}).code() ==
        StatusCode::kInvalidArgument);
  CHECK(client.OpenOrCreate<BytesQueue>("q1", {.capacity = 2}).code() ==
        StatusCode::kAlreadyExists);
}

TEST_CASE("OperationsOfADroppedQueueEnd", "[kinds]") {
  Client client = ConnectTo(Cluster());
  const BytesQueue queue = Open<BytesQueue>(client, "queue.dropped");
  Future<Item> waiter = queue.PopAsync({.wait = 60s});
  CHECK(waiter.Wait(50ms).code() == StatusCode::kDeadlineExceeded);
  RequireOk(client.Drop("queue.dropped"));
  CHECK(waiter.Wait().code() == StatusCode::kNotFound);
  const Status gone = queue.Push("x").status();
  CHECK(gone.code() == StatusCode::kNotFound);
  CHECK(queue.Pop({.wait = 60s}).status().ToString().find("dropped") != std::string::npos);
}

}  // namespace
}  // namespace tidepool::testing
