// Transport of frames: connect, send, receive, learn that the peer is lost. Shows no type of any
// network library, so UCX can be replaced without a change above.
//
//   client/link/core_link, daemon/core/core -> [transport] -> network
//
// Two implementations, UCX (ucx_transport.h) and the rings of a node (ring_transport.h), and a
// third that chooses between them for each connection (node_transport.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "proto/base/bytes.h"
#include "proto/base/limits.h"
#include "proto/base/result.h"

namespace tidepool::transport {

class BufferPool;
class FrameQueue;
struct FrameBufferReturner;

// A frame to send: up to kFrameBytesMax bytes of pooled memory. The holder of a FrameBuffer owns
// it. Send takes it over, and the transport returns it to its pool after its last access. A caller
// therefore can never free memory that the network still reads.
class FrameBuffer {
 public:
  static constexpr std::size_t kCapacity = limits::kFrameBytesMax;

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  void set_size(std::size_t size) {
    size_ = size;
    if (size > touched_) [[unlikely]]
      Touch();
  }

 private:
  friend class BufferPool;
  friend class FrameQueue;
  friend struct FrameBufferReturner;
  FrameBuffer() = default;
  void Touch();
  BufferPool* pool_ = nullptr;
  FrameBuffer* next_ = nullptr;  // In its pool's free list, or in a queue of the transport.
  std::size_t size_ = 0;
  std::size_t touched_ = 0;  // Bytes written so far, at least.
  alignas(64) std::byte data_[kCapacity];
};

struct FrameBufferReturner {
  void operator()(FrameBuffer* buffer) const;
};
using FrameBufferPtr = std::unique_ptr<FrameBuffer, FrameBufferReturner>;

// Free list of buffers of a single thread; grows on demand, never fails. Must outlive every buffer
// taken from it and every worker that still sends such a buffer.
class BufferPool {
 public:
  BufferPool() = default;
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  FrameBufferPtr Take();
  // Frees half of the buffers that stayed unused since the last call. Call it now and then.
  void Trim();
  std::size_t made() const { return made_; }
  // Returns the memory behind them: of each buffer the bytes ever written; the rest has no page.
  std::size_t bytes() const { return touched_bytes_; }
  // Buffers that are not in anybody's hands; made() when nothing is outstanding.
  std::size_t free_count() const { return free_count_; }

 private:
  friend class FrameBuffer;
  friend struct FrameBufferReturner;
  void DeleteOne();
  FrameBuffer* free_ = nullptr;
  std::size_t made_ = 0;
  std::size_t free_count_ = 0;
  std::size_t free_min_ = 0;  // Since the last Trim.
  std::size_t touched_bytes_ = 0;
};

// A connection to a peer worker, for frames to it; frames from the peer use another connection.
// Owned by the Worker that made it until Worker::Close.
class Endpoint {
 public:
  virtual ~Endpoint() = default;
  // Returns false once the peer is known to be lost; sends then fail with kUnavailable.
  virtual bool alive() const = 0;
  // Returns the bytes of sent frames that the network still holds because the peer does not take
  // them: the cost of a peer that never reads. 0 if a transport holds nothing.
  virtual std::size_t bytes_in_flight() const { return 0; }
  // Returns the useful maximum of bytes under way of a large value: if it is less than a sender
  // would like, further bytes are only copied once more.
  virtual std::size_t window_bytes() const { return limits::kStreamWindowBytes; }
  // Returns whether a frame is a copy in memory, without a system call.
  virtual bool shares_memory() const { return false; }
  // Returns memory that the peer shows (Worker::MakeSharedMemory) and may change at any time; valid
  // until the endpoint is closed. Empty: the peer shows no memory.
  virtual Bytes peer_memory() const { return {}; }
  // The caller's own mark, for example its session; not touched by the transport.
  void* user = nullptr;
};

// A piece of memory that a process shows to the processes of its node, which can only read it. All
// pieces lie in a common range of offsets.
struct NodeMemory {
  int descriptor = -1;  // The shower's, or the reader's own copy until the return.
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;        // Size of the whole piece: never changes.
  std::uint64_t ready_bytes = 0;  // From `begin` on; only these bytes may be touched. Grows.
  std::uint64_t range_bytes = 0;  // Offsets are below.
  std::uint32_t block_shift = 0;  // Pieces begin and end at multiples of 2^block_shift.
};

// Owner of such memory. Called on the worker's thread.
class NodeMemorySource {
 public:
  virtual ~NodeMemorySource() = default;
  // Finds the piece that holds `offset`. False: it does not exist, or not yet.
  virtual bool Find(std::uint64_t offset, NodeMemory* memory) const = 0;
};

// Events for a worker's owner. Called inside Progress(), on the owner's thread. May send and may
// Close endpoints, may not call Progress().
class Receiver {
 public:
  virtual ~Receiver() = default;
  // Receives 0..kFrameBytesMax arbitrary bytes, from any sender that reaches the port: decode with
  // care. `frame` is valid until the return and may be unaligned.
  virtual void OnFrame(Bytes frame) = 0;
  // Receives a frame that was sent in two parts (SendParts), by a peer of this node that can still
  // write to `body`: copy it once and do not read it before. The default puts them together.
  virtual void OnFrameParts(Bytes head, Bytes body);
  // Called once per endpoint, when the peer is lost. The endpoint stays valid until it is closed.
  virtual void OnPeerLost(Endpoint* endpoint, const Status& why) = 0;
  // Receives the peer's memory that AskForMemory requested.
  virtual void OnNodeMemory(Endpoint*, const NodeMemory&) {}
};

// A thread's end of the network. Only the owner's thread may call methods, except Wake.
class Worker {
 public:
  // Closes all endpoints by force and waits, at most a second, for frames in flight.
  virtual ~Worker() = default;

