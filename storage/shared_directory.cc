#include "storage/shared_directory.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "proto/base/check.h"

namespace tidepool::storage {

SharedDirectory::SharedDirectory(CoreMemory& memory, SharedRoot* root)
    : memory_(memory), root_(nullptr) {
  if (root != nullptr) ShowIn(root);
}

SharedDirectory::~SharedDirectory() {
  for (const Chunk& chunk : chunks_) memory_.FreeChunk(chunk.offset, chunk.bytes);
}

void SharedDirectory::ShowIn(SharedRoot* root) {
  TP_CHECK(root_ == nullptr);
  root_ = root;
  entries_ = root->entries;
  room_ = SharedRoot::kEntries;
  std::fill_n(entries_, room_, 0);
  std::atomic_ref(root->directory)
      .store(directory::Make(memory_.OffsetOf(entries_), room_), std::memory_order_release);
}

bool SharedDirectory::Reserve(std::uint64_t entries) {
  if (root_ == nullptr || entries <= room_) return true;
  const std::uint64_t bytes =
      std::max(std::bit_ceil(entries * sizeof(std::uint64_t)), kChunkBytesMin);
  if (bytes > memory_.block_bytes() || entries > directory::kEntriesMax) return false;
  const std::uint64_t chunk = memory_.AllocateChunk(bytes);
  if (chunk == 0) return false;
  chunks_.push_back({chunk, bytes});
  bytes_ += bytes;
  auto* const copy = reinterpret_cast<std::uint64_t*>(memory_.At(chunk));
  std::memcpy(copy, entries_, room_ * sizeof(std::uint64_t));
  std::memset(copy + room_, 0, bytes - room_ * sizeof(std::uint64_t));
  entries_ = copy;
  room_ = std::min(bytes / sizeof(std::uint64_t), directory::kEntriesMax);
  std::atomic_ref(root_->directory).store(directory::Make(chunk, room_), std::memory_order_release);
  return true;
}

void SharedDirectory::Hide() {
  if (root_ == nullptr) return;
  std::atomic_ref(root_->directory).store(0, std::memory_order_release);
  root_ = nullptr;
}

bool SharedDirectory::Set(std::uint64_t entry, std::uint64_t node_offset) {
  if (root_ == nullptr) return true;
  if (!Reserve(entry + 1)) return false;
  std::atomic_ref(entries_[entry]).store(node_offset, std::memory_order_release);
  return true;
}

}  // namespace tidepool::storage
