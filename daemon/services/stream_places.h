// Bounds the calls that send large answers piece by piece.
//
//   services/gates -> [services/stream_places]
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace tidepool::daemon {

// Limits the calls that stream large answers. A piece that the client does not read stays in gRPC's
// buffers, up to 1.4 MiB per call, and gRPC's quota does not count outgoing bytes. So few of these
// calls run at once; later calls wait for a place. Thread-safe.
class StreamPlaces {
 public:
  explicit StreamPlaces(int places) : free_(places) {}

  // Waits up to `wait` for a place. Returns false if none became free.
  bool Take(std::chrono::milliseconds wait) {
    std::unique_lock lock(mutex_);
    if (!freed_.wait_for(lock, wait, [this] { return free_ > 0; })) return false;
    --free_;
    return true;
  }
  // Gives a place back.
  void Leave() {
    {
      const std::lock_guard lock(mutex_);
      ++free_;
    }
    freed_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable freed_;
  int free_;
};

}  // namespace tidepool::daemon
