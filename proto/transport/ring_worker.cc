#include "proto/transport/ring_worker.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "proto/base/check.h"
#include "proto/transport/network_looks.h"

namespace tidepool::transport {
namespace {

// A look at the sockets is a system call, of 0.2 to 1.1 us. A connect or a death while the thread
// spins waits for this number of rounds, 30 to 100 us; an expected welcome waits for fewer.
constexpr unsigned kRoundsPerPoll = 2'048;
constexpr unsigned kRoundsPerPollGreeting = 16;
// Limit per peer and round, so no peer delays the rest.
constexpr unsigned kFramesPerRound = 16;
// With hundreds of peers a round looks at this number of them in turn: each look may miss the
// cache.
constexpr std::size_t kEndpointsPerRound = 64;

constexpr std::string_view kListensMagic = "TPRING1l";
constexpr std::string_view kConnectsMagic = "TPRING1c";
constexpr std::size_t kMagicBytes = kListensMagic.size();
static_assert(kConnectsMagic.size() == kMagicBytes);
const std::string kNoTag(kRingTagBytes, '0');

}  // namespace

// Both formats have the tag behind a prefix of equal length.
std::string TagRingAddress(std::string_view address, std::uint64_t tag) {
  std::string tagged(address);
  const bool has_tag =
      RingWorker::Listens(address) || address.substr(0, kMagicBytes) == kConnectsMagic;
  if (!has_tag || address.size() < kMagicBytes + kRingPeerBytes) return tagged;
  char text[kRingTagBytes + 1];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(tag));
  return tagged.replace(kMagicBytes + kRingIdBytes, kRingTagBytes, text);
}

RingWorker::RingWorker(const RingSettings& settings, Receiver* receiver)
    : settings_(settings),
      receiver_(receiver),
      id_(MakeRingId()),
      secret_(MakeRingId()),
      frame_(new std::byte[limits::kFrameBytesMax]),
      owner_(settings.workers_move_between_threads) {}

Result<std::unique_ptr<RingWorker>> RingWorker::Create(const RingSettings& settings,
                                                       Receiver* receiver) {
  TP_CHECK(receiver != nullptr);
  std::unique_ptr<RingWorker> worker(new RingWorker(settings, receiver));
  TP_RETURN_IF_ERROR(worker->Start());
  return worker;
}

Status RingWorker::Start() {
  events_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  wake_ = UniqueFd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (events_.get() < 0 || wake_.get() < 0) {
    return Status(StatusCode::kResourceExhausted, "no descriptor for same-node connections",
                  "raise the limit with ulimit -n");
  }
  TP_RETURN_IF_ERROR(Watch(wake_.get(), nullptr));
  if (settings_.folder.empty()) return OkStatus();
  auto words = SharedWords::Create(&words_descriptor_);
  if (!words.ok()) return words.status();
  words_ = *std::move(words);
  auto listener = ListenForRings(settings_.folder, id_, &path_);
  if (!listener.ok()) return listener.status();
  listener_ = *std::move(listener);
  return Watch(listener_.get(), nullptr);
}

RingWorker::~RingWorker() {
  owner_.Release();
  receiver_ = nullptr;
  if (listener_.get() < 0) return;
  unlink(path_.c_str());
  RemoveDeadRings(settings_.folder);
}

Status RingWorker::Watch(int descriptor, RingEndpoint* endpoint) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.ptr = endpoint;
  if (epoll_ctl(events_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0) return OkStatus();
  return Status(StatusCode::kResourceExhausted, "cannot watch a same-node connection");
}

std::string RingWorker::Address() const {
  if (listener_.get() >= 0) return std::string(kListensMagic) + secret_ + kNoTag + path_;
  return std::string(kConnectsMagic) + id_ + kNoTag;
}

