// Replays the changes that the commit ring has beyond a checkpoint.
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
  RingPosition end;           // Position of the next commit.
  std::uint64_t commits = 0;  // Commits up to `end`.
  // A later commit is sound, so the commit at the end was damaged, not torn. One commit is under
  // way at a time: no commit follows a torn commit.
  bool is_damaged = false;
};

// Calls `visit` for each change that `checkpoint` does not cover, in order, with its offset in
// `ring`. `ring`: content of the ring of the checkpoint's core, aligned to 8.
RingReplay ReplayRing(Bytes ring, const Checkpoint& checkpoint,
                      absl::FunctionRef<void(const ReplayedRecord&, std::uint64_t at)> visit);

}  // namespace tidepool::storage
