// Large values for gRPC threads: written and read in pieces on the owner core, without a copy of
// the whole outside the store.
//
//   services/bulk_service -> [local_values] -> core_group -> storage/value_io
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "daemon/core/core_group.h"
#include "storage/value_io.h"

namespace tidepool::daemon {

// One thread at a time. `cores` must outlive both classes. Their destructors release what they hold
// in the store, on the owner core.
class LocalValueWriter {
 public:
  // Waits for the memory of the whole value. Errors: kOutOfRange, kResourceExhausted (it can never
  // fit, or memory and devices are full), kDeadlineExceeded (says whether it waited for room),
  // kUnavailable.
  static Result<LocalValueWriter> Begin(CoreGroup& cores, CoreId core, std::uint64_t value_bytes,
                                        Deadline deadline);
  // Appends `part`. Errors: as Begin; kAborted (the writer was silent for long while others waited
  // for room).
  Status Write(std::string part, Deadline deadline);
  // Publishes the value: `put` is a Put or a Push without a value. Errors: as CoreGroup::Execute.
  Result<OperationOutcome> Put(PartitionId partition, Term term, const wire::Operation& put,
                               Deadline deadline);
  std::uint64_t written_bytes() const { return written_bytes_; }

 private:
  LocalValueWriter() = default;
  CoreGroup* cores_ = nullptr;
  CoreId core_;
  std::uint64_t written_bytes_ = 0;
  std::shared_ptr<storage::ValueWriter> writer_;  // Its deleter runs on the core.
};

class LocalValueReader {
 public:
  // Pins the value of `key`. Errors: kNotFound; as CoreGroup::Execute.
  static Result<LocalValueReader> Open(CoreGroup& cores, CoreId core, PartitionId partition,
                                       Term term, std::string key, Deadline deadline);
  const OperationOutcome& outcome() const { return outcome_; }  // Version and kind; no value.
  std::uint64_t value_bytes() const { return outcome_.number; }
  // Returns a copy of the bytes from `offset`, at most `bytes_max`.
  Result<std::string> Read(std::uint64_t offset, std::size_t bytes_max, Deadline deadline);

 private:
  LocalValueReader() = default;
  CoreGroup* cores_ = nullptr;
  CoreId core_;
  OperationOutcome outcome_;
  std::shared_ptr<storage::ValueReader> reader_;  // Its deleter runs on the core.
};

}  // namespace tidepool::daemon
