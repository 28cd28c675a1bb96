// The sockets of a worker's same-node connections: greetings, bells, and the peer's end.
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "proto/base/check.h"
#include "proto/transport/ring_worker.h"

namespace tidepool::transport {
namespace {

// So many may have connected and not have said a word; a greeting comes with the connection.
constexpr std::size_t kGreetingMax = 64;
constexpr int kAcceptsPerRound = 16;
// No ring has more.
constexpr unsigned kFramesAtEndMax = kRingBytes / kRingLineBytes;

// Takes the same time wherever they differ.
bool SameSecret(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return false;
  unsigned differs = 0;
  for (std::size_t i = 0; i < a.size(); ++i) differs |= static_cast<unsigned>(a[i] ^ b[i]);
  return differs == 0;
}

}  // namespace

unsigned RingWorker::PollSockets() {
  epoll_event ready[32];
  // Not epoll_wait, which is UCX's here: see ucx_events.cc.
  const int count =
      epoll_pwait(events_.get(), ready, static_cast<int>(std::size(ready)), 0, nullptr);
  bool accepts = false;
  for (int i = 0; i < count; ++i) {
    auto* const endpoint = static_cast<RingEndpoint*>(ready[i].data.ptr);
    if (endpoint != nullptr) {
      OnSocket(endpoint);
    } else {
      accepts = true;
    }
  }
  if (accepts) {
    std::uint64_t wakes = 0;
    (void)!read(wake_.get(), &wakes, sizeof wakes);
    if (listener_.get() >= 0) Accept();
  }
  return count > 0 ? static_cast<unsigned>(count) : 0;
}

void RingWorker::Accept() {
  for (int i = 0; i < kAcceptsPerRound; ++i) {
    auto accepted = AcceptRings(listener_.get());
    if (accepted.code() == StatusCode::kNotFound) return;
    if (!accepted.ok()) {
      refused_.Warn("same-node connection refused: " + accepted.status().ToString());
      // Without a descriptor the next one fails, too; it waits in the listener's queue.
      if (accepted.code() == StatusCode::kResourceExhausted) return;
      continue;
    }
    if (greeting_ >= kGreetingMax) {
      const auto silent = std::find_if(endpoints_.begin(), endpoints_.end(), [](const auto& each) {
        return each->accepted_ && each->state_ == RingEndpoint::State::kGreeting;
      });
      if (silent != endpoints_.end()) MarkClosed(silent->get());
    }
    RingEndpoint* const endpoint = AddEndpoint(*std::move(accepted));
    if (endpoint != nullptr) endpoint->accepted_ = true;
  }
}

void RingWorker::OnSocket(RingEndpoint* endpoint) {
  using What = RingMessage::What;
  for (;;) {
    if (endpoint->state_ == RingEndpoint::State::kClosed ||
        endpoint->state_ == RingEndpoint::State::kLost) {
      return;
    }
    RingMessage message = ReceiveRingMessage(endpoint->socket_.get());
    const bool greets = endpoint->state_ == RingEndpoint::State::kGreeting;
    if (message.what == What::kNothing) return;
    if (message.what == What::kBell) continue;
    if (message.what == What::kHello && endpoint->accepted_ && greets) {
      OnHello(endpoint, message.hello, message.hello_memory.get());
    } else if (message.what == What::kWelcome && !endpoint->accepted_ && greets) {
      OnWelcome(endpoint, std::move(message.welcome));
    } else if (message.what == What::kMemoryRequest && endpoint->accepted_ && !greets) {
      OnMemoryRequest(endpoint, message.offset);
    } else if (message.what == What::kMemory && !endpoint->accepted_ && !greets) {
      if (receiver_ != nullptr) receiver_->OnNodeMemory(endpoint, message.memory);
    } else if (message.what == What::kEnd) {
      // What it had sent before counts.
      if (endpoint->state_ == RingEndpoint::State::kOpen) Receive(endpoint, kFramesAtEndMax);
      MarkLost(endpoint, Status(StatusCode::kUnavailable, "the peer on this node has gone"));
    } else {
      MarkLost(endpoint, Status(StatusCode::kUnavailable, "the peer on this node speaks otherwise",
                                "check that both sides run the same version"));
    }
  }
}

std::uint64_t RingWorker::RingBytesLeft() const {
  const std::uint64_t left =
      settings_.memory_bytes - std::min(settings_.memory_bytes, memory_bytes_);
  // The last quarter goes in smaller parts.
  if (left >= settings_.memory_bytes / 4 + 2 * kRingBytes) return kRingBytes;
  return left >= 2 * kRingBytesMin ? kRingBytesMin : 0;
}

void RingWorker::OnHello(RingEndpoint* endpoint, const RingHello& hello, int shown) {
  RingWelcome welcome;
  welcome.ring_bytes = RingBytesLeft();
  if (!SameSecret(hello.secret, secret_)) {
    welcome.code = StatusCode::kUnauthenticated;
    refused_.Warn("same-node connection refused: it was not given the address");
  } else if (welcome.ring_bytes == 0) {
    welcome.code = StatusCode::kResourceExhausted;
  } else {
    auto memory = RingMemory::Create(welcome.ring_bytes, &welcome.rings);
    welcome.words = OwnedFd(dup(words_descriptor_.get()));
    if (!memory.ok()) {
      welcome.code = memory.code();
    } else if (welcome.words.get() < 0) {
      welcome.code = StatusCode::kResourceExhausted;
    } else {
      endpoint->memory_ = *std::move(memory);
      memory_bytes_ += 2 * welcome.ring_bytes;
    }
  }
  if (!SendWelcome(endpoint->socket_.get(), welcome).ok() || welcome.code != StatusCode::kOk) {
    return MarkClosed(endpoint);
  }
  // A peer whose memory cannot be mapped is served like a peer that shows none.
  if (auto mapped = WorkerMemory::Map(shown); shown >= 0 && mapped.ok()) {
    endpoint->peer_memory_ = *std::move(mapped);
  }
  endpoint->peer_ = hello.id;
  by_peer_[hello.id] = endpoint;
  endpoint->in_ = endpoint->memory_->RequestConsumer();
  endpoint->out_ = endpoint->memory_->AnswerProducer();
  endpoint->peer_sleeps_ = &endpoint->memory_->answer_words()->sleeps;
  endpoint->state_ = RingEndpoint::State::kOpen;
  --greeting_;
  if (on_arrival_) on_arrival_(PeerAddress(hello.id));
}

MutableBytes RingWorker::MakeSharedMemory(std::size_t bytes) {
  TP_CHECK(own_memory_ == nullptr);
  auto made = WorkerMemory::Create(bytes, &own_memory_descriptor_);
  if (!made.ok()) return {};
  own_memory_ = *std::move(made);
  return own_memory_->bytes();
}

void RingWorker::OnMemoryRequest(RingEndpoint* endpoint, std::uint64_t offset) {
  NodeMemory memory;
  if (memory_source_ == nullptr || !memory_source_->Find(offset, &memory)) return;
  // One that does not read what it has asked for does without.
  (void)SendMemory(endpoint->socket_.get(), memory);
}

Status RingWorker::AskForMemory(Endpoint* which, std::uint64_t offset) {
  OwnerCheck::Scope scope(owner_);
  auto* const endpoint = static_cast<RingEndpoint*>(which);
  if (endpoint->state_ != RingEndpoint::State::kOpen) {
    return Status(StatusCode::kUnavailable, "the peer on this node is not there");
  }
  return SendMemoryRequest(endpoint->socket_.get(), offset);
}

void RingWorker::OnWelcome(RingEndpoint* endpoint, RingWelcome welcome) {
  Status refused;
  if (welcome.code != StatusCode::kOk) {
    refused = Status(welcome.code, "the daemon on this node gives no rings");
  } else {
    auto memory = RingMemory::Map(welcome.rings.get(), welcome.ring_bytes);
    auto words = SharedWords::Map(welcome.words.get());
    refused = memory.ok() ? words.status() : memory.status();
    if (refused.ok()) {
      endpoint->memory_ = *std::move(memory);
      endpoint->peer_words_ = *std::move(words);
    }
  }
  if (!refused.ok()) return MarkLost(endpoint, refused);
  endpoint->out_ = endpoint->memory_->RequestProducer();
  endpoint->in_ = endpoint->memory_->AnswerConsumer();
  endpoint->peer_sleeps_ = &endpoint->peer_words_->sleeps();
  endpoint->state_ = RingEndpoint::State::kOpen;
  --greeting_;
  // What was sent meanwhile.
  if (!endpoint->queue_.empty() && !std::exchange(endpoint->in_backlog_, true)) {
    backlog_.push_back(endpoint);
  }
}

}  // namespace tidepool::transport