Result<Endpoint*> RingWorker::Connect(std::string_view address) {
  OwnerCheck::Scope scope(owner_);
  const std::string_view rest = address.substr(std::min(address.size(), kMagicBytes));
  if (address.substr(0, kMagicBytes) == kConnectsMagic) {
    const auto found = by_peer_.find(std::string(rest));
    // A connection answers a single connection of a peer.
    if (found == by_peer_.end() || found->second->state_ != RingEndpoint::State::kOpen ||
        found->second->claimed_) {
      return Status(StatusCode::kUnavailable, "no same-node connection of that peer");
    }
    found->second->claimed_ = true;
    return static_cast<Endpoint*>(found->second);
  }
  if (!Listens(address) || rest.size() < kRingPeerBytes) {
    return Status(StatusCode::kInvalidArgument, "not the address of a same-node transport");
  }
  const std::string secret(rest.substr(0, kRingIdBytes));
  const std::string tag(rest.substr(kRingIdBytes, kRingTagBytes));
  auto socket = ConnectToRings(std::string(rest.substr(kRingPeerBytes)));
  if (!socket.ok()) return socket.status();
  TP_RETURN_IF_ERROR(SendHello(socket->get(), {id_ + tag, secret}, own_memory_descriptor_.get()));
  RingEndpoint* const endpoint = AddEndpoint(*std::move(socket));
  if (endpoint == nullptr) {
    return Status(StatusCode::kResourceExhausted, "cannot watch a same-node connection");
  }
  endpoint->claimed_ = true;
  return static_cast<Endpoint*>(endpoint);
}

RingEndpoint* RingWorker::AddEndpoint(UniqueFd socket) {
  auto endpoint = std::make_unique<RingEndpoint>();
  endpoint->socket_ = std::move(socket);
  if (!Watch(endpoint->socket_.get(), endpoint.get()).ok()) return nullptr;
  ++greeting_;
  endpoints_.push_back(std::move(endpoint));
  return endpoints_.back().get();
}

// ---- Sending.

Status RingWorker::Send(Endpoint* to, FrameBufferPtr buffer) {
  OwnerCheck::Scope scope(owner_);
  auto* const endpoint = static_cast<RingEndpoint*>(to);
  if (!endpoint->alive()) {
    return Status(StatusCode::kUnavailable,
                  "the peer is lost: " + std::string(endpoint->why_.what()));
  }
  const auto push = [&](RingProducer& out) {
    return out.TryPush({buffer->data(), buffer->size()});
  };
  if (PushNow(endpoint, push)) return OkStatus();
  endpoint->queue_.Push(std::move(buffer));
  ++queued_;
  const bool is_open = endpoint->state_ == RingEndpoint::State::kOpen;
  if (is_open && !std::exchange(endpoint->in_backlog_, true)) backlog_.push_back(endpoint);
  return OkStatus();
}

Status RingWorker::SendParts(Endpoint* to, Bytes head, Bytes body, BufferPool* pool) {
  OwnerCheck::Scope scope(owner_);
  const auto push = [&](RingProducer& out) { return out.TryPushParts(head, body); };
  if (PushNow(static_cast<RingEndpoint*>(to), push)) return OkStatus();
  return Worker::SendParts(to, head, body, pool);
}

template <typename TryPush>
bool RingWorker::PushNow(RingEndpoint* endpoint, TryPush&& push) {
  if (endpoint->state_ != RingEndpoint::State::kOpen || !endpoint->queue_.empty() ||
      !push(endpoint->out_)) {
    return false;
  }
  if (RingSleep::NeedsBell(*endpoint->peer_sleeps_, &endpoint->rung_)) {
    RingBell(endpoint->socket_.get());
  }
  return true;
}

unsigned RingWorker::SendBacklog() {
  using State = RingEndpoint::State;
  unsigned sent = 0;
  std::erase_if(backlog_, [&](RingEndpoint* endpoint) {
    if (endpoint->state_ != State::kOpen && endpoint->state_ != State::kLeaving) {
      endpoint->in_backlog_ = false;
      return true;
    }
    const unsigned before = sent;
    FrameQueue& queue = endpoint->queue_;
    while (!queue.empty() && endpoint->out_.TryPush({queue.front().data(), queue.front().size()})) {
      queue.Pop();
      --queued_;
      ++sent;
    }
    if (sent != before && RingSleep::NeedsBell(*endpoint->peer_sleeps_, &endpoint->rung_)) {
      RingBell(endpoint->socket_.get());
    }
    if (endpoint->out_.corrupt()) {
      MarkLost(endpoint, Status(StatusCode::kUnavailable, "the peer has damaged its ring"));
    }
    if (!queue.empty()) return false;
    endpoint->in_backlog_ = false;
    if (endpoint->state_ == State::kLeaving) MarkClosed(endpoint);
    return true;
  });
  return sent;
}

