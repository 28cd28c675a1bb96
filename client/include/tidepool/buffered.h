// Buffered handles: changes that are collected per core of the cluster and travel by the hundreds.
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

// Who merges operations into what travels between machines.
enum class Aggregation : std::uint8_t {
  // kClient, until a Flush finds fewer than 16 operations for each core that owns a part of the
  // namespace, and a daemon of this machine is up: then kNode, for as long as that is so and enough
  // other clients of the machine do the same. Where there are too few, it looks again after 250 ms,
  // later every 4 s.
  kAuto,
  // This handle alone: its operations go straight to the cores that own their keys.
  kClient,
  // The daemon with the lowest number on this machine: it merges the operations of all clients
  // that go to one core. Fewer messages, for one more hop. kClient where there is none.
  kNode,
};

// Values outside of a range are taken for its nearest end.
struct BufferedOptions {
  // What a buffer does
  // ------------------------------------------------------------------------------

  // Of each buffer, from its sending on: what is not answered by then has failed. 0:
  // ConnectOptions::call_timeout, and 1 s more for each 50 MB.
  std::chrono::milliseconds timeout{0};

  // Who merges it with what others send. Takes effect, and changes, only at a Flush.
  Aggregation aggregation = Aggregation::kAuto;

  // When it is sent
  // ---------------------------------------------------------------------------------

  // A core's buffer is sent when it holds so many operations (1 to 1,024),
  std::uint32_t operations_max = 1'024;
  // or so many bytes (1 KiB to 56 KiB),
  std::uint32_t bytes_max = 56 * 1024;
  // or when its oldest operation is of this age. The library has no thread that looks: each call of
  // the handle does, at each 32nd operation, and Progress(). 0: age does not matter.
  std::chrono::milliseconds age_max{100};
  // Buffers of one core that are sent and not answered (1 to 64). A full buffer waits until there
  // are fewer, so a program that is faster than its cluster is slowed down and never piles up more
  // than (buffers_in_flight + 1) * bytes_max for each core. A value above 32 KiB counts as a
  // buffer, however large it is.
  std::uint32_t buffers_in_flight = 4;
};

// One operation that did not take effect, or perhaps did not (kUnknown).
struct BufferedFailure {
  // Of a queue the item's value, so that it can be pushed again, unless it is above 32 KiB. Empty
  // behind the first 64 MiB of them since the last Flush.
  std::string key;
  Status status;
  // Of a queue: which push it was, counted from 0 since the last Flush.
  std::uint64_t item = 0;
};

struct BufferedCounts {
  std::uint64_t operations = 0;  // Given to the handle.
  std::uint64_t buffers = 0;     // Sent,
  std::uint64_t forwarded = 0;   // and those of them that a daemon of this machine sent on.
  std::uint64_t failed = 0;      // Of the operations.
};

// What all buffered handles share.
//
// Threads: a handle is used by one thread at a time; each thread makes its own. Two handles of one
// map know nothing of each other. A continuation (Future::Then) may add to it, also where it runs
// in the middle of a call of the same handle: then what it adds follows at the end of that call,
// and Flush there ends with kFailedPrecondition.
//
// Order: operations of one handle on one key take effect in the order in which they were called.
// Before Flush() returns, nothing is promised about when: a Get beside the handle may or may not
// see them.
//
// Ends: an operation that was never sent has failed (kDeadlineExceeded, kUnavailable); one that was
// sent and not answered is kUnknown: it took effect once or not at all, and is never repeated
// silently. What is sent again after a broken connection counts once. No success is told by itself:
// an insert does not say whether its key was new.
//
// A handle that is destroyed with operations in it flushes them, within their deadline, and logs
// what was lost. It keeps its client connected.
class TIDEPOOL_API BufferedHandle {
 public:
  BufferedHandle(BufferedHandle&&) noexcept;
  BufferedHandle& operator=(BufferedHandle&&) noexcept;
  ~BufferedHandle();

