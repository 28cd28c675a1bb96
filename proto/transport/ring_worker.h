// One thread's same-node connections: who has connected, frames in and out, sleeping and waking.
// Internal to proto/transport.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "proto/base/limited_log.h"
#include "proto/transport/frame_queue.h"
#include "proto/transport/owner_check.h"
#include "proto/transport/ring_memory.h"
#include "proto/transport/ring_socket.h"
#include "proto/transport/ring_transport.h"
#include "proto/transport/transport.h"

namespace tidepool::transport {

class RingEndpoint final : public Endpoint {
 public:
  // kGreeting: the peer has not said who it is, or whether it takes us. kLeaving: closed by its
  // owner, and still has frames to send. kClosed: about to be freed.
  enum class State : std::uint8_t { kGreeting, kOpen, kLost, kLeaving, kClosed };

  bool alive() const override { return state_ == State::kGreeting || state_ == State::kOpen; }
  std::size_t bytes_in_flight() const override { return queue_.bytes(); }
  // As many parts as its ring holds. Before there is one: what the smallest holds.
  std::size_t window_bytes() const override {
    const std::uint64_t ring_bytes = memory_ == nullptr ? kRingBytesMin : memory_->ring_bytes();
    return std::min<std::size_t>(ring_bytes / limits::kFrameBytesMax * limits::kStreamPartBytesMax,
                                 limits::kStreamWindowBytes);
  }
  bool shares_memory() const override { return true; }
  Bytes peer_memory() const override {
    return peer_memory_ == nullptr ? Bytes() : Bytes(peer_memory_->bytes());
  }

 private:
  friend class RingWorker;
  State state_ = State::kGreeting;
  bool accepted_ = false;  // The peer has connected to here.
  bool claimed_ = false;   // Somebody here has connected to the peer, too, and must be told.
  bool in_backlog_ = false;
  bool told_ = false;  // That it is lost.
  std::string peer_;   // Of an accepted one: id and tag.
  OwnedFd socket_;
  std::unique_ptr<RingMemory> memory_;
  std::unique_ptr<SharedWords> peer_words_;    // Of one that was not accepted here.
  std::unique_ptr<WorkerMemory> peer_memory_;  // Shown by the peer of an accepted one.
  RingProducer out_;
  RingConsumer in_;
  std::atomic<std::uint32_t>* peer_sleeps_ = nullptr;
  std::uint32_t rung_ = 0;
  FrameQueue queue_;
  Status why_;
};

// Invariants:
// (1) An endpoint is in endpoints_ from its making until Sweep, which runs outside of callbacks.
// (2) Frames leave in order: nothing is pushed while the queue has something.
// (3) An endpoint with frames in its queue and a ring is in the backlog.
// (4) While sleeping_, no ring had a frame when the words said so, and each peer rings.
class RingWorker final : public Worker {
 public:
  static Result<std::unique_ptr<RingWorker>> Create(const RingSettings& settings,
                                                    Receiver* receiver);
  ~RingWorker() override;

  std::string Address() const override;
  Result<Endpoint*> Connect(std::string_view address) override;
  void Close(Endpoint* endpoint) override;
  void CloseWhenSent(Endpoint* endpoint) override;
  Status Send(Endpoint* endpoint, FrameBufferPtr buffer) override;
  Status SendParts(Endpoint* endpoint, Bytes head, Bytes body, BufferPool* pool) override;
  unsigned Progress() override;
  int event_fd() const override { return events_.get(); }
  bool Arm() override;
  void Wake() override;
  void ShareMemory(const NodeMemorySource* source) override { memory_source_ = source; }
  Status AskForMemory(Endpoint* endpoint, std::uint64_t offset) override;
  MutableBytes MakeSharedMemory(std::size_t bytes) override;
  std::size_t sends_in_flight() const override { return queued_; }
  std::string Describe(Endpoint* endpoint) const override;

  // Arm was called and somebody does not sleep after all.
  void Disarm();
  // Called with the address of each peer that has connected, as its worker has it: from now on
  // Connect to it succeeds.
  void set_on_arrival(std::function<void(const std::string& address)> on_arrival) {
    on_arrival_ = std::move(on_arrival);
  }
  // True for the address of a worker that listens.
  static bool Listens(std::string_view address);
  // The peer has taken no frame: it gave no rings, or had gone before it could.
  bool WasRefused(const Endpoint* endpoint) const;
  // Of such an endpoint: what was to be sent, to be sent another way. Else nothing.
  FrameQueue TakeUnsent(Endpoint* endpoint);
  // What the rings of those that have connected take.
  std::uint64_t memory_bytes() const override { return memory_bytes_; }
  std::uint64_t memory_bytes_max() const override { return settings_.memory_bytes; }

 private:
  RingWorker(const RingSettings& settings, Receiver* receiver);
  static std::string PeerAddress(std::string_view peer);
  Status Start();
  Status Watch(int descriptor, RingEndpoint* endpoint);

  RingEndpoint* AddEndpoint(OwnedFd socket);
  // `push` writes a frame to the endpoint's ring. False: it could not, or other frames are before.
  template <typename TryPush>
  bool PushNow(RingEndpoint* endpoint, TryPush&& push);
  void OnReceived(RingEndpoint* endpoint, Bytes frame, std::size_t head_bytes);
  unsigned SendBacklog();
  unsigned Receive(RingEndpoint* endpoint, unsigned frames_max);
  void MarkLost(RingEndpoint* endpoint, Status why);
  void Tell(RingEndpoint* endpoint);
  void MarkClosed(RingEndpoint* endpoint);
  void Leave(RingEndpoint* endpoint, RingEndpoint::State next);
  void Sweep();

  // ring_worker_sockets.cc
  unsigned PollSockets();
  void Accept();
  void OnSocket(RingEndpoint* endpoint);
  void OnHello(RingEndpoint* endpoint, const RingHello& hello, int shown);
  void OnWelcome(RingEndpoint* endpoint, RingWelcome welcome);
  void OnMemoryRequest(RingEndpoint* endpoint, std::uint64_t offset);
  std::uint64_t RingBytesLeft() const;

  const RingSettings settings_;
  Receiver* receiver_;  // Null once the destructor runs.
  std::function<void(const std::string&)> on_arrival_;
  const std::string id_;
  const std::string secret_;
  std::string path_;  // Where it listens.
  OwnedFd listener_;
  OwnedFd events_;  // An epoll set of all sockets and wake_.
  OwnedFd wake_;
  std::unique_ptr<SharedWords> words_;  // Of a worker that listens.
  OwnedFd words_descriptor_;
  std::unique_ptr<WorkerMemory>
      own_memory_;  // That is shown to those whom this worker connects to.
  OwnedFd own_memory_descriptor_;
  std::vector<std::unique_ptr<RingEndpoint>> endpoints_;
  std::unordered_map<std::string, RingEndpoint*> by_peer_;  // Of accepted ones, by id and tag.
  std::vector<RingEndpoint*> backlog_;
  std::unique_ptr<std::byte[]> frame_;  // A peer that has connected can still write to its ring.
  const NodeMemorySource* memory_source_ = nullptr;
  std::uint64_t memory_bytes_ = 0;
  std::size_t queued_ = 0;  // Frames in all queues.
  log::Limited refused_;
  std::size_t greeting_ = 0;  // Endpoints that wait for a word.
  unsigned rounds_ = 0;       // Since the last look at the sockets.
  std::size_t next_ = 0;
  bool sleeping_ = false;
  bool in_progress_ = false;
  bool must_sweep_ = false;
  bool must_tell_ = false;
  mutable OwnerCheck owner_;
};

}  // namespace tidepool::transport
