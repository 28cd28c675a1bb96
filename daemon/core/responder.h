// Makes the answers of operations and sends them: at once, or when their commit is durable.
//
//   daemon/core/dispatcher -> [responder] -> answer_sink, streams, commit_waiters
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "daemon/core/answer_sink.h"
#include "daemon/core/commit_waiters.h"
#include "daemon/core/lease.h"
#include "daemon/core/operation_meter.h"
#include "daemon/core/ownership.h"
#include "daemon/core/reception.h"
#include "daemon/core/sessions.h"
#include "daemon/core/streams.h"
#include "daemon/ops/operation.h"
#include "proto/base/clock.h"
#include "proto/base/status.h"
#include "proto/transport/transport.h"
#include "storage/core_store.h"

namespace tidepool::daemon {

// Returns a text for codes that need an explanation. The client adds namespace and node.
std::string_view TextFor(StatusCode code);

// Owner core only.
//
// Invariants: nothing that was applied is answered without a valid lease; nothing that needs a
// commit is answered before its position is durable; the parts of a streamed value follow the
// answer that announces them.
class Responder {
 public:
  // All must outlive the responder.
  Responder(storage::CoreStore& store, const Lease& lease, const Clock& clock,
            const Ownership& ownership, OperationMeter& meter)
      : store_(store), lease_(lease), clock_(clock), ownership_(ownership), meter_(meter) {}
  Responder(const Responder&) = delete;
  Responder& operator=(const Responder&) = delete;
  // Before the first frame. The arguments must stay valid until Stop.
  void Start(CoreId core, transport::Worker* worker, transport::BufferPool* pool, Streams* streams,
             Sessions* sessions);
  void Stop();

  AnswerSink SinkFor(const Session& session, std::uint64_t frame_id, std::uint32_t reply_bytes_max);

  // Places the value, keeps the answer of a change, gives it to the sink, and lets go of the
  // upload. `room`: bytes that the answer's value may take.
  void Conclude(const Planned& planned, Reply& reply, std::size_t room, Reception& to);
  // Announces the stream of a value whose answer is in the sink.
  void Stream(Reception& to, std::uint16_t index,
              std::shared_ptr<const storage::ValueReader> value);
  // Posts the answers of operations that were applied, or holds them until their commit. Without a
  // valid lease it closes the connection instead.
  void PostApplied(Reception& to);

  // Returns the position that must be durable before an operation on the partition that has just
  // ended is answered; 0: none.
  std::uint64_t CommitWaitOf(const storage::Partition& partition) const;
  // Makes the answers wait until the position is durable.
  static void RequireCommit(std::uint64_t position, Reception& to);
  // Makes the answers wait for copies.
  static void RequireCopies(const CopyWaits& waits, Reception& to);
  // Answers kept group `g` with kUnknown, if it ran before a device failed and its commit is not
  // durable, or if the partition's successor may not have it. Returns false otherwise.
  bool EndUnknown(std::uint16_t g, Reception& to);
  // Calls `run` when the position is durable (true), or never will be (false).
  // The same for copies that must have something.
  void WhenDurable(std::uint64_t position, std::function<void(bool durable)> run,
                   CopyWaits copies = {});
  // Sends the answers whose commit is durable. Returns their number.
  unsigned ReleaseDurable();
  // Sends the answers whose copies have what they report. Returns their number.
  unsigned ReleaseCopied();
  const CommitWaiters& commit_waiters() const { return commit_waiters_; }
  const CommitWaiters& copy_waiters() const { return copy_waiters_; }
  // Returns the answers that HoldAnswers held last. REQUIRES: nothing was released since.
  CommitWaiter& newest_held() { return *newest_held_; }

 private:
  void ConcludeQuiet(const Planned& planned, const Reply& reply, std::size_t room, Reception& to);
  void StartDownloads(Session& session, std::uint64_t frame_id,
                      std::vector<AwaitingDownload>* downloads);
  void HoldAnswers(Reception& to);
  CommitWaiter& Hold(CommitWaiter waiter);
  void SendCommitted(CommitWaiter* waiter, bool is_durable);

  storage::CoreStore& store_;
  const Lease& lease_;
  const Clock& clock_;
  const Ownership& ownership_;
  OperationMeter& meter_;
  CoreId core_;
  transport::Worker* worker_ = nullptr;
  transport::BufferPool* pool_ = nullptr;
  Streams* streams_ = nullptr;
  Sessions* sessions_ = nullptr;
  CommitWaiters commit_waiters_;
  CommitWaiters copy_waiters_;  // Those with CommitWaiter::copies.
  CommitWaiter* newest_held_ = nullptr;
};

}  // namespace tidepool::daemon
