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

// Owner core only; lives for one request or one chunk of it. Flush posts the frames; the dispatcher
// calls it after it has checked the lease again.
class AnswerSink {
 public:
  // `reply_bytes_max`: bytes that the client reserved for the answers of this request.
  AnswerSink(transport::Worker& worker, transport::BufferPool& pool,
             const storage::CoreStore& store, const Session& session, std::uint16_t core,
             std::uint64_t frame_id, std::uint64_t epoch, std::size_t reply_bytes_max);

  // Sets wire::FrameHeader::group_count, for forwarded groups.
  void SetCompanions(std::uint32_t companions) { header_.group_count = companions; }
  // Returns the bytes that an answer's value may take if answers of `reserved_bytes` follow: the
  // client's allowance less these, but never more than fits one frame.
  std::size_t ValueRoom(std::size_t reserved_bytes) const;
  // Adds an answer; always succeeds, because a full frame is set aside and a new frame begun.
  // `answer.value` must fit a frame. Neighbours that succeeded without a result share one entry, so
  // a batch of inserts is answered by a count and its exceptions.
  void Add(const wire::Answer& answer);
  // Adds the success of operation `index`, without a result.
  void AddSuccess(std::uint16_t index);
  // Posts the collected frames; drops them if the client is gone. Must be the last call.
  void Flush();
  // Returns the collected frames, to be posted later. Must be the last call.
  std::vector<transport::FrameBufferPtr> Take();
  // Drops the collected frames, because the core may not answer any more. Must be the last call.
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
  // Successes in a row that share one entry, not written yet.
  std::uint16_t run_first_ = 0;
  std::uint32_t run_count_ = 0;
};

}  // namespace tidepool::daemon
