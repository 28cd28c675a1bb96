// Starting threads in a process that may be at its limit of threads or of memory.
#pragma once

#include <cstddef>
#include <exception>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "proto/base/result.h"

namespace tidepool {

// Starts a thread that runs `body`. A message names the work by `what` if it has no thread.
// Errors: kResourceExhausted (ulimit -u, the limit of tasks of a control group, or memory for the
// stack). std::thread would throw then, and end a process that does not catch it.
template <typename Body>
Result<std::thread> StartThread(std::string_view what, Body body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::exception& error) {
    return Status(StatusCode::kResourceExhausted,
                  "no thread can be started for " + std::string(what) + ": " + error.what(),
                  "raise ulimit -u and ulimit -v, or the batch job's limits of tasks and memory");
  }
}

// Starts a thread as StartThread does and moves it to `*thread`.
template <typename Body>
Status StartThread(std::string_view what, std::thread* thread, Body body) {
  auto started = StartThread(what, std::move(body));
  if (!started.ok()) return started.status();
  *thread = *std::move(started);
  return OkStatus();
}

// Calls `body` with 0 to `count` - 1, each on its own thread while threads can be started, the rest
// in sequence on the caller's. Returns after the last call.
template <typename Body>
void ForEachAtOnce(std::size_t count, const Body& body) {
  std::vector<std::thread> threads;
  threads.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    auto thread = StartThread("calls to nodes", [&body, i] { body(i); });
    if (!thread.ok()) {
      body(i);
      continue;
    }
    threads.push_back(*std::move(thread));
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tidepool
