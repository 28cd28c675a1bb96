// Answers that wait until the changes that they report are durable: of namespaces with durability
// `sync`.
//
//   daemon/core/dispatcher -> [commit_waiters] -> daemon/core/dispatcher, which sends them
#pragma once

#include <absl/functional/function_ref.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "daemon/core/reception.h"
#include "proto/base/ids.h"
#include "proto/transport/transport.h"
#include "proto/wire/opcode.h"

namespace tidepool::daemon {

// Frames of answers to a session; or, with `run`, a task of this node.
struct CommitWaiter {
  std::uint64_t position = 0;
  SessionId session;
  std::uint32_t connection = 0;
  std::uint64_t frame_id = 0;
  std::uint64_t bytes = 0;  // Of `frames`; counted in Session::awaiting_commit_bytes.
  // For the metrics: of its first operation. Opcode kNone: not counted.
  std::uint64_t received_ns = 0;
  NamespaceId space;
  wire::Opcode opcode = wire::Opcode::kNone;
  std::uint32_t operations = 0;
  std::vector<transport::FrameBufferPtr> frames;
  std::vector<AwaitingDownload> downloads;
  std::function<void(bool durable)> run;
};

// Owner core only. Waiters leave in the order in which they came, so that a client gets its answers
// in order; answers without a commit do not come here and pass them. A commit takes the changes
// that came while the commit before was under way, so a waiter waits for one or two writes of the
// device. The credits of the sessions bound the number of waiters.
//
// Invariant: each waiter has a position above 0, and either frames or `run`.
class CommitWaiters {
 public:
  // Takes a waiter and returns it, for its metrics. Valid until the next call.
  CommitWaiter& Add(CommitWaiter waiter);
  bool empty() const { return waiters_.empty(); }
  std::size_t size() const { return waiters_.size(); }
  // Returns the waiter that came last. There must be one.
  CommitWaiter& newest();

  // Takes out the waiters at the front whose position is at most `durable`, or all of them if the
  // device has `failed`. `end` gets each with whether its position is durable, and may call Add.
  // Returns their number.
  unsigned Release(std::uint64_t durable, bool failed,
                   absl::FunctionRef<void(CommitWaiter&, bool is_durable)> end);
  void Clear() { waiters_.clear(); }

 private:
  std::deque<CommitWaiter> waiters_;
};

}  // namespace tidepool::daemon
