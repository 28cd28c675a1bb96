// Progress of a copy: the source core writes it, the thread of the move reads it.
//
//   daemon/copies/copy_source (writes) -> [copy_job] -> daemon/moving/copy_mover (reads)
#pragma once

#include <atomic>
#include <cstdint>

#include "proto/base/ids.h"
#include "proto/base/status.h"

namespace tidepool::daemon {

struct CopyJob {
  enum class Stage : std::uint8_t {
    kCopying,    // The walk is under way.
    kFollowing,  // The walk is through: the target is a moment behind.
    kCaughtUp,   // A replica: answers wait for it, and it has all that was answered before.
    kEnding,     // Held back: nothing changes any more, and the rest is on its way.
    kWhole,      // The target has applied all of it.
    kFailed,     // See `code`. The partition is served here on.
    kGone,       // A map has taken the partition from here, or changed its term.
  };

  CopyJob(PartitionId of_partition, Term of_term, std::uint64_t of_version, std::uint64_t by_link,
          bool is_replica = false)
      : partition(of_partition),
        term(of_term),
        version(of_version),
        copy(static_cast<std::uint32_t>(of_version)),
        link(by_link),
        replica(is_replica) {}

  const PartitionId partition;
  const Term term;
  const std::uint64_t version;  // Of the entry since which it names the copy.
  const std::uint32_t copy;     // See CopyMessage.
  const std::uint64_t link;
  const bool replica;  // The copy stays: see CopySource.
  std::atomic<Stage> stage{Stage::kCopying};
  std::atomic<StatusCode> code{StatusCode::kOk};  // Set before kFailed.
  std::atomic<bool> link_lost{false};             // Also behind kWhole: the move is withdrawn.
  std::atomic<std::uint64_t> records{0};          // Passed by the walk.
  std::atomic<std::uint64_t> records_total{0};    // At the walk's begin.
  std::atomic<std::uint64_t> bytes{0};            // Sent in all messages.
  std::atomic<std::uint64_t> unacked_bytes{0};    // Unacknowledged on the link.
};

}  // namespace tidepool::daemon
