// Between DRAM and the devices, for one core: segments leave when DRAM gets short, records are read
// back for the operations that want them, and mostly dead segments come back to be compacted.
//
//   CoreStore -> [Spiller] -> Log, DeviceQueue
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "proto/base/result.h"
#include "storage/compactor.h"
#include "storage/device/device.h"
#include "storage/log.h"
#include "storage/nvm/volume.h"
#include "storage/spill/fetched_records.h"
#include "storage/spill/read_buffers.h"
#include "storage/spill/spill_counters.h"

namespace tidepool::storage {

// In whole blocks of the device.
inline std::uint32_t DownToBlock(std::uint64_t bytes) {
  return static_cast<std::uint32_t>(bytes / kDeviceBlockBytes * kDeviceBlockBytes);
}
inline std::uint32_t UpToBlock(std::uint64_t bytes) {
  return DownToBlock(bytes + kDeviceBlockBytes - 1);
}

// Owner core only. Never waits for a device: what is under way goes on in Poll.
//
// Segments leave in the order in which they were filled, those of the read cache among them, while
// fewer blocks are free than a sixteenth of the node's memory (at most 64, 128 MiB). What is dead
// in one is not written: it is compacted in DRAM first, and what compaction has moved leaves before
// all else (two-level cleaning: Rumble, Kejriwal and Ousterhout, Log-structured memory for
// DRAM-based storage, FAST 2014). A record that was read since it came gets a second chance: a copy
// in the youngest segment of the read cache. A write that fails ends spilling for good: the segment
// stays in DRAM, and reads go on.
class Spiller final : public SpillTarget {
 public:
  // All must outlive it. The volume's slots are of the log's segment size.
  Spiller(Log& log, Compactor& compactor, PartitionFinder& finder, Volume& volume,
          const DurableTarget& durable);
  ~Spiller() override;
  Spiller(const Spiller&) = delete;
  Spiller& operator=(const Spiller&) = delete;

  // Errors: those of Device::OpenQueue.
  Status Open();

  // Reads these records (Log::TakeWanted) and calls `then` from Poll, when all are there or known
  // to be unreadable. What was fetched lives until it returns. Called from a `then`, for an
  // operation that has met more: what it had stays with it.
  using Then = std::function<void(const FetchedRecords&)>;
  void Fetch(std::span<const std::uint64_t> locations, Then then);

  // Moves on what is under way and hands finished fetches to their callers. Returns how much was
  // done; 0: nothing until a descriptor is readable. Ends the validity of views.
  unsigned Poll();
  // Hands all that was started to the devices, before their core sleeps. False: there is something
  // for Poll at once.
  bool Submit();
  // Makes room in DRAM, and on devices, until `done()`. True: more to do now.
  bool Slice(std::uint64_t now_ms, absl::FunctionRef<bool()> done);
  // Readable while there is something for Poll.
  const DeviceQueues& queues() const { return queues_; }
  // Sets the core that reserves room for values that come back. Call it before the first Fetch.
  void set_room_core(RoomCore* core) { room_core_ = core; }

  // SpillTarget
  bool MakesRoom() const override;
  bool HasSlots() const override;
  void Offer(std::uint32_t segment) override;
  void ReleaseSlot(std::uint32_t slot) override { volume_.FreeSlot(slot); }

  const SpillCounters& counters() const { return counters_; }
  // Blocks that are being read into.
  std::uint64_t blocks_under_way() const { return returns_ + extent_reads_; }

 private:
  // Records and extents for one operation.
  struct Fetching {
    FetchedRecords records;
    std::vector<std::uint32_t> pinned;
    std::vector<std::uint32_t> extents;  // Whose reading has not begun.
    std::shared_ptr<Reservation> room;   // For them, and for the operation; null: not yet.
    std::size_t reads_left = 0;          // These included.
    Then then;
  };
  // One request of a device, or one that waits for its turn.
  struct Io {
    enum class What : std::uint8_t { kFree, kRecord, kWrite, kReturn, kExtent };
    What what = What::kFree;
    std::uint32_t segment = 0;
    std::uint32_t offset = 0;  // In the segment, of the first byte that is moved.
    std::uint32_t bytes = 0;
    std::uint64_t location = 0;          // kRecord
    std::shared_ptr<std::byte> buffer;   // kRecord
    std::shared_ptr<Fetching> fetching;  // kRecord: whom it is read for.
    std::uint64_t frame = 0;             // kReturn, kExtent
  };
  struct Offered {
    std::uint32_t segment;
    std::uint64_t number;
  };
  // A walk over a segment's records.
  struct Walk {
    std::uint32_t segment = 0;  // 0: none.
    std::uint32_t at = 0;
  };

