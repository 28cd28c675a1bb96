// Operations that wait in the daemon for an event: a pop for an item, a push for room, a reader for
// a change of its key. Clients therefore do not poll over the network.
//
//   daemon/core/dispatcher -> handler returns its wait condition -> [event_waiters] -> handler
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

// A waiting operation with copies of everything its frame contained.
struct EventWaiter {
  PartitionId partition;
  Term term;
  WaitFor wait_for = WaitFor::kNothing;
  std::uint64_t hash = 0;         // KeyHash of its key; kChange and kGroup wait for this key.
  std::uint64_t deadline_ns = 0;  // At this time it is answered as if it could not wait.
  wire::Operation operation;      // Its views point into `bytes`.
  std::vector<std::byte> bytes;
  // The streamed value it names. Taken from the session, which may receive the next upload
  // meanwhile.
  std::unique_ptr<Upload> upload;

  // Receiver of the answer.
  SessionId session;
  std::uint64_t frame_id = 0;
  std::uint32_t reply_bytes_max = 0;  // Its share of its frame's allowance.
  std::uint16_t index = 0;
  std::uint16_t group = 0;

  void CopyOperation(const wire::Operation& from);

 private:
  friend class EventWaiters;
  std::list<std::unique_ptr<EventWaiter>>::iterator place;  // Position in its line.
};

// Owner core only. First come, first served, per partition and reason. An operation that its client
// sends again after its time slice counts as new. The dispatcher's quotas per session bound the
// number of waiters.
//
// Adding, finding and dropping a waiter costs O(log n) of all waiters. A retry costs O(1) plus an
// attempt at each waiter that may proceed. Methods that walk over all waiters say so.
class EventWaiters {
 public:
  enum class Outcome : std::uint8_t {
    kAnswered,  // The operation is complete.
    kWaits,     // Nothing has changed for it, or for the waiters behind it.
    kSkipped,   // Its client is not connected now: later waiters may go first.
  };
  // Tries an operation again; `last`: its time is up and it must be answered. Must not call this
  // class.
  using Attempt = absl::FunctionRef<Outcome(EventWaiter&, bool last)>;

  void Add(std::unique_ptr<EventWaiter> operation);
  bool empty() const { return deadlines_.empty(); }
  std::size_t size() const { return deadlines_.size(); }
  // Returns the earliest deadline; never: the largest number.
  std::uint64_t next_deadline_ns() const {
    return deadlines_.empty() ? UINT64_MAX : deadlines_.begin()->first;
  }
  bool WaitsOn(PartitionId partition) const {
    return !empty() && partitions_.contains(partition.value());
  }
  bool Holds(SessionId session, std::uint64_t frame_id, std::uint16_t index) const;

  // After a change of the partition: tries the waiters for items or room until none proceeds.
  void RetryItems(PartitionId partition, Attempt attempt);
  // Tries the waiters for a change of the key, or for the process group, with this hash.
  void RetryKey(PartitionId partition, WaitFor wait_for, std::uint64_t hash, Attempt attempt);
  // Tries all waiters of the partition for a change of any key.
  void RetryChanges(PartitionId partition, Attempt attempt);
  // Tries the waiters whose time is up, and the first in each line for items or room, because
  // leases of items run out without an operation.
  void RetryAll(std::uint64_t now_ns, Attempt attempt);
  // Tries all waiters: after a new map, and periodically, because keys expire and sessions end
  // without an operation.
  void Recheck(Attempt attempt);
  // Drops, without an answer, the waiters of the session's frames below `frame_id`. Calls `dropped`
  // with each before.
  void DropBelow(SessionId session, std::uint64_t frame_id,
                 absl::FunctionRef<void(const EventWaiter&)> dropped);

 private:
  using Line = std::list<std::unique_ptr<EventWaiter>>;
  // The lines of one partition: one line for items, one for room, one per key for changes, one per
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
  using Lines = absl::flat_hash_map<LineKey, Line>;  // No line is empty, except during its retry.
  using Frames = std::map<std::pair<std::uint64_t, std::uint16_t>, EventWaiter*>;

  static bool WaitsOnKey(WaitFor wait_for) {
    return wait_for == WaitFor::kChange || wait_for == WaitFor::kGroup;
  }
  static LineKey KeyOf(const EventWaiter& operation) {
    return {operation.wait_for, WaitsOnKey(operation.wait_for) ? operation.hash : 0};
  }
  Line* FindLine(PartitionId partition, const LineKey& key);
  void DropIfEmpty(PartitionId partition, const LineKey& key);
  // Tries the lines for which `applies` returns true.
  void RetryLines(Lines* lines, absl::FunctionRef<bool(WaitFor)> applies,
                  absl::FunctionRef<void(Line*)> retry);
  bool TryFirst(Line* line, Attempt attempt);
  void TryAll(Line* line, Attempt attempt);
  // Removes a waiter from its line, which may become empty, and from all indexes.
  Line::iterator Erase(Line* line, Line::iterator at);
  void Drop(EventWaiter* operation);

  absl::flat_hash_map<std::uint32_t, Lines> partitions_;
  absl::flat_hash_map<std::uint64_t, Frames> sessions_;
  std::set<std::pair<std::uint64_t, EventWaiter*>> deadlines_;  // Of all waiters.
};

}  // namespace tidepool::daemon
