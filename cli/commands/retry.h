// How often commands on much data try again when a connection breaks or a daemon is away for a
// moment.
//
// kvctl load|dump|keys|stage -> [retry] -> gRPC Bulk, Staging
#pragma once

#include <chrono>
#include <thread>

#include "proto/base/status.h"

namespace tidepool::cli {

// In a row without any progress.
inline constexpr int kAttemptsMax = 5;
inline constexpr std::chrono::milliseconds kRetryDelay{200};

// Calls `attempt`, which returns a Status or a Result and may be made any number of times, until it
// ends otherwise than retryably, at most kAttemptsMax times.
template <typename Attempt>
auto Retried(Attempt&& attempt) {
  auto outcome = attempt();
  for (int attempts = 1; attempts < kAttemptsMax && IsRetryable(outcome.code()); ++attempts) {
    std::this_thread::sleep_for(kRetryDelay);
    outcome = attempt();
  }
  return outcome;
}

}  // namespace tidepool::cli
