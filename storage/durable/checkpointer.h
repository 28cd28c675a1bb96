// Makes the durable streams of one core durable: writes their segments, and checkpoints.
//
//   CoreStore -> [Checkpointer] -> Log, DeviceQueue
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "proto/base/result.h"
#include "storage/device/device_io.h"
#include "storage/durable/checkpoint.h"
#include "storage/durable/checkpoint_source.h"
#include "storage/durable/commit_ring.h"
#include "storage/durable/footer.h"
#include "storage/log.h"
#include "storage/nvm/volume.h"

namespace tidepool::storage {

struct CheckpointCounters {
  std::uint64_t begun = 0;
  std::uint64_t checkpoints = 0;    // Durable ones.
  std::uint64_t written_bytes = 0;  // Of segments.
};

// Owner core only. Never waits for a device, but in FinishCheckpoint.
//
// A segment has its slot from its beginning. It is written when it is sealed; what an open one has
// is written at a checkpoint, which pads it to a whole block, so that no block is written twice.
// One of an extent is written when it is published. With a sealed one of records goes its footer.
//
// A checkpoint: all that the durable streams have at one moment is written, flushed, and then said
// to be there in the one of two blocks that does not hold the last checkpoint. It is begun in Slice
// once per interval if something has changed.
//
// 1. A slot that the device has something of is given back in two steps. Behind a checkpoint that
// was
//    begun after its segment was gone, and not before, as recovery may need what it holds, its
//    header is wiped; behind the next one it is free. So a sound header always means a segment that
//    is whole: what the next one leaves of it when it is torn could not be told from damage. A
//    checkpoint says which headers go behind it, and which segments must be there: one that is
//    missing was lost.
// 2. What stands outside of the log (CheckpointSource) is put there first, in slices: a checkpoint
// has of that
//    what there was when this was begun, and more. It is not begun more often than 256 MiB/s of it
//    allow, unless somebody waits for it.
// 3. After a write or a flush has failed nothing more becomes durable, and nothing new goes to
//    durable streams: what the device has is the last checkpoint.
class Checkpointer final : public DurableTarget {
 public:
  // All must outlive it.
  Checkpointer(Log& log, Volume& volume, CommitRing& ring, CheckpointSource& source, CoreId core,
               std::uint64_t interval_ms);
  ~Checkpointer() override;
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  // Errors: those of Device::OpenQueue.
  Status Open();

  // As Spiller's.
  unsigned Poll();
  bool Submit();
  const DeviceQueues& queues() const { return queues_; }
  // Checksums, writes, and checkpoints that are due, until `done()`. True: more to do now.
  bool Slice(std::uint64_t now_ms, absl::FunctionRef<bool()> done);

  // Forces a checkpoint. `done` is called from Poll, when what there is now is durable, or with the
  // error that ended all checkpoints: kDeviceError. `is_last`: little comes behind it, so segments
  // that are open end with it, and have footers.
  using Done = std::function<void(Status)>;
  void Persist(Done done, bool is_last = false);
  // The same at once, for start: waits for the devices. Errors: kDeviceError.
  Status FinishCheckpoint(std::uint64_t now_ms);

  // Before anything else: goes on behind `last`, the checkpoint that counts, which lies in this one
  // of the core's two blocks. `segments`: numbers of those of records that count and are there.
  void GoOn(const Checkpoint& last, std::uint64_t block, std::span<const std::uint64_t> segments);

  // A write elsewhere has failed: as if it had been one of here.
  void Fail(int error, const char* what);

  // Slots whose segments are gone, and that are not free yet.
  std::uint64_t slots_released() const;
  std::uint64_t last_durable_at_ms() const { return durable_at_ms_; }
  // Other than kOk: kDeviceError.
  StatusCode failed() const { return failed_; }
  const CheckpointCounters& counters() const { return counters_; }

  // DurableTarget
  std::uint64_t TakeSlot(MemoryClass memory_class) override;
  void NoteSealed(std::uint32_t segment) override;
  void ReleaseSlot(std::uint32_t slot, std::uint64_t number) override;
  std::uint64_t OldestReleased() const override;
  bool IsWriting() const override { return failed_ == StatusCode::kOk && unwritten_ > 0; }
  std::uint64_t SlotsWanted() const override {
    return in_use_ && failed_ == StatusCode::kOk ? 2 * slots_kept_ : 0;
  }
  bool IsReleasing() const override { return slots_released() > 0; }

