// Runs without PMEM2_FORCE_GRANULARITY, on a disk: the other half of dax_device_test.
#include "storage/device/open_device.h"

#include <fcntl.h>
#include <unistd.h>

#include "storage/device/dax_device.h"
#include "tests/storage/device/temporary_folder.h"

namespace tidepool::storage {
namespace {

TEST_CASE("ADiskIsNoPersistentMemory") {
  const test::TemporaryFolder folder;
  const std::string path = folder / "device";
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  REQUIRE(file >= 0);
  REQUIRE(fallocate(file, 0, 0, 1 << 20) == 0);
  close(file);
  CHECK(DaxDevice::Open(path, 1 << 20).code() == StatusCode::kUnimplemented);
  const auto device = OpenDevice(path, 1 << 20);
  REQUIRE(device.ok());
  CHECK((*device)->medium() == DeviceMedium::kFile);
}

TEST_CASE("AMissingFileIsRefusedWhateverTheMedium") {
  const test::TemporaryFolder folder;
  CHECK(OpenDevice(folder / "missing", 1 << 20).code() == StatusCode::kNotFound);
}

}  // namespace
}  // namespace tidepool::storage
