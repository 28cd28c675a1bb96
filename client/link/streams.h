// Values above the streaming size, in parts: the windows of the sending and the receiving side.
// Uploads and downloads use the same arithmetic.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "proto/base/bytes.h"
#include "proto/base/limits.h"

namespace tidepool::internal {

// The sender's side. Invariant: acked <= sent <= total. A window is at least a part. The receiver
// acknowledges by the same window.
class StreamSender {
 public:
  StreamSender() = default;
  explicit StreamSender(Bytes value) : value_(value) {}

  bool MaySend(std::size_t window_bytes) const {
    return sent_ < value_.size() && sent_ - acked_ + NextBytes() <= window_bytes;
  }
  // The next part and where it belongs. REQUIRES: MaySend().
  Bytes Next(std::uint64_t* offset) {
    const std::size_t bytes = NextBytes();
    *offset = sent_;
    sent_ += bytes;
    return value_.subspan(static_cast<std::size_t>(*offset), bytes);
  }
  // False if the acknowledgement makes no sense.
  bool OnAck(std::uint64_t offset) {
    if (offset > sent_) return false;
    acked_ = std::max(acked_, offset);
    return true;
  }
  bool Complete() const { return acked_ == value_.size(); }
  std::uint64_t total() const { return value_.size(); }
  std::uint64_t sent() const { return sent_; }

 private:
  std::size_t NextBytes() const {
    return std::min(limits::kStreamPartBytesMax, value_.size() - static_cast<std::size_t>(sent_));
  }
  Bytes value_;
  std::uint64_t sent_ = 0;
  std::uint64_t acked_ = 0;
};

// The receiver's side: parts come in order and fill `to`, which is as large as the value.
class StreamReceiver {
 public:
  StreamReceiver() = default;
  explicit StreamReceiver(MutableBytes to) : to_(to) {}

  // Returns false if the part does not follow the previous part.
  bool OnPart(std::uint64_t offset, Bytes data) {
    if (offset != received_ || data.size() > to_.size() - received_) return false;
    if (!data.empty()) std::memcpy(to_.data() + received_, data.data(), data.size());
    received_ += data.size();
    return true;
  }
  // Acknowledge at every half window and at the end: the sender then never waits for it.
  bool WantsAck(std::size_t window_bytes) const {
    return Complete() || received_ - acked_ >= window_bytes / 2;
  }
  void Acked() { acked_ = received_; }
  bool Complete() const { return received_ == to_.size(); }
  std::uint64_t received() const { return received_; }
  std::uint64_t total() const { return to_.size(); }

 private:
  MutableBytes to_;
  std::size_t received_ = 0;
  std::size_t acked_ = 0;
};

}  // namespace tidepool::internal
