// Operations that have met a record on a device, or found no memory while some is on its way: they
// run again when what they wait for has come, and nothing on their keys overtakes them.
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
  EventWaiter operation;              // Its deadline is that of its frame.
  std::vector<std::uint64_t> hashes;  // Of its keys, each once. None: it has no key, nor a turn.
  bool quiet = false;
  std::shared_ptr<const HeldBytes> held;  // What it takes of its session's credit in bytes.
  // It has neither a device nor memory to wait for but its turn, or its partition's thaw.
  bool parked = false;
  bool for_room = false;          // It waits for memory.
  bool counted = false;           // It has waited for a device before.
  std::uint64_t received_ns = 0;  // Its frame.
};

// Owner core only. A line per key, first come, first served: an operation is in the line of each of
// its keys, and runs when it is the first in all of them. So operations of one client on one key
// take effect in the order sent, whatever some of them have to wait for; and one read from the
// device serves all that wait for it. Bounded by the sessions' credits.
class IoWaiters {
 public:
  bool empty() const { return operations_.empty(); }
  std::size_t size() const { return operations_.size(); }
  // Whether an operation on these keys must queue.
  bool Blocks(PartitionId partition, const std::vector<std::uint64_t>& hashes) const;
  bool Blocks(PartitionId partition, std::uint64_t hash) const {
    return lines_.contains({partition.value(), hash});
  }
  bool Holds(SessionId session, std::uint64_t frame_id, std::uint16_t index) const {
    return frames_.contains({session.value(), frame_id, index});
  }

  // At the end of its lines; returns it with its id.
  IoWaiter* Add(std::unique_ptr<IoWaiter> operation);
  // Null: it is over.
  IoWaiter* Find(std::uint64_t id);
  bool HasTurn(const IoWaiter& operation) const;
  // It is over, or goes elsewhere. Those that have their turn now are appended to `next`.
  std::unique_ptr<IoWaiter> Remove(std::uint64_t id, std::vector<std::uint64_t>* next);

  std::uint64_t next_deadline_ns() const {
    return deadlines_.empty() ? UINT64_MAX : deadlines_.begin()->first;
  }
  // The ids of those whose time is up,
  std::vector<std::uint64_t> Expired(std::uint64_t now_ns) const;
  // of those that are parked and have their turn,
  std::vector<std::uint64_t> Parked() const;
  // and of those of the session's frames below `frame_id`.
  std::vector<std::uint64_t> Below(SessionId session, std::uint64_t frame_id) const;

 private:
  using Key = std::pair<std::uint32_t, std::uint64_t>;                    // Partition and hash.
  using Frame = std::tuple<std::uint64_t, std::uint64_t, std::uint16_t>;  // Of a session.

  std::uint64_t next_id_ = 1;
  absl::flat_hash_map<std::uint64_t, std::unique_ptr<IoWaiter>> operations_;
  absl::flat_hash_map<Key, std::deque<IoWaiter*>> lines_;  // None is empty.
  std::set<Frame> frames_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> deadlines_;  // Of all, with their ids.
};

}  // namespace tidepool::daemon
