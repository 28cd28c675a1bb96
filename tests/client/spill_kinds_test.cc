// Ranges and queues that are larger than the daemon's memory.
#include <grpcpp/channel.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "proto/convert/grpc_channel.h"
#include "proto/convert/grpc_status.h"
#include "tests/client/sdk_fixture.h"
#include "tests/client/spilling_cluster.h"
#include "tidepool/v1/bulk.grpc.pb.h"

namespace tidepool::testing {
namespace {

// 120 MB of values: twice the daemon's memory.
constexpr int kRecords = 60'000;

std::string KeyOf(int i) {
  char key[16];
  std::snprintf(key, sizeof key, "key%06d", i);
  return key;
}
std::string ValueOf(int i) {
  std::string value = KeyOf(i) + "/";
  value.resize(2'000, static_cast<char>('a' + i % 26));
  return value;
}

void PutAll(const BytesMap& map) {
  constexpr int kBatch = 500;
  for (int at = 0; at < kRecords; at += kBatch) {
    std::vector<std::string> texts;
    // In random order: neighbours in a segment are far apart in the order of keys.
    for (int i = at; i < at + kBatch; ++i) {
      const int key = static_cast<int>((static_cast<std::int64_t>(i) * 7'919) % kRecords);
      texts.push_back(KeyOf(key));
      texts.push_back(ValueOf(key));
    }
    std::vector<KeyValue> records;
    for (std::size_t i = 0; i < texts.size(); i += 2) records.push_back({texts[i], texts[i + 1]});
    RequireOk(map.MultiPut(records).FirstFailure());
  }
}

TEST_CASE("Ranges of records on the device are read, counted and erased", "[spill]") {
  SpillingCluster spilling;
  Client client = ConnectTo(*spilling, {.call_timeout = std::chrono::minutes(1)});
  const BytesOrderedMap map = Open<BytesOrderedMap>(client, "ranges");
  PutAll(map);

  int next = 0;
  auto all = map.NewScan();
  for (; all.Next(); ++next) {
    REQUIRE(all.record().key == KeyOf(next));
    REQUIRE(all.record().value == ValueOf(next));
  }
  RequireOk(all.status());
  CHECK(next == kRecords);

  next = 40'000;
  auto down = map.NewScan({.begin = KeyOf(30'000), .end = KeyOf(40'000)}, {.reverse = true});
  while (down.Next()) {
    REQUIRE(down.record().key == KeyOf(--next));
    REQUIRE(down.record().value == ValueOf(next));
  }
  RequireOk(down.status());
  CHECK(next == 30'000);

  CHECK(map.First().value().key == KeyOf(0));
  CHECK(map.Last().value().key == KeyOf(kRecords - 1));
  CHECK(map.CountRange({}).value() == kRecords);
  CHECK(map.EraseRange({.begin = KeyOf(10'000), .end = KeyOf(13'000)}).value() == 3'000);
  CHECK(map.CountRange({.begin = KeyOf(9'000), .end = KeyOf(14'000)}).value() == 2'000);
  for (int i = 0; i < kRecords; i += 97) {
    const auto got = map.Get(KeyOf(i));
    if (i >= 10'000 && i < 13'000) {
      REQUIRE(got.code() == StatusCode::kNotFound);
    } else {
      REQUIRE(got.value().bytes == ValueOf(i));
    }
  }
}

TEST_CASE("Records on the device that expire are not counted", "[spill]") {
  SpillingCluster spilling;
  Client client = ConnectTo(*spilling, {.call_timeout = std::chrono::minutes(1)});
  const BytesOrderedMap map = Open<BytesOrderedMap>(client, "expiring");
  PutOptions options;
  options.ttl = std::chrono::hours(1);
  for (int i = 0; i < 5'000; ++i) RequireOk(map.Put("a" + KeyOf(i), ValueOf(i), options).status());
  options.ttl = std::chrono::milliseconds(1);
  for (int i = 0; i < 5'000; ++i) RequireOk(map.Put("b" + KeyOf(i), ValueOf(i), options).status());
  PutAll(map);
  CHECK(map.CountRange({.begin = "a", .end = "c"}).value() == 5'000);
  int seen = 0;
  auto scan = map.NewScan({.begin = "a", .end = "c"}, {.keys_only = true});
  while (scan.Next()) ++seen;
  RequireOk(scan.status());
  CHECK(seen == 5'000);
}

TEST_CASE("A queue on the device gives its items in order", "[spill]") {
  SpillingCluster spilling;
  Client client = ConnectTo(*spilling, {.call_timeout = std::chrono::minutes(1)});
  const BytesQueue queue = Open<BytesQueue>(client, "line");
  for (int at = 0; at < kRecords; at += 500) {
    std::vector<std::string> values;
    for (int i = at; i < at + 500; ++i) values.push_back(ValueOf(i));
    const std::vector<std::string_view> views(values.begin(), values.end());
    RequireOk(queue.MultiPush(views).FirstFailure());
  }

  // Some items one by one, most in groups; every other group under leases.
  int next = 0;
  for (; next < 500; ++next) REQUIRE(queue.Pop().value().value == ValueOf(next));
  while (next < kRecords) {
    PopOptions options;
    const bool leased = next % 2 == 0;
    if (leased) options.lease = std::chrono::minutes(10);
    const auto popped = queue.PopMany(401, options);
    RequireOk(popped.status());
    REQUIRE(!popped->empty());
    for (const auto& item : *popped) REQUIRE(item.value == ValueOf(next++));
    if (!leased) continue;
    for (const Status& acked : queue.MultiAck(popped->leases())) RequireOk(acked);
  }
  CHECK(queue.Pop().code() == StatusCode::kNotFound);
}

TEST_CASE("Consumers of a queue on the device share its items", "[spill]") {
  SpillingCluster spilling;
  Client client = ConnectTo(*spilling, {.call_timeout = std::chrono::minutes(1)});
  const BytesQueue queue = Open<BytesQueue>(client, "shared");
  for (int at = 0; at < kRecords; at += 500) {
    std::vector<std::string> values;
    for (int i = at; i < at + 500; ++i) values.push_back(ValueOf(i));
    const std::vector<std::string_view> views(values.begin(), values.end());
    RequireOk(queue.MultiPush(views).FirstFailure());
  }
  std::vector<std::string> popped[2];
  std::vector<std::thread> consumers;
  for (auto& mine : popped) {
    consumers.emplace_back([&] {
      Client other = ConnectTo(*spilling, {.call_timeout = std::chrono::minutes(1)});
      const auto theirs = other.Open<BytesQueue>("shared");
      for (;;) {
        const auto batch = theirs->PopMany(20);
        if (!batch.ok() || batch->empty()) return;
        for (const auto& item : *batch) mine.emplace_back(item.value);
      }
    });
  }
  for (std::thread& each : consumers) each.join();
  std::set<std::string> all;
  for (const auto& mine : popped) {
    REQUIRE(std::is_sorted(mine.begin(), mine.end()));
    all.insert(mine.begin(), mine.end());
  }
  CHECK(popped[0].size() + popped[1].size() == kRecords);
  CHECK(all.size() == kRecords);
}

TEST_CASE("Values of several segments leave memory and come back", "[spill]") {
  SpillingCluster spilling;
  Client client = ConnectTo(*spilling, {.call_timeout = std::chrono::minutes(1)});
  const BytesMap map = Open<BytesMap>(client, "large");
  const auto large = [](int i) {
    std::string value(5'000'000, static_cast<char>('a' + i % 26));
    for (std::size_t at = 0; at < value.size(); at += 4'096) value[at] = static_cast<char>(i);
    return value;
  };
  for (int i = 0; i < 40; ++i) RequireOk(map.Put(KeyOf(i), large(i)).status());
  for (int i = 0; i < 40; ++i) REQUIRE(map.Get(KeyOf(i)).value().bytes == large(i));
  RequireOk(map.Append(KeyOf(3), "+").status());
  REQUIRE(map.Get(KeyOf(3)).value().bytes == large(3) + "+");
  for (int i = 39; i >= 0; i -= 3) REQUIRE(map.Take(KeyOf(i)).value().bytes.size() >= 5'000'000);
  CHECK(map.Length().value() == 26);
}

TEST_CASE("A value of several segments on the device is read over gRPC", "[spill]") {
  SpillingCluster spilling;
  Client client = ConnectTo(*spilling, {.call_timeout = std::chrono::minutes(1)});
  const BytesMap map = Open<BytesMap>(client, "grpc");
  const auto value = [](int i) { return std::string(5'000'000, static_cast<char>('a' + i % 26)); };
  for (int i = 0; i < 30; ++i) RequireOk(map.Put(KeyOf(i), value(i)).status());
  for (int i = 0; i < 30; ++i) {
    grpc::ClientContext call;
    convert::PrepareCall(&call, Deadline::AfterMs(kPatienceMs), (*spilling).token());
    v1::ReadValueRequest request;
    request.set_namespace_("grpc");
    request.set_key(KeyOf(i));
    const auto reader = v1::Bulk::NewStub((*spilling).channel(0))->ReadValue(&call, request);
    std::string all;
    for (v1::ReadValueResponse part; reader->Read(&part);) all += part.data();
    RequireOk(convert::FromGrpc(reader->Finish(), "kvd"));
    REQUIRE(all == value(i));
  }
}

TEST_CASE("A chain that reads a value of several segments adds once", "[spill]") {
  SpillingCluster spilling;
  Client client = ConnectTo(*spilling, {.call_timeout = std::chrono::minutes(1)});
  const BytesMap map = Open<BytesMap>(client, "chains");
  const std::string large(5'000'000, 'x');
  RequireOk(map.Put("{c}large", large).status());
  for (int i = 0; i < 30; ++i) RequireOk(map.Put(KeyOf(i), large).status());
  // The value has left memory. The counter comes first, and must not be executed again with the
  // waiting step.
  for (int i = 1; i <= 3; ++i) {
    Chain chain;
    chain.FetchAdd("{c}counter", 1);
    chain.Get("{c}large");
    const auto result = map.Execute(chain);
    RequireOk(result.status());
    REQUIRE(map.Get("{c}large").value().bytes.size() == large.size());
    REQUIRE(map.FetchAdd("{c}counter", 0).value() == i);
    for (int each = 0; each < 30; ++each) (void)map.Get(KeyOf(each)).value();
  }
}

}  // namespace
}  // namespace tidepool::testing
