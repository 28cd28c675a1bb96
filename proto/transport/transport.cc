// The pool of frame buffers: session/core take a buffer, fill it and hand it to Worker::Send.
#include "proto/transport/transport.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "proto/base/bytes.h"
#include "proto/base/check.h"

namespace tidepool::transport {

// Counts whole pages of 4 KiB, with the header's: the kernel's unit.
void FrameBuffer::Touch() {
  const std::size_t now = AlignUp(size_, 4096);
  pool_->touched_bytes_ += now - touched_;
  touched_ = now;
}

void FrameBufferReturner::operator()(FrameBuffer* buffer) const {
  BufferPool* pool = buffer->pool_;
  buffer->next_ = pool->free_;
  pool->free_ = buffer;
  ++pool->free_count_;
}

FrameBufferPtr BufferPool::Take() {
  FrameBuffer* buffer = free_;
  if (buffer == nullptr) {
    buffer = new FrameBuffer;  // Its 60 KiB stay untouched: no page of them exists yet.
    buffer->pool_ = this;
    ++made_;
  } else {
    free_ = buffer->next_;
    buffer->next_ = nullptr;
    --free_count_;
    free_min_ = std::min(free_min_, free_count_);
  }
  buffer->size_ = 0;
  return FrameBufferPtr(buffer);
}

void BufferPool::Trim() {
  for (std::size_t left = free_min_ / 2; left > 0; --left) DeleteOne();
  free_min_ = free_count_;
}

void BufferPool::DeleteOne() {
  FrameBuffer* const buffer = free_;
  free_ = buffer->next_;
  touched_bytes_ -= buffer->touched_;
  --free_count_;
  --made_;
  delete buffer;
}

namespace {

void Join(Bytes head, Bytes body, std::byte* to) {
  std::memcpy(to, head.data(), head.size());
  if (!body.empty()) std::memcpy(to + head.size(), body.data(), body.size());
}

}  // namespace

void Receiver::OnFrameParts(Bytes head, Bytes body) {
  std::vector<std::byte> frame(head.size() + body.size());
  Join(head, body, frame.data());
  OnFrame(frame);
}

Status Worker::SendParts(Endpoint* endpoint, Bytes head, Bytes body, BufferPool* pool) {
  FrameBufferPtr buffer = pool->Take();
  buffer->set_size(head.size() + body.size());
  Join(head, body, buffer->data());
  return Send(endpoint, std::move(buffer));
}

BufferPool::~BufferPool() {
  TP_DCHECK(free_count_ == made_);
  while (free_ != nullptr) DeleteOne();
}

}  // namespace tidepool::transport