  // Sends what is collected and waits until all of it has ended. Returns: kOk if every operation
  // since the last Flush has taken effect, else the first failure's Status, with their number in
  // the text.
  Status Flush();
  // What the last Flush found, the first 65,536 of it; valid until the next Flush.
  const std::vector<BufferedFailure>& failures() const;

  // Sends buffers that are too old and takes answers in. Does not wait.
  void Progress();
  // Operations that are not known to have ended.
  std::uint64_t pending() const;
  // Since the handle was made.
  BufferedCounts counts() const;

 protected:
  explicit BufferedHandle(std::unique_ptr<internal::Buffer> buffer);
  std::unique_ptr<internal::Buffer> buffer_;
};

struct BufferedPutOptions {
  // Time to live; 0 or kForEver: for ever. Absent: what the namespace says. A negative one has
  // passed: the record expires at once.
  std::optional<std::chrono::milliseconds> ttl;
  bool counter_i64 = false;  // The value is a counter, and has 8 bytes.
  bool counter_f64 = false;
};

// Of a BytesMap or BytesOrderedMap. What may fail, and is told by Flush, is listed at BytesMap;
// here too keys have at most 16,384 bytes. Values above 32 KiB are sent by themselves, behind what
// was buffered for their core.
class TIDEPOOL_API BufferedBytesMap : public BufferedHandle {
 public:
  explicit BufferedBytesMap(const Namespace& space, const BufferedOptions& options = {});

  void Put(std::string_view key, std::string_view value, const BufferedPutOptions& options = {});
  // Puts if the key is absent; leaves what is there.
  void Insert(std::string_view key, std::string_view value, const BufferedPutOptions& options = {});
  // Adds to a counter; an absent key counts as 0 and is created.
  void Add(std::string_view key, std::int64_t by);
  void AddF64(std::string_view key, double by);
  // Adds to a counter that is there; leaves an absent key absent, which is no failure.
  void AddIfPresent(std::string_view key, std::int64_t by);
};

// Of a BytesBloom.
class TIDEPOOL_API BufferedBytesBloom : public BufferedHandle {
 public:
  explicit BufferedBytesBloom(const Namespace& space, const BufferedOptions& options = {});

  void Insert(std::string_view value);
};

struct BufferedPushOptions {
  // Time to live; 0 or kForEver: for ever. Absent: what the namespace says. One that differs from
  // the push before begins a list of its own in the message, so many changes cost some speed.
  std::optional<std::chrono::milliseconds> ttl;
};

// What the buffered handles of queues share.
//
// Order: the items of one handle are in the queue in the order of their pushes (by priority: among
// equals); those of others may come between. Of a queue with lanes it is the lane of the handle
// that it was made of.
//
// A bounded queue does not let a buffered push wait: what finds it full has failed
// (kResourceExhausted), item by item, and those behind it that come after a pop may be taken. So a
// producer that is to be slowed down by its consumers pushes what Flush gives back again, or uses
// MultiPush with PushOptions::wait. Values above 32 KiB are sent by themselves, behind what was
// buffered.
//
// BufferedOptions::aggregation has no effect: all items of a handle go to one core, so each of its
// messages is full already, and a daemon in between would only add a hop.
class TIDEPOOL_API BufferedItems : public BufferedHandle {
 protected:
  BufferedItems(const Namespace& space, const BufferedOptions& options);
  void Add(std::uint64_t priority, std::string_view value, const BufferedPushOptions& options);
};

// Of a BytesQueue. What may fail, and is told by Flush, is listed at BytesQueue::Push.
class TIDEPOOL_API BufferedBytesQueue : public BufferedItems {
 public:
  explicit BufferedBytesQueue(const Namespace& space, const BufferedOptions& options = {})
      : BufferedItems(space, options) {}

  void Push(std::string_view value, const BufferedPushOptions& options = {}) {
    Add(0, value, options);
  }
};

// Of a BytesPriorityQueue; least priority first.
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
