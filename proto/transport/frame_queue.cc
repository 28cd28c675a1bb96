#include "proto/transport/frame_queue.h"

#include <utility>

namespace tidepool::transport {

FrameQueue::FrameQueue(FrameQueue&& other) noexcept
    : first_(std::exchange(other.first_, nullptr)),
      last_(std::exchange(other.last_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

FrameQueue& FrameQueue::operator=(FrameQueue&& other) noexcept {
  if (this == &other) return *this;
  Clear();
  first_ = std::exchange(other.first_, nullptr);
  last_ = std::exchange(other.last_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void FrameQueue::Push(FrameBufferPtr buffer) {
  bytes_ += buffer->size_;
  FrameBuffer* added = buffer.release();
  added->next_ = nullptr;
  (first_ == nullptr ? first_ : last_->next_) = added;
  last_ = added;
}

FrameBufferPtr FrameQueue::Pop() {
  FrameBuffer* first = first_;
  first_ = std::exchange(first->next_, nullptr);
  bytes_ -= first->size_;
  return FrameBufferPtr(first);
}

std::size_t FrameQueue::Clear() {
  std::size_t count = 0;
  for (; !empty(); ++count) Pop();
  return count;
}

}  // namespace tidepool::transport