  // Returns the address that a peer needs to connect; opaque bytes, carried by Attach.
  virtual std::string Address() const = 0;

  // Returns at once; a peer that cannot be reached shows as OnPeerLost.
  // Errors: kInvalidArgument (not an address of ours), kUnavailable, kResourceExhausted
  // (descriptors).
  virtual Result<Endpoint*> Connect(std::string_view address) = 0;

  // Closes by force: frames not yet on the wire are dropped, no callback follows. `endpoint` is
  // dead after the call. Allowed inside the Receiver's callbacks. The peer is not notified: an
  // endpoint carries frames in a single direction, and the peer's endpoint to here is another
  // connection. Call Progress afterwards (Arm insists on it): the connection is torn down there.
  virtual void Close(Endpoint* endpoint) = 0;

  // Closes like Close, but sends earlier frames first, unless the peer is lost: a caller can say
  // good-bye.
  virtual void CloseWhenSent(Endpoint* endpoint) = 0;

  // Sends a frame of buffer->size() bytes, in order per endpoint, and never blocks. This interface
  // has no back-pressure: credits above bound the outstanding bytes.
  // Errors: kUnavailable (peer lost; the frame is dropped).
  virtual Status Send(Endpoint* endpoint, FrameBufferPtr buffer) = 0;

  // Sends a frame that is `head` and `body` in a row; both stay the caller's. To a peer on this
  // node the body is copied only once, if the ring has room; otherwise both go through a buffer of
  // `pool`.
  virtual Status SendParts(Endpoint* endpoint, Bytes head, Bytes body, BufferPool* pool);

  // Peers on this node that ask for memory get it from here, which must outlive the worker.
  virtual void ShareMemory(const NodeMemorySource*) {}
  // Requests the piece of the peer's memory that holds `offset`; OnNodeMemory brings an existing
  // piece. Errors: kUnimplemented (the peer's transport cannot), kUnavailable.
  virtual Status AskForMemory(Endpoint*, std::uint64_t) {
    return Status(StatusCode::kUnimplemented, "this transport shows no memory");
  }

  // Returns zeroed memory that peers on this node can read and only this process can write, for as
  // long as the worker lives. Once, before the first Connect. Empty: not available.
  virtual MutableBytes MakeSharedMemory(std::size_t) { return {}; }

  // Handles arrivals and completions. Returns the number of events, 0 if nothing happened.
  virtual unsigned Progress() = 0;

  // Descriptor to sleep on: call Progress until it returns 0, then Arm. If Arm returns true, poll
  // event_fd for reading. If false, an event came meanwhile: call Progress again.
  virtual int event_fd() const = 0;
  virtual bool Arm() = 0;

  // Makes event_fd readable. Thread-safe.
  virtual void Wake() = 0;

  // Returns the size of shared memory made for peers. 0 if a transport makes no such memory.
  virtual std::uint64_t memory_bytes() const { return 0; }
  virtual std::uint64_t memory_bytes_max() const { return 0; }

  // Frames handed to the network that it still holds.
  virtual std::size_t sends_in_flight() const = 0;

  // Describes for people how `endpoint` is reached, for example "ring" or "ucx tcp/lo".
  virtual std::string Describe(Endpoint* endpoint) const = 0;
};

// Makes workers. A process has a single context. Thread-safe.
class Context {
 public:
  virtual ~Context() = default;
  // Makes a worker. `receiver` must outlive it. Errors: kUnavailable (no network device),
  // kResourceExhausted.
  virtual Result<std::unique_ptr<Worker>> MakeWorker(Receiver* receiver) = 0;
  virtual std::string_view name() const = 0;
};

}  // namespace tidepool::transport