// ---- Receiving.

unsigned RingWorker::Progress() {
  OwnerCheck::Scope scope(owner_);
  TP_CHECK(!in_progress_);  // Called from a callback.
  in_progress_ = true;
  unsigned events = 0;
  ++rounds_;
  const unsigned per_poll = greeting_ > 0 ? kRoundsPerPollGreeting : kRoundsPerPoll;
  if (sleeping_ || rounds_ >= per_poll) {
    rounds_ = 0;
    Disarm();
    events += PollSockets();
  }
  // By index: a callback may add endpoints.
  const std::size_t count = endpoints_.size();
  for (std::size_t looks = std::min(count, kEndpointsPerRound); looks > 0; --looks) {
    next_ = next_ + 1 < count ? next_ + 1 : 0;
    RingEndpoint* const endpoint = endpoints_[next_].get();
    if (endpoint->state_ == RingEndpoint::State::kOpen)
      events += Receive(endpoint, kFramesPerRound);
  }
  rounds_ += NetworkLooks::kRoundsPerFrame * events;
  if (must_tell_) {
    must_tell_ = false;
    for (std::size_t i = 0; i < endpoints_.size(); ++i) Tell(endpoints_[i].get());
  }
  in_progress_ = false;
  if (!backlog_.empty()) events += SendBacklog();
  if (must_sweep_) Sweep();
  return events;
}

unsigned RingWorker::Receive(RingEndpoint* endpoint, unsigned frames_max) {
  unsigned count = 0;
  Bytes frame;
  std::size_t head_bytes = 0;
  while (count < frames_max && endpoint->in_.Peek(&frame, &head_bytes)) {
    OnReceived(endpoint, frame, head_bytes);
    endpoint->in_.Pop(frame.size());
    ++count;
    if (endpoint->state_ == RingEndpoint::State::kClosed) return count;
  }
  if (endpoint->in_.corrupt()) {
    MarkLost(endpoint, Status(StatusCode::kUnavailable, "the peer has damaged its ring"));
  }
  if (count > 0 && endpoint->in_.TakeWait()) RingBell(endpoint->socket_.get());
  return count;
}

void RingWorker::OnReceived(RingEndpoint* endpoint, Bytes frame, std::size_t head_bytes) {
  if (receiver_ == nullptr) return;
  // A process that this worker has connected to is trusted to change nothing.
  if (!endpoint->accepted_) return receiver_->OnFrame(frame);
  // Decoders look twice at some bytes, but only at bytes that cannot change meanwhile.
  const std::size_t copied = head_bytes == 0 ? frame.size() : head_bytes;
  std::memcpy(frame_.get(), frame.data(), copied);
  const Bytes head(frame_.get(), copied);
  head_bytes == 0 ? receiver_->OnFrame(head)
                  : receiver_->OnFrameParts(head, frame.subspan(head_bytes));
}

// ---- Ends.

void RingWorker::MarkLost(RingEndpoint* endpoint, Status why) {
  using State = RingEndpoint::State;
  if (endpoint->state_ == State::kLeaving || (endpoint->alive() && !endpoint->claimed_)) {
    return MarkClosed(endpoint);
  }
  if (!endpoint->alive()) return;
  Leave(endpoint, State::kLost);
  endpoint->why_ = std::move(why);
  must_tell_ = true;
}

void RingWorker::Tell(RingEndpoint* endpoint) {
  if (endpoint->state_ != RingEndpoint::State::kLost || std::exchange(endpoint->told_, true))
    return;
  if (receiver_ != nullptr) receiver_->OnPeerLost(endpoint, endpoint->why_);
}

void RingWorker::MarkClosed(RingEndpoint* endpoint) {
  Leave(endpoint, RingEndpoint::State::kClosed);
  must_sweep_ = true;
}

