// A list of node offsets that other processes read: where the pieces of something are.
//
// TagIndex, SegmentTable, BlockFilter -> [SharedDirectory] -> SharedRoot (layout.h)
#pragma once

#include <cstdint>
#include <vector>

#include "storage/core_memory.h"
#include "storage/layout.h"

namespace tidepool::storage {

// Owner core only. Lies in the root while that has room, then in chunks of the core's memory, each
// twice as large as the one before: 4 KiB for 512 pieces of 2 MiB.
//
// Invariants: an entry that is set never changes, in no copy; copies are given back at the end
// only, so whoever reads an old one finds what it had.
class SharedDirectory {
 public:
  // `root` must outlive it. Null: nobody reads it, and it keeps nothing.
  SharedDirectory(CoreMemory& memory, SharedRoot* root);
  ~SharedDirectory();
  SharedDirectory(const SharedDirectory&) = delete;
  SharedDirectory& operator=(const SharedDirectory&) = delete;

  // For a list made before its root: nothing was set yet.
  void ShowIn(SharedRoot* root);
  // False: there is no memory, or no chunk is large enough; nothing has changed.
  bool Reserve(std::uint64_t entries);
  // Shown to nobody from now on, and kept no more.
  void Hide();
  // What lies at `node_offset` is to be as readers may meet it. False: as Reserve.
  bool Set(std::uint64_t entry, std::uint64_t node_offset);

  std::uint64_t bytes() const { return bytes_; }  // Of chunks.

 private:
  struct Chunk {
    std::uint64_t offset;
    std::uint64_t bytes;
  };

  CoreMemory& memory_;
  SharedRoot* root_;
  std::uint64_t* entries_ = nullptr;
  std::uint64_t room_ = 0;
  std::uint64_t bytes_ = 0;
  std::vector<Chunk> chunks_;
};

}  // namespace tidepool::storage
