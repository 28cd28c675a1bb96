// Answers that wait until the changes they report are durable, for namespaces with durability
// `sync`, or have reached the copies, for namespaces with replicas.
//
//   daemon/core/responder -> [commit_waiters] -> daemon/core/responder, which sends them
#pragma once

#include <absl/functional/function_ref.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "daemon/copies/copy_waits.h"
#include "daemon/core/reception.h"
#include "proto/base/ids.h"
#include "proto/transport/transport.h"
#include "proto/wire/opcode.h"

namespace tidepool::daemon {

// Answer frames of a session; or, with `run`, a task of this node.
struct CommitWaiter {
  std::uint64_t position = 0;  // Of the device; 0: none.
  CopyWaits copies = {};
  SessionId session;
  std::uint32_t connection = 0;
  std::uint64_t frame_id = 0;
  std::uint64_t bytes = 0;  // Of `frames`; counted in Session::awaiting_commit_bytes.
  // First operation of the frame, for the metrics. Opcode kNone: not counted.
  std::uint64_t received_ns = 0;
  NamespaceId space;
  wire::Opcode opcode = wire::Opcode::kNone;
  std::uint32_t operations = 0;
  std::vector<transport::FrameBufferPtr> frames;
  std::vector<AwaitingDownload> downloads;
  std::function<void(bool durable)> run;
};

// Owner core only. Waiters leave in order of arrival, so a client gets these answers in order.
// Answers that need no commit do not come here and overtake them. A commit takes all changes that
// arrived during the commit before, so a waiter waits for one or two device writes. The credits of
// the sessions bound the number of waiters.
//
// Invariant: each waiter has a position above 0 or waits for copies, and either frames or `run`.
class CommitWaiters {
 public:
  // Adds a waiter and returns it, to set its metrics. Valid until the next call.
  CommitWaiter& Add(CommitWaiter waiter);
  bool empty() const { return waiters_.empty(); }
  std::size_t size() const { return waiters_.size(); }
  // Returns the newest waiter. REQUIRES: there is a waiter.
  CommitWaiter& newest();

  // Removes the waiters at the front whose position is at most `durable`, or all waiters if the
  // device has `failed`. `end` receives each with whether its position is durable, and may call
  // Add. Returns their number.
  unsigned Release(std::uint64_t durable, bool failed,
                   absl::FunctionRef<void(CommitWaiter&, bool is_durable)> end);
  // Removes the waiters whose wait for copies has ended, in order of arrival. `end` receives each
  // with whether the copies have it, and may not call Add. Returns their number.
  unsigned ReleaseCopied(absl::FunctionRef<void(CommitWaiter&, bool is_copied)> end);
  void Clear() { waiters_.clear(); }

 private:
  std::deque<CommitWaiter> waiters_;
};

}  // namespace tidepool::daemon
