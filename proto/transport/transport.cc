// The pool of frame buffers: session/core take one, fill it and hand it to Worker::Send.
#include "proto/transport/transport.h"

#include "proto/base/check.h"

namespace tidepool::transport {

void FrameBufferReturner::operator()(FrameBuffer* buffer) const {
  BufferPool* pool = buffer->pool_;
  buffer->next_ = pool->free_;
  pool->free_ = buffer;
  ++pool->free_count_;
}

FrameBufferPtr BufferPool::Take() {
  FrameBuffer* buffer = free_;
  if (buffer == nullptr) {
    buffer = new FrameBuffer;  // Its 60 KiB stay untouched, so no page of them exists yet.
    buffer->pool_ = this;
    ++made_;
  } else {
    free_ = buffer->next_;
    buffer->next_ = nullptr;
    --free_count_;
  }
  buffer->size_ = 0;
  return FrameBufferPtr(buffer);
}

BufferPool::~BufferPool() {
  TP_DCHECK(free_count_ == made_);
  while (free_ != nullptr) {
    FrameBuffer* next = free_->next_;
    delete free_;
    free_ = next;
  }
}

}  // namespace tidepool::transport
