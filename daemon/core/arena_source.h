// The node's memory that clients may read.
//
//   transport (rings, RDMA) -> [ArenaSource] -> storage/arena
#pragma once

#include <bit>
#include <cstdint>

#include "proto/transport/transport.h"
#include "storage/arena.h"

namespace tidepool::daemon {

// Thread-safe. `pool` must outlive it.
class ArenaSource final : public transport::NodeMemorySource {
 public:
  explicit ArenaSource(const storage::ArenaPool& pool) : pool_(pool) {}
  bool Find(std::uint64_t offset, transport::NodeMemory* memory) const override {
    const storage::ArenaPool::Shown shown = pool_.Show(offset);
    if (shown.descriptor < 0) return false;
    const auto block_shift = static_cast<std::uint32_t>(std::countr_zero(pool_.block_bytes()));
    *memory = {shown.descriptor,    shown.begin,         shown.bytes,
               shown.touched_bytes, pool_.range_bytes(), block_shift};
    return true;
  }

 private:
  const storage::ArenaPool& pool_;
};

}  // namespace tidepool::daemon
