// Base of all buffered handles: calls under way, failures, and operations that a continuation adds
// in the middle of a call.
//
//   tidepool/buffered.h -> [buffer]: key_buffer, item_buffer -> engine => daemon/core/dispatcher
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "client/calls/calls.h"
#include "client/engine/space.h"
#include "proto/base/limits.h"
#include "tidepool/buffered.h"

namespace tidepool::internal {

// Thread-safety: used by one thread at a time.
//
// Invariant: an operation is collected, in a call under way, deferred, or counted as ended.
class Buffer {
 public:
  virtual ~Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  Status Flush();
  void Progress();

  const std::vector<BufferedFailure>& failures() const { return reported_; }
  std::uint64_t pending() const { return pending_; }
  const BufferedCounts& counts() const { return counts_; }

 protected:
  // Looking at the clock costs 20 ns, as much as an operation.
  static constexpr std::uint64_t kOperationsPerLook = 32;
  // Bound on the bytes of a buffer. With a header for each operation, the buffer fits a frame.
  static constexpr std::uint32_t kBytesMax = 56 * 1024;
  static_assert(limits::kFrameHeaderBytes + limits::kGroupHeaderBytes + kBytesMax <=
                limits::kFrameBytesMax);
  using Flying = std::deque<CallRef>;  // In the order of sending.

  Buffer(std::shared_ptr<Space> space, const BufferedOptions& options);

  // Marks the outermost call of the handle. A waiting thread runs continuations of other calls
  // (Future::Then), and a continuation may use this handle. Its operations are deferred to the end
  // of the outermost call.
  class Busy {
   public:
    explicit Busy(Buffer* buffer) : buffer_(*buffer) { buffer_.busy_ = true; }
    ~Busy();
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;

   private:
    Buffer& buffer_;
  };
  bool busy() const { return busy_; }
  void Defer(std::function<void()> add) { deferred_.push_back(std::move(add)); }

  // Takes in ended calls in the order of sending, and waits until at most `flying_max` are left.
  // Each call has a deadline.
  void TakeIn(Flying* flying, std::size_t flying_max);
  bool IsOld(std::uint64_t since_ns, std::uint64_t now_ns) const;
  // Notes a failure and its operation. A failure without a name has an empty key.
  void Note(BufferedFailure failure);
  // Notes the failure of `count` operations without names.
  void NoteUnnamed(std::uint64_t count, const Status& why);
  bool HasRoomForFailures() const;
  // Flushes, and logs lost operations. Each destructor must call it.
  void FlushAtEnd();

  // SendAll sends all collected operations, SendOld the operations that are too old. TakeInAll
  // takes in all ended calls, or with `waits` all calls under way.
  virtual void SendAll() = 0;
  virtual void SendOld() = 0;
  virtual void TakeInAll(bool waits) = 0;
  // Settles the accounts of the operations of an ended call.
  virtual void Settle(const CallRef& call) = 0;
  // Nothing is collected, and nothing under way.
  virtual void AtRest() {}

  const std::shared_ptr<Space> space_;
  const BufferedOptions options_;
  std::uint64_t pending_ = 0;
  BufferedCounts counts_;

 private:
  bool busy_ = false;
  std::deque<std::function<void()>> deferred_;
  std::uint64_t failed_ = 0;  // Since the last Flush.
  Status first_failure_;
  std::size_t failure_bytes_ = 0;  // Bytes of the keys in failures_.
  std::vector<BufferedFailure> failures_;
  std::vector<BufferedFailure> reported_;
};

}  // namespace tidepool::internal
