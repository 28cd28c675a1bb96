// One half of a link between cores of two daemons. Links fill copies of partitions.
//
//   copy_source, copy_target -> [copy_link] -> proto/transport
//
// A link is a FIFO stream of messages for all copies of its pair of cores. The source half numbers
// the bytes of the messages; the target half acknowledges a position, which covers all before it.
// At most kCreditBytes are under way. Changes beyond it wait here, in frames.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "proto/base/ids.h"
#include "proto/transport/transport.h"
#include "proto/wire/copy_frames.h"

namespace tidepool::daemon {

// Owner core only.
class CopyLink {
 public:
  static constexpr std::uint64_t kCreditBytes = 4u << 20;

  // `peer_core`: to whom frames are addressed. `endpoint` belongs to the link from now on. All must
  // outlive it.
  CopyLink(std::uint64_t id, CoreId peer_core, transport::Worker* worker,
           transport::BufferPool* pool, transport::Endpoint* endpoint)
      : id_(id), peer_core_(peer_core), worker_(*worker), pool_(*pool), endpoint_(endpoint) {}
  ~CopyLink();
  CopyLink(const CopyLink&) = delete;
  CopyLink& operator=(const CopyLink&) = delete;

  std::uint64_t id() const { return id_; }
  const transport::Endpoint* endpoint() const { return endpoint_; }
  bool lost() const { return endpoint_ == nullptr; }
  void OnLost();

  // Appends to the stream. REQUIRES: a value of at most kCopyValueBytesMax.
  void Append(const wire::CopyMessage& message);
  // Sends appended messages within the credit. `all`: a frame need not be full.
  void Flush(bool all = true);
  // Something waits for a Flush that may send it.
  bool can_flush() const {
    return !lost() && sent_ - *acked_ < kCreditBytes && (open_ != nullptr || !waiting_.empty());
  }
  // Sends a message that needs no credit: an acknowledgement, a sign of life.
  void SendBeside(const wire::CopyMessage& message);

  // Where the next message will begin.
  std::uint64_t position() const { return position_; }
  std::uint64_t acked() const { return *acked_; }
  std::shared_ptr<const std::uint64_t> shared_acked() const { return acked_; }
  std::uint64_t unacked_bytes() const { return position_ - *acked_; }
  bool has_credit() const { return unacked_bytes() < kCreditBytes; }
  // False: the position was never sent.
  bool OnAck(std::uint64_t position);

  // Checks that a frame follows the frame before it. False: something is missing.
  bool Follows(std::uint64_t position, std::size_t body_bytes);

  std::uint64_t heard_ns() const { return heard_ns_; }
  void Hear(std::uint64_t now_ns) { heard_ns_ = now_ns; }

 private:
  transport::FrameBufferPtr NewFrame();
  void Seal();
  void Send(transport::FrameBufferPtr frame, std::uint64_t position);

  const std::uint64_t id_;
  const CoreId peer_core_;
  transport::Worker& worker_;
  transport::BufferPool& pool_;
  transport::Endpoint* endpoint_;  // Null: lost.
  std::uint64_t heard_ns_ = 0;

  struct Waiting {
    transport::FrameBufferPtr frame;
    std::uint64_t position;  // At the frame's end.
  };
  std::deque<Waiting> waiting_;
  transport::FrameBufferPtr open_;  // Being filled; may be null.
  std::uint64_t position_ = 0;
  std::uint64_t sent_ = 0;
  const std::shared_ptr<std::uint64_t> acked_ = std::make_shared<std::uint64_t>(0);
  std::uint64_t received_ = 0;  // Position of the end of the last frame.
};

}  // namespace tidepool::daemon
