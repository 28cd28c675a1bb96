// Operations that met a record on a device, or lack memory that is on its way. They run again when
// it has arrived; until then no operation on their keys overtakes them.
//
//   daemon/core/dispatcher -> [io_waiters] -> handler again
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "daemon/core/event_waiters.h"
#include "daemon/core/session.h"
#include "proto/base/ids.h"

namespace tidepool::daemon {

struct IoWaiter {
  std::uint64_t id = 0;
  EventWaiter operation;  // Its deadline is its frame's.
  std::vector<std::uint64_t>
      hashes;  // Hashes of its keys, each once. Empty: it has no key and no turn.
  bool quiet = false;
  std::shared_ptr<const HeldBytes> held;  // Its part of the session's credit in bytes.
  // It waits only for its turn, or for its partition's thaw.
  bool parked = false;
  bool for_room = false;          // It waits for memory.
  bool counted = false;           // It has waited for a device before.
  std::uint64_t received_ns = 0;  // Receipt of its frame.
};

// Owner core only. A line per key, first come, first served. An operation stands in the line of
// each of its keys, and runs when it is the first in all of them. Operations of one client on one
// key therefore take effect in the order sent, and one read from the device serves all its waiters.
// The sessions' credits bound the number of waiters.
class IoWaiters {
 public:
  bool empty() const { return operations_.empty(); }
  std::size_t size() const { return operations_.size(); }
  // Returns true if an operation on these keys must queue.
  bool Blocks(PartitionId partition, const std::vector<std::uint64_t>& hashes) const;
  bool Blocks(PartitionId partition, std::uint64_t hash) const {
    return lines_.contains({partition.value(), hash});
  }
  bool Holds(SessionId session, std::uint64_t frame_id, std::uint16_t index) const {
    return frames_.contains({session.value(), frame_id, index});
  }

  // Adds an operation at the end of its lines; returns it with its id.
  IoWaiter* Add(std::unique_ptr<IoWaiter> operation);
  // Returns null if the operation is complete.
  IoWaiter* Find(std::uint64_t id);
  bool HasTurn(const IoWaiter& operation) const;
  // Removes a completed or moved operation. Appends the operations that now have their turn to
  // `next`.
  std::unique_ptr<IoWaiter> Remove(std::uint64_t id, std::vector<std::uint64_t>* next);

  std::uint64_t next_deadline_ns() const {
    return deadlines_.empty() ? UINT64_MAX : deadlines_.begin()->first;
  }
  // Returns the ids of operations whose time is up.
  std::vector<std::uint64_t> Expired(std::uint64_t now_ns) const;
  // Returns the ids of parked operations that have their turn.
  std::vector<std::uint64_t> Parked() const;
  // Returns the ids of operations of the session's frames below `frame_id`.
  std::vector<std::uint64_t> Below(SessionId session, std::uint64_t frame_id) const;

 private:
  using Key = std::pair<std::uint32_t, std::uint64_t>;  // Partition and hash.
  using Frame =
      std::tuple<std::uint64_t, std::uint64_t, std::uint16_t>;  // Session, frame and index.

  std::uint64_t next_id_ = 1;
  absl::flat_hash_map<std::uint64_t, std::unique_ptr<IoWaiter>> operations_;
  absl::flat_hash_map<Key, std::deque<IoWaiter*>> lines_;  // No line is empty.
  std::set<Frame> frames_;
  std::set<std::pair<std::uint64_t, std::uint64_t>>
      deadlines_;  // Of all operations, with their ids.
};

}  // namespace tidepool::daemon
