// Named points at which a test kills its daemon: between two writes that are whole only
// together.
//
//   storage -> [failpoint]
//
// The variable TIDEPOOL_TEST_FAILPOINT=NAME[:N] selects the point: at its N-th pass of point NAME
// (the first, without N), the process kills itself by SIGKILL. Only in builds with tests
// (TIDEPOOL_TESTS); in other builds a point is empty. No point lies on the path of an operation.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace tidepool::failpoint {

inline constexpr std::array<std::string_view, 14> kNames = {
    "catalog.written",     // A new catalog is on the device, and no superblock names it.
    "catalog.flipped",     // A superblock names it.
    "commit.started",      // A commit is on its way to the ring.
    "commit.durable",      // It is in the ring, before any notification.
    "compact.moved",       // All live records of a segment were copied; its place is not free yet.
    "checkpoint.written",  // The data of a checkpoint is written, and not flushed.
    "checkpoint.flushed",  // The data is flushed; the checkpoint itself is not written.
    "checkpoint.durable",  // The checkpoint is written; no action that it allows was done.
    "recovery.filled",     // Indexes are made; data beyond the checkpoint still exists.
    "recovery.wiped",      // That data is gone; the checkpoint that ends recovery is not written.
    "slot.wiped",          // A dead segment has lost its header.
    "spill.frozen",        // A segment that leaves memory has its place.
    "spill.written",       // The segment is written.
    "spill.returned",      // The segment was read back for compaction.
};

consteval std::string_view Known(std::string_view name) {
  if (std::find(kNames.begin(), kNames.end(), name) == kNames.end()) throw "no such failpoint";
  return name;
}

// Kills the process at the selected point. Thread-safe. One compare if the variable is unset.
void Pass(std::string_view name);

}  // namespace tidepool::failpoint

#ifdef TIDEPOOL_FAILPOINTS
#define TP_FAILPOINT(name) ::tidepool::failpoint::Pass(::tidepool::failpoint::Known(name))
#else
#define TP_FAILPOINT(name) static_cast<void>(::tidepool::failpoint::Known(name))
#endif
