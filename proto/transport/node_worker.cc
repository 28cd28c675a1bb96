#include "proto/transport/node_worker.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "proto/base/bytes.h"
#include "proto/base/check.h"
#include "proto/base/log.h"

namespace tidepool::transport {
namespace {

constexpr std::string_view kNodeMagic = "TPNODE1\n";
constexpr std::size_t kPrefixBytes = kNodeMagic.size() + sizeof(std::uint16_t);

struct Ways {
  std::string_view ring;
  std::string_view ucx;
};

std::string JoinWays(const Ways& ways) {
  const auto ring_bytes = static_cast<std::uint16_t>(ways.ring.size());
  std::string address(kNodeMagic);
  address.append(reinterpret_cast<const char*>(&ring_bytes), sizeof ring_bytes);
  return address.append(ways.ring).append(ways.ucx);
}

// Splits an address. Any other address is taken as UCX's own.
Ways SplitWays(std::string_view address) {
  if (address.size() < kPrefixBytes || address.substr(0, kNodeMagic.size()) != kNodeMagic) {
    return {{}, address};
  }
  const auto ring_bytes = LoadUnaligned<std::uint16_t>(AsBytes(address).data() + kNodeMagic.size());
  const std::string_view rest = address.substr(kPrefixBytes);
  if (ring_bytes > rest.size()) return {{}, address};
  return {rest.substr(0, ring_bytes), rest.substr(ring_bytes)};
}

class NodeContext final : public Context {
 public:
  NodeContext(NodeTransportSettings settings, std::unique_ptr<Context> ucx)
      : settings_(std::move(settings)), ucx_(std::move(ucx)) {}

  Result<std::unique_ptr<Worker>> MakeWorker(Receiver* receiver) override {
    auto worker = std::make_unique<NodeWorker>(settings_.use, receiver);
    TP_RETURN_IF_ERROR(worker->Start(settings_.ring, ucx_.get()));
    return std::unique_ptr<Worker>(std::move(worker));
  }
  std::string_view name() const override {
    return settings_.use == TransportUse::kUcx ? "ucx" : "ring and ucx";
  }

