#include "tests/integration/loop_disk.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

namespace tidepool::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kTriesMax = 20;

}  // namespace

LoopDisk::LoopDisk(std::uint64_t bytes) {
  std::string pattern = "loop_disk.XXXXXX";
  REQUIRE(mkdtemp(pattern.data()) != nullptr);
  folder_ = fs::absolute(pattern).string();
  mount_ = folder_ + "/mounted";
  fs::create_directory(mount_);
  const std::string image = folder_ + "/image";
  std::ofstream(image).close();
  fs::resize_file(image, bytes);
  // Without a journal, so that only the test's writes reach the disk.
  const std::string make = "(PATH=$PATH:/sbin:/usr/sbin; mkfs.ext4 -q -m 0 -O ^has_journal '" +
                           image + "') >/dev/null 2>&1";
  mounted_ = geteuid() == 0 && std::system(make.c_str()) == 0 && Attach(image) &&
             mount(device_.c_str(), mount_.c_str(), "ext4", 0, "") == 0;
}

LoopDisk::~LoopDisk() {
  if (mounted_) {
    Heal();
    umount2(mount_.c_str(), MNT_DETACH);
  }
  // The device goes with its last user: it is LO_FLAGS_AUTOCLEAR.
  if (device_file_ >= 0) close(device_file_);
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

// Other processes take loop devices too, so the free device may be gone.
bool LoopDisk::Attach(const std::string& image) {
  const int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
  const int file = open(image.c_str(), O_RDWR | O_CLOEXEC);
  loop_config config{};
  config.fd = static_cast<std::uint32_t>(file);
  config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
  for (int tries = 0; control >= 0 && file >= 0 && tries < kTriesMax; ++tries) {
    const int number = ioctl(control, LOOP_CTL_GET_FREE);
    if (number < 0) break;
    device_ = "/dev/loop" + std::to_string(number);
    device_file_ = open(device_.c_str(), O_RDWR | O_CLOEXEC);
    if (device_file_ < 0 || ioctl(device_file_, LOOP_CONFIGURE, &config) == 0) break;
    close(std::exchange(device_file_, -1));
  }
  if (control >= 0) close(control);
  if (file >= 0) close(file);
  return device_file_ >= 0;
}

void LoopDisk::FailBeyond(std::uint64_t bytes) {
  loop_info64 info{};
  REQUIRE(ioctl(device_file_, LOOP_GET_STATUS64, &info) == 0);
  info.lo_sizelimit = bytes;
  REQUIRE(ioctl(device_file_, LOOP_SET_STATUS64, &info) == 0);
}

void LoopDisk::Fill() const {
  const int other = open((mount_ + "/other").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  REQUIRE(other >= 0);
  off_t end = 0;
  for (off_t step = 64 << 20; step >= 1024;) {
    if (fallocate(other, 0, end, step) == 0) {
      end += step;
    } else {
      step /= 2;
    }
  }
  close(other);
}

}  // namespace tidepool::testing
