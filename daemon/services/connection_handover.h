// Hands accepted connections to gRPC on a thread of its own.
//
//   daemon/services/connection_guard -> [services/connection_handover] => gRPC
//
// gRPC 1.51 reads a new connection on the thread that hands it over, for as long as bytes come. A
// flood therefore occupies that thread, and the guard's thread stays free to end the flood.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "proto/base/result.h"
#include "proto/base/unique_fd.h"

namespace tidepool::daemon {

// Bounds: 64 connections wait for the handler.
//
// HasRoom and Add are called by one thread, Close by any thread, once.
class ConnectionHandover {
 public:
  // Takes a connection over and closes it at its end. May block for as long as bytes come.
  using Handler = std::function<void(int connection)>;
  static constexpr std::size_t kWaitingMax = 64;

  static constexpr std::uint64_t kGraceMs = 200;

  // Errors: kResourceExhausted (no thread, no descriptor).
  static Result<std::unique_ptr<ConnectionHandover>> Start(Handler handler,
                                                           std::uint64_t grace_ms = kGraceMs);
  ~ConnectionHandover() { Close(); }

  // True until kWaitingMax connections wait.
  bool HasRoom() const;
  // Queues `connection`, which this class owns until the handler gets it. Precondition: HasRoom().
  // After Close: closes it.
  void Add(int connection);
  // Closes the waiting connections and ends the thread. The connection that the handler reads at
  // the moment has the grace to arrive, so that its first call is served; then it is reset.
  void Close();

 private:
  ConnectionHandover(Handler handler, std::uint64_t grace_ms)
      : handler_(std::move(handler)), grace_ms_(grace_ms) {}
  void Run();
  // Makes copy_ name what `descriptor` names. Takes no new descriptor, so that it never fails.
  void CopyOf(int descriptor);

  const Handler handler_;
  const std::uint64_t grace_ms_;
  mutable std::mutex mutex_;  // Guards the next five.
  std::condition_variable changed_;
  std::deque<int> waiting_;
  // The connection in the handler, which gRPC may close at any time; otherwise /dev/null.
  UniqueFd copy_;
  bool busy_ = false;  // The handler runs.
  bool closed_ = false;
  UniqueFd nothing_;  // /dev/null.
  std::thread thread_;
};

// Ends `connection` for both sides, and resets it at its close: its buffers are freed at once and
// not after the kernel's time for a last acknowledgement.
void ResetConnection(int connection);

}  // namespace tidepool::daemon
