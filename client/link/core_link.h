// The client's side of a core: queues of operations, credits, frames under way, answers.
//
//   partition queue -> [core link] -> proto/transport => daemon/core/dispatcher => [core link] ->
//   call
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "client/calls/call.h"
#include "client/engine/partition_queue.h"
#include "client/engine/sent_changes.h"
#include "client/link/streams.h"
#include "proto/base/ids.h"
#include "proto/base/limits.h"
#include "proto/transport/transport.h"
#include "proto/wire/answer.h"
#include "proto/wire/frame.h"
#include "proto/wire/stream.h"

namespace tidepool::internal {

class CoreLink;
class Engine;
class NodeSession;

// Returns the time left until a deadline. Frames carry a duration because clocks differ.
inline std::uint32_t TimeLeftUs(std::uint64_t deadline_ns, std::uint64_t now_ns) {
  const std::uint64_t left_us = deadline_ns > now_ns ? (deadline_ns - now_ns) / 1'000 : 0;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(left_us, 0xffff'ffff));
}

// A group as it was sent; needed to send it again unchanged.
struct SentGroup {
  PartitionQueue* queue = nullptr;
  Term term;
  std::uint16_t first = 0;
  std::uint16_t count = 0;
  bool pack = false;  // All operations are one pack.
};

// A received value under way, of one operation.
struct Download {
  std::uint16_t index = 0;
  StreamReceiver receiver;
};

// A request that is not completely answered.
struct SentFrame {
  CoreLink* link = nullptr;
  std::uint64_t id = 0;
  std::uint64_t ack_watermark = 0;  // Watermark that this frame sent.
  std::uint32_t request_bytes = 0;
  std::uint32_t reply_bytes = 0;
  std::uint32_t credit = 0;  // In operations, that has not come back.
  // Index = operation in the frame. A pack stands at each of its places. Null: answered. GivenUp():
  // no thread waits any more, and the daemon has not answered.
  std::vector<Operation*> operations;
  std::vector<SentGroup> groups;
  std::vector<Download> downloads;
  std::uint32_t unanswered = 0;  // Not answered by the daemon, including given-up operations.
  std::uint32_t live = 0;        // Operations that a thread waits for. 0: the frame is finished.
};

// Guarded by the client's lock. Lives as long as the client.
//
// Invariants:
// (1) Unanswered operations, bytes of whole frames and allowances of answers each stay within the
//     grant. A pack counts as one operation until its whole frame is answered. A given-up operation
//     counts until its answer, until the daemon has shown that it knows of the giving up, or until
//     a new connection.
// (2) At most kFramesUnfinishedMax frames are at or above ack_watermark.
// (3) ack_watermark passes only frames with live == 0.
// (4) Cached values of answers to unfinished frames stay below kCachedReplyBytesMax in the daemon.
//     From half of it on, no frame is sent until an older frame is finished.
// (5) Frames go out in the order of their ids on one connection.
// (6) A read is not sent again after a later change of its key was sent. The change may be done,
//     and the read would see it. The read ends with kUnavailable instead.
class CoreLink {
 public:
  CoreLink(Engine& engine, NodeSession& session, CoreId core)
      : engine_(engine), session_(session), core_(core) {}
  CoreLink(const CoreLink&) = delete;
  CoreLink& operator=(const CoreLink&) = delete;

  CoreId core() const { return core_; }
  NodeSession& session() const { return session_; }
  transport::Endpoint* endpoint() const { return endpoint_; }
  bool HasWork() const { return waiting_operations_ > 0 || upload_.operation != nullptr; }
  bool HasOutstanding() const { return frames_unanswered_ > 0 || upload_.operation != nullptr; }
  std::uint32_t waiting_operations() const { return waiting_operations_; }
  // Number of operations that are sent before any thread waits.
  std::uint32_t FlushOperations() const;
  std::size_t waiting_bytes() const { return waiting_bytes_; }

  // The engine's mark: in its list of links to flush.
  bool dirty = false;

  // Queues. ------------------------------------------------------------------------------------

  // Adds a new operation, the newest, to its queue.
  static void Enqueue(Operation* operation);
  // Adds an operation that is to be sent again to its queue: before all operations that were called
  // later.
  static void Insert(Operation* operation);
  // `queue` may have become sendable.
  void MakeReady(PartitionQueue* queue);
  // Moves a queue with all its waiting operations. Outstanding operations stay where they were
  // sent.
  void Adopt(PartitionQueue* queue);
  void Leave(PartitionQueue* queue);
  // Takes a queued operation out. Not ended yet.
  void Unqueue(Operation* operation);
  // Gives up a sent operation without ending it. No thread waits for it any more.
  void GiveUp(Operation* operation);

  // Sends operations that may go. REQUIRES: the session is attached.
  void Flush(std::uint64_t now_ns);

  // Frames from the daemon. --------------------------------------------------------------------

  void OnAnswer(Bytes frame);
  void OnStreamPart(const wire::StreamFrame& frame);
  void OnStreamAck(const wire::StreamFrame& frame);

  // The session's life. ------------------------------------------------------------------------

  // Takes over the core's address and grants. With `resumed`, all unanswered operations are sent
  // again with their ids. Otherwise changes end with kUnknown, reads are queued again, and
  // numbering starts at the beginning.
  void OnAttached(const std::string& address, std::uint32_t credit_operations,
                  std::uint32_t credit_bytes, bool resumed, std::uint64_t now_ns);
  // Handles a daemon that has come back with fewer cores. Sent operations end as without `resumed`,
  // and queued operations wait for a map that moves them.
  void OnCoreGone();
  // The connection is gone or about to be replaced.
  void Disconnect();
  // All that was sent ends: changes with kUnknown, reads with `why`.
  void EndSent(const Status& why);
  // Says good-bye; nothing is outstanding.
  void SendDetach();

