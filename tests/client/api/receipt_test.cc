// Receipts about the durability of changes, with a real daemon that has a device.
#include <grpcpp/channel.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/client/durable_cluster.h"
#include "tidepool/v1/common.pb.h"
#include "tidepool/v1/data.grpc.pb.h"

namespace tidepool::testing {
namespace {

using Level = Receipt::Level;

// Makes each kind of change of a map with a call.
std::vector<Level> LevelsOfAllChanges(const BytesMap& map) {
  std::vector<Level> levels;
  Receipt receipt;
  const CallOptions options{.receipt = &receipt};
  const auto told = [&](const Status& status) {
    RequireOk(status);
    levels.push_back(receipt.level);
    receipt = {};
  };
  told(map.Put("k", "1", {.receipt = &receipt}).status());
  told(map.Put("large", std::string(100'000, 'x'), {.receipt = &receipt}).status());
  told(map.PutAsync("k", "1", {.receipt = &receipt}).Wait().status());
  told(map.CompareAndSwap("k", "1", "2", options).status());
  told(map.Append("k", "3", options).status());
  told(map.Expire("k", std::chrono::minutes(1), options));
  told(map.Apply("k", "exchange", "4", options).status());
  told(map.Take("k", options).status());
  told(map.FetchAdd("n", 1, options).status());
  told(map.FetchAddAsync("n", 1, options).Wait().status());
  const std::vector<KeyValue> records = {{"a", "1"}, {"b", "2"}, {"c", "3"}};
  told(map.MultiPut(records, {.receipt = &receipt}).FirstFailure());
  told(
      map.MultiPut(records, {.promise = Promise::kInsertOnly, .receipt = &receipt}).FirstFailure());
  told(map.MultiPutAsync(records, {.receipt = &receipt}).Wait()->FirstFailure());
  const std::vector<std::string_view> keys = {"a", "b"};
  told(map.MultiDelete(keys, options).FirstFailure());
  told(map.Delete("c", {.receipt = &receipt}));
  Chain chain;
  chain.Put("k{t}", "v");
  told(map.Execute(chain, options).status());
  bool ran = false;
  auto future = map.PutAsync("k", "5", {.receipt = &receipt});
  std::move(future).Then([&](Result<Version> version) {
    told(version.status());
    ran = true;
  });
  while (!ran) RequireOk(map.Contains("k").status());
  return levels;
}

TEST_CASE("Each change says how safe it is, by the durability of its namespace") {
  DurableCluster cluster(2);
  Client client = ConnectTo(*cluster);
  struct Row {
    Durability durability;
    Level level;
  };
  for (const Row& row :
       {Row{Durability::kVolatile, Level::kMemory}, Row{Durability::kAsync, Level::kNextCheckpoint},
        Row{Durability::kSync, Level::kDevice}}) {
    const std::string name(ToString(row.durability));
    INFO(name);
    const BytesMap map = Open<BytesMap>(client, name, Durable(row.durability));
    for (const Level level : LevelsOfAllChanges(map)) CHECK(level == row.level);

    const BytesQueue queue = Open<BytesQueue>(client, "q-" + name, Durable(row.durability));
    Receipt pushed;
    RequireOk(queue.Push("item", {.receipt = &pushed}).status());
    CHECK(pushed.level == row.level);
    const std::vector<std::string_view> items = {"b", "c"};
    RequireOk(queue.MultiPush(items, {.receipt = &pushed}).FirstFailure());
    CHECK(pushed.level == row.level);
    Receipt popped;
    PopOptions leased;
    leased.lease = std::chrono::minutes(1);
    leased.receipt = &popped;
    const auto item = queue.Pop(leased);
    RequireOk(item.status());
    CHECK(popped.level == row.level);
    Receipt acked;
    RequireOk(queue.Ack(item->lease(), {.receipt = &acked}));
    CHECK(acked.level == row.level);
  }
}

TEST_CASE("What changed nothing has no receipt") {
  DurableCluster cluster;
  Client client = ConnectTo(*cluster);
  const BytesMap map = Open<BytesMap>(client, "a", Durable());
  RequireOk(map.Put("k", "v").status());
  Receipt receipt;
  receipt.level = Level::kDevice;  // From an earlier call.
  CHECK(map.Put("k", "w", {.condition = PutCondition::kIfAbsent, .receipt = &receipt}).code() ==
        StatusCode::kAlreadyExists);
  CHECK(receipt.level == Level::kNone);
  receipt.level = Level::kDevice;
  RequireOk(map.Get("k", {.receipt = &receipt}).status());
  CHECK(receipt.level == Level::kNone);
}

TEST_CASE("A change is safe once its owner's last checkpoint is later, as its receipts tell") {
  DurableCluster cluster;
  for (int round = 0; round < 3; ++round) {
    {
      Client client = ConnectTo(*cluster);
      const BytesMap map = Open<BytesMap>(client, "a", Durable());
      const std::string key = "key" + std::to_string(round);
      Receipt put;
      RequireOk(map.Put(key, "v", {.receipt = &put}).status());
      REQUIRE(put.level == Level::kNextCheckpoint);
      REQUIRE(put.answered_at.has_value());
      CHECK(put.durable_at <= put.answered_at);
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      Receipt later;
      do {
        REQUIRE(std::chrono::steady_clock::now() < until);
        RequireOk(map.Put("other", "v", {.receipt = &later}).status());
      } while (later.durable_at <= put.answered_at);
    }
    cluster.KillAndStart(0);
  }
  Client client = ConnectTo(*cluster);
  const BytesMap map = Open<BytesMap>(client, "a", Durable());
  for (int round = 0; round < 3; ++round) {
    CHECK(map.Get("key" + std::to_string(round)).value().bytes == "v");
  }
}

TEST_CASE("A node without devices tells no times") {
  TestCluster cluster(TestClusterOptions{});
  Client client = ConnectTo(cluster);
  Receipt receipt;
  RequireOk(Open<BytesMap>(client, "v").Put("k", "v", {.receipt = &receipt}).status());
  CHECK(receipt.level == Level::kMemory);
  CHECK_FALSE(receipt.answered_at.has_value());
  CHECK_FALSE(receipt.durable_at.has_value());
}

TEST_CASE("Over gRPC a receipt is told to who asks, of any node") {
  DurableCluster cluster(2);
  Client client = ConnectTo(*cluster);
  RequireOk(client.Create<BytesMap>("s", Durable(Durability::kSync)).status());
  for (std::size_t node = 0; node < 2; ++node) {
    const auto stub = v1::Data::NewStub(cluster->channel(node));
    for (int i = 0; i < 20; ++i) {  // Keys of both nodes.
      v1::PutRequest put;
      put.set_namespace_("s");
      put.set_key("key" + std::to_string(i));
      put.set_tell_receipt(i % 2 == 0);
      v1::PutResponse response;
      grpc::ClientContext call;
      cluster->Prepare(&call);
      REQUIRE(stub->Put(&call, put, &response).ok());
      REQUIRE(response.has_receipt() == (i % 2 == 0));
      if (i % 2 == 0) CHECK(response.receipt().level() == v1::RECEIPT_LEVEL_DEVICE);
    }
    v1::ExecuteRequest request;
    request.set_namespace_("s");
    request.set_tell_receipt(true);
    for (int i = 0; i < 20; ++i) {
      v1::Operation* operation = request.add_operations();
      operation->set_kind(i % 2 == 0 ? v1::OPERATION_KIND_DELETE : v1::OPERATION_KIND_GET);
      operation->set_key("key" + std::to_string(i));
    }
    v1::ExecuteResponse response;
    grpc::ClientContext call;
    cluster->Prepare(&call);
    REQUIRE(stub->Execute(&call, request, &response).ok());
    CHECK(response.receipt().level() == v1::RECEIPT_LEVEL_DEVICE);
  }
}

}  // namespace
}  // namespace tidepool::testing
