// The accepting side of the node's gRPC port, with bounds on connections that have shown no token.
//
//   daemon/services/service_host -> [services/connection_guard] -> connection_handover => gRPC
//
// gRPC 1.51 accepts without a bound, and its listener ends for ever at the first failed accept: one
// moment without a free descriptor made a node unreachable. So this class accepts, and gRPC takes
// the connections over on another thread (connection_handover).
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daemon/services/auth.h"
#include "daemon/services/connection_handover.h"
#include "proto/base/limited_log.h"
#include "proto/base/result.h"
#include "proto/base/unique_fd.h"

namespace tidepool::daemon {

// A stranger is a connection on which no call has carried the job token yet.
//
// Bounds: strangers use at most an eighth of the process's descriptors (16 to 512), all connections
// at most half of them (16,384). A stranger ends 10 s after its last byte, 60 s after its first
// byte, or as the oldest when another connection needs its place. A stranger may send 128 KiB.
// While a first call with the token is arriving, all strangers together may send one message of the
// largest size. A connection without a place waits in the listener's queue.
//
// An ended stranger is reset, so that the kernel frees its buffers at once.
//
// Thread-safe. One thread of its own, which sleeps while there are no strangers and no arrivals.
class ConnectionGuard final : public TokenObserver {
 public:
  // Takes a connection over; called on the thread of the handover. May read it as long as bytes
  // come.
  using Handler = std::function<void(int listener, int connection)>;

  // Accepts at `listener`, which already listens, until Close.
  // Errors: kResourceExhausted (no descriptor, no thread).
  static Result<std::unique_ptr<ConnectionGuard>> Start(UniqueFd listener, Handler handler);
  ~ConnectionGuard() override;
  // Ends the threads and closes the listener. Connections continue and may still show the token.
  // Connections that were not handed over yet are closed.
  void Close();

  bool has_strangers() const override {
    return stranger_count_.load(std::memory_order_relaxed) != 0;
  }
  void OnToken(const std::string& peer) override;

  // Records that the headers of a call with the token have arrived; its message may follow.
  void OnHeaders();
  // Records that a call was refused because too many calls came without the token.
  void NoteFlood();

 private:
  // Identifies a connection for its lifetime: gRPC closes the descriptor and its number is reused,
  // but no two open sockets have the same inode.
  struct Connection {
    int descriptor = -1;
    ino_t inode = 0;
    std::string peer;
    std::uint64_t accepted_ns = 0;
    std::uint64_t heard_ns = 0;
    std::uint64_t bytes = 0;
  };
  enum class Accepted { kOne, kNobody, kNoDescriptor };

  ConnectionGuard() = default;
  void Run();
  int WaitMs(bool has_room);
  // These need mutex_, except Accept and RefuseOne.
  void EndOverdue(std::uint64_t now_ns);
  bool LookAt(std::uint64_t now_ns, bool may_be_large, Connection* stranger);
  bool HasRoom(std::uint64_t now_ns);
  bool EndOldest(std::uint64_t now_ns);
  void ForgetClosed();
  void End(const Connection& connection);
  Accepted Accept(std::uint64_t now_ns);
  void RefuseOne();

  UniqueFd listener_;
  UniqueFd wake_;     // An eventfd.
  UniqueFd reserve_;  // Closed for a moment when no other descriptor is free.
  std::unique_ptr<ConnectionHandover> handover_;
  std::size_t strangers_max_ = 0;
  std::size_t connections_max_ = 0;

  std::mutex mutex_;                 // Guards the next three.
  std::list<Connection> strangers_;  // Oldest first.
  std::vector<Connection> known_;    // May contain ended connections; see ForgetClosed.
  std::size_t forget_at_ = 0;
  std::uint64_t checked_ns_ = 0;
  std::deque<std::uint64_t> arriving_;  // Arrival times of headers whose call no gate has seen yet.
  std::atomic<std::size_t> stranger_count_{0};
  std::atomic<std::uint64_t> flood_ns_{0};
  std::atomic<bool> accepts_{true};
  std::atomic<bool> stopping_{false};
  log::Limited ended_;
  log::Limited refused_;
  std::thread thread_;
};

}  // namespace tidepool::daemon