 private:
  struct Upload {
    Operation* operation = nullptr;
    std::uint64_t number = 0;
    StreamSender sender;
  };
  struct FrameDraft;

  static Operation* GivenUp();
  static Operation* GivenUpPack();

  // Sending (core_link.cc).
  bool SendFrame(std::uint64_t now_ns);
  bool AppendGroup(PartitionQueue* queue, FrameDraft* draft);
  bool AppendOne(Operation* operation, FrameDraft* draft);
  bool AppendPack(Operation* pack, FrameDraft* draft);
  void MarkSent(Operation* operation, std::uint32_t slots, std::uint32_t reply_bytes,
                FrameDraft* draft);
  void Send(transport::FrameBufferPtr buffer);
  bool BeforeSend(std::size_t frame_bytes);
  std::size_t StreamWindow() const;
  void SendStream(const wire::FrameHeader& header, const wire::StreamHeader& part, Bytes data);
  wire::FrameHeader Header(wire::FrameType type) const;
  std::uint32_t ReplyBytes(const Operation& operation) const;
  void PushReady(PartitionQueue* queue);
  PartitionQueue* PopReady();
  SentFrame* TakeFrame();
  SentFrame* FindFrame(std::uint64_t id) const;
  void AdvanceFinished();
  void RecordCached(const SentFrame& frame, std::size_t bytes);
  void LeaveFrame(SentFrame* frame);

  // Answers (core_link_answers.cc).
  void OnEntry(SentFrame* frame, const wire::Answer& answer);
  void OnGroupAnswer(SentFrame* frame, const wire::Answer& answer);
  void Finish(SentFrame* frame, std::uint16_t index, const wire::Answer& answer);
  void BeginDownload(SentFrame* frame, std::uint16_t index, const wire::Answer& answer);
  void SendStreamAck(std::uint64_t frame_id, std::uint64_t stream, std::uint64_t offset,
                     std::uint64_t total, StatusCode code);
  // Asks the daemon to drop a value on its way; once per stream.
  void CancelDownload(std::uint64_t frame_id, std::uint64_t stream, std::uint64_t offset,
                      std::uint64_t total);
  Operation* TakeAnswered(SentFrame* frame, std::uint16_t index);

  // Packs (core_link_packs.cc).
  static bool IsPackAt(const SentFrame& frame, std::uint64_t index);
  void ReleasePack(Operation* pack, Operation* leaves, bool ends);
  std::uint32_t FinishPack(SentFrame* frame, std::uint32_t begin, std::uint32_t end,
                           const wire::Answer& answer);
  void EndPack(SentFrame* frame, const SentGroup& group, const wire::Answer& answer);
  bool ResendPack(const SentFrame& frame, const SentGroup& group, wire::RequestWriter* writer,
                  std::uint64_t* deadline_ns) const;
  void Requeue(Operation* operation);
  void NoteSentChange(const Operation& operation);
  bool MayAskAgain(const Operation& operation) const;
  void EndOvertaken(Operation* operation);
  void EndOvertaken(SentFrame* frame);
  void RequeueLast(Operation* operation);
  void RetireIfAnswered(SentFrame* frame);
  void RetireGhosts(std::uint64_t below);
  void OperationLeft(PartitionQueue* queue);

  // Uploads and the session's life (core_link_session.cc).
  void QueueUpload(Operation* operation);
  void PumpUpload();
  void CancelUpload(Operation* operation);
  void RestartUploads();
  Status UploadRefusal(const Operation& operation, const wire::StreamHeader& ack) const;
  void ForgetNumbering();
  static wire::Operation PlaceHolder();
  std::uint32_t CreditOf(const SentFrame& frame) const;
  void ResendFrame(SentFrame* frame, std::uint64_t now_ns);

  Engine& engine_;
  NodeSession& session_;
  const CoreId core_;
  std::string address_;  // Empty: the daemon has no such core.
  transport::Endpoint* endpoint_ = nullptr;

  // Credits: amounts that may still be sent.
  std::uint32_t granted_operations_ = 0;
  std::uint32_t operations_left_ = 0;
  std::uint32_t request_bytes_left_ = 0;
  std::uint32_t reply_bytes_left_ = 0;

  // Frames by id modulo the window, which spans base_ .. next_frame_id_ - 1.
  std::array<SentFrame*, limits::kFramesUnfinishedMax> frames_{};
  std::uint64_t base_ = 1;  // The lowest that is not completely answered.
  std::uint64_t ack_watermark_ = 1;
  std::uint64_t next_frame_id_ = 1;
  std::uint32_t frames_unanswered_ = 0;
  // Bytes that the daemon keeps, of all frames from ack_watermark_ on and of each.
  std::uint64_t cached_bytes_ = 0;
  std::array<std::uint32_t, limits::kFramesUnfinishedMax> cached_bytes_of_{};
  std::vector<std::unique_ptr<SentFrame>> all_frames_;
  std::vector<SentFrame*> spare_frames_;

  PartitionQueue* ready_head_ = nullptr;
  PartitionQueue* ready_tail_ = nullptr;
  std::uint32_t waiting_operations_ = 0;  // In all queues of this link.
  std::size_t waiting_bytes_ = 0;

  // The last downloads that were cancelled on this connection: their parts under way are expected.
  struct Cancelled {
    std::uint64_t frame_id = 0;
    std::uint64_t stream = 0;
  };
  std::deque<Cancelled> cancelled_;
  SentChanges sent_changes_;
  wire::CheckpointStamp checkpoint_;  // Stamp of the current answer frame.

  Upload upload_;
  std::uint64_t next_upload_ = 1;
  std::deque<Operation*> uploads_waiting_;
};

}  // namespace tidepool::internal
