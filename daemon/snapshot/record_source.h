// A partition of kind hash or ordered as a stream of items.
//
//   partition_source -> [record_source] -> storage/hash_store, as a observer of storage/partition
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "daemon/snapshot/partition_source.h"
#include "storage/log_record.h"
#include "storage/value_io.h"

namespace tidepool::daemon::snapshot {

// Holds the keys of values above 1 MiB. A change behind the walk is added with its new value.
class RecordSource final : public PartitionSource, private storage::LogObserver {
 public:
  RecordSource(storage::CoreStore& store, PartitionId partition);
  ~RecordSource() override;

 private:
  // A value being sent in parts.
  struct Large {
    std::string key;
    storage::ValueReader reader;
    std::uint64_t sent = 0;
  };

  void OnRecord(const storage::LogRecord& record) override;
  void Walk(storage::Partition& partition) override;
  bool HasSentAll() const override { return walked_ && large_.empty() && !sending_.has_value(); }
  void Detach(storage::Partition& partition) override { partition.RemoveObserver(this); }
  void Forget() override;

  bool Holds(storage::Partition& partition, Bytes key) const;
  bool HasPassed(storage::Partition& partition, std::uint64_t hash) const;
  void WalkSlice(storage::Partition& partition);
  void LargeSlice(storage::Partition& partition);
  void BeginLarge(storage::Partition& partition);
  void AddAgain(Bytes key);

  std::uint64_t cursor_ = 0;
  bool walked_ = false;
  std::set<std::string> large_;  // Passed keys whose values are to be sent in parts.
  std::optional<Large> sending_;
  std::uint64_t large_found_ = 0;  // Found by the walk.
  std::uint64_t large_again_ = 0;  // Sent again after a change.
};

}  // namespace tidepool::daemon::snapshot