void RingWorker::Leave(RingEndpoint* endpoint, RingEndpoint::State next) {
  if (endpoint->state_ == RingEndpoint::State::kGreeting) --greeting_;
  endpoint->state_ = next;
  // Closing it is not enough where a fork holds it, too.
  epoll_ctl(events_.get(), EPOLL_CTL_DEL, endpoint->socket_.get(), nullptr);
}

void RingWorker::Close(Endpoint* which) {
  OwnerCheck::Scope scope(owner_);
  MarkClosed(static_cast<RingEndpoint*>(which));
  if (!in_progress_) Sweep();
}

void RingWorker::CloseWhenSent(Endpoint* which) {
  OwnerCheck::Scope scope(owner_);
  auto* const endpoint = static_cast<RingEndpoint*>(which);
  if (endpoint->state_ != RingEndpoint::State::kOpen || endpoint->queue_.empty()) {
    return Close(which);
  }
  endpoint->user = nullptr;
  endpoint->state_ = RingEndpoint::State::kLeaving;
}

void RingWorker::Sweep() {
  must_sweep_ = false;
  const auto is_closed = [](const RingEndpoint* endpoint) {
    return endpoint->state_ == RingEndpoint::State::kClosed;
  };
  std::erase_if(backlog_, is_closed);
  std::erase_if(endpoints_, [&](const std::unique_ptr<RingEndpoint>& endpoint) {
    if (!is_closed(endpoint.get())) return false;
    const auto known = by_peer_.find(endpoint->peer_);
    if (known != by_peer_.end() && known->second == endpoint.get()) by_peer_.erase(known);
    queued_ -= endpoint->queue_.Clear();
    if (endpoint->accepted_ && endpoint->memory_ != nullptr) {
      memory_bytes_ -= 2 * endpoint->memory_->ring_bytes();
    }
    return true;
  });
}

std::string RingWorker::PeerAddress(std::string_view peer) {
  return std::string(kConnectsMagic).append(peer);
}

bool RingWorker::Listens(std::string_view address) {
  return address.substr(0, kListensMagic.size()) == kListensMagic;
}

bool RingWorker::WasRefused(const Endpoint* which) const {
  return static_cast<const RingEndpoint*>(which)->memory_ == nullptr;
}

FrameQueue RingWorker::TakeUnsent(Endpoint* which) {
  auto* const endpoint = static_cast<RingEndpoint*>(which);
  FrameQueue unsent;
  if (!WasRefused(endpoint)) return unsent;
  for (; !endpoint->queue_.empty(); --queued_) unsent.Push(endpoint->queue_.Pop());
  return unsent;
}

// ---- Sleeping.

bool RingWorker::Arm() {
  OwnerCheck::Scope scope(owner_);
  SendBacklog();
  if (must_tell_ || must_sweep_) return false;
  sleeping_ = true;
  if (words_ != nullptr) RingSleep::Begin(words_->sleeps());
  for (const auto& endpoint : endpoints_) {
    if (endpoint->memory_ == nullptr) continue;
    if (!endpoint->accepted_) RingSleep::Begin(endpoint->memory_->answer_words()->sleeps);
    const bool stays = !endpoint->in_backlog_ || endpoint->out_.WaitForRoom();
    if (stays && (endpoint->state_ != RingEndpoint::State::kOpen || endpoint->in_.empty()))
      continue;
    Disarm();
    return false;
  }
  return true;
}

void RingWorker::Disarm() {
  if (!std::exchange(sleeping_, false)) return;
  if (words_ != nullptr) return RingSleep::End(words_->sleeps());
  for (const auto& endpoint : endpoints_) {
    if (endpoint->memory_ == nullptr || endpoint->accepted_) continue;
    RingSleep::End(endpoint->memory_->answer_words()->sleeps);
  }
}

void RingWorker::Wake() {
  const std::uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof one);
}

std::string RingWorker::Describe(Endpoint* which) const {
  const auto* const endpoint = static_cast<RingEndpoint*>(which);
  if (!endpoint->alive()) return "lost";
  return endpoint->memory_ == nullptr ? "ring, connecting" : "ring";
}

}  // namespace tidepool::transport