  // Whether it leaves without a slot of its own to be written to.
  static bool IsWritten(const Segment& segment);
  bool IsStale(const Offered& offered, bool written) const;
  void DropStale();
  std::uint64_t BlocksWanted() const;
  std::uint64_t SlotsKept() const;
  bool BeginOne();
  void SealForOthers(std::uint64_t now_ms);
  bool IsWorthCompacting(const Segment& segment) const;
  bool LeaveOffered();
  std::deque<Offered>::const_iterator FindCached() const;
  static std::uint32_t Remove(std::deque<Offered>& offered, std::deque<Offered>::const_iterator at);
  bool Leave(std::uint32_t segment);
  bool BeginFreezing(std::uint32_t segment);
  bool FreezeOn(absl::FunctionRef<bool()> done);
  bool KeepOn(absl::FunctionRef<bool()> done);
  void Keep(const RecordHeader& record, std::uint64_t location, bool copy);
  // Below so many free ones compaction wins slots.
  std::uint64_t SlotsWanted() const;
  std::uint32_t ChooseReturn(std::uint64_t now_ms);
  std::uint32_t ChooseOldest(std::uint64_t now_ms);
  void ReturnOne(std::uint64_t now_ms);
  std::uint32_t TakeIo();
  void StartIo(std::uint32_t io);
  void StartWaiting();
  void Finish(const DeviceCompletion& completion);
  void ReadRecord(std::shared_ptr<Fetching> fetching, std::uint64_t location, std::uint64_t bytes);
  void FinishRecord(Io& io, int error);
  void FinishWrite(Io& io, int error);
  void FinishReturn(Io& io, int error);
  void StartExtents();
  void FinishExtent(Io& io, int error);
  void EndRead(const std::shared_ptr<Fetching>& fetching);
  void AddLostExtent(Fetching& fetching, std::uint32_t segment, StatusCode code);
  void ExpireExtents(std::uint64_t now_ms);
  bool IsSound(const Io& io) const;
  void LeaveSoon(std::uint32_t segment);
  unsigned LeaveMemory();

  Log& log_;
  Compactor& compactor_;
  PartitionFinder& finder_;
  Volume& volume_;
  const DurableTarget& durable_;
  DeviceQueues queues_;
  std::vector<Io> ios_;
  std::vector<std::uint32_t> free_ios_;
  std::deque<std::uint32_t> waiting_;  // For a place in their queue, or memory.
  ReadBuffers buffers_;
  std::uint64_t reading_bytes_ = 0;                 // Of buffers for records that are under way.
  std::vector<std::shared_ptr<Fetching>> fetched_;  // For their callers.

  // Whose large values come back into DRAM. Memory is for the first until it has all that it needs,
  // so that no two of them hold half of what each other needs.
  std::deque<std::shared_ptr<Fetching>> returning_;
  std::uint32_t extent_reads_ = 0;        // Under way.
  std::uint64_t returning_since_ms_ = 0;  // The first one waits for memory; 0: it does not.

  std::deque<Offered> relocated_;  // To be written, these first;
  std::deque<Offered> offered_;    // and then these.
  // Need not be: of the read cache, extents that came back, durable ones, which are there already.
  std::deque<Offered> cached_;
  Walk freezing_;                      // On its way out: its records get their checksums first.
  std::uint32_t writes_ = 0;           // Under way.
  std::deque<std::uint32_t> written_;  // On the device, and in DRAM still.
  Walk keeping_;  // The first of them, or one of the cache: what was read since gets a copy.
  std::vector<std::uint32_t> leaving_;  // That is done; views of them are in use.
  std::uint32_t returns_ = 0;           // Under way.
  // Slots are short, and no segment is dead enough, or there was no memory to read one into.
  bool nothing_returns_ = false;
  std::uint32_t choose_from_ = 1;
  std::uint64_t oldest_not_before_ms_ = 0;
  bool broken_ = false;  // A write has failed.
  RoomCore* room_core_ = nullptr;
  std::uint64_t seal_not_before_ms_ = 0;
  SpillCounters counters_;
};

}  // namespace tidepool::storage
