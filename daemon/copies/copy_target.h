// A copy of a partition that a source on another node fills.
//
//   copy_inbox -> [copy_target] -> storage: an incoming partition, which no operation finds
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "proto/base/ids.h"
#include "proto/wire/copy_frames.h"
#include "storage/core_store.h"
#include "storage/value_io.h"

namespace tidepool::daemon {

// Owner core only. Invariant: the store has an incoming partition for it. A whole copy may be
// served here already.
class CopyTarget {
 public:
  enum class Outcome : std::uint8_t {
    kApplied,
    kWait,    // For a record on a device, or for memory that comes: the message comes again.
    kFailed,  // See `code`.
  };

  // `term`: of the source. `version`: of the entry, since it names the copy. `replica`: it may
  // become the owner at any time, so only a map or a later copy takes it away.
  CopyTarget(PartitionId partition, Term term, std::uint64_t version, storage::CoreStore& store,
             bool replica = false)
      : partition_(partition), term_(term), version_(version), store_(store), replica_(replica) {}

  PartitionId partition() const { return partition_; }
  Term term() const { return term_; }
  std::uint64_t version() const { return version_; }
  std::uint32_t copy() const { return static_cast<std::uint32_t>(version_); }  // See CopyMessage.
  // It has all that the source has: only a map takes it away.
  bool whole() const { return whole_; }
  StatusCode code() const { return code_; }

  Outcome Apply(const wire::CopyMessage& message);
  // Throws the copy away.
  void Drop();

  bool replica() const { return replica_; }
  // For a replica: it takes nothing more, and keeps what it has taken.
  void Stop();

 private:
  Outcome ApplyRecord(storage::Partition& partition, const wire::CopyMessage& message);
  Outcome ApplyLarge(storage::Partition& partition, const wire::CopyMessage& message);
  Outcome Fail(StatusCode code) {
    code_ = code;
    return Outcome::kFailed;
  }
  Outcome Refused(bool waits);

  const PartitionId partition_;
  const Term term_;
  const std::uint64_t version_;
  storage::CoreStore& store_;
  const bool replica_;
  bool stopped_ = false;
  std::array<std::optional<storage::ValueWriter>, wire::kCopySlots> large_;
  bool whole_ = false;
  StatusCode code_ = StatusCode::kOk;
};

}  // namespace tidepool::daemon
