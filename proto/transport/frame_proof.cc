#include "proto/transport/frame_proof.h"

#include <sched.h>

#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include "proto/base/clock.h"

namespace tidepool::transport {
namespace {

constexpr std::uint64_t kProofPatienceMs = 10'000;
constexpr std::byte kProofPattern{0x5a};

class ProofReceiver final : public Receiver {
 public:
  void OnFrame(Bytes frame) override {
    arrived = frame.size();
    is_damaged |= frame.empty() || frame.front() != kProofPattern || frame.back() != kProofPattern;
  }
  void OnPeerLost(Endpoint*, const Status& why) override { lost = why; }

  std::size_t arrived = 0;
  bool is_damaged = false;
  Status lost;
};

Status ProveFrame(std::size_t bytes, BufferPool* pool, Worker* from, Endpoint* endpoint, Worker* to,
                  const ProofReceiver& sender, ProofReceiver* receiver) {
  FrameBufferPtr frame = pool->Take();
  frame->set_size(bytes);
  std::memset(frame->data(), static_cast<int>(kProofPattern), bytes);
  receiver->arrived = 0;
  TP_RETURN_IF_ERROR(from->Send(endpoint, std::move(frame)));
  const Deadline deadline = Deadline::AfterMs(kProofPatienceMs);
  while (receiver->arrived == 0 && sender.lost.ok() && !deadline.Passed()) {
    if (from->Progress() + to->Progress() == 0) sched_yield();
  }
  TP_RETURN_IF_ERROR(sender.lost);
  if (receiver->arrived == bytes && !receiver->is_damaged) return OkStatus();
  return Status(StatusCode::kUnavailable,
                "the network does not carry a frame of " + std::to_string(bytes) +
                    " bytes from this process to itself",
                "look for UCX_* variables in the environment and for rules of a firewall");
}

}  // namespace

Status ProveFrames(Context* context) {
  BufferPool pool;  // Outlives the workers.
  ProofReceiver sender;
  ProofReceiver receiver;
  auto from = context->MakeWorker(&sender);
  if (!from.ok()) return from.status();
  auto to = context->MakeWorker(&receiver);
  if (!to.ok()) return to.status();
  auto endpoint = (*from)->Connect((*to)->Address());
  if (!endpoint.ok()) return endpoint.status();
  for (const std::size_t bytes : {std::size_t{1}, FrameBuffer::kCapacity}) {
    TP_RETURN_IF_ERROR(
        ProveFrame(bytes, &pool, from->get(), *endpoint, to->get(), sender, &receiver));
  }
  return OkStatus();
}

}  // namespace tidepool::transport
