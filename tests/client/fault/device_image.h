// The file of a stopped daemon's device: finds what lies in it, and damages it.
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

// No daemon may use the file meanwhile. What is missing fails the test. Offsets are in bytes, from
// the file's beginning. Of nodes with one device and one core. Not thread-safe.
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
  // Of the two the one that counts, or the other.
  std::uint64_t SuperblockAt(bool newest) const;
  std::uint64_t CatalogAt() const { return layout().CatalogOffset(superblock_.catalog_area); }
  std::uint64_t MarkAt(bool newest) const;
  // Of durable streams, by number: of records, not of large values.
  std::vector<Segment> Segments() const;
  // Those of the last incarnation that has any, by number.
  std::vector<Commit> Commits() const;
  // Where this text stands first in the bytes from `at` on; 0: nowhere.
  std::uint64_t Find(std::string_view text, std::uint64_t at, std::uint64_t bytes) const;

  std::string Read(std::uint64_t at, std::uint64_t bytes) const;
  void Write(std::uint64_t at, std::string_view bytes);
  void Flip(std::uint64_t at);  // One bit of the byte there.

 private:
  template <typename T>
  T Load(std::uint64_t at) const;

  int file_ = -1;
  storage::Superblock superblock_;
};

}  // namespace tidepool::testing
