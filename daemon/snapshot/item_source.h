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

// Items never change, so the stream has each at most once, and behind those that have left
// meanwhile a kDelete. What is leased or given back stays.
//
// Order: of equal priority the one with the smaller id comes first, so that who pushes them in the
// order of the stream has the same queue. The walk goes by priority and id over what is fresh,
// which the queue has in this order, and what was delivered, which waits in it here. What is pushed
// behind the walk waits too, and goes before its next step.
//
// Invariant: an item of the queue has been sent, or is in waiting_, or is fresh and in front of the
// walk, or is delivered and still to be found.
//
// Beside the items it holds some 50 bytes for each item that waits. Those that were delivered are
// few, as the queue keeps them on the heap too; of others it bears what kUntakenBytesMax allows.
class ItemSource final : public PartitionSource, private storage::LogObserver {
 public:
  ItemSource(storage::CoreStore& store, PartitionId partition);
  ~ItemSource() override;

 private:
  using Place = storage::QueueStore::ItemPlace;

  // A value on its way in parts.
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
  std::uint64_t new_bytes_left_;  // Of what is pushed while the image is taken.
  storage::QueueStore::ImagePlace finding_;
  bool found_ = false;  // All that had been delivered before.
  bool walked_ = false;
  Place passed_{0, 0};       // By the walk, with all before it. Ids begin at 1.
  std::set<Place> waiting_;  // Behind it, or not fresh.
  std::optional<Large> sending_;
};

}  // namespace tidepool::daemon::snapshot
