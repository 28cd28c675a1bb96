// Daemons that end, in good order or not, and their data after the return.
#include <grpcpp/channel.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/client/durable_cluster.h"
#include "tidepool/v1/cluster.pb.h"
#include "tidepool/v1/data.grpc.pb.h"

namespace tidepool::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kKeys = 2'000;

std::string KeyOf(int i) { return "key" + std::to_string(i); }
std::string ValueOf(int i, int round) {
  return std::string(static_cast<std::size_t>(20 + i % 300), static_cast<char>('a' + round)) +
         std::to_string(i);
}

void PutAll(const BytesMap& map, int round, int begin = 0, int end = kKeys) {
  std::vector<std::string> keys;
  std::vector<std::string> values;
  for (int i = begin; i < end; ++i) {
    keys.push_back(KeyOf(i));
    values.push_back(ValueOf(i, round));
  }
  std::vector<KeyValue> records;
  for (std::size_t i = 0; i < keys.size(); ++i) records.push_back({keys[i], values[i]});
  RequireOk(map.MultiPut(records).FirstFailure());
}

// How many keys have the value of this round.
int CountOf(const BytesMap& map, int round, int begin = 0, int end = kKeys) {
  int count = 0;
  for (int i = begin; i < end; ++i) {
    const auto got = map.Get(KeyOf(i));
    if (!got.ok() && got.code() != StatusCode::kNotFound) RequireOk(got.status());
    if (got.ok() && got->bytes == ValueOf(i, round)) ++count;
  }
  return count;
}