 private:
  const NodeTransportSettings settings_;
  std::unique_ptr<Context> ucx_;
};

constexpr std::array<std::pair<std::string_view, TransportUse>, 3> kUses = {{
    {"auto", TransportUse::kAuto},
    {"ucx", TransportUse::kUcx},
    {"ring", TransportUse::kRing},
}};

}  // namespace

std::optional<TransportUse> TransportUseOf(std::string_view name) {
  const auto found =
      std::find_if(kUses.begin(), kUses.end(), [&](const auto& use) { return use.first == name; });
  if (found == kUses.end()) return std::nullopt;
  return found->second;
}

Result<std::unique_ptr<Context>> MakeNodeContext(const NodeTransportSettings& settings) {
  auto ucx = MakeUcxContext(settings.ucx);
  if (!ucx.ok()) return ucx.status();
  NodeTransportSettings own = settings;
  own.ring.workers_move_between_threads = settings.ucx.workers_move_between_threads;
  return std::unique_ptr<Context>(std::make_unique<NodeContext>(std::move(own), *std::move(ucx)));
}

std::string TagAddress(std::string_view address, std::uint64_t tag) {
  const Ways ways = SplitWays(address);
  if (ways.ring.empty()) return std::string(address);
  const std::string ring = TagRingAddress(ways.ring, tag);
  return JoinWays({ring, ways.ucx});
}

Status NodeWorker::Start(const RingSettings& ring, Context* ucx) {
  auto worker = ucx->MakeWorker(this);
  if (!worker.ok()) return worker.status();
  ucx_ = *std::move(worker);
  address_ = ucx_->Address();
  if (use_ == TransportUse::kUcx) return OkStatus();
  auto rings = RingWorker::Create(ring, this);
  if (!rings.ok() && use_ == TransportUse::kAuto) {
    log::Warn("no same-node connections, so the network is used: " + rings.status().ToString());
    RingSettings connects_only = ring;
    connects_only.folder.clear();
    rings = RingWorker::Create(connects_only, this);
  }
  if (!rings.ok()) return rings.status();
  ring_ = *std::move(rings);
  ring_->set_on_arrival([this](const std::string& address) { OnArrival(address); });
  address_ = JoinWays({ring_->Address(), address_});
  // UCX's descriptor is a set already; another set around both would be too deep for the kernel.
  epoll_event event{};
  event.events = EPOLLIN;
  if (epoll_ctl(ucx_->event_fd(), EPOLL_CTL_ADD, ring_->event_fd(), &event) == 0) return {};
  return Status(StatusCode::kUnavailable, "cannot set up a network worker's events");
}

NodeWorker::~NodeWorker() {
  // Their endpoints know ours.
  ring_.reset();
  ucx_.reset();
}

Result<Endpoint*> NodeWorker::Connect(std::string_view address) {
  const Ways ways = SplitWays(address);
  auto endpoint = std::make_unique<NodeEndpoint>();
  endpoint->ring_address_ = ways.ring;
  endpoint->ucx_address_ = ways.ucx;
  // A peer that does not listen decides itself; its first message shows the way.
  const bool waits = ring_ != nullptr && !ways.ring.empty() && !RingWorker::Listens(ways.ring);
  if (!waits) {
    TP_RETURN_IF_ERROR(ChooseWay(endpoint.get()));
  } else if (!TakeWay(endpoint.get(), ring_.get(), ways.ring).ok()) {
    waiting_[endpoint->ring_address_] = endpoint.get();
  }
  endpoints_.push_back(std::move(endpoint));
  return static_cast<Endpoint*>(endpoints_.back().get());
}

// Reports the end of this peer from now on, even if nothing is ever sent to it.
void NodeWorker::OnArrival(const std::string& ring_address) {
  const auto found = waiting_.find(ring_address);
  if (found == waiting_.end()) return;
  if (TakeWay(found->second, ring_.get(), ring_address).ok()) waiting_.erase(found);
}

Status NodeWorker::TakeWay(NodeEndpoint* endpoint, Worker* way, std::string_view address) {
  auto by = way->Connect(address);
  if (!by.ok()) return by.status();
  endpoint->way_ = way;
  endpoint->by_ = *by;
  endpoint->by_->user = endpoint;
  return OkStatus();
}

Status NodeWorker::ChooseWay(NodeEndpoint* endpoint) {
  Status status(StatusCode::kUnavailable, "the peer has no socket on this node");
  if (ring_ != nullptr && !endpoint->ring_address_.empty()) {
    status = TakeWay(endpoint, ring_.get(), endpoint->ring_address_);
  }
  if (status.ok()) return status;
  if (use_ == TransportUse::kRing) {
    return Status(StatusCode::kUnavailable,
                  "no same-node connection: " + std::string(status.what()),
                  "leave --transport at auto to use the network as well");
  }
  return TakeWay(endpoint, ucx_.get(), endpoint->ucx_address_);
}

// The way, where it is not known yet.
Status NodeWorker::BeforeSend(NodeEndpoint* endpoint) {
  if (endpoint->by_ != nullptr) [[likely]] {
    return OkStatus();
  }
  if (endpoint->lost_) return Status(StatusCode::kUnavailable, "the peer is gone");
  waiting_.erase(endpoint->ring_address_);
  return ChooseWay(endpoint);
}

Status NodeWorker::Send(Endpoint* to, FrameBufferPtr buffer) {
  auto* const endpoint = static_cast<NodeEndpoint*>(to);
  TP_RETURN_IF_ERROR(BeforeSend(endpoint));
  if (endpoint->way_ == ucx_.get()) ucx_looks_.Expect();
  return endpoint->way_->Send(endpoint->by_, std::move(buffer));
}

Status NodeWorker::SendParts(Endpoint* to, Bytes head, Bytes body, BufferPool* pool) {
  auto* const endpoint = static_cast<NodeEndpoint*>(to);
  TP_RETURN_IF_ERROR(BeforeSend(endpoint));
  if (endpoint->way_ == ucx_.get()) ucx_looks_.Expect();
  return endpoint->way_->SendParts(endpoint->by_, head, body, pool);
}

Status NodeWorker::AskForMemory(Endpoint* which, std::uint64_t offset) {
  auto* const endpoint = static_cast<NodeEndpoint*>(which);
  if (endpoint->by_ == nullptr) return Worker::AskForMemory(which, offset);
  return endpoint->way_->AskForMemory(endpoint->by_, offset);
}

void NodeWorker::OnPeerLost(Endpoint* by, const Status& why) {
  auto* const endpoint = static_cast<NodeEndpoint*>(by->user);
  if (endpoint == nullptr) return;
  if (ring_ != nullptr && endpoint->way_ == ring_.get() && use_ == TransportUse::kAuto &&
      GoByUcx(endpoint, why))
    return;
  endpoint->lost_ = true;
  receiver_->OnPeerLost(endpoint, why);
}

// A daemon that gives no rings is still reached.
bool NodeWorker::GoByUcx(NodeEndpoint* endpoint, const Status& why) {
  if (!ring_->WasRefused(endpoint->by_)) return false;
  FrameQueue unsent = ring_->TakeUnsent(endpoint->by_);
  ring_->Close(endpoint->by_);
  endpoint->by_ = nullptr;
  log::Info("no same-node connection, so the network is used: " + why.ToString());
  if (!TakeWay(endpoint, ucx_.get(), endpoint->ucx_address_).ok()) return false;
  while (!unsent.empty()) {
    // A failure shows as a peer that is lost.
    if (!ucx_->Send(endpoint->by_, unsent.Pop()).ok()) break;
  }
  return true;
}

void NodeWorker::Forget(NodeEndpoint* endpoint) {
  const auto found = std::find_if(endpoints_.begin(), endpoints_.end(),
                                  [&](const auto& each) { return each.get() == endpoint; });
  TP_CHECK(found != endpoints_.end());
  const auto waiting = waiting_.find(endpoint->ring_address_);
  if (waiting != waiting_.end() && waiting->second == endpoint) waiting_.erase(waiting);
  closed_.push_back(std::move(*found));
  endpoints_.erase(found);
}

void NodeWorker::Close(Endpoint* which) {
  auto* const endpoint = static_cast<NodeEndpoint*>(which);
  if (endpoint->by_ != nullptr) {
    endpoint->by_->user = nullptr;
    endpoint->way_->Close(endpoint->by_);
  }
  Forget(endpoint);
}

void NodeWorker::CloseWhenSent(Endpoint* which) {
  auto* const endpoint = static_cast<NodeEndpoint*>(which);
  if (endpoint->by_ != nullptr) {
    endpoint->by_->user = nullptr;
    endpoint->way_->CloseWhenSent(endpoint->by_);
  }
  Forget(endpoint);
}

unsigned NodeWorker::Progress() {
  unsigned events = ring_ == nullptr ? 0 : ring_->Progress();
  if (ring_ == nullptr || ucx_looks_.Due(events)) {
    const unsigned by_ucx = ucx_->Progress();
    ucx_looks_.Looked(by_ucx != 0, ucx_->sends_in_flight() != 0);
    events += by_ucx;
  }
  if (!closed_.empty()) closed_.clear();
  return events;
}

bool NodeWorker::Arm() {
  ucx_looks_.ExpectAtWake();
  if (ring_ != nullptr && !ring_->Arm()) return false;
  if (ucx_->Arm()) return true;
  if (ring_ != nullptr) ring_->Disarm();
  return false;
}

std::string NodeWorker::Describe(Endpoint* which) const {
  const auto* const endpoint = static_cast<NodeEndpoint*>(which);
  return endpoint->by_ == nullptr ? "none yet" : endpoint->way_->Describe(endpoint->by_);
}

}  // namespace tidepool::transport
