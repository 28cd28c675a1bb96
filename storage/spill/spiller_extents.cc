// Large values that come back: all segments of a value, before the operation that wants it runs.
#include <cstring>
#include <string>
#include <utility>

#include "proto/base/check.h"
#include "proto/base/log.h"
#include "storage/nvm/record_check.h"
#include "storage/spill/spiller.h"

namespace tidepool::storage {
namespace {

constexpr std::uint32_t kExtentReadsMax = 4;
// After this time, slow readers pin other values, or memory is too small for this value.
constexpr std::uint64_t kExtentWaitMs = 60'000;
// Blocks for the operation that wants the value, at most the blocks of an append.
constexpr std::uint64_t kThenBlocks = kOperationBlocks + 3;

}  // namespace

// Reads missing extents of the first waiting fetch, as far as memory allows. The next fetch follows
// when the first has all that it needs: it may wait for memory of the first, never the reverse.
void Spiller::StartExtents() {
  while (!returning_.empty()) {
    const std::shared_ptr<Fetching> first = returning_.front();
    if (first->room == nullptr) {
      // On a full device each block costs a slot of the last few.
      const std::uint64_t blocks = first->extents.size() + (HasSlots() ? kThenBlocks : 0);
      first->room = log_.memory().pool().Reserve(Reservation::Kind::kReturn, blocks, room_core_);
    }
    while (!first->extents.empty()) {
      if (extent_reads_ == kExtentReadsMax) return;
      const std::uint32_t segment = first->extents.back();
      std::uint64_t frame = 0;
      // It may have died, or come back for another operation.
      if (log_.segments()[segment].state == SegmentState::kSpilled) {
        frame = log_.memory().TakeReserved(*first->room);
        if (frame == 0) return;
      }
      first->extents.pop_back();
      returning_since_ms_ = 0;
      if (frame == 0) {
        EndRead(first);
        continue;
      }
      ++extent_reads_;
      const std::uint32_t taken = TakeIo();
      Io& io = ios_[taken];
      io.what = Io::What::kExtent;
      io.segment = segment;
      io.bytes = UpToBlock(log_.segments()[segment].used);
      io.frame = frame;
      io.fetching = first;
      StartIo(taken);
    }
    returning_.pop_front();
    returning_since_ms_ = 0;
  }
}

void Spiller::EndRead(const std::shared_ptr<Fetching>& fetching) {
  if (--fetching->reads_left == 0) fetched_.push_back(fetching);
}

void Spiller::FinishExtent(Io& io, int error) {
  --extent_reads_;
  counters_.read_bytes += io.bytes;
  ++counters_.reads;
  const Segment& segment = log_.segments()[io.segment];
  const bool wanted = segment.state == SegmentState::kSpilled;
  if (wanted && error == 0 &&
      IsSoundExtent(log_.memory().At(io.frame), segment.number, segment.used)) {
    log_.ReturnToMemory(io.segment, io.frame);
  } else {
    log_.memory().FreeBlock(io.frame);
    if (wanted) {
      if (counters_.failed_reads++ == 0) {
        log::Error("a large value on the device cannot be read: " +
                   (error != 0 ? std::string(std::strerror(error))
                               : "its checksum differs, what is stored there is damaged"));
      }
      AddLostExtent(*io.fetching, io.segment,
                    error != 0 ? StatusCode::kDeviceError : StatusCode::kDataLoss);
    }
  }
  EndRead(io.fetching);
  StartExtents();
}

void Spiller::AddLostExtent(Fetching& fetching, std::uint32_t segment, StatusCode code) {
  FetchedRecords::Record lost;
  lost.location = log_.segments().LocationOf(segment, 0);
  lost.code = code;
  fetching.records.Add(std::move(lost));
}

// Ends the wait for memory of the first fetch after a bound.
void Spiller::ExpireExtents(std::uint64_t now_ms) {
  const std::shared_ptr<Fetching> first = returning_.front();
  if (first->extents.empty() || extent_reads_ > 0) return;
  if (returning_since_ms_ == 0) returning_since_ms_ = now_ms;
  if (now_ms - returning_since_ms_ < kExtentWaitMs) return;
  for (const std::uint32_t segment : std::exchange(first->extents, {})) {
    AddLostExtent(*first, segment, StatusCode::kResourceExhausted);
    EndRead(first);
  }
}

}  // namespace tidepool::storage
