// A device in memory that does, under a seed, the worst that a real device may. A power failure
// drops, reorders or tears data that is not flushed. Requests complete in any order, and rules add
// errors and flipped bits. For tests and simulation; no daemon links it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "storage/device/device.h"

namespace tidepool::storage {

inline constexpr std::size_t kFaultSectorBytes = 512;  // A device never tears it.

struct FaultRule {
  // Selects requests: of this operation (unset: any) that touch [begin, end); flushes touch all.
  std::optional<DeviceOperation> operation;
  std::uint64_t begin = 0;
  std::uint64_t end = UINT64_MAX;
  std::uint64_t skip = 0;   // First, this many of them pass.
  std::uint64_t times = 1;  // Then this many fail.
  // Errno of the failed requests. ENOSPC: no byte was written. Any other: any part may have been
  // written. After a failed flush no data is durable, nor will a later flush make it durable. 0: a
  // read succeeds with a flipped bit in its data.
  int error = 0;
};

struct FaultCounters {
  std::uint64_t reads = 0;  // Completed, with or without an error.
  std::uint64_t writes = 0;
  std::uint64_t write_throughs = 0;
  std::uint64_t flushes = 0;
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_written = 0;
  std::uint64_t faults = 0;  // Errors and flipped bits by rules.
  std::uint64_t crashes = 0;
  std::uint64_t sectors_kept = 0;  // Sectors that were not durable at a crash.
  std::uint64_t sectors_lost = 0;
};

// Single-threaded: the device, its queues and its rules belong to one thread. Equal seeds and calls
// give equal outcomes.
//
// 1. Data that a completed write-through or flush made durable survives any number of crashes,
// unless written since.
// 2. A flush covers only writes whose completion had been reaped when the flush was started.
// 3. After a crash each sector has its durable content or that of any write to it since, chosen per
// sector; submitted writes that did not complete are included.
// 4. Reads see the last write that was carried out. Requests that are under way together are
//    carried out in any order, and read their buffers at any time until they complete.
class FaultDevice final : public Device {
 public:
  // Zeroed. `bytes` in whole blocks.
  FaultDevice(std::uint64_t bytes, std::uint64_t seed);
  // Like every device it outlives its queues, also queues from before a crash.
  ~FaultDevice() override;

  DeviceMedium medium() const override { return DeviceMedium::kFile; }
  std::uint64_t bytes() const override { return current_.size(); }
  const std::string& description() const override { return description_; }
  const std::byte* mapping() const override { return nullptr; }
  // The queue's descriptor() is -1 although Submit does not complete everything: the user calls
  // Reap in turns, or Wait. Errors: the status given to FailOpenQueue.
  Result<std::unique_ptr<DeviceQueue>> OpenQueue(unsigned depth) override;

  // Cuts the power and restores it. Requests under way never complete: older queues answer no more,
  // and must only be destroyed (their in_flight() is 0).
  void Crash();
  // Ends every request with ENODEV after `count` more writes (of both kinds) have
  // executed. The next write is torn at the following crash, like a write under way. Crash
  // ends this.
  void PowerOffAfterWrites(std::uint64_t count) { writes_left_ = count; }
  bool powered_off() const { return writes_left_ == std::uint64_t{0} && refused_by_power_; }

  void AddRule(const FaultRule& rule) { rules_.push_back({rule, 0}); }
  void ClearRules() { rules_.clear(); }
  // Damage for good, as by a failing cell.
  void FlipBit(std::uint64_t offset, unsigned bit);
  // Makes every next OpenQueue fail with `status` until it is set to kOk.
  void FailOpenQueue(Status status) { open_status_ = std::move(status); }

  const FaultCounters& counters() const { return counters_; }
  // Content that a read would see now; for comparisons.
  const std::vector<std::byte>& content() const { return current_; }
  // Sectors that a crash could change.
  std::size_t sectors_at_risk() const { return at_risk_.size(); }

 private:
  friend class FaultQueue;
  struct Write {
    std::vector<std::byte> data;
    std::uint64_t offset = 0;
    std::uint64_t reaped_at = 0;  // By reap_count_; 0: its completion was not reaped yet.
    bool unflushable = false;     // A flush of it has failed.
  };
  using WritePtr = std::shared_ptr<Write>;
  struct RuleState {
    FaultRule rule;
    std::uint64_t met = 0;
  };
  struct Outcome {
    int error = 0;
    WritePtr write;  // Not durable yet.
  };

  // Carries a request out. `flush_covers`: reap_count_ when it was started.
  Outcome Execute(const DeviceRequest& request, std::uint64_t flush_covers);
  Outcome ExecuteWrite(const DeviceRequest& request, int error);
  void Flush(std::uint64_t covers, bool fails);
  void MakeDurable(std::uint64_t offset, const std::byte* data, std::size_t bytes);
  WritePtr AddAtRisk(const DeviceRequest& request, bool partly);
  const FaultRule* RuleFor(const DeviceRequest& request);
  std::uint64_t Below(std::uint64_t bound) { return random_() % bound; }
  void CopySector(std::uint64_t sector, const Write& from, std::vector<std::byte>* to) const;

  std::mt19937_64 random_;
  const std::string description_ = "memory that fails by a seed";
  std::vector<std::byte> current_;
  std::vector<std::byte> durable_;
  // The writes to each sector that are not durable there, in the order in which they were carried
  // out.
  std::map<std::uint64_t, std::vector<WritePtr>> at_risk_;
  std::uint64_t reap_count_ = 0;
  std::uint64_t life_ = 0;  // Crashes; a queue of an older life is dead.
  std::vector<class FaultQueue*> queues_;
  std::vector<RuleState> rules_;
  std::optional<std::uint64_t> writes_left_;
  bool refused_by_power_ = false;
  Status open_status_;
  FaultCounters counters_;
};

}  // namespace tidepool::storage
