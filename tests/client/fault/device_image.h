// The file of a stopped daemon's device: finds its parts, and damages them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "storage/durable/checkpoint.h"
#include "storage/durable/commit.h"
#include "storage/layout.h"
#include "storage/nvm/superblock.h"

namespace tidepool::testing {

// REQUIRES: no daemon uses the file. An absent part fails the test. Offsets are in bytes from the
// begin of the file. For nodes with one device and one core. Not thread-safe.
class DeviceImage {
 public:
  explicit DeviceImage(const std::string& path);
  ~DeviceImage();
  DeviceImage(const DeviceImage&) = delete;
  DeviceImage& operator=(const DeviceImage&) = delete;

  struct Segment {
    std::uint64_t at = 0;
    storage::SegmentHeader header;
    bool is_sealed = false;  // It has a footer.
  };
  struct Commit {
    std::uint64_t at = 0;
    storage::CommitHeader header;
  };

  const storage::Superblock& superblock() const { return superblock_; }
  const storage::DeviceLayout& layout() const { return superblock_.layout; }
  // Returns the valid superblock, or the older superblock.
  std::uint64_t SuperblockAt(bool newest) const;
  std::uint64_t CatalogAt() const { return layout().CatalogOffset(superblock_.catalog_area); }
  std::uint64_t MarkAt(bool newest) const;
  // Returns the segments of durable streams, by number: segments of records, not of large values.
  std::vector<Segment> Segments() const;
  // Returns the commits of the last incarnation with commits, by number.
  std::vector<Commit> Commits() const;
  // Where this text stands first in the bytes from `at` on; 0: nowhere.
  std::uint64_t Find(std::string_view text, std::uint64_t at, std::uint64_t bytes) const;

  std::string Read(std::uint64_t at, std::uint64_t bytes) const;
  void Write(std::uint64_t at, std::string_view bytes);
  void Flip(std::uint64_t at);  // Flips a bit of the byte at `at`.

 private:
  template <typename T>
  T Load(std::uint64_t at) const;

  int file_ = -1;
  storage::Superblock superblock_;
};

}  // namespace tidepool::testing
