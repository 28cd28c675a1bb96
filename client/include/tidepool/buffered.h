// Buffered handles: collect changes per core of the cluster and send them by the hundreds.
//
//   auto buffered = map.Buffered();
//   for (...) buffered.Put(key, value);
//   if (Status status = buffered.Flush(); !status.ok()) return Report(status);
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tidepool/export.h"
#include "tidepool/namespace.h"
#include "tidepool/status.h"

namespace tidepool {

namespace internal {
class Buffer;
}  // namespace internal

// Place where operations of several clients are merged into messages.
enum class Aggregation : std::uint8_t {
  // Starts as kClient. Changes to kNode when a Flush finds fewer than 16 operations per owner core
  // and a daemon of this machine is up. Stays there while this holds and enough other clients of
  // the machine do the same. With too few clients it tries again after 250 ms, later every 4 s.
  kAuto,
  // This handle: its operations go straight to the owner cores.
  kClient,
  // The daemon with the lowest number on this machine. It merges the operations of all local
  // clients for the same core: fewer messages, one more hop. Without such a daemon: as kClient.
  kNode,
};

// Options of a buffered handle. Values outside a range are set to its nearest end.
struct BufferedOptions {
  // Behaviour
  // ------------------------------------------------------------------------------

  // Deadline of each buffer after sending; unanswered operations fail then. 0:
  // ConnectOptions::call_timeout plus 1 s for each 50 MB.
  std::chrono::milliseconds timeout{0};

  // Merging with other clients' operations. Takes effect, and changes, only at a Flush.
  Aggregation aggregation = Aggregation::kAuto;

  // Sending
  // ---------------------------------------------------------------------------------

  // A core's buffer is sent when it holds this many operations (1 to 1,024),
  std::uint32_t operations_max = 1'024;
  // or this many bytes (1 KiB to 56 KiB),
  std::uint32_t bytes_max = 56 * 1024;
  // or when its oldest operation has this age. The handle's own calls check the age, at each 32nd
  // operation and in Progress(), because the library has no thread for it. 0: no maximum age.
  std::chrono::milliseconds age_max{100};
  // Maximum unanswered buffers per core (1 to 64). A full buffer waits beyond that, which slows
  // down a program that is faster than its cluster. Memory is bounded by (buffers_in_flight + 1) *
  // bytes_max per core. A value above 32 KiB counts as one buffer of any size.
  std::uint32_t buffers_in_flight = 4;
};

// An operation that had no effect, or an unknown effect (kUnknown).
struct BufferedFailure {
  // The key; for a queue the item's value up to 32 KiB, so that it can be pushed again. Empty after
  // 64 MiB of keys and values since the last Flush.
  std::string key;
  Status status;
  // For a queue: index of the push since the last Flush, from 0.
  std::uint64_t item = 0;
};

struct BufferedCounts {
  std::uint64_t operations = 0;  // Accepted by the handle.
  std::uint64_t buffers = 0;     // Sent buffers,
  std::uint64_t forwarded = 0;   // and the part that a daemon of this machine forwarded.
  std::uint64_t failed = 0;      // Failed operations.
};

// Base of all buffered handles.
//
// Threads: one thread at a time uses a handle; each thread makes its own. Two handles of one map
// are independent. A continuation (Future::Then) may add operations, even during a call of the same
// handle: they follow at the end of that call. Flush inside such a continuation fails with
// kFailedPrecondition.
//
// Order: operations of one handle on one key take effect in call order. Before Flush() returns, a
// Get outside of the handle may or may not see them.
//
// Errors: an operation that was never sent fails with kDeadlineExceeded or kUnavailable. An
// operation that was sent and not answered is kUnknown: it took effect once or not at all, and the
// client never retries it. Operations resent after a broken connection count once. Successes are
// not reported individually: an insert does not report whether its key was new.
//
// Lifetime: the destructor flushes remaining operations within their deadline and logs lost
// operations. The handle keeps its client connected.
class TIDEPOOL_API BufferedHandle {
 public:
  BufferedHandle(BufferedHandle&&) noexcept;
  BufferedHandle& operator=(BufferedHandle&&) noexcept;
  ~BufferedHandle();

