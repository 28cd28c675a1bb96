// Makes the durable streams of a core durable: writes segments and checkpoints.
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
  std::uint64_t checkpoints = 0;    // Checkpoints that became durable.
  std::uint64_t written_bytes = 0;  // Segment bytes.
};

// Owner core only. Only FinishCheckpoint waits for a device.
//
// A segment has its slot from its beginning. A sealed segment is written at once, together with its
// footer if it holds records. An extent segment is written when it is published. Checkpoints write
// the content of open segments, padded to a whole block, so that no block is written twice.
//
// A checkpoint covers the content of the durable streams at one moment. All of it is written and
// flushed. Then the block that does not hold the last checkpoint records it. Slice begins a
// checkpoint once per interval if the streams have changed.
//
// 1. A slot with content on the device is freed in two steps. Its header is wiped behind a
//    checkpoint that was begun after the segment was dropped. Before that, recovery may need the
//    content. The slot is free behind the next checkpoint. A sound header therefore always means a
//    whole segment. Otherwise remains of an earlier segment below a torn new write would look like
//    damage. A checkpoint lists the headers that are wiped behind it, and the segments that must be
//    present: a missing segment was lost.
// 2. State outside of the log (CheckpointSource) is appended to the log first, in slices. The
//    checkpoint contains at least the state at the start of the saving. Saved state bounds the rate
//    of checkpoints to 256 MiB/s, unless a caller waits for a checkpoint.
// 3. After a failed write or flush nothing more becomes durable, and durable streams accept no new
//    data: the device keeps the last checkpoint.
class Checkpointer final : public DurableTarget {
 public:
  // All must outlive it.
  Checkpointer(Log& log, Volume& volume, CommitRing& ring, CheckpointSource& source, CoreId core,
               std::uint64_t interval_ms);
  ~Checkpointer() override;
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  // Opens a queue on each device. Errors: as Device::OpenQueue.
  Status Open();

  // As Poll and Submit of Spiller.
  unsigned Poll();
  bool Submit();
  const DeviceQueues& queues() const { return queues_; }
  // Computes checksums, writes, and makes due checkpoints, until `done()`. True: more to do now.
  bool Slice(std::uint64_t now_ms, absl::FunctionRef<bool()> done);

  // Forces a checkpoint. Poll calls `done` when the present state is durable, or with the error
  // that ended all checkpoints: kDeviceError. `is_last`: few writes follow, so open segments are
  // sealed and get footers.
  using Done = std::function<void(Status)>;
  void Persist(Done done, bool is_last = false);
  // Makes a checkpoint and waits for the devices; for the start. Errors: kDeviceError.
  Status FinishCheckpoint(std::uint64_t now_ms);

  // Continues behind `last`, the checkpoint that counts, which lies in block `block` of the core's
  // two. Call it first. `segments`: numbers of the present record segments that count.
  void GoOn(const Checkpoint& last, std::uint64_t block, std::span<const std::uint64_t> segments);

  // Records a write that failed elsewhere, with the effects of a failed write of this class.
  void Fail(int error, const char* what);

  // Returns the number of slots whose segments are gone and that are not free yet.
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
  // Part of a segment that goes to the device in one write. The segment is pinned.
  struct Piece {
    std::uint32_t segment = 0;
    std::uint32_t from = 0;  // Whole blocks, or the segment's beginning.
    std::uint32_t to = 0;
    std::uint32_t at = 0;  // Checksums are filled in up to here.
    bool in_cut = false;   // The checkpoint under way waits for it.
    bool sealed = false;   // Last piece of its segment.
    // Record segments, sealed: the footer has the records up to here.
    std::uint32_t footer_at = sizeof(SegmentHeader);
    std::optional<FooterWriter> footer;
  };
  struct Io {
    enum class What : std::uint8_t { kFree, kPiece, kFlush, kMark, kReadHeader, kWipeHeader };
    What what = What::kFree;
    Piece piece;
    // kReadHeader, kWipeHeader: first block of the slot. Only the header may change: half a write
    // must leave the whole segment, or no segment.
    std::uint32_t slot = 0;
    std::uint64_t number = 0;  // Number of the segment that was in the slot.
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
    std::uint64_t number = 0;  // Number of the segment that was in the slot.
    std::uint64_t behind = 0;  // Sequence of the checkpoint that must be durable first.
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

  std::deque<Piece> pieces_;           // To be written; the first piece is getting its checksums.
  std::uint32_t writes_ = 0;           // Pieces under way.
  std::uint32_t unwritten_ = 0;        // Sealed segments that are not on the device yet.
  std::vector<SealedSegment> sealed_;  // Since the last cut.
  std::vector<Released> released_;
  // Sealed record segments on the device, or on their way there, without leaving segments.
  SegmentSet segments_;
  // Saving of state outside of the log is under way, for the checkpoint that is about to be
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
  // Sequence of the checkpoint that was begun last. From its initial value on it exceeds all
  // sequences of earlier incarnations.
  std::uint64_t sequence_;
  std::uint64_t block_ = 0;  // Block of the next checkpoint.
  std::uint64_t first_;
  bool in_use_ = false;  // Durable data was written, or found.
  std::uint64_t began_at_ms_ = 0;
  bool was_whole_ = true;            // The checkpoint that was begun last contained all it should.
  std::uint64_t next_after_ms_ = 0;  // Interval until the next unforced checkpoint.
  std::uint64_t durable_at_ms_ = 0;
  StatusCode failed_ = StatusCode::kOk;
  Status failure_;
  CheckpointCounters counters_;
};

}  // namespace tidepool::storage
