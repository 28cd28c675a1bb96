// The address of the elected coordinator, for calls to it.
//
//   daemon/node/election_loop -> [election_finder] -> membership/etcd_session
//
// Invariant: Find gives the address of the newest election that OnElected or etcd has reported, and
// asks etcd only while no address is known.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "daemon/membership/coordinator_link.h"
#include "daemon/membership/etcd_session.h"
#include "proto/placement/placement_map.h"

namespace tidepool::daemon {

// Thread-safe.
class ElectionFinder final : public CoordinatorFinder {
 public:
  // `session` must outlive the object.
  explicit ElectionFinder(EtcdSession* session) : session_(*session) {}

  // Errors: those of EtcdSession::Elected; kUnavailable (no coordinator is elected, or it does not
  // serve yet).
  Result<std::string> Find(Deadline deadline) override;
  void OnLost(const std::string& address) override;

  // Records the outcome of an election. Returns true if the election is not the recorded one.
  bool OnElected(const std::optional<ElectedNode>& elected);
  // Returns the NodeId of the elected node in `map`, or NodeState::kNoNode.
  std::uint32_t NodeIn(const placement::PlacementMap& map) const;

 private:
  EtcdSession& session_;
  mutable std::mutex mutex_;
  std::string address_;
  std::string uuid_;
  std::int64_t revision_ = 0;  // Number of the election; 0: no node is elected.
};

}  // namespace tidepool::daemon