  // Sends all collected operations and waits until they have ended. Returns kOk if every operation
  // since the last Flush took effect, otherwise the first failure with the number of failures in
  // its text.
  Status Flush();
  // Returns the first 65,536 failures found by the last Flush; valid until the next Flush.
  const std::vector<BufferedFailure>& failures() const;

  // Sends buffers that are too old and receives answers. Does not wait.
  void Progress();
  // Returns the number of operations whose end is not known.
  std::uint64_t pending() const;
  // Counts since the handle was made.
  BufferedCounts counts() const;

 protected:
  explicit BufferedHandle(std::unique_ptr<internal::Buffer> buffer);
  std::unique_ptr<internal::Buffer> buffer_;
};

struct BufferedPutOptions {
  // Time to live. 0 or kForEver: never expires. Unset: the namespace's default. Negative: the
  // record expires at once.
  std::optional<std::chrono::milliseconds> ttl;
  bool counter_i64 = false;  // The value is a counter and has 8 bytes.
  bool counter_f64 = false;
};

// Buffered handle of a BytesMap or BytesOrderedMap. Failures reported by Flush are listed at
// BytesMap. Keys have at most 16,384 bytes. Values above 32 KiB are sent individually, after the
// operations that were buffered for their core.
class TIDEPOOL_API BufferedBytesMap : public BufferedHandle {
 public:
  explicit BufferedBytesMap(const Namespace& space, const BufferedOptions& options = {});

  void Put(std::string_view key, std::string_view value, const BufferedPutOptions& options = {});
  // Puts only if the key is absent.
  void Insert(std::string_view key, std::string_view value, const BufferedPutOptions& options = {});
  // Adds to a counter; an absent key counts as 0 and is created.
  void Add(std::string_view key, std::int64_t by);
  void AddF64(std::string_view key, double by);
  // Adds to a counter that exists. An absent key stays absent; this is not a failure.
  void AddIfPresent(std::string_view key, std::int64_t by);
};

// Buffered handle of a BytesBloom.
class TIDEPOOL_API BufferedBytesBloom : public BufferedHandle {
 public:
  explicit BufferedBytesBloom(const Namespace& space, const BufferedOptions& options = {});

  void Insert(std::string_view value);
};

struct BufferedPushOptions {
  // Time to live. 0 or kForEver: never expires. Unset: the namespace's default. A value that
  // differs from the previous push starts a new list in the message, so frequent changes cost some
  // speed.
  std::optional<std::chrono::milliseconds> ttl;
};

// Base of the buffered handles of queues.
//
// Order: items of one handle enter the queue in push order; in a priority queue, this holds for
// equal priorities. Items of other handles may come between. In a queue with lanes the items enter
// the lane of the handle's queue.
//
// A full bounded queue refuses buffered pushes one by one (kResourceExhausted) instead of letting
// them wait. Later items may be accepted after a pop. To let consumers slow a producer down, push
// the failed items of Flush again, or use MultiPush with PushOptions::wait. Values above 32 KiB are
// sent individually, after the buffered items.
//
// BufferedOptions::aggregation has no effect. All items of a handle go to one core, so its messages
// are full already, and a daemon in between would only add a hop.
class TIDEPOOL_API BufferedItems : public BufferedHandle {
 protected:
  BufferedItems(const Namespace& space, const BufferedOptions& options);
  void Add(std::uint64_t priority, std::string_view value, const BufferedPushOptions& options);
};

// Buffered handle of a BytesQueue. Failures reported by Flush are listed at BytesQueue::Push.
class TIDEPOOL_API BufferedBytesQueue : public BufferedItems {
 public:
  explicit BufferedBytesQueue(const Namespace& space, const BufferedOptions& options = {})
      : BufferedItems(space, options) {}

  void Push(std::string_view value, const BufferedPushOptions& options = {}) {
    Add(0, value, options);
  }
};

// Buffered handle of a BytesPriorityQueue; least priority first.
class TIDEPOOL_API BufferedBytesPriorityQueue : public BufferedItems {
 public:
  explicit BufferedBytesPriorityQueue(const Namespace& space, const BufferedOptions& options = {})
      : BufferedItems(space, options) {}

  void Push(std::uint64_t priority, std::string_view value,
            const BufferedPushOptions& options = {}) {
    Add(priority, value, options);
  }
};

}  // namespace tidepool
