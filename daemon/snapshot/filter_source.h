// A partition of kind bloom as a stream of items.
//
//   partition_source -> [filter_source] -> storage/bloom_store, as its observer
#pragma once

#include <cstdint>
#include <set>

#include "daemon/snapshot/partition_source.h"
#include "storage/bloom_store.h"

namespace tidepool::daemon::snapshot {

// Sends the blocks with bits, and behind the walk the inserts that set a bit. Bits are never
// cleared. A block changed by a union is sent again in its new state; `again_` holds these blocks.
class FilterSource final : public PartitionSource, private storage::BloomStore::Observer {
 public:
  FilterSource(storage::CoreStore& store, PartitionId partition);
  ~FilterSource() override;

 private:
  void OnInsert(std::uint64_t hash) override;
  void OnUnion(std::uint64_t block) override;
  void Walk(storage::Partition& partition) override;
  bool HasSentAll() const override;
  void Detach(storage::Partition& partition) override { partition.bloom().RemoveObserver(this); }
  void Forget() override { again_.clear(); }

  std::uint64_t Next();

  std::uint64_t blocks_ = 0;
  std::uint64_t next_ = 0;         // First block that the walk has not passed.
  std::set<std::uint64_t> again_;  // Passed blocks.
  std::uint64_t agains_ = 0;
};

}  // namespace tidepool::daemon::snapshot
