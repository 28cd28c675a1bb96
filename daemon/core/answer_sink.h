// Collects the answers of one request into as few frames as they need, and posts them.
//
//   daemon/core/dispatcher -> [answer_sink] -> proto/transport
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/core/session.h"
#include "proto/transport/transport.h"
#include "proto/wire/answer.h"
#include "storage/core_store.h"

namespace tidepool::daemon {

// Owner core only; lives for one request or one piece of it. Frames are posted in Flush, which the
// dispatcher calls after it has looked at the lease once more.
class AnswerSink {
 public:
  // `reply_bytes_max`: what the client set aside for the answers of this request.
  AnswerSink(transport::Worker& worker, transport::BufferPool& pool,
             const storage::CoreStore& store, const Session& session, std::uint16_t core,
             std::uint64_t frame_id, std::uint64_t epoch, std::size_t reply_bytes_max);

  // Of forwarded groups: wire::FrameHeader::group_count.
  void SetCompanions(std::uint32_t companions) { header_.group_count = companions; }
  // What an answer's value may take when answers of `reserved_bytes` have to follow: the client's
  // allowance less these, but never more than fits one frame.
  std::size_t ValueRoom(std::size_t reserved_bytes) const;
  // Always succeeds: a full frame is set aside and a new one begun. `answer.value` must fit a
  // frame. Neighbours that succeeded with nothing to return share one entry, so that a batch of
  // inserts is answered by a count and its exceptions.
  void Add(const wire::Answer& answer);
  // The same for operation `index`, which succeeded with nothing to return.
  void AddSuccess(std::uint16_t index);
  // Posts what was collected; drops it if the client is gone. The last call.
  void Flush();
  // What was collected, to be posted later. The last call.
  std::vector<transport::FrameBufferPtr> Take();
  // Throws away what was collected: the core may not answer any more. The last call.
  void Discard();

 private:
  void Put(const wire::Answer& answer);
  void CloseRun();
  void Begin();
  void Close();
  void Finish();

  transport::Worker& worker_;
  transport::BufferPool& pool_;
  const storage::CoreStore& store_;
  const Session& session_;
  wire::FrameHeader header_;
  std::size_t allowance_bytes_;
  transport::FrameBufferPtr buffer_;
  wire::AnswerWriter writer_;
  std::vector<transport::FrameBufferPtr> full_;
  // Operations that are answered by one entry, not written yet.
  std::uint16_t run_first_ = 0;
  std::uint32_t run_count_ = 0;
};

}  // namespace tidepool::daemon
