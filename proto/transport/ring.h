// A direction of a same-node connection: frames of a single producer for a single consumer, in
// memory that both processes map. Internal to proto/transport.
//
// A frame takes whole cache lines: a word that announces it (its size and 1; above, for a
// frame in two parts, the first part's size), then its bytes. A small frame therefore reaches
// the other core with a single line; a cursor of the producer would cost another line for
// each frame. The producer clears the word behind a frame before it publishes the frame.
// Bytes from the last lap, which may be any user's value, are therefore never taken for such
// a word.
//
// The memory is mapped twice in a row (ring_memory.h), so no frame is split.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "proto/base/bytes.h"
#include "proto/base/limits.h"

namespace tidepool::transport {

inline constexpr std::size_t kRingLineBytes = 64;

// Words of a ring.
struct RingWords {
  // The consumer's. Bytes that it has done with, ever.
  alignas(kRingLineBytes) std::atomic<std::uint64_t> consumed;
  // The consumer's, too, unless it has a common word for all of its rings (SharedWords): see
  // RingSleep.
  std::atomic<std::uint32_t> sleeps;
  // The producer sets it when it waits for room without looking, the consumer clears it.
  alignas(kRingLineBytes) std::atomic<std::uint32_t> waits_for_room;
};
static_assert(sizeof(RingWords) == 2 * kRingLineBytes);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// Returns true for a power of two with room for two frames of any size.
constexpr bool IsRingSize(std::uint64_t bytes) {
  return bytes >= 2 * limits::kFrameBytesMax && (bytes & (bytes - 1)) == 0 && bytes <= 1ull << 30;
}

namespace ring {
inline constexpr std::size_t kWordBytes = 8;
constexpr std::size_t EntryBytes(std::size_t frame_bytes) {
  return AlignUp(kWordBytes + frame_bytes, kRingLineBytes);
}
constexpr std::uint64_t WordOf(std::uint64_t frame_bytes, std::uint64_t head_bytes) {
  return (frame_bytes + 1) | head_bytes << 32;
}
inline std::atomic_ref<std::uint64_t> WordAt(std::byte* at) {
  return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(at));
}
}  // namespace ring

// The producer's half. Words of the peer are checked before use: no value of them leads to a byte
// outside of the ring, or twice to a byte.
class RingProducer {
 public:
  RingProducer() = default;
  RingProducer(std::byte* data, std::uint64_t bytes, RingWords* words)
      : data_(data), bytes_(bytes), words_(words) {}

  // Returns false if the ring has no room now, or ever (corrupt).
  bool TryPush(Bytes frame) { return TryPush(frame, {}, 0); }
  // Pushes a frame of two parts. REQUIRES: head is not empty.
  bool TryPushParts(Bytes head, Bytes body) { return TryPush(head, body, head.size()); }
  // Returns true if the peer's count is impossible: the ring is broken.
  bool corrupt() const { return corrupt_; }
  // Asks the consumer to ring the bell when it has made room. False: there is some already.
  bool WaitForRoom() {
    words_->waits_for_room.store(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const std::uint64_t before = consumed_;
    LookForRoom();
    return consumed_ == before;
  }

 private:
  bool TryPush(Bytes first, Bytes rest, std::uint64_t head_bytes) {
    const std::size_t frame_bytes = first.size() + rest.size();
    const std::size_t entry = ring::EntryBytes(frame_bytes);
    // The word behind the frame needs its line, too.
    if (position_ + entry + kRingLineBytes - consumed_ > bytes_) {
      LookForRoom();
      if (position_ + entry + kRingLineBytes - consumed_ > bytes_) return false;
    }
    std::byte* const at = data_ + (position_ & (bytes_ - 1));
    ring::WordAt(data_ + ((position_ + entry) & (bytes_ - 1))).store(0, std::memory_order_relaxed);
    std::memcpy(at + ring::kWordBytes, first.data(), first.size());
    if (!rest.empty()) {
      std::memcpy(at + ring::kWordBytes + first.size(), rest.data(), rest.size());
    }
    ring::WordAt(at).store(ring::WordOf(frame_bytes, head_bytes), std::memory_order_release);
    position_ += entry;
    return true;
  }
  void LookForRoom() {
    const std::uint64_t consumed = words_->consumed.load(std::memory_order_acquire);
    if (consumed < consumed_ || consumed > position_) {
      corrupt_ = true;
    } else {
      consumed_ = consumed;
    }
  }

  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
  RingWords* words_ = nullptr;
  std::uint64_t position_ = 0;
  std::uint64_t consumed_ = 0;  // Last value seen.
  bool corrupt_ = false;
};

// The consumer's half; the same holds.
class RingConsumer {
 public:
  RingConsumer() = default;
  RingConsumer(std::byte* data, std::uint64_t bytes, RingWords* words)
      : data_(data), bytes_(bytes), words_(words) {}

  // Returns the next frame, if any: valid until Pop. The producer can still write there, so the
  // bytes are only as good as the producer. `head_bytes`: size of its first part; 0: no second
  // part.
  bool Peek(Bytes* frame, std::size_t* head_bytes) {
    std::byte* const at = data_ + (position_ & (bytes_ - 1));
    const std::uint64_t word = ring::WordAt(at).load(std::memory_order_acquire);
    if (word == 0) return false;
    const std::uint64_t frame_bytes = (word & 0xffff'ffff) - 1;  // Of none: more than there may be.
    *head_bytes = word >> 32;
    if (frame_bytes > limits::kFrameBytesMax || *head_bytes > frame_bytes) {
      corrupt_ = true;
      return false;
    }
    *frame = {at + ring::kWordBytes, static_cast<std::size_t>(frame_bytes)};
    return true;
  }
  // REQUIRES: the size that Peek gave.
  void Pop(std::size_t frame_bytes) {
    position_ += ring::EntryBytes(frame_bytes);
    words_->consumed.store(position_, std::memory_order_release);
  }
  bool empty() const {
    return ring::WordAt(data_ + (position_ & (bytes_ - 1))).load(std::memory_order_acquire) == 0;
  }
  bool corrupt() const { return corrupt_; }
  // After frames were taken: true, once, if the producer has gone to sleep for want of room.
  bool TakeWait() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (words_->waits_for_room.load(std::memory_order_relaxed) == 0) return false;
    words_->waits_for_room.store(0, std::memory_order_relaxed);
    return true;
  }

 private:
  std::byte* data_ = nullptr;
  std::uint64_t bytes_ = 0;
  RingWords* words_ = nullptr;
  std::uint64_t position_ = 0;
  bool corrupt_ = false;
};

// State of a consumer's sleep: odd while it sleeps, or is about to sleep. The number changes each
// time, so each sleep rings the bell once.
class RingSleep {
 public:
  // Sets out to sleep. The caller looks at its rings afterwards, and only sleeps if all are empty.
  static void Begin(std::atomic<std::uint32_t>& word) {
    word.store(word.load(std::memory_order_relaxed) | 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  static void End(std::atomic<std::uint32_t>& word) {
    const std::uint32_t now = word.load(std::memory_order_relaxed);
    if ((now & 1) != 0) word.store(now + 1, std::memory_order_relaxed);
  }
  // For the producer, after it has published: whether to ring, `rung` being the sleep that it has
  // rung for.
  static bool NeedsBell(const std::atomic<std::uint32_t>& word, std::uint32_t* rung) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const std::uint32_t now = word.load(std::memory_order_relaxed);
    if ((now & 1) == 0 || now == *rung) return false;
    *rung = now;
    return true;
  }
};

}  // namespace tidepool::transport
