// What stores do in the spill bench, and how much: each contender is a process of its own, which
// does the tasks that the bench gives it, one at a time.
//
//   spill_bench -> contender_process -> [Contender] -> tidepool_store, rocksdb_peer, lmdb_peer,
//   device
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace tidepool::bench {

// What all of them hold, and may take.
struct SpillSetup {
  std::uint64_t records = 0;
  // Of index, frames, caches and buffers of one contender.
  std::uint64_t limit_bytes = 0;
  // Of Tidepool's device; peers take what they need.
  std::uint64_t device_bytes = 0;
  // Nothing but us keeps a peer that maps its file from filling the page cache.
  bool limit_page_cache = false;
  std::string folder;  // Of this contender, on the disk to be measured; empty at first.
};

enum class SpillTask : std::uint32_t {
  kLoad,       // All records, in the order that suits the store, until they are on the device.
  kRun,        // Operations on records for so many seconds.
  kOverwrite,  // So many updates.
  kResident,  // Reads of records in DRAM in batches of 16, beside nothing and beside a busy device.
  kSettle,    // Until what goes on behind the operations has ended, or `seconds` are over.
};

// Goes through a socket between two processes of one program.
struct SpillOrder {
  SpillTask task = SpillTask::kRun;
  bool zipf = false;  // Exponent .99 over scattered keys; else uniform.
  std::uint32_t write_percent = 0;
  std::uint32_t clients = 1;  // Threads, where the store's calls block.
  std::uint32_t batch = 1;    // Reads per call, where the store has such a call.
  double seconds = 1;
  std::uint64_t updates = 0;  // kOverwrite
};

struct SpillResult {
  double operations = 0;
  double seconds = 0;
  double cpu_seconds = 0;  // Of the whole process.
  double wrong = 0;        // Answers that were not what had been stored.
  double device_reads = 0;
  double device_read_bytes = 0;
  double device_written_bytes = 0;
  double memory_bytes_max = 0;  // Of this process so far: anonymous and shared, less the program's.
  // kResident: medians, in us.
  double quiet_us = 0;
  double busy_us = 0;
};

// Not thread-safe.
class Contender {
 public:
  virtual ~Contender() = default;
  // Ends the process where the store fails: there is nothing to measure then.
  virtual SpillResult Do(const SpillOrder& order) = 0;
};

std::unique_ptr<Contender> MakeTidepoolStore(const SpillSetup& setup);
std::unique_ptr<Contender> MakeDevice(const SpillSetup& setup);
std::unique_ptr<Contender> MakeRocksdb(const SpillSetup& setup);
std::unique_ptr<Contender> MakeLmdb(const SpillSetup& setup);
// Whether this build has the library; without it Make gives null.
bool HasRocksdb();
bool HasLmdb();

}  // namespace tidepool::bench
