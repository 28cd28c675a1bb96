// Frames that an endpoint could not send yet, in order. Internal to proto/transport.
#pragma once

#include <cstddef>

#include "proto/transport/transport.h"

namespace tidepool::transport {

// Owns its frames, which are linked: a queue never allocates.
class FrameQueue {
 public:
  FrameQueue() = default;
  ~FrameQueue() { Clear(); }
  FrameQueue(FrameQueue&& other) noexcept;
  FrameQueue& operator=(FrameQueue&& other) noexcept;
  FrameQueue(const FrameQueue&) = delete;
  FrameQueue& operator=(const FrameQueue&) = delete;

  bool empty() const { return first_ == nullptr; }
  std::size_t bytes() const { return bytes_; }
  const FrameBuffer& front() const { return *first_; }
  void Push(FrameBufferPtr buffer);
  FrameBufferPtr Pop();
  // Gives all buffers back. Returns how many.
  std::size_t Clear();

 private:
  FrameBuffer* first_ = nullptr;
  FrameBuffer* last_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace tidepool::transport