TEST_CASE("What was persisted survives a kill, and what was deleted stays so") {
  DurableCluster cluster(1, 2);
  std::uint64_t version = 0;
  {
    Client client = ConnectTo(*cluster);
    const BytesMap map = Open<BytesMap>(client, "d", Durable());
    const BytesMap fleeting = Open<BytesMap>(client, "v");
    RequireOk(fleeting.Put("x", "y").status());
    PutAll(map, 0);
    PutAll(map, 1, 0, 500);
    for (int i = 1'000; i < 1'500; ++i) RequireOk(map.Delete(KeyOf(i)));
    version = map.Get(KeyOf(1)).value().version;
    RequireOk(client.Persist("d"));
    CHECK(client.Persist("v") == StatusCode::kFailedPrecondition);
    CHECK(client.Persist("nope") == StatusCode::kNotFound);
  }
  for (int round = 0; round < 2; ++round) {
    cluster.KillAndStart(0);
    Client client = ConnectTo(*cluster);
    const BytesMap map = Open<BytesMap>(client, "d", Durable());
    CHECK(CountOf(map, 1, 0, 500) == 500);
    CHECK(CountOf(map, 0, 500, 1'000) == 500);
    CHECK(CountOf(map, 0, 1'000, 1'500) == 0);
    CHECK(CountOf(map, 0, 1'500) == 500);
    CHECK(map.Length().value() == 1'500);
    CHECK(map.Get(KeyOf(1)).value().version == version);
    CHECK(Open<BytesMap>(client, "v").Get("x").code() == StatusCode::kDataLoss);
  }
  // The daemon continues: versions grow, and new changes survive the next kill.
  {
    Client client = ConnectTo(*cluster);
    const BytesMap map = Open<BytesMap>(client, "d", Durable());
    CHECK(map.Put(KeyOf(1), ValueOf(1, 2)).value() > version);
    PutAll(map, 2, 1'000, 1'500);
    RequireOk(client.Persist("d"));
  }
  cluster.KillAndStart(0);
  Client client = ConnectTo(*cluster);
  const BytesMap map = Open<BytesMap>(client, "d", Durable());
  CHECK(CountOf(map, 2, 1, 2) == 1);
  CHECK(CountOf(map, 2, 1'000, 1'500) == 500);
  CHECK(map.Length().value() == 2'000);
}

TEST_CASE("What was persisted of a filter survives a kill, and all of it a stop") {
  DurableCluster cluster(1, 2);
  NamespaceOptions options = Durable();
  options.expected_items = 10'000;
  std::vector<std::string> texts;
  for (int i = 0; i < 3'000; ++i) texts.push_back("value" + std::to_string(i));
  const std::vector<std::string_view> values(texts.begin(), texts.end());
  const std::span<const std::string_view> first(values.data(), 2'000);
  {
    Client client = ConnectTo(*cluster);
    const auto filter = Open<BytesBloom>(client, "seen", options);
    RequireOk(filter.MultiInsert(first).FirstFailure());
    RequireOk(client.Persist("seen"));
    NamespaceOptions sync = options;
    sync.durability = Durability::kSync;
    CHECK(client.Create<BytesBloom>("no", sync).code() == StatusCode::kInvalidArgument);
  }
  cluster.KillAndStart(0);
  {
    Client client = ConnectTo(*cluster);
    const auto filter = Open<BytesBloom>(client, "seen", options);
    CHECK(filter.MultiContains(first).count() == first.size());
    RequireOk(filter.MultiInsert(values).FirstFailure());
  }
  CHECK(cluster->Terminate(0) == 0);
  cluster.StartAll();
  Client client = ConnectTo(*cluster);
  CHECK(Open<BytesBloom>(client, "seen", options).MultiContains(values).count() == values.size());
}

TEST_CASE("A daemon that stops in good order keeps everything and says so") {
  DurableCluster cluster;
  {
    Client client = ConnectTo(*cluster);
    PutAll(Open<BytesMap>(client, "d", Durable()), 0);
  }
  CHECK(cluster->Terminate(0) == 0);
  cluster.StartAll();
  Client client = ConnectTo(*cluster);
  CHECK(CountOf(Open<BytesMap>(client, "d", Durable()), 0) == kKeys);
  CHECK(Describe(*cluster, "d").namespace_().losses_size() == 0);
  const v1::NodeStatusResponse status = cluster->StatusFrom(0).nodes(0).status();
  CHECK(status.recovery().records() == kKeys);
  CHECK(status.recovery().partitions_lost() == 0);
  CHECK(status.last_durable_at_ms() > 0);
}

TEST_CASE("What a sync namespace has answered survives a kill at once, over both ways") {
  DurableCluster cluster(1, 2);
  {
    Client client = ConnectTo(*cluster);
    const BytesMap map = Open<BytesMap>(client, "s", Durable(Durability::kSync));
    PutAll(map, 0);
    for (int i = 0; i < 20; ++i) {
      RequireOk(map.Put(KeyOf(i), ValueOf(i, 1)).status());
      CHECK(map.Get(KeyOf(i)).value().bytes == ValueOf(i, 1));
    }
    RequireOk(map.Put("large", std::string(300'000, 'z')).status());
    CHECK(map.Get("large").value().bytes.size() == 300'000);
    const BytesMap fleeting = Open<BytesMap>(client, "v");
    RequireOk(fleeting.Put("x", "y").status());
    const auto stub = v1::Data::NewStub(cluster->channel(0));
    grpc::ClientContext call;
    cluster->Prepare(&call);
    v1::PutRequest put;
    put.set_namespace_("s");
    put.set_key("by grpc");
    put.set_value("v");
    v1::PutResponse answer;
    REQUIRE(stub->Put(&call, put, &answer).ok());
  }
  cluster.KillAndStart(0);
  Client client = ConnectTo(*cluster);
  const BytesMap map = Open<BytesMap>(client, "s", Durable(Durability::kSync));
  CHECK(CountOf(map, 1, 0, 20) == 20);
  CHECK(CountOf(map, 0, 20) == kKeys - 20);
  CHECK(map.Get("large").value().bytes == std::string(300'000, 'z'));
  CHECK(map.Get("by grpc").value().bytes == "v");
  CHECK(Describe(*cluster, "s").namespace_().losses_size() == 0);
}

TEST_CASE("What a kill may have taken is told until it is accepted") {
  DurableCluster cluster;
  {
    Client client = ConnectTo(*cluster);
    const BytesMap map = Open<BytesMap>(client, "d", Durable());
    PutAll(map, 0);
    RequireOk(client.Persist("d"));
    PutAll(map, 1, 0, 10);
  }
  cluster.KillAndStart(0);
  Client client = ConnectTo(*cluster);
  const BytesMap map = Open<BytesMap>(client, "d", Durable());
  CHECK(CountOf(map, 0) + CountOf(map, 1) == kKeys);  // Each key as it was at the cut.
  auto described = Describe(*cluster, "d");
  REQUIRE(described.namespace_().losses_size() == described.namespace_().partitions_size());
  CHECK_FALSE(described.namespace_().losses(0).all());
  CHECK(described.namespace_().losses(0).after_version() > 0);
  AcceptLoss(*cluster, "d");
  CHECK(Describe(*cluster, "d").namespace_().losses_size() == 0);
  CHECK(CountOf(map, 0) + CountOf(map, 1) == kKeys);
}

TEST_CASE("Of three daemons one is killed and comes back, then all") {
  DurableCluster cluster(3);
  {
    Client client = ConnectTo(*cluster);
    const BytesMap map = Open<BytesMap>(client, "d", Durable());
    PutAll(map, 0);
    RequireOk(client.Persist("d"));
  }
  const std::size_t first = cluster->coordinator_index();
  const std::size_t other = first == 0 ? 1 : 0;
  cluster->Kill(other);
  REQUIRE(cluster->WaitForNodeState(other, v1::NODE_STATE_DOWN));
  {
    Client client = ConnectTo(*cluster);
    const BytesMap map = Open<BytesMap>(client, "d", Durable());
    int here = 0;
    int away = 0;
    for (int i = 0; i < kKeys; ++i) {
      const auto got = map.Get(KeyOf(i));
      if (got.ok()) ++here;
      if (got.code() == StatusCode::kUnavailable) ++away;
    }
    CHECK(here + away == kKeys);
    CHECK(away > 0);
    CHECK(client.Persist("d") == StatusCode::kUnavailable);
  }
  cluster.Start(other);
  cluster->WaitReady();
  {
    Client client = ConnectTo(*cluster);
    CHECK(CountOf(Open<BytesMap>(client, "d", Durable()), 0) == kKeys);
  }
  for (std::size_t i = 0; i < 3; ++i) cluster->Kill(i);
  cluster.StartAll();
  Client client = ConnectTo(*cluster);
  CHECK(CountOf(Open<BytesMap>(client, "d", Durable()), 0) == kKeys);
}

TEST_CASE("A cluster that ended in good order goes on, whoever starts first") {
  DurableCluster cluster(2);
  {
    Client client = ConnectTo(*cluster);
    PutAll(Open<BytesMap>(client, "d", Durable()), 0);
  }
  const std::size_t first = cluster->coordinator_index();
  CHECK(cluster->Terminate(1 - first) == 0);
  CHECK(cluster->Terminate(first) == 0);
  // The connection file is gone too. A daemon with durable data must not begin a new cluster.
  REQUIRE_FALSE(fs::exists(cluster->file()));
  cluster.Start(1 - first);
  cluster.Start(first);
  cluster->WaitReady();
  Client client = ConnectTo(*cluster);
  CHECK(CountOf(Open<BytesMap>(client, "d", Durable()), 0) == kKeys);
}

TEST_CASE("Of a dropped namespace nothing comes back") {
  DurableCluster cluster;
  {
    Client client = ConnectTo(*cluster);
    const BytesMap map = Open<BytesMap>(client, "d", Durable());
    PutAll(map, 0);
    RequireOk(client.Persist("d"));
    RequireOk(client.Drop("d"));
    RequireOk(Open<BytesMap>(client, "d", Durable()).Put(KeyOf(1), ValueOf(1, 1)).status());
    RequireOk(client.Persist("d"));
  }
  cluster.KillAndStart(0);
  Client client = ConnectTo(*cluster);
  const BytesMap map = Open<BytesMap>(client, "d", Durable());
  CHECK(map.Length().value() == 1);
  CHECK(CountOf(map, 1, 1, 2) == 1);
}

TEST_CASE("A device that is gone is a loss, which can be accepted") {
  DurableCluster cluster;
  {
    Client client = ConnectTo(*cluster);
    PutAll(Open<BytesMap>(client, "d", Durable()), 0);
    RequireOk(client.Persist("d"));
  }
  cluster->Kill(0);
  fs::remove(cluster.device_file(0));
  cluster.StartAll();
  {
    Client client = ConnectTo(*cluster);
    CHECK(Open<BytesMap>(client, "d", Durable()).Get(KeyOf(1)).code() == StatusCode::kDataLoss);
  }
  CHECK(Describe(*cluster, "d").namespace_().losses(0).all());
  AcceptLoss(*cluster, "d");
  {
    Client client = ConnectTo(*cluster);
    const BytesMap map = Open<BytesMap>(client, "d", Durable());
    CHECK(map.Get(KeyOf(1)).code() == StatusCode::kNotFound);
    RequireOk(map.Put(KeyOf(1), ValueOf(1, 1)).status());
    RequireOk(client.Persist("d"));
  }
  cluster.KillAndStart(0);
  Client again = ConnectTo(*cluster);
  CHECK(CountOf(Open<BytesMap>(again, "d", Durable()), 1, 1, 2) == 1);
}

TEST_CASE("Devices that are not this node's newest are refused") {
  DurableCluster cluster;
  {
    Client client = ConnectTo(*cluster);
    RequireOk(Open<BytesMap>(client, "d", Durable()).Put("k", "v").status());
    RequireOk(client.Persist("d"));
  }
  CHECK(cluster->Terminate(0) == 0);
  const std::string kept = cluster.path() + "/kept";

  SECTION("none at all") {
    cluster->Start(0);
    CHECK(cluster->process(0).Wait() == 1);
    CHECK(cluster->Log(0).find("--nvm-dir as before") != std::string::npos);
  }
  SECTION("the original, once a copy of it has served") {
    fs::copy(cluster.device_folder(0), kept, fs::copy_options::recursive);
    cluster->Start(0, {"--nvm-dir=" + kept});
    cluster->WaitReady();
    {
      Client client = ConnectTo(*cluster);
      CHECK(Open<BytesMap>(client, "d", Durable()).Get("k").ok());
    }
    CHECK(cluster->Log(0).find("a device was moved") != std::string::npos);
    CHECK(cluster->Terminate(0) == 0);
    CHECK(cluster.Refused(0).find("has used it since") != std::string::npos);
  }
  SECTION("an older state of the file") {
    fs::copy_file(cluster.device_file(0), kept);
    cluster.StartAll();
    {
      Client client = ConnectTo(*cluster);
      RequireOk(Open<BytesMap>(client, "d", Durable()).Delete("k"));
      RequireOk(client.Persist("d"));
    }
    CHECK(cluster->Terminate(0) == 0);
    fs::copy_file(kept, cluster.device_file(0), fs::copy_options::overwrite_existing);
    CHECK(cluster.Refused(0).find("has used it since") != std::string::npos);
    // Nor does the refusal make it newer.
    CHECK(cluster.Refused(0).find("has used it since") != std::string::npos);
  }
  SECTION("with another cluster's state") {
    fs::remove_all(cluster->data_folder(0));
    CHECK(cluster.Refused(0).find("belongs to node") != std::string::npos);
  }
}

}  // namespace
}  // namespace tidepool::testing
