// What the commit ring has beyond a checkpoint.
//
//   recovery, log_check -> [ring_replay] -> commit, replay
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>

#include "proto/base/bytes.h"
#include "storage/durable/checkpoint.h"
#include "storage/durable/replay.h"

namespace tidepool::storage {

struct RingReplay {
  RingPosition end;           // Where the next commit goes.
  std::uint64_t commits = 0;  // Up to there.
  // There is a later commit that is sound, so the one at the end was damaged: as one was under way
  // at a time, behind a torn one there is none.
  bool is_damaged = false;
};

// Calls `visit` for each change that `checkpoint` does not cover, in their order, with where it
// lies in `ring`, the content of the ring of the checkpoint's core, aligned to 8.
RingReplay ReplayRing(Bytes ring, const Checkpoint& checkpoint,
                      absl::FunctionRef<void(const ReplayedRecord&, std::uint64_t at)> visit);

}  // namespace tidepool::storage
