// The checkpointer's slots: taken, and given back in steps.
#include <algorithm>
#include <cstring>
#include <utility>

#include "proto/base/failpoint.h"
#include "storage/durable/checkpointer.h"

namespace tidepool::storage {

std::uint64_t Checkpointer::TakeSlot(MemoryClass memory_class) {
  if (failed_ != StatusCode::kOk) return kNoSlot;
  if (memory_class == MemoryClass::kUser && volume_.slots_free() <= slots_kept_) return kNoSlot;
  in_use_ = true;
  return volume_.AllocateSlot();
}

void Checkpointer::ReleaseSlot(std::uint32_t slot, std::uint64_t number) {
  if (number == 0) return volume_.FreeSlot(slot);
  released_.push_back({slot, number, sequence_ + 1, false});
}

std::uint64_t Checkpointer::OldestReleased() const {
  std::uint64_t oldest = kNoNumber;
  for (const Released& released : released_) oldest = std::min(oldest, released.number);
  for (const Io& io : ios_) {
    if (io.is_of_header()) oldest = std::min(oldest, io.number);
  }
  return oldest;
}

std::uint64_t Checkpointer::slots_released() const {
  return released_.size() +
         static_cast<std::uint64_t>(std::count_if(ios_.begin(), ios_.end(),
                                                  [](const Io& io) { return io.is_of_header(); }));
}

// Lists segments whose headers are being wiped, then the oldest that wait for it.
void Checkpointer::ListLeaving(Checkpoint* checkpoint) {
  std::size_t count = 0;
  for (const Io& io : ios_) {
    if (io.is_of_header() && io.number != kNoNumber) checkpoint->leaving[count++] = io.number;
  }
  for (const Released& released : released_) {
    if (count == checkpoint->leaving.size()) return;
    if (released.wiped || released.number == kNoNumber) continue;
    checkpoint->leaving[count++] = released.number;
    segments_.Remove(released.number);
  }
}

void Checkpointer::ReleaseSlots() {
  std::erase_if(released_, [this](const Released& released) {
    if (released.behind > cut_.checkpoint.sequence) return false;
    if (released.wiped) {
      volume_.FreeSlot(released.slot);
      return true;
    }
    // Only records name extent segments, so no checkpoint has to list them.
    if (released.number != kNoNumber && !cut_.checkpoint.IsLeaving(released.number)) return false;
    Io io;
    io.what = Io::What::kReadHeader;
    io.slot = released.slot;
    io.number = released.number;
    io.block = std::make_shared<BlockBuffer>(kDeviceBlockBytes);
    StartIo(io);
    return true;
  });
}

void Checkpointer::FinishHeader(Io io, int error) {
  if (error != 0) return Fail(error, "wipe a header");
  if (io.what == Io::What::kWipeHeader) {
    TP_FAILPOINT("slot.wiped");
    released_.push_back({io.slot, io.number, sequence_ + 1, true});
  } else if (failed_ == StatusCode::kOk) {
    std::memset(io.block->data(), 0, sizeof(SegmentHeader));
    io.what = Io::What::kWipeHeader;
    StartIo(std::move(io));
  }
}

}  // namespace tidepool::storage
