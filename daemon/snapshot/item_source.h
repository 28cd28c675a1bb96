// A partition of kind queue or priority as a stream of items.
//
//   partition_source -> [item_source] -> storage/queue_store, as a observer of storage/partition
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "daemon/snapshot/partition_source.h"
#include "storage/log_record.h"
#include "storage/queue_store.h"
#include "storage/value_io.h"

namespace tidepool::daemon::snapshot {

// Items never change, so the stream has each item at most once, and a kDelete for each sent item
// that has left since. Leased and returned items stay.
//
// Order: items of equal priority go by id, so pushing them in stream order gives an equal queue.
// The walk goes by priority and id over fresh items, which the queue has in this order. It also
// meets delivered items, which wait in `waiting_`. Items pushed behind the walk also wait there and
// go before its next step.
//
// Invariant: each item of the queue was sent, or is in waiting_, or is fresh and in front of the
// walk, or is delivered and not found yet.
//
// Memory: besides the items, some 50 bytes per waiting item. Delivered items are few, because the
// queue keeps them on the heap too; kUntakenBytesMax bounds the other items.
class ItemSource final : public PartitionSource, private storage::LogObserver {
 public:
  ItemSource(storage::CoreStore& store, PartitionId partition);
  ~ItemSource() override;

 private:
  using Place = storage::QueueStore::ItemPlace;

  // A value being sent in parts.
  struct Large {
    Place place;
    storage::ValueReader reader;
    std::uint64_t sent = 0;
  };

  void OnRecord(const storage::LogRecord& record) override;
  void Walk(storage::Partition& partition) override;
  bool HasSentAll() const override { return walked_; }
  void Detach(storage::Partition& partition) override { partition.RemoveObserver(this); }
  void Forget() override;

  void OnRemoval(Place place, const storage::LogRecord& record);
  void Await(Place place);
  void FindSlice(storage::QueueStore& queue);
  bool Next(storage::QueueStore& queue, Place* place) const;
  bool SendNext(storage::QueueStore& queue);
  void Send(Place place, const storage::QueueItem& item, storage::QueueStore& queue);
  void CountNew(Place place, const storage::QueueItem& item);
  void SendParts();
  void WantAhead(storage::QueueStore& queue) const;

  const bool by_priority_;
  const std::uint64_t first_new_id_;
  std::uint64_t new_bytes_left_;  // Allowance for items pushed during the image.
  storage::QueueStore::ImagePlace finding_;
  bool found_ = false;  // All items delivered before the image.
  bool walked_ = false;
  Place passed_{0, 0};       // Last place that the walk has passed. Ids begin at 1.
  std::set<Place> waiting_;  // Behind the walk, or not fresh.
  std::optional<Large> sending_;
};

}  // namespace tidepool::daemon::snapshot
