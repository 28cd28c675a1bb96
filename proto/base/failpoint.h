// Named moments at which a test has its daemon die: between two writes that only together are
// whole.
//
//   storage -> [failpoint]
//
// The variable TIDEPOOL_TEST_FAILPOINT=NAME[:N] of a process says where: when it passes the point
// NAME for the N-th time (the first, if N is left out), it kills itself by SIGKILL. Only in builds
// with tests (TIDEPOOL_TESTS); in others a point is nothing. None lies on the path of an operation.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace tidepool::failpoint {

inline constexpr std::array<std::string_view, 14> kNames = {
    "catalog.written",  // A new catalog is on the device, and no superblock names it.
    "catalog.flipped",  // One does.
    "commit.started",   // A commit is on its way to the ring.
    "commit.durable",   // It is there, and nobody was told.
    "compact.moved",    // All of a segment that lives was copied, and its place is not given back.
    "checkpoint.written",  // All that a checkpoint says is written, and not flushed.
    "checkpoint.flushed",  // It is, and the checkpoint itself is not written.
    "checkpoint.durable",  // It is, and nothing of what it allows was done.
    "recovery.filled",     // Indexes are made, and what lies beyond the checkpoint is still there.
    "recovery.wiped",      // It is gone, and the checkpoint that ends recovery is not written.
    "slot.wiped",          // A dead segment has lost its header.
    "spill.frozen",        // A segment that leaves memory has its place.
    "spill.written",       // It is there.
    "spill.returned",      // It was read back to be compacted.
};

consteval std::string_view Known(std::string_view name) {
  if (std::find(kNames.begin(), kNames.end(), name) == kNames.end()) throw "no such failpoint";
  return name;
}

// Thread-safe. One compare where the variable is not set.
void Pass(std::string_view name);

}  // namespace tidepool::failpoint

#ifdef TIDEPOOL_FAILPOINTS
#define TP_FAILPOINT(name) ::tidepool::failpoint::Pass(::tidepool::failpoint::Known(name))
#else
#define TP_FAILPOINT(name) static_cast<void>(::tidepool::failpoint::Known(name))
#endif
