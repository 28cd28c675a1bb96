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
// twice as large as its predecessor: 4 KiB for 512 pieces of 2 MiB.
// Invariants: an entry that is set never changes, in any copy. Copies are given back only at the
// end, so readers of an old copy find its content unchanged.
// only, so whoever reads an old one finds what it had.
class SharedDirectory {
 public:
  // `root` must outlive it. Null: the directory has no readers and keeps no list.
  SharedDirectory(CoreMemory& memory, SharedRoot* root);
  ~SharedDirectory();
  SharedDirectory(const SharedDirectory&) = delete;
  SharedDirectory& operator=(const SharedDirectory&) = delete;

  // For a list made before its root: nothing was set yet.
  void ShowIn(SharedRoot* root);
  // False: there is no memory, or no chunk is large enough; nothing has changed.
  bool Reserve(std::uint64_t entries);
  // Hides the list from readers, and no longer keeps it.
  void Hide();
  // Shows the memory at `node_offset`, which must be ready for readers. False: as Reserve.
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
