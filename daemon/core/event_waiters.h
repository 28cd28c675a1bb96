// Operations that wait inside the daemon: a pop for an item, a push for room, a reader for a change
// of its key. The core keeps them; nobody polls over the network.
//
//   daemon/core/dispatcher -> handler says what it waits for -> [event_waiters] -> handler
//   again
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/functional/function_ref.h>

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "daemon/core/session.h"
#include "daemon/ops/operation.h"
#include "proto/base/ids.h"
#include "proto/wire/group.h"

namespace tidepool::daemon {

// One operation, on its own feet: what its frame said of it is copied.
struct EventWaiter {
  PartitionId partition;
  Term term;
  WaitFor wait_for = WaitFor::kNothing;
  std::uint64_t hash = 0;         // KeyHash of its key; kChange and kGroup wait for this key.
  std::uint64_t deadline_ns = 0;  // Then it is answered as if it had not been allowed to wait.
  wire::Operation operation;      // Its views point into `bytes`.
  std::vector<std::byte> bytes;
  // The streamed value that it names: its session may have the next one on the way meanwhile.
  std::unique_ptr<Upload> upload;

  // Who is answered.
  SessionId session;
  std::uint64_t frame_id = 0;
  std::uint32_t reply_bytes_max = 0;  // Its share of its frame's.
  std::uint16_t index = 0;
  std::uint16_t group = 0;

  void CopyOperation(const wire::Operation& from);

 private:
  friend class EventWaiters;
  std::list<std::unique_ptr<EventWaiter>>::iterator place;  // In its line.
};

// Owner core only. In the order of arrival per partition and reason: first come, first served,
// where an operation that its client sends again, as its slice of time was over, comes anew.
// Bounded by the dispatcher's quotas per session.
//
// Adding, finding and dropping one costs O(log n) of all that wait; a retry, an attempt at each
// that may have gained and O(1) more. What walks them all says so.
class EventWaiters {
 public:
  enum class Outcome : std::uint8_t {
    kAnswered,  // It is over.
    kWaits,     // Nothing has changed for it; nor for those behind it.
    kSkipped,   // Its client is not connected now: others may go first.
  };
  // Tries an operation again; `last` says that its time is up and it must be answered. Must not
  // call this class.
  using Attempt = absl::FunctionRef<Outcome(EventWaiter&, bool last)>;

  void Add(std::unique_ptr<EventWaiter> operation);
  bool empty() const { return deadlines_.empty(); }
  std::size_t size() const { return deadlines_.size(); }
  // Of the first whose time will be up; never: the largest number.
  std::uint64_t next_deadline_ns() const {
    return deadlines_.empty() ? UINT64_MAX : deadlines_.begin()->first;
  }
  bool WaitsOn(PartitionId partition) const {
    return !empty() && partitions_.contains(partition.value());
  }
  bool Holds(SessionId session, std::uint64_t frame_id, std::uint16_t index) const;

  // After a change of the partition: tries again what waits there for items or room, until nobody
  // gains,
  void RetryItems(PartitionId partition, Attempt attempt);
  // what waits for a change of the key, or for the process group, of this hash,
  void RetryKey(PartitionId partition, WaitFor wait_for, std::uint64_t hash, Attempt attempt);
  // and what waits for a change of any key: an attempt at each of the partition's.
  void RetryChanges(PartitionId partition, Attempt attempt);
  // Those whose time is up, and the first in each line for items or room: leases of items run out
  // by themselves.
  void RetryAll(std::uint64_t now_ns, Attempt attempt);
  // All of them, each as `attempt` says: after a new map, and now and then, as keys expire and
  // sessions end by themselves.
  void Recheck(Attempt attempt);
  // Drops, unanswered, those of the session's frames below `frame_id`; `dropped` sees each before.
  void DropBelow(SessionId session, std::uint64_t frame_id,
                 absl::FunctionRef<void(const EventWaiter&)> dropped);

 private:
  using Line = std::list<std::unique_ptr<EventWaiter>>;
  // The lines of one partition: one for items, one for room, one per key for changes, one per
  // process group.
  struct LineKey {
    WaitFor wait_for;
    std::uint64_t hash;
    friend bool operator==(const LineKey&, const LineKey&) = default;
    template <typename H>
    friend H AbslHashValue(H state, const LineKey& key) {
      return H::combine(std::move(state), key.wait_for, key.hash);
    }
  };
  using Lines = absl::flat_hash_map<LineKey, Line>;  // None is empty, but while it is retried.
  using Frames = std::map<std::pair<std::uint64_t, std::uint16_t>, EventWaiter*>;

  static bool WaitsOnKey(WaitFor wait_for) {
    return wait_for == WaitFor::kChange || wait_for == WaitFor::kGroup;
  }
  static LineKey KeyOf(const EventWaiter& operation) {
    return {operation.wait_for, WaitsOnKey(operation.wait_for) ? operation.hash : 0};
  }
  Line* FindLine(PartitionId partition, const LineKey& key);
  void DropIfEmpty(PartitionId partition, const LineKey& key);
  // Tries the lines that `applies` to.
  void RetryLines(Lines* lines, absl::FunctionRef<bool(WaitFor)> applies,
                  absl::FunctionRef<void(Line*)> retry);
  bool TryFirst(Line* line, Attempt attempt);
  void TryAll(Line* line, Attempt attempt);
  // Out of its line, which may be empty then, and of all else.
  Line::iterator Erase(Line* line, Line::iterator at);
  void Drop(EventWaiter* operation);

  absl::flat_hash_map<std::uint32_t, Lines> partitions_;
  absl::flat_hash_map<std::uint64_t, Frames> sessions_;
  std::set<std::pair<std::uint64_t, EventWaiter*>> deadlines_;  // All of them.
};

}  // namespace tidepool::daemon
