// Walks over partly lost data of a device: all readable records are seen, and the rest is counted.
#include <grpcpp/channel.h>

#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <string_view>

#include "tests/client/fault/damage_fixture.h"
#include "tidepool/v1/bulk.grpc.pb.h"

namespace tidepool::testing {
namespace {

constexpr int kDamaged = 5;

// A daemon whose device has lost the values of the keys 1 to kDamaged of the namespace "d".
template <typename Map>
void FillAndDamage(DurableCluster& cluster) {
  {
    Client client = ConnectTo(*cluster);
    PutAll(Open<Map>(client, "d", Durable()), 0);
    RequireOk(client.Persist("d"));
  }
  cluster->Kill(0);
  {
    DeviceImage image(cluster.device_file(0));
    for (int i = 1; i <= kDamaged; ++i) image.Flip(ValueAt(image, i) + 500);
  }
  cluster.StartAll();
}

TEST_CASE("An iteration sees all that can be read, and ends with what cannot") {
  DurableCluster cluster;
  FillAndDamage<BytesMap>(cluster);
  Client client = ConnectTo(*cluster);
  const BytesMap map = Open<BytesMap>(client, "d", Durable());
  std::set<std::string> seen;
  Iterator it = map.NewIterator();
  while (it.Next()) REQUIRE(seen.insert(std::string(it.record().key)).second);
  CHECK(seen.size() == kDamageKeys - kDamaged);
  CHECK(it.unreadable() == kDamaged);
  CHECK(it.status().code() == StatusCode::kDataLoss);
  CHECK(it.status().what().find("5 records of namespace 'd'") != std::string_view::npos);
  for (int i = 1; i <= kDamaged; ++i) CHECK_FALSE(seen.contains(KeyOf(i)));

  const auto stub = v1::Bulk::NewStub(cluster->channel(0));
  grpc::ClientContext call;
  cluster->Prepare(&call);
  v1::ScanRequest request;
  request.set_namespace_("d");
  const auto reader = stub->Scan(&call, request);
  v1::ScanResponse response;
  std::uint64_t records = 0;
  std::uint64_t unreadable = 0;
  while (reader->Read(&response)) {
    records += static_cast<std::uint64_t>(response.records_size());
    unreadable += response.unreadable();
  }
  REQUIRE(reader->Finish().ok());
  CHECK(records == kDamageKeys - kDamaged);
  CHECK(unreadable == kDamaged);

  // A client that knows a key repairs it.
  PutAll(map, 1, 1, kDamaged + 1);
  Iterator again = map.NewIterator();
  std::size_t count = 0;
  while (again.Next()) ++count;
  RequireOk(again.status());
  CHECK(count == kDamageKeys);
}

TEST_CASE("A scan sees all that can be read, and ends with what cannot") {
  DurableCluster cluster;
  FillAndDamage<BytesOrderedMap>(cluster);
  Client client = ConnectTo(*cluster);
  const BytesOrderedMap map = Open<BytesOrderedMap>(client, "d", Durable());
  for (const bool reverse : {false, true}) {
    ScanIterator it = map.NewScan({}, {.reverse = reverse});
    std::size_t count = 0;
    while (it.Next()) ++count;
    CHECK(count == kDamageKeys - kDamaged);
    CHECK(it.unreadable() == kDamaged);
    CHECK(it.status().code() == StatusCode::kDataLoss);
  }
  // Their keys are known, and no record is read for them.
  ScanIterator keys = map.NewScan({}, {.keys_only = true});
  std::size_t count = 0;
  while (keys.Next()) ++count;
  RequireOk(keys.status());
  CHECK(count == kDamageKeys);
  // A possible loss before all keys must be reported.
  KeyRange from;
  from.begin = KeyOf(1);
  CHECK(map.First(from).code() == StatusCode::kDataLoss);
  from.begin = KeyOf(kDamaged + 1);
  RequireOk(map.First(from).status());
}

}  // namespace
}  // namespace tidepool::testing
