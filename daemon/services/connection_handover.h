// Hands accepted connections to gRPC on a thread of its own.
//
//   daemon/services/connection_guard -> [services/connection_handover] => gRPC
//
// gRPC 1.51 reads a new connection on the thread that hands it over, for as long as bytes come. A
// flood therefore occupies that thread, and the guard's thread stays free to end the flood.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "proto/base/result.h"

namespace tidepool::daemon {

// Bounds: 64 connections wait for the handler.
//
// HasRoom and Add are called by one thread, Close by any thread, once.
class ConnectionHandover {
 public:
  // Takes a connection over and closes it at its end. May block for as long as bytes come.
  using Handler = std::function<void(int connection)>;
  static constexpr std::size_t kWaitingMax = 64;

  // Errors: kResourceExhausted (no thread).
  static Result<std::unique_ptr<ConnectionHandover>> Start(Handler handler);
  ~ConnectionHandover() { Close(); }

  // True until kWaitingMax connections wait.
  bool HasRoom() const;
  // Queues `connection`, which this class owns until the handler gets it. Precondition: HasRoom().
  // After Close: closes it.
  void Add(int connection);
  // Resets the connection that the handler reads at the moment, closes the waiting connections and
  // ends the thread.
  void Close();

 private:
  explicit ConnectionHandover(Handler handler) : handler_(std::move(handler)) {}
  void Run();

  const Handler handler_;
  mutable std::mutex mutex_;  // Guards the next three.
  std::condition_variable changed_;
  std::deque<int> waiting_;
  // A copy of the connection in the handler: gRPC may close its own descriptor at any time.
  int in_handler_ = -1;
  bool closed_ = false;
  std::thread thread_;
};

// Ends `connection` for both sides, and resets it at its close: its buffers are freed at once and
// not after the kernel's time for a last acknowledgement.
void ResetConnection(int connection);

}  // namespace tidepool::daemon
