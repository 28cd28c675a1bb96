// Runs with PMEM2_FORCE_GRANULARITY=CACHE_LINE (ctest sets it): PMDK then takes any file for a file
// on persistent memory. It shows the code's paths, not their durability.
#include "storage/device/dax_device.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "storage/device/open_device.h"
#include "tests/storage/device/device_model.h"
#include "tests/storage/device/temporary_folder.h"

namespace tidepool::storage {
namespace {

constexpr std::uint64_t kBytes = 4 << 20;

std::string MakeFile(const test::TemporaryFolder& folder) {
  const std::string path = folder / "device";
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  REQUIRE(file >= 0);
  REQUIRE(fallocate(file, 0, 0, kBytes) == 0);
  close(file);
  return path;
}

std::unique_ptr<Device> OpenForced(const std::string& path) {
  INFO("run with PMEM2_FORCE_GRANULARITY=CACHE_LINE");
  REQUIRE(getenv("PMEM2_FORCE_GRANULARITY") != nullptr);
  auto device = OpenDevice(path, kBytes);
  INFO(device.status().ToString());
  REQUIRE(device.ok());
  return *std::move(device);
}

TEST_CASE("WhereCacheLinesPersistTheDeviceIsMapped") {
  const test::TemporaryFolder folder;
  const auto device = OpenForced(MakeFile(folder));
  CHECK(device->medium() == DeviceMedium::kDax);
  CHECK(device->bytes() == kBytes);
  CHECK(device->description() == (folder / "device") + " (dax, libpmem2, by cache line)");
  REQUIRE(device->mapping() != nullptr);
}

TEST_CASE("DaxDeviceHoldsWhatRandomTrafficWrote") {
  const test::TemporaryFolder folder;
  const auto device = OpenForced(MakeFile(folder));
  const std::uint32_t seed = std::random_device{}();
  test::CheckAgainstModel(*device, 1, 500, seed);
  test::CheckAgainstModel(*device, 64, 3'000, seed + 1);
}

TEST_CASE("LoadsFromTheMappingSeeWhatWasWritten") {
  const test::TemporaryFolder folder;
  const auto device = OpenForced(MakeFile(folder));
  auto queue = device->OpenQueue(2);
  REQUIRE(queue.ok());
  CHECK((*queue)->descriptor() == -1);
  BlockBuffer block(kDeviceBlockBytes);
  block.data()[100] = std::byte{9};
  REQUIRE(WriteBlocks(queue->get(), 8192, block.bytes()).ok());
  CHECK(device->mapping()[8192 + 100] == std::byte{9});
}

TEST_CASE("SubmitOfADaxQueueCompletesWhatItIsTold") {
  const test::TemporaryFolder folder;
  const auto device = OpenForced(MakeFile(folder));
  auto queue = device->OpenQueue(4);
  REQUIRE(queue.ok());
  BlockBuffer block(kDeviceBlockBytes);
  for (std::uint64_t tag = 0; tag < 4; ++tag) {
    REQUIRE((*queue)->Start({DeviceOperation::kRead, 0, block.data(), 4096, tag}));
  }
  CHECK_FALSE((*queue)->Start({DeviceOperation::kRead, 0, block.data(), 4096, 9}));
  CHECK((*queue)->Submit(3));
  std::vector<std::uint64_t> tags;
  const auto done = [&tags](const DeviceCompletion& each) { tags.push_back(each.tag); };
  CHECK((*queue)->Reap(done) == 3);
  CHECK(tags == std::vector<std::uint64_t>{0, 1, 2});
  CHECK((*queue)->in_flight() == 1);
  CHECK_FALSE((*queue)->Submit(3));
  CHECK((*queue)->Reap(done) == 1);
}

TEST_CASE("WhatIsNoFileIsRefusedByADaxDevice") {
  const test::TemporaryFolder folder;
  CHECK(DaxDevice::Open(folder / "missing", kBytes).code() == StatusCode::kNotFound);
  CHECK(DaxDevice::Open(MakeFile(folder), 2 * kBytes).code() == StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace tidepool::storage
