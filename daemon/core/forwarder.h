// Groups for other cores: given to the node's aggregator, and answered with its outcome.
//
//   daemon/core/dispatcher -> [forwarder] -> wire::Aggregator; outcomes come back by the mailbox
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "daemon/core/reception.h"
#include "daemon/core/session.h"
#include "proto/base/ids.h"
#include "proto/wire/aggregator.h"
#include "proto/wire/group.h"

namespace tidepool::daemon {

// The forwarded groups of one frame, until their outcome.
struct ForwardedGroups {
  struct Group {
    std::uint16_t number = 0;
    std::uint16_t first = 0;
    std::uint16_t count = 0;
  };
  SessionId session;
  std::uint64_t frame_id = 0;
  std::uint32_t credit = 0;               // 0: the client has given the frame up.
  std::shared_ptr<const HeldBytes> held;  // Null in that case too.
  std::uint32_t reply_bytes_max = 0;
  std::vector<Group> groups;
};

// Owner core only. All forwarded groups of a frame travel together and are answered together. The
// credits of the sessions bound the number of frames.
//
// Invariants: a ticket is used once; a frame stays until its outcome. The aggregator returns an
// outcome for each frame, even if the client has given it up or its session has ended.
class Forwarder {
 public:
  // Sets the aggregator; before the first frame. Must outlive the forwarder. Null: nothing is
  // forwarded.
  void set_aggregator(wire::Aggregator* aggregator) { aggregator_ = aggregator; }
  bool enabled() const { return aggregator_ != nullptr; }

  // Adds group `number` of the present frame. `body`: its place in the frame's copy.
  void Plan(std::uint16_t number, const wire::Group& group, Bytes body);
  bool has_planned() const { return !next_.groups.empty(); }
  // Gives the planned groups to the aggregator, with the copy of their frame.
  void Send(CoreId core, SessionId session, const RequestAtHand& at_hand,
            std::uint64_t deadline_ns);

  // Returns the groups of an outcome that has arrived. Nothing: the ticket is unknown.
  std::optional<ForwardedGroups> Take(std::uint64_t ticket);
  // Adds the answers of an outcome to `to.sink` and caches the failures.
  static void Answer(const ForwardedGroups& forwarded, const wire::ForwardedOutcome& outcome,
                     Reception& to);

  // Releases the session's frames below `frame_id`. Returns their credit.
  std::uint32_t ReleaseBelow(SessionId session, std::uint64_t frame_id);
  std::size_t size() const { return forwarded_.size(); }
  void Clear() { forwarded_.clear(); }

 private:
  wire::Aggregator* aggregator_ = nullptr;
  std::unordered_map<std::uint64_t, ForwardedGroups> forwarded_;  // By ticket.
  std::uint64_t next_ticket_ = 1;
  // Groups of the present frame, for the aggregator and for the outcome.
  wire::ForwardedFrame to_send_;
  ForwardedGroups next_;
};

}  // namespace tidepool::daemon
