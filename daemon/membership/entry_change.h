// Changes of a partition's entry: its owner, its copies, its version. Pure rules.
//
//   moving/copy_mover of the owner -> services/moves_service -> membership/coordinator
//       -> [entry_change]
//
// Rules (numbers of daemon/copies/README.md):
//   1. A change names the term and the version that the asker knows. Another version refuses it,
//      so a request that comes late or twice changes nothing.
//   2. A copy is of one process: node and incarnation. Only an in-sync copy becomes owner.
//   3. A hand-over raises the term, and leaves the former owner as an in-sync copy.
//   4. The steps of a change take effect together, in one save, or not at all.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/membership/cluster_state.h"

namespace tidepool::daemon {

struct EntryStep {
  enum class What : std::uint8_t {
    kJoin = 1,      // The process begins to hold a copy, which does not count.
    kAdmit = 2,     // Its copy has all committed changes: it is in sync.
    kHandover = 3,  // Its copy, in sync, becomes the owner.
    kDrop = 4,      // It holds a copy no more.
    kTouch = 5,     // Nothing but the version changes: earlier requests are void.
    // Alone. The process, an owner, may be gone: the store is asked, and its partitions go to their
    // in-sync copies.
    kSuspect = 6,
  };
  static constexpr std::uint32_t kWhatMax = 6;

  What what = What::kTouch;
  NodeId node;  // All but kTouch.
  std::uint64_t incarnation = 0;
  CoreId core;  // kJoin.
};

struct EntryChange {
  NamespaceId space;
  std::uint32_t partition = 0;
  Term term;
  std::uint64_t version = 0;
  std::vector<EntryStep> steps;
};

// Returns whether partitions of the namespace can have copies. Errors: kUnimplemented, with the
// reason.
Status CheckCopyable(const placement::Namespace& space);

// Applies the steps to the partition's place in `space` and to its entry; after an error both are
// unspecified. Errors: kAborted (another term or version, or the partition is lost),
// kUnimplemented (CheckCopyable), kInvalidArgument (no such node or core), kUnavailable (the
// process is not up), kFailedPrecondition (the copy is not in the state that a step needs),
// kResourceExhausted (terms).
Status ApplySteps(const EntryChange& change, const std::vector<placement::Node>& nodes,
                  placement::Namespace* space, PartitionEntry* entry);

// Part of each change of the state. Removes entries of dropped namespaces and, of namespaces
// without replicas, copies of processes that have ended and all copies of partitions whose owner's
// process has ended. Raises the version of an entry that loses a copy.
void RenewEntries(const ClusterState& before, ClusterState* next);

}  // namespace tidepool::daemon
