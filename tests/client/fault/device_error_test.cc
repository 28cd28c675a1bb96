// Real daemons on a disk that fails or is full. Acknowledged durable data is durable, further
// changes are refused, and memory continues to serve.
#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <thread>

#include "tests/client/fault/damage_fixture.h"
#include "tests/integration/loop_disk.h"
#include "tests/support/skip.h"
#include "tidepool/v1/cluster.pb.h"

namespace tidepool::testing {
namespace {

constexpr std::uint64_t kDiskBytes = std::uint64_t{400} << 20;
constexpr std::uint64_t kAll = 1 << 20;  // The part of the disk that the device does not use.
constexpr int kKeys = 1'000;

TEST_CASE("When a device fails nothing is acknowledged any more, and what is in memory is read") {
  LoopDisk disk(kDiskBytes);
  if (!disk.mounted()) TIDEPOOL_SKIP(LoopDisk::kLacks);
  DurableCluster cluster(1, 1, disk.path());
  {
    Client client = ConnectTo(*cluster);
    const BytesMap sync = Open<BytesMap>(client, "s", Durable(Durability::kSync));
    const BytesMap async = Open<BytesMap>(client, "a", Durable());
    const BytesMap fleeting = Open<BytesMap>(client, "v");
    PutAll(sync, 0, 0, kKeys);
    PutAll(async, 0, 0, kKeys);
    RequireOk(client.Persist("a"));
    PutAll(fleeting, 0, 0, 100);
    disk.FailBeyond(kAll);
    // It was sent and may be there. The other changes are surely absent.
    CHECK(sync.Put(KeyOf(0), ValueOf(0, 1)).code() == StatusCode::kUnknown);
    for (int i = 1; i < 20; ++i) {
      CHECK(sync.Put(KeyOf(i), ValueOf(i, 1)).code() == StatusCode::kDeviceError);
      CHECK(async.Put(KeyOf(i), ValueOf(i, 1)).code() == StatusCode::kDeviceError);
      CHECK(sync.Delete(KeyOf(i)).code() == StatusCode::kDeviceError);
    }
    CHECK(client.Persist("a") == StatusCode::kDeviceError);
    CHECK(Count(sync, 0, 1, kKeys) == Tally{.right = kKeys - 1});
    CHECK(Count(async, 0, 0, kKeys) == Tally{.right = kKeys});
    PutAll(fleeting, 1, 0, 100);
    CHECK(Count(fleeting, 1, 0, 100) == Tally{.right = 100});
    // A new client finds equal data.
    Client other = ConnectTo(*cluster);
    CHECK(Count(Open<BytesMap>(other, "s", Durable(Durability::kSync)), 0, 1, 10) ==
          Tally{.right = 9});
    CHECK(Open<BytesMap>(other, "new", Durable()).Put("k", "v").code() == StatusCode::kDeviceError);
    CHECK(cluster->StatusFrom(0).nodes(0).status().devices_failed());
  }
  const bool in_good_order = GENERATE(true, false);
  if (in_good_order) {
    CHECK(cluster->Terminate(0) == 0);
  } else {
    cluster->Kill(0);
  }
  disk.Heal();
  cluster.StartAll();
  Client client = ConnectTo(*cluster);
  const BytesMap sync = Open<BytesMap>(client, "s", Durable(Durability::kSync));
  CHECK(Count(sync, 0, 1, kKeys) == Tally{.right = kKeys - 1});
  const std::string unknown = sync.Get(KeyOf(0)).value().bytes;
  CHECK((unknown == ValueOf(0) || unknown == ValueOf(0, 1)));
  CHECK(Count(Open<BytesMap>(client, "a", Durable()), 0, 0, kKeys) == Tally{.right = kKeys});
  PutAll(sync, 2, 0, 20);
  CHECK(Count(sync, 2, 0, 20) == Tally{.right = 20});
}

TEST_CASE("What was acknowledged before a device failed under load is there when it is healed") {
  LoopDisk disk(kDiskBytes);
  if (!disk.mounted()) TIDEPOOL_SKIP(LoopDisk::kLacks);
  DurableCluster cluster(1, 2, disk.path());
  std::atomic<int> acknowledged = 0;
  StatusCode ended = StatusCode::kOk;
  {
    Client client = ConnectTo(*cluster);
    const BytesMap sync = Open<BytesMap>(client, "s", Durable(Durability::kSync));
    std::thread writer([&] {
      while (ended == StatusCode::kOk) {
        const int i = acknowledged.load();
        ended = sync.Put(KeyOf(i), ValueOf(i)).code();
        if (ended == StatusCode::kOk) ++acknowledged;
      }
    });
    const bool has_begun = WaitUntil([&] { return acknowledged >= 300; });
    disk.FailBeyond(kAll);
    writer.join();
    CHECK(has_begun);
    CHECK((ended == StatusCode::kUnknown || ended == StatusCode::kDeviceError));
  }
  cluster->Kill(0);
  disk.Heal();
  cluster.StartAll();
  Client client = ConnectTo(*cluster);
  const int count = acknowledged;
  CHECK(Count(Open<BytesMap>(client, "s", Durable(Durability::kSync)), 0, 0, count) ==
        Tally{.right = count});
}

TEST_CASE("What a device does not give back for a while is read again when it does") {
  LoopDisk disk(kDiskBytes);
  if (!disk.mounted()) TIDEPOOL_SKIP(LoopDisk::kLacks);
  DurableCluster cluster(1, 1, disk.path());
  {
    Client client = ConnectTo(*cluster);
    PutAll(Open<BytesMap>(client, "d", Durable()), 0, 0, kKeys);
    RequireOk(client.Persist("d"));
  }
  cluster.KillAndStart(0);  // Nothing of it is in memory now.
  Client client = ConnectTo(*cluster);
  const BytesMap map = Open<BytesMap>(client, "d", Durable());
  disk.FailBeyond(kAll);
  for (int i = 0; i < 100; ++i) CHECK(map.Get(KeyOf(i)).code() == StatusCode::kDeviceError);
  CHECK(map.Get("none").code() == StatusCode::kNotFound);
  disk.Heal();
  CHECK(Count(map, 0, 0, kKeys) == Tally{.right = kKeys});
}

TEST_CASE("A device that cannot be read is refused, and is none the worse for it") {
  LoopDisk disk(kDiskBytes);
  if (!disk.mounted()) TIDEPOOL_SKIP(LoopDisk::kLacks);
  DurableCluster cluster(1, 1, disk.path());
  {
    Client client = ConnectTo(*cluster);
    PutAll(Open<BytesMap>(client, "d", Durable()), 0, 0, kKeys);
  }
  CHECK(cluster->Terminate(0) == 0);
  const std::string says =
      GENERATE(as<std::string>{}, "failed to read", "the headers of its segments cannot be read");
  Checked checked;
  // From zero to a size that includes all regions before the segments.
  for (std::uint64_t readable = kAll; !checked.Says(says); readable += 1 << 20) {
    REQUIRE(readable < kDiskBytes / 4);
    disk.FailBeyond(readable);
    checked = CheckDevice(cluster);
  }
  INFO(checked.text);
  CHECK(checked.code == 1);
  const std::string refused = cluster.Refused(0);
  INFO(refused);
  CHECK(refused.find(says) != std::string::npos);
  CHECK(refused.find(" (") != std::string::npos);  // The remedy.
  CHECK(refused.find('\n') == refused.size() - 1);
  disk.Heal();
  cluster.StartAll();
  Client client = ConnectTo(*cluster);
  CHECK(Count(Open<BytesMap>(client, "d", Durable()), 0, 0, kKeys) == Tally{.right = kKeys});
}

// Its space is its own from the beginning.
TEST_CASE("A device goes on where its file system is full") {
  LoopDisk disk(kDiskBytes);
  if (!disk.mounted()) TIDEPOOL_SKIP(LoopDisk::kLacks);
  DurableCluster cluster(1, 1, disk.path());
  disk.Fill();
  {
    Client client = ConnectTo(*cluster);
    const BytesMap sync = Open<BytesMap>(client, "s", Durable(Durability::kSync));
    PutAll(Open<BytesMap>(client, "d", Durable()), 0);
    PutAll(sync, 0, 0, 100);
    // Volatile data, more than memory.
    const BytesMap fleeting = Open<BytesMap>(client, "v");
    const std::string value(64 * 1024, 'v');
    for (int i = 0; i < 1'500; ++i) RequireOk(fleeting.Put(KeyOf(i), value).status());
    for (int i = 0; i < 1'500; ++i) REQUIRE(fleeting.Get(KeyOf(i)).value().bytes == value);
    RequireOk(client.Persist("d"));
  }
  cluster.KillAndStart(0);
  Client client = ConnectTo(*cluster);
  CHECK(Count(Open<BytesMap>(client, "d", Durable()), 0) == Tally{.right = kDamageKeys});
  CHECK(Count(Open<BytesMap>(client, "s", Durable(Durability::kSync)), 0, 0, 100) ==
        Tally{.right = 100});
}

}  // namespace
}  // namespace tidepool::testing