 private:
  // A part of a segment that goes to the device in one write. The segment is pinned.
  struct Piece {
    std::uint32_t segment = 0;
    std::uint32_t from = 0;  // Whole blocks, or the segment's beginning.
    std::uint32_t to = 0;
    std::uint32_t at = 0;  // Its records have their checksums up to here.
    bool in_cut = false;   // The checkpoint under way waits for it.
    bool sealed = false;   // The segment's last.
    // Of a sealed segment of records: its footer has those up to here.
    std::uint32_t footer_at = sizeof(SegmentHeader);
    std::optional<FooterWriter> footer;
  };
  struct Io {
    enum class What : std::uint8_t { kFree, kPiece, kFlush, kMark, kReadHeader, kWipeHeader };
    What what = What::kFree;
    Piece piece;
    // kReadHeader, kWipeHeader: of this slot the first block, of which nothing but the header may
    // change: half a write must leave the segment whole, or no segment.
    std::uint32_t slot = 0;
    std::uint64_t number = 0;  // Of the segment that was there.
    std::shared_ptr<BlockBuffer> block;
    std::size_t device = 0;
    bool is_of_header() const { return what == What::kReadHeader || what == What::kWipeHeader; }
  };
  enum class Step : std::uint8_t { kNone, kWriting, kFlushing, kCheckpointing };
  struct SealedSegment {
    std::uint32_t segment = 0;
    std::uint64_t number = 0;
  };
  struct Cut {
    Step step = Step::kNone;
    Checkpoint checkpoint;
    std::uint64_t left = 0;  // Requests that the step waits for.
    std::vector<SealedSegment> sealed;
    std::vector<Done> done;
  };
  struct Released {
    std::uint32_t slot = 0;
    std::uint64_t number = 0;  // Of the segment that was there.
    std::uint64_t behind = 0;  // The checkpoint that must be durable first.
    bool wiped = false;
  };

  bool IsDue(std::uint64_t now_ms) const;
  bool HasChanged() const;
  bool SaveOn(std::uint64_t now_ms, absl::FunctionRef<bool()> done);
  void Begin(std::uint64_t at_ms);
  void AddPiece(std::uint32_t segment, std::uint32_t to, bool sealed);
  bool ChecksumOn(Piece& piece, absl::FunctionRef<bool()> done);
  bool WriteFooterOn(Piece& piece, absl::FunctionRef<bool()> done);
  void Advance();
  void StartIo(Io io);
  void Start(std::uint32_t index);
  void Finish(const DeviceCompletion& completion);
  void FinishPiece(const Piece& piece, int error);
  void FinishHeader(Io io, int error);
  void FinishCut();
  void ListLeaving(Checkpoint* checkpoint);
  void ReleaseSlots();

  Log& log_;
  Volume& volume_;
  CommitRing& ring_;
  CheckpointSource& source_;
  const CoreId core_;
  const std::uint64_t interval_ms_;
  const std::uint64_t slots_kept_;
  DeviceQueues queues_;
  std::vector<Io> ios_;
  std::vector<std::uint32_t> free_ios_;
  std::deque<std::uint32_t> waiting_;  // For a place in their queue.
  BlockBuffer checkpoint_block_{kDeviceBlockBytes};

  std::deque<Piece> pieces_;           // To be written; the first is getting its checksums.
  std::uint32_t writes_ = 0;           // Of pieces, under way.
  std::uint32_t unwritten_ = 0;        // Sealed segments that are not on the device yet.
  std::vector<SealedSegment> sealed_;  // Since the last cut.
  std::vector<Released> released_;
  // Sealed ones of records on the device, or on their way there, without those that leave.
  SegmentSet segments_;
  // What stands outside of the log is on its way there, for the checkpoint that is about to be
  // begun.
  struct Saving {
    bool under_way = false;
    std::uint64_t since_ms = 0;
    std::uint64_t bytes = 0;
    std::vector<Done> done;
  };
  Saving saving_;
  std::vector<Done> persist_;  // Wait for the next cut.
  bool is_last_ = false;
  std::vector<std::pair<Done, Status>> to_call_;
  Cut cut_;
  // Of the checkpoint that was begun last. Greater than all of earlier incarnations from the
  // beginning.
  std::uint64_t sequence_;
  std::uint64_t block_ = 0;  // That the next checkpoint goes to.
  std::uint64_t first_;
  bool in_use_ = false;  // Something durable was written, or found.
  std::uint64_t began_at_ms_ = 0;
  bool was_whole_ = true;  // The checkpoint that was begun last had all that it was to have.
  std::uint64_t next_after_ms_ = 0;  // The next one that nobody forces.
  std::uint64_t durable_at_ms_ = 0;
  StatusCode failed_ = StatusCode::kOk;
  Status failure_;
  CheckpointCounters counters_;
};

}  // namespace tidepool::storage
