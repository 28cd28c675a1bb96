// Moves data of a core between DRAM and the devices. Segments leave when DRAM gets short, records
// are read back for operations, and mostly dead segments return for compaction.
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

// Round to whole blocks of the device.
inline std::uint32_t DownToBlock(std::uint64_t bytes) {
  return static_cast<std::uint32_t>(bytes / kDeviceBlockBytes * kDeviceBlockBytes);
}
inline std::uint32_t UpToBlock(std::uint64_t bytes) {
  return DownToBlock(bytes + kDeviceBlockBytes - 1);
}

// Owner core only. Never waits for a device: Poll continues the work under way.
//
// Segments leave in the order in which they were filled, also segments of the read cache, while
// fewer blocks are free than a sixteenth of the node's memory (at most 64, 128 MiB). Dead records
// are not written: a segment is compacted in DRAM first, and relocated records leave before all
// others (two-level cleaning: Rumble, Kejriwal and Ousterhout, Log-structured memory for DRAM-based
// storage, FAST 2014). A record that was read since it came gets a second chance: a copy in the
// youngest segment of the read cache. A failed write ends spilling for good: the segment stays in
// DRAM, and reads go on.
class Spiller final : public SpillTarget {
 public:
  // All must outlive it. The volume's slots are of the log's segment size.
  Spiller(Log& log, Compactor& compactor, PartitionFinder& finder, Volume& volume,
          const DurableTarget& durable);
  ~Spiller() override;
  Spiller(const Spiller&) = delete;
  Spiller& operator=(const Spiller&) = delete;

  // Opens a queue on each device. Errors: as Device::OpenQueue.
  Status Open();

  // Reads these records (Log::TakeWanted). Poll calls `then` when all are present or known to be
  // unreadable. Fetched records live until `then` returns. `then` may call Fetch if the operation
  // needs more: its records are kept for it.
  using Then = std::function<void(const FetchedRecords&)>;
  void Fetch(std::span<const std::uint64_t> locations, Then then);

  // Continues the work under way and hands finished fetches to their callers. Returns the number of
  // steps; 0: none until a descriptor is readable. Ends the validity of views.
  unsigned Poll();
  // Submits all started requests to the devices, before their core sleeps. False: Poll has work at
  // once.
  bool Submit();
  // Makes room in DRAM and on devices, until `done()`. True: more to do now.
  bool Slice(std::uint64_t now_ms, absl::FunctionRef<bool()> done);
  // The descriptors are readable while Poll has work.
  const DeviceQueues& queues() const { return queues_; }
  // Sets the core that reserves room for values that come back. Call it before the first Fetch.
  void set_room_core(RoomCore* core) { room_core_ = core; }

  // SpillTarget
  bool MakesRoom() const override;
  bool HasSlots() const override;
  void Offer(std::uint32_t segment) override;
  void ReleaseSlot(std::uint32_t slot) override { volume_.FreeSlot(slot); }

  const SpillCounters& counters() const { return counters_; }
  // Blocks that reads are filling.
  std::uint64_t blocks_under_way() const { return returns_ + extent_reads_; }

 private:
  // Records and extents for an operation.
  struct Fetching {
    FetchedRecords records;
    std::vector<std::uint32_t> pinned;
    std::vector<std::uint32_t> extents;  // Whose reading has not begun.
    std::shared_ptr<Reservation> room;   // For them and the operation; null: not reserved yet.
    std::size_t reads_left = 0;          // Extents included.
    Then then;
  };
  // A request to a device, under way or waiting for its turn.
  struct Io {
    enum class What : std::uint8_t { kFree, kRecord, kWrite, kReturn, kExtent };
    What what = What::kFree;
    std::uint32_t segment = 0;
    std::uint32_t offset = 0;  // In the segment, of the first byte that is moved.
    std::uint32_t bytes = 0;
    std::uint64_t location = 0;          // kRecord
    std::shared_ptr<std::byte> buffer;   // kRecord
    std::shared_ptr<Fetching> fetching;  // kRecord: the fetch that it serves.
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

  // Returns whether the segment leaves without a write: it is on a device already.
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
  // Returns the count of free slots below which compaction wins slots.
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
  std::uint64_t reading_bytes_ = 0;                 // In buffers for records under way.
  std::vector<std::shared_ptr<Fetching>> fetched_;  // For their callers.

  // Fetches whose large values return to DRAM. The first receives memory until it has all that it
  // needs: two fetches never hold half of each other's need.
  std::deque<std::shared_ptr<Fetching>> returning_;
  std::uint32_t extent_reads_ = 0;        // Under way.
  std::uint64_t returning_since_ms_ = 0;  // The first waits for memory since then; 0: it does not.

  std::deque<Offered> relocated_;  // To be written before offered_.
  std::deque<Offered> offered_;    // To be written after relocated_.
  // Need no write: segments of the read cache, returned extents, durable segments, which are on a
  // device already.
  std::deque<Offered> cached_;
  Walk freezing_;                      // Leaving: its records get their checksums first.
  std::uint32_t writes_ = 0;           // Under way.
  std::deque<std::uint32_t> written_;  // On the device, and still in DRAM.
  Walk keeping_;  // A written or cached segment: its recently read records get copies.
  std::vector<std::uint32_t> leaving_;  // After keeping_; views of them are in use.
  std::uint32_t returns_ = 0;           // Under way.
  // Slots are short, but no segment is dead enough, or memory for the read was lacking.
  bool nothing_returns_ = false;
  std::uint32_t choose_from_ = 1;
  std::uint64_t oldest_not_before_ms_ = 0;
  bool broken_ = false;  // A write has failed.
  RoomCore* room_core_ = nullptr;
  std::uint64_t seal_not_before_ms_ = 0;
  SpillCounters counters_;
};

}  // namespace tidepool::storage
