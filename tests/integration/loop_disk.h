// A small ext4 in a file, behind a loop device that can be made to fail.
#pragma once

#include <cstdint>
#include <string>

namespace tidepool::testing {

// Mounted in a folder of its own on the build's disk, and gone with the object, which must outlive
// the daemons that use it. Not mounted where the test may not: it needs root and loop devices. Not
// thread-safe.
class LoopDisk {
 public:
  explicit LoopDisk(std::uint64_t bytes);
  ~LoopDisk();
  LoopDisk(const LoopDisk&) = delete;
  LoopDisk& operator=(const LoopDisk&) = delete;

  // False: end the case by TIDEPOOL_SKIP(LoopDisk::kLacks).
  static constexpr const char* kLacks = "no loop device can be mounted here (it needs root)";
  bool mounted() const { return mounted_; }
  const std::string& path() const { return mount_; }
  // From now on every read and every write beyond the disk's first `bytes` ends with EIO.
  void FailBeyond(std::uint64_t bytes);
  void Heal() { FailBeyond(0); }
  // Takes all that is free, for a file `other`.
  void Fill() const;

 private:
  bool Attach(const std::string& image);

  std::string folder_;
  std::string mount_;
  std::string device_;
  int device_file_ = -1;
  bool mounted_ = false;
};

}  // namespace tidepool::testing
