// A worker made of two workers: it decides for each connection which way reaches the peer.
// Internal to proto/transport.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "proto/transport/network_looks.h"
#include "proto/transport/node_transport.h"
#include "proto/transport/ring_worker.h"
#include "proto/transport/transport.h"

namespace tidepool::transport {

// Lives in its worker's pool until Close, and after the call until the worker's Progress has ended.
class NodeEndpoint final : public Endpoint {
 public:
  bool alive() const override { return !lost_ && (by_ == nullptr || by_->alive()); }
  std::size_t bytes_in_flight() const override {
    return by_ == nullptr ? 0 : by_->bytes_in_flight();
  }
  std::size_t window_bytes() const override {
    // Little, until the way is known: both sides must use the smaller of their two windows.
    return by_ == nullptr ? 2 * limits::kStreamPartBytesMax : by_->window_bytes();
  }
  bool shares_memory() const override { return by_ != nullptr && by_->shares_memory(); }
  Bytes peer_memory() const override { return by_ == nullptr ? Bytes() : by_->peer_memory(); }

 private:
  friend class NodeWorker;
  // Both null until the way is known; after a loss `by_` may be null alone.
  Worker* way_ = nullptr;
  Endpoint* by_ = nullptr;  // Endpoint of the chosen worker.
  bool lost_ = false;
  std::string ring_address_;  // The peer's. Empty: it has no ring address.
  std::string ucx_address_;
};

// Invariant: an endpoint with a `by_` is its `user`.
class NodeWorker final : public Worker, private Receiver {
 public:
  NodeWorker(TransportUse use, Receiver* receiver) : use_(use), receiver_(receiver) {}
  // REQUIRES: called once, before anything else. Errors: as Context::MakeWorker.
  Status Start(const RingSettings& ring, Context* ucx);
  ~NodeWorker() override;

  std::string Address() const override { return address_; }
  Result<Endpoint*> Connect(std::string_view address) override;
  void Close(Endpoint* endpoint) override;
  void CloseWhenSent(Endpoint* endpoint) override;
  Status Send(Endpoint* endpoint, FrameBufferPtr buffer) override;
  Status SendParts(Endpoint* endpoint, Bytes head, Bytes body, BufferPool* pool) override;
  unsigned Progress() override;
  int event_fd() const override { return ucx_->event_fd(); }
  bool Arm() override;
  void Wake() override { ucx_->Wake(); }
  void ShareMemory(const NodeMemorySource* source) override {
    if (ring_ != nullptr) ring_->ShareMemory(source);
  }
  Status AskForMemory(Endpoint* endpoint, std::uint64_t offset) override;
  MutableBytes MakeSharedMemory(std::size_t bytes) override {
    return ring_ == nullptr ? MutableBytes() : ring_->MakeSharedMemory(bytes);
  }
  std::size_t sends_in_flight() const override {
    return (ring_ == nullptr ? 0 : ring_->sends_in_flight()) + ucx_->sends_in_flight();
  }
  std::string Describe(Endpoint* endpoint) const override;
  std::uint64_t memory_bytes() const override {
    return ring_ == nullptr ? 0 : ring_->memory_bytes();
  }
  std::uint64_t memory_bytes_max() const override {
    return ring_ == nullptr ? 0 : ring_->memory_bytes_max();
  }

 private:
  void OnFrame(Bytes frame) override { receiver_->OnFrame(frame); }
  void OnFrameParts(Bytes head, Bytes body) override { receiver_->OnFrameParts(head, body); }
  void OnPeerLost(Endpoint* by, const Status& why) override;
  void OnNodeMemory(Endpoint* by, const NodeMemory& memory) override {
    if (by->user == nullptr) return;
    receiver_->OnNodeMemory(static_cast<NodeEndpoint*>(by->user), memory);
  }

  void OnArrival(const std::string& ring_address);
  Status TakeWay(NodeEndpoint* endpoint, Worker* way, std::string_view address);
  Status ChooseWay(NodeEndpoint* endpoint);
  Status BeforeSend(NodeEndpoint* endpoint);
  bool GoByUcx(NodeEndpoint* endpoint, const Status& why);
  void Forget(NodeEndpoint* endpoint);

  const TransportUse use_;
  Receiver* const receiver_;
  std::unique_ptr<RingWorker> ring_;  // Null: never a ring.
  std::unique_ptr<Worker> ucx_;
  std::string address_;
  std::vector<std::unique_ptr<NodeEndpoint>> endpoints_;
  // Endpoints whose peer has not chosen a way, by its ring's address.
  std::unordered_map<std::string, NodeEndpoint*> waiting_;
  std::vector<std::unique_ptr<NodeEndpoint>> closed_;  // A caller's round may still look at them.
  NetworkLooks ucx_looks_;
};

}  // namespace tidepool::transport
