// Refusals, terms and the order of operations on a partition.
#include <catch2/catch.hpp>

#include "tests/client/fake_daemon.h"

namespace tidepool::testing {
namespace {

struct Fixture {
  FakeCluster cluster{{.nodes = 2, .cores = 1, .partitions = 4}};
  std::shared_ptr<internal::Engine> engine = cluster.Connect();
  BytesMap map = cluster.Open(engine);
  std::string key = cluster.KeyIn(0);       // Partition 0: node 0.
  std::string other = cluster.KeyIn(0, 1);  // In the same partition.

  bool PumpRequests(std::size_t count) {
    return cluster.Pump(engine, [&] { return cluster.request_count() >= count; });
  }
};

TEST_CASE_METHOD(Fixture,
                 "A refused group is sent again under the newer term, before later operations",
                 "[client][order]") {
  auto first = map.PutAsync(key, "1");
  REQUIRE(PumpRequests(1));
  const auto refused = cluster.TakeRequest();
  REQUIRE(refused->request.groups[0].term == Term(1));

  cluster.Refuse(*refused, 0, StatusCode::kWrongEpoch, 2);
  cluster.Settle(engine);
  auto second = map.PutAsync(key, "2");
  cluster.Settle(engine);
  CHECK(cluster.request_count() == 0);  // The map is still old.
  cluster.SetTerm(0, 2, 1, 0);
  cluster.PublishMap();
  cluster.clock().AdvanceMs(100);
  REQUIRE(PumpRequests(1));
  const auto again = cluster.TakeRequest();
  CHECK(again->node == 1);
  REQUIRE(again->request.groups.size() == 1);
  CHECK(again->request.groups[0].term == Term(2));
  REQUIRE(again->request.operations.size() == 2);
  CHECK(AsText(again->operation(0).value) == "1");
  CHECK(AsText(again->operation(1).value) == "2");
  CHECK(cluster.map_waits().back() == Epoch(2));
  cluster.AnswerAll(*again);
  CHECK(first.Wait().ok());
  CHECK(second.Wait().ok());
}

TEST_CASE_METHOD(Fixture, "A refused group is never sent again under the term that was refused",
                 "[client][order]") {
  auto put = map.PutAsync(key, "1");
  REQUIRE(PumpRequests(1));
  cluster.Refuse(*cluster.TakeRequest(), 0, StatusCode::kWrongEpoch, 1);
  // The map is not newer: it is asked for again and again, and nothing is sent.
  for (int i = 0; i < 5; ++i) {
    cluster.Settle(engine);
    cluster.clock().AdvanceMs(100);
  }
  CHECK(cluster.request_count() == 0);
  CHECK(cluster.map_waits().size() > 3);
  CHECK_FALSE(put.Ready());

  cluster.SetTerm(0, 5, 0, 0);
  cluster.PublishMap();
  cluster.clock().AdvanceMs(100);
  REQUIRE(PumpRequests(1));
  const auto again = cluster.TakeRequest();
  CHECK(again->request.groups[0].term == Term(5));
  cluster.AnswerAll(*again);
  CHECK(put.Wait().ok());
}

TEST_CASE_METHOD(Fixture,
                 "A newer term waits until everything sent under the older one is answered",
                 "[client][order]") {
  auto first = map.PutAsync(key, "1");
  REQUIRE(PumpRequests(1));
  auto second = map.PutAsync(other, "2");
  REQUIRE(PumpRequests(2));
  const auto frame1 = cluster.TakeRequest();
  const auto frame2 = cluster.TakeRequest();

  cluster.SetTerm(0, 2, 1, 0);
  cluster.PublishMap();
  cluster.Refuse(*frame1, 0, StatusCode::kWrongEpoch, 2);
  cluster.Settle(engine);
  CHECK(engine->epoch() == Epoch(2));
  CHECK(cluster.request_count() == 0);  // The second operation is still out under term 1.

  cluster.Refuse(*frame2, 0, StatusCode::kWrongEpoch, 2);
  REQUIRE(PumpRequests(1));
  const auto again = cluster.TakeRequest();
  REQUIRE(again->request.operations.size() == 2);
  CHECK(again->key(0) == key);
  CHECK(again->key(1) == other);
  cluster.AnswerAll(*again);
  CHECK(first.Wait().ok());
  CHECK(second.Wait().ok());
}

TEST_CASE_METHOD(Fixture,
                 "Refusals that come in the wrong order do not change the order of operations",
                 "[client][order]") {
  auto first = map.PutAsync(key, "1");
  REQUIRE(PumpRequests(1));
  auto second = map.PutAsync(key, "2");
  REQUIRE(PumpRequests(2));
  const auto frame1 = cluster.TakeRequest();
  const auto frame2 = cluster.TakeRequest();
  cluster.SetTerm(0, 2, 0, 0);
  cluster.PublishMap();
  cluster.Refuse(*frame2, 0, StatusCode::kWrongEpoch, 2);
  cluster.Settle(engine);
  cluster.Refuse(*frame1, 0, StatusCode::kWrongEpoch, 2);
  REQUIRE(PumpRequests(1));
  const auto again = cluster.TakeRequest();
  REQUIRE(again->request.operations.size() == 2);
  CHECK(AsText(again->operation(0).value) == "1");
  CHECK(AsText(again->operation(1).value) == "2");
}

TEST_CASE_METHOD(Fixture, "A given-up operation under an old term does not hold back the new term",
                 "[client][order]") {
  auto first = map.PutAsync(key, "1", {.timeout = std::chrono::milliseconds(100)});
  REQUIRE(PumpRequests(1));
  auto second = map.PutAsync(key, "2");
  cluster.SetTerm(0, 2, 1, 0);
  cluster.PublishMap();
  REQUIRE(engine->RefreshMap(Epoch(2), Deadline::AfterMs(1'000)).ok());
  cluster.Settle(engine);
  CHECK(cluster.request_count() == 1);
  cluster.clock().AdvanceMs(200);
  REQUIRE(PumpRequests(2));
  CHECK(first.Wait().code() == StatusCode::kUnknown);
  cluster.TakeRequest();
  const auto moved = cluster.TakeRequest();
  CHECK(moved->node == 1);
  CHECK(moved->request.groups[0].term == Term(2));
}

TEST_CASE_METHOD(Fixture, "One refused group of a frame leaves the others alone",
                 "[client][order]") {
  const std::string elsewhere = cluster.KeyIn(2);  // Also node 0.
  const std::string_view keys[] = {key, elsewhere};
  auto both = map.MultiGetAsync(keys);
  REQUIRE(PumpRequests(1));
  const auto frame = cluster.TakeRequest();
  REQUIRE(frame->request.groups.size() == 2);
  cluster.SetTerm(0, 2, 1, 0);
  cluster.PublishMap();
  cluster.Refuse(*frame, 0, StatusCode::kWrongEpoch, 2);
  wire::Answer answer;
  answer.index = 1;
  answer.value = AsBytes("there");
  cluster.Send(*frame, {answer});
  REQUIRE(PumpRequests(1));
  const auto again = cluster.TakeRequest();
  REQUIRE(again->request.operations.size() == 1);
  cluster.AnswerAll(*again, "here");
  auto result = both.Wait();
  REQUIRE(result.ok());
  CHECK(result->value(0) == "here");
  CHECK(result->value(1) == "there");
}

TEST_CASE_METHOD(Fixture, "A group that fails as a whole ends its operations with code and text",
                 "[client][order]") {
  auto put = map.PutAsync(key, "1");
  REQUIRE(PumpRequests(1));
  cluster.Refuse(*cluster.TakeRequest(), 0, StatusCode::kDataLoss, 0, "the partition is lost");
  const auto result = put.Wait();
  CHECK(result.code() == StatusCode::kDataLoss);
  const std::string text = result.status().ToString();
  CHECK(text.find("the partition is lost") != std::string::npos);
  CHECK(text.find("namespace 'space'") != std::string::npos);
  CHECK(text.find("kvctl namespace accept-loss space") != std::string::npos);
}

TEST_CASE_METHOD(Fixture, "Operations on a node that the map calls down fail at once and name it",
                 "[client][order]") {
  cluster.map().nodes[1].state = placement::NodeState::kDown;
  cluster.PublishMap();
  REQUIRE(engine->RefreshMap(Epoch(2), Deadline::AfterMs(1'000)).ok());
  const auto result = map.Put(cluster.KeyIn(1), "1");
  CHECK(result.code() == StatusCode::kUnavailable);
  CHECK(result.status().ToString().find("node 1 (host1") != std::string::npos);
}

TEST_CASE_METHOD(Fixture, "A node that comes back is noticed by the next operation on it",
                 "[client][order]") {
  cluster.map().nodes[1].state = placement::NodeState::kDown;
  cluster.PublishMap();
  REQUIRE(engine->RefreshMap(Epoch(2), Deadline::AfterMs(1'000)).ok());
  cluster.map().nodes[1].state = placement::NodeState::kUp;
  cluster.PublishMap();
  cluster.clock().AdvanceMs(1'000);  // The map is stale now.
  cluster.Auto();
  CHECK(map.Put(cluster.KeyIn(1), "1").ok());
}

TEST_CASE_METHOD(Fixture, "A lost partition answers kDataLoss and says how to go on",
                 "[client][order]") {
  auto changed = std::make_shared<placement::Namespace>(*cluster.map().Find("space"));
  changed->partitions[0].state = placement::PartitionState::kLost;
  cluster.map().namespaces[changed->id] = changed;
  cluster.PublishMap();
  REQUIRE(engine->RefreshMap(Epoch(2), Deadline::AfterMs(1'000)).ok());
  const auto result = map.Get(key);
  CHECK(result.code() == StatusCode::kDataLoss);
  CHECK(result.status().ToString().find("accept-loss space") != std::string::npos);
}

TEST_CASE_METHOD(Fixture, "Operations on a dropped namespace end with kNotFound",
                 "[client][order]") {
  auto waiting = map.PutAsync(key, "1");
  cluster.map().namespaces.clear();
  cluster.map().dropped[NamespaceId(7)] = Epoch(2);
  cluster.PublishMap();
  REQUIRE(engine->RefreshMap(Epoch(2), Deadline::AfterMs(1'000)).ok());
  const auto early = waiting.Wait();
  CHECK(early.code() == StatusCode::kNotFound);
  CHECK(early.status().ToString().find("dropped") != std::string::npos);
  CHECK(map.Get(key).code() == StatusCode::kNotFound);
  CHECK(map.Contains(key).code() == StatusCode::kNotFound);
}

}  // namespace
}  // namespace tidepool::testing
