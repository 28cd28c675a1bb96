// A volume on devices that fail: state after a crash at any write of start, change and stop.
#include <catch2/catch.hpp>
#include <cerrno>
#include <random>

#include "storage/device/fault_device.h"
#include "storage/nvm/volume.h"
#include "tests/storage/nvm/samples.h"

namespace tidepool::storage {
namespace {

class Node {
 public:
  Node(std::size_t devices, std::uint64_t seed) {
    options.layout = test::SmallLayout(8);  // Superblocks then differ in two sectors.
    for (std::size_t i = 0; i < devices; ++i) {
      faulty.push_back(std::make_shared<FaultDevice>(320 * 1024, seed + i));
    }
  }
  Result<std::unique_ptr<Volume>> Open() {
    ++options.incarnation;
    return Volume::OpenDevices({faulty.begin(), faulty.end()}, options);
  }
  void Crash() {
    for (const auto& device : faulty) device->Crash();
  }

  VolumeOptions options;
  std::vector<std::shared_ptr<FaultDevice>> faulty;
};

TEST_CASE("ACrashAtAnyWriteOfAStartOrStopLeavesAVolumeThatOpens") {
  const std::uint32_t first_seed = std::random_device{}();
  INFO("seed " << first_seed);
  int clean = 0;
  int unclean = 0;
  for (std::uint32_t i = 0; i < 400; ++i) {
    std::mt19937_64 random(first_seed + i);
    Node node(1 + random() % 3, random());
    std::string catalog;
    CheckpointAddress checkpoint;
    for (int life = 0; life < 5; ++life) {
      for (const auto& device : node.faulty) device->PowerOffAfterWrites(random() % 14);
      auto volume = node.Open();
      Status changed;
      bool closed = false;
      CheckpointAddress next_checkpoint = checkpoint;
      std::string next = catalog;
      if (volume.ok()) {
        next = std::string(1 + random() % 5'000, static_cast<char>('a' + life));
        changed = (*volume)->WriteCatalog(AsBytes(next));
        next_checkpoint = {random(), 1 + random() % 1'000};
        const Status updated = (*volume)->Update(
            0, [&](Superblock& superblock) { superblock.checkpoints[7][1] = next_checkpoint; });
        closed = updated.ok() && (*volume)->Close().ok();
      } else {
        REQUIRE(volume.code() == StatusCode::kDeviceError);
      }
      node.Crash();
      volume = Status(StatusCode::kCancelled, "its queues are dead");
      // A second crash at once changes nothing.
      node.Crash();
      auto again = node.Open();
      INFO(again.status().ToString());
      REQUIRE(again.ok());
      const bool found_clean = (*again)->found(0).clean_stop;
      if (closed) REQUIRE(found_clean);
      const CheckpointAddress& found = (*again)->found(0).checkpoints[7][1];
      REQUIRE((found == next_checkpoint || (!closed && found == checkpoint)));
      checkpoint = found;
      ++(found_clean ? clean : unclean);
      const auto read = (*again)->ReadCatalog();
      REQUIRE(read.ok());
      const std::string_view text = AsText(*read);
      REQUIRE((text == next || (text == catalog && !(changed.ok() && next != catalog))));
      catalog = text;
      REQUIRE((*again)->Close().ok());
    }
  }
  CHECK(clean > 100);
  CHECK(unclean > 100);
}

TEST_CASE("AfterASuperblockCouldNotBeWrittenNoneIsWritten") {
  Node node(2, 1);
  auto volume = node.Open();
  REQUIRE(volume.ok());
  node.faulty[1]->AddRule({DeviceOperation::kWriteThrough, 0, UINT64_MAX, 0, 1, EIO});
  const auto nothing = [](Superblock&) {};
  CHECK((*volume)->Update(0, nothing).ok());
  CHECK((*volume)->Update(1, nothing).code() == StatusCode::kDeviceError);
  const auto written = node.faulty[0]->counters().write_throughs;
  CHECK((*volume)->Update(0, nothing).code() == StatusCode::kDeviceError);
  CHECK((*volume)->WriteCatalog(AsBytes("x")).code() == StatusCode::kDeviceError);
  CHECK((*volume)->RememberCluster(RandomUuid()).code() == StatusCode::kDeviceError);
  CHECK((*volume)->Close().code() == StatusCode::kDeviceError);
  CHECK(node.faulty[0]->counters().write_throughs == written);
  volume = Status(StatusCode::kCancelled, "");
  auto again = node.Open();
  REQUIRE(again.ok());
  CHECK_FALSE((*again)->found(0).clean_stop);
}

TEST_CASE("AVolumeThatCannotReadOrFlushSaysSo") {
  for (const DeviceOperation operation : {DeviceOperation::kRead, DeviceOperation::kFlush}) {
    Node node(1, 1);
    REQUIRE(node.Open().ok());
    node.faulty[0]->AddRule({operation, 0, UINT64_MAX, 0, 1, EIO});
    CHECK(node.Open().code() == StatusCode::kDeviceError);
    CHECK(node.Open().ok());
  }
}

TEST_CASE("AVolumeWithoutQueuesIsRefusedAsTheDeviceSays") {
  Node node(1, 1);
  node.faulty[0]->FailOpenQueue(Status(StatusCode::kUnimplemented, "no io_uring here"));
  CHECK(node.Open().code() == StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace tidepool::storage
