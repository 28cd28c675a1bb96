#include "daemon/copies/copy_link.h"

#include <utility>

#include "proto/base/check.h"

namespace tidepool::daemon {

CopyLink::~CopyLink() {
  if (endpoint_ == nullptr) return;
  endpoint_->user = nullptr;
  worker_.CloseWhenSent(endpoint_);
}

void CopyLink::OnLost() {
  waiting_.clear();
  open_.reset();
  if (endpoint_ == nullptr) return;
  endpoint_->user = nullptr;
  worker_.Close(std::exchange(endpoint_, nullptr));
}

transport::FrameBufferPtr CopyLink::NewFrame() {
  transport::FrameBufferPtr frame = pool_.Take();
  frame->set_size(sizeof(wire::CopyFrameHeader));
  return frame;
}

void CopyLink::Append(const wire::CopyMessage& message) {
  if (lost()) return;
  const std::size_t bytes = wire::BytesOf(message);
  TP_DCHECK(bytes + sizeof(wire::CopyFrameHeader) <= limits::kFrameBytesMax);
  if (open_ != nullptr && open_->size() + bytes > limits::kFrameBytesMax) {
    Seal();
    Flush(false);
    if (lost()) return;
  }
  if (open_ == nullptr) open_ = NewFrame();
  const std::size_t at = open_->size();
  open_->set_size(at + bytes);
  (void)wire::EncodeCopyMessage(message, open_->data() + at);
  position_ += bytes;
}

void CopyLink::Seal() { waiting_.push_back({std::move(open_), position_}); }

void CopyLink::Flush(bool all) {
  if (lost()) return;
  if (all && open_ != nullptr && waiting_.empty() && sent_ - *acked_ < kCreditBytes) Seal();
  while (!waiting_.empty() && sent_ - *acked_ < kCreditBytes && !lost()) {
    Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    sent_ = next.position;
    Send(std::move(next.frame), next.position);
    if (waiting_.empty() && all && open_ != nullptr && !lost()) Seal();
  }
}

void CopyLink::Send(transport::FrameBufferPtr frame, std::uint64_t position) {
  wire::CopyFrameHeader header;
  header.core = peer_core_.value();
  header.link = id_;
  header.position = position;
  StoreUnaligned(frame->data(), header);
  if (!worker_.Send(endpoint_, std::move(frame)).ok()) OnLost();
}

void CopyLink::SendBeside(const wire::CopyMessage& message) {
  if (lost()) return;
  transport::FrameBufferPtr frame = NewFrame();
  const std::size_t at = frame->size();
  frame->set_size(at + wire::BytesOf(message));
  (void)wire::EncodeCopyMessage(message, frame->data() + at);
  Send(std::move(frame), 0);
}

bool CopyLink::OnAck(std::uint64_t position) {
  if (position > sent_) return false;
  if (position <= *acked_) return true;
  *acked_ = position;
  Flush();
  return true;
}

bool CopyLink::Follows(std::uint64_t position, std::size_t body_bytes) {
  if (position == 0) return true;  // Sent beside the stream.
  if (position != received_ + body_bytes) return false;
  received_ = position;
  return true;
}

}  // namespace tidepool::daemon
