#include "proto/transport/ucx_worker.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "proto/base/check.h"
#include "proto/base/clock.h"
#include "proto/base/key_hash.h"
#include "proto/base/log.h"
#include "proto/transport/self_connection.h"
#include "proto/transport/ucx_events.h"
#include "proto/transport/ucx_version.h"

namespace tidepool::transport {
namespace {

// 0, because UCX 1.13.1 leaves the slots of its handler table below the id unset. A message for
// such a slot jumps anywhere (seen). Larger ids are refused, but only after a read behind the
// table: another reason to keep its ports from strangers.
constexpr unsigned kFrameMessageId = 0;
// Polling `out_` costs a system call, and its events are never urgent.
constexpr unsigned kRoundsPerPollOfOut = 8;
// Bounds the cost per round of hundreds of peers that do not read their frames.
constexpr std::size_t kBacklogPerRound = 8;
constexpr std::uint64_t kDestroyWaitMs = 1'000;
constexpr rlim_t kDescriptorsReservedMin = 64;

// Format of an address: magic, hash of the rest, UCX's worker address. UCX unpacks an address
// without any check, so bytes that are not an address (a truncated or wrong field) must stop here.
// The hash guards against accidents, not against a peer that has the job token and means harm.
constexpr std::string_view kAddressMagic = "TPUCX01\n";
constexpr std::size_t kAddressPrefixBytes = kAddressMagic.size() + sizeof(std::uint64_t);
constexpr std::size_t kAddressBytesMax = 16 * 1024;  // 108 B for a single TCP device, 215 B for
                                                     // two.

std::string WrapAddress(std::string_view raw) {
  const std::uint64_t hash = KeyHash(AsBytes(raw));
  std::string text(kAddressMagic);
  text.append(reinterpret_cast<const char*>(&hash), sizeof hash);
  return text.append(raw);
}

// Keeps the last descriptors free. UCX 1.13.1 closes a worker's listening port for good when
// accept() finds no descriptor: no peer could connect any more, without any message. Returns: kOk,
// kResourceExhausted.
Status CheckDescriptors(const char* what) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t reserve = std::max<rlim_t>(kDescriptorsReservedMin, limit.rlim_cur / 16);
  // The lowest free number: all below it are in use.
  const int lowest = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (lowest >= 0) close(lowest);
  if (lowest >= 0 && static_cast<rlim_t>(lowest) + reserve < limit.rlim_cur) return OkStatus();
  return Status(StatusCode::kResourceExhausted,
                std::string(what) + ": only " + std::to_string(reserve) + " of " +
                    std::to_string(limit.rlim_cur) + " file descriptors are left, and are kept",
                "raise the limit with ulimit -n; each connection takes one or two");
}

struct EndpointInfo {
  std::string lanes;  // "tcp/lo,rc_mlx5/mlx5_0:1": lanes of the endpoint.
  std::string sizes;  // Protocol by message size: see CheckFrameSize.
};

// From a text of lines, as "# lane[0]:  1:tcp/lo.0 md[1] -> ...".
EndpointInfo ParseInfo(const char* text) {
  EndpointInfo info;
  for (const char* at = text; (at = std::strstr(at, "lane[")) != nullptr; ++at) {
    char name[64];
    if (std::sscanf(at, "lane[%*d]: %*d:%63s", name) != 1) continue;
    std::string lane(name);
    lane.resize(std::min(lane.find_last_of('.'), lane.size()));
    info.lanes.append(info.lanes.empty() ? "" : ",").append(lane);
  }
  if (const char* at = std::strstr(text, "am_send: ")) {
    info.sizes.assign(at, std::strcspn(at, "\n"));
  }
  return info;
}

EndpointInfo InfoOf(ucp_ep_h handle) {
  // UCX 1.13 has no other way to ask.
  char* text = nullptr;
  std::size_t bytes = 0;
  std::FILE* file = open_memstream(&text, &bytes);
  if (file == nullptr) return {};
  ucp_ep_print_info(handle, file);
  std::fclose(file);
  EndpointInfo info = ParseInfo(text);
  std::free(text);
  return info;
}

bool AllOverTcp(std::string_view lanes) {
  constexpr std::string_view kTcp = "tcp/";
  for (;;) {
    if (lanes.substr(0, kTcp.size()) != kTcp) return false;
    const std::size_t comma = lanes.find(',');
    if (comma == lanes.npos) return true;
    lanes.remove_prefix(comma + 1);
  }
}

}  // namespace

Status UnwrapAddress(std::string_view text, std::string_view* raw) {
  const bool is_plausible = text.size() > kAddressPrefixBytes && text.size() <= kAddressBytesMax &&
                            text.substr(0, kAddressMagic.size()) == kAddressMagic;
  if (is_plausible) {
    *raw = text.substr(kAddressPrefixBytes);
    if (KeyHash(AsBytes(*raw)) ==
        LoadUnaligned<std::uint64_t>(AsBytes(text).data() + kAddressMagic.size())) {
      return OkStatus();
    }
  }
  return Status(StatusCode::kInvalidArgument,
                "the " + std::to_string(text.size()) + " bytes given are not a transport address",
                "check that both sides run the same version");
}

Status UcxStatus(StatusCode code, const std::string& what, ucs_status_t status) {
  return Status(code, what + ": " + ucs_status_string(status));
}

UcxWorker::UcxWorker(std::shared_ptr<UcxContextHandle> context, Receiver* receiver)
    : context_(std::move(context)), receiver_(receiver), owner_(context_->workers_move()) {}

Result<std::unique_ptr<Worker>> UcxWorker::Create(std::shared_ptr<UcxContextHandle> context,
                                                  Receiver* receiver) {
  TP_CHECK(receiver != nullptr);
  std::unique_ptr<UcxWorker> worker(new UcxWorker(std::move(context), receiver));
  TP_RETURN_IF_ERROR(worker->Start());
  return std::unique_ptr<Worker>(std::move(worker));
}

Status UcxWorker::Start() {
  TP_RETURN_IF_ERROR(CheckDescriptors("cannot make a network worker"));
  TP_RETURN_IF_ERROR(StartOne(&in_));
  TP_RETURN_IF_ERROR(StartOne(&out_));
  event_fd_ = epoll_create1(EPOLL_CLOEXEC);
  for (const ucp_worker_h worker : {in_, out_}) {
    epoll_event event{};
    event.events = EPOLLIN;
    int fd = -1;
    if (event_fd_ < 0 || ucp_worker_get_efd(worker, &fd) != UCS_OK ||
        epoll_ctl(event_fd_, EPOLL_CTL_ADD, fd, &event) != 0) {
      return Status(StatusCode::kUnavailable, "cannot set up a network worker's events");
    }
  }
  ucp_address_t* raw = nullptr;
  std::size_t bytes = 0;
  const ucs_status_t status = ucp_worker_get_address(in_, &raw, &bytes);
  if (status != UCS_OK) {
    return UcxStatus(StatusCode::kUnavailable, "a network worker has no address", status);
  }
  address_ = WrapAddress({reinterpret_cast<const char*>(raw), bytes});
  ucp_worker_release_address(in_, raw);
  return OkStatus();
}

Status UcxWorker::StartOne(ucp_worker_h* handle) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  // Neither mode locks; the second informs UCX's transports that the thread may change.
  params.thread_mode =
      context_->workers_move() ? UCS_THREAD_MODE_SERIALIZED : UCS_THREAD_MODE_SINGLE;
  ucs_status_t status = ucp_worker_create(context_->get(), &params, handle);
  if (status != UCS_OK) {
    *handle = nullptr;
    return UcxStatus(StatusCode::kUnavailable, "cannot make a network worker", status);
  }
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
  handler.id = kFrameMessageId;
  handler.cb = &UcxWorker::OnMessage;
  handler.arg = this;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  status = ucp_worker_set_am_recv_handler(*handle, &handler);
  if (status == UCS_OK) return OkStatus();
  return UcxStatus(StatusCode::kUnavailable, "cannot set up a network worker", status);
}

UcxWorker::~UcxWorker() {
  owner_.Release();
  receiver_ = nullptr;
  for (const auto& endpoint : endpoints_) {
    using State = UcxEndpoint::State;
    if (endpoint->state_ == State::kOpen || endpoint->state_ == State::kLost) {
      Close(endpoint.get());
    } else if (endpoint->state_ == State::kLeaving) {
      CloseNow(endpoint.get());
    }
  }
  // UCX tears a closed endpoint down in later rounds and completes its sends there.
  const Deadline deadline = Deadline::AfterMs(kDestroyWaitMs);
  while ((sends_in_flight_ != 0 || closes_in_flight_ != 0) && !deadline.Passed()) Progress();
  if (event_fd_ >= 0) close(event_fd_);
  if (out_ != nullptr) ucp_worker_destroy(out_);  // Completes the rest with an error.
  if (in_ != nullptr) ucp_worker_destroy(in_);
  if (sends_in_flight_ != 0) {
    log::Warn("transport: " + std::to_string(sends_in_flight_) +
              " frames were never given back by the network");
  }
}

UcxEndpoint* UcxWorker::TakeEndpoint() {
  if (unused_.empty()) {
    endpoints_.push_back(std::make_unique<UcxEndpoint>());
    endpoints_.back()->worker_ = this;
    unused_.push_back(endpoints_.back().get());
  }
  UcxEndpoint* endpoint = unused_.back();
  unused_.pop_back();
  TP_DCHECK(endpoint->state_ == UcxEndpoint::State::kUnused);
  endpoint->state_ = UcxEndpoint::State::kOpen;
  endpoint->why_ = UCS_OK;
  endpoint->bytes_in_requests_ = 0;
  endpoint->user = nullptr;
  return endpoint;
}

Result<Endpoint*> UcxWorker::Connect(std::string_view address) {
  OwnerCheck::Scope scope(owner_);
  std::string_view raw;
  TP_RETURN_IF_ERROR(UnwrapAddress(address, &raw));
  TP_RETURN_IF_ERROR(CheckDescriptors("cannot connect to a peer"));
  // A copy for its alignment: UCX reads the address as its own structure.
  const std::string aligned(raw);
  UcxEndpoint* endpoint = TakeEndpoint();
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(aligned.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = &UcxWorker::OnError;
  params.err_handler.arg = endpoint;
  const std::uint64_t refused_before = SelfConnectionsRefused();
  const ucs_status_t status = ucp_ep_create(out_, &params, &endpoint->handle_);
  if (status != UCS_OK) {
    endpoint->handle_ = nullptr;
    endpoint->state_ = UcxEndpoint::State::kUnused;
    unused_.push_back(endpoint);
    const bool has_ended = SelfConnectionsRefused() != refused_before;
    return UcxStatus(StatusCode::kUnavailable,
                     has_ended ? "the peer has ended" : "cannot connect to a peer", status);
  }
  const EndpointInfo info = InfoOf(endpoint->handle_);
  // Any lane that is not TCP's: UCX bounds immediate sends there.
  endpoint->by_requests_ = !AllOverTcp(info.lanes);
  polls_out_always_ |= endpoint->by_requests_;
  const Status size = endpoint->by_requests_ ? OkStatus() : CheckFrameSize(info.sizes);
  if (!size.ok()) {
    Close(endpoint);
    return size;
  }
  return static_cast<Endpoint*>(endpoint);
}

Status UcxWorker::Send(Endpoint* to, FrameBufferPtr buffer) {
  OwnerCheck::Scope scope(owner_);
  auto* endpoint = static_cast<UcxEndpoint*>(to);
  TP_DCHECK(endpoint->worker_ == this);
  TP_DCHECK(endpoint->state_ == UcxEndpoint::State::kOpen ||
            endpoint->state_ == UcxEndpoint::State::kLost);
  TP_CHECK(buffer != nullptr);
  TP_CHECK(buffer->size() <= FrameBuffer::kCapacity);
  if (!endpoint->alive()) {
    return UcxStatus(StatusCode::kUnavailable, "the peer is lost", endpoint->why_);
  }
  ucs_status_t status = UCS_ERR_NO_RESOURCE;
  if (endpoint->by_requests_) {
    status = SendByRequest(endpoint, std::move(buffer));
  } else {
    if (endpoint->queue_.empty()) status = Post(endpoint, *buffer);
    if (status == UCS_ERR_NO_RESOURCE) {
      endpoint->queue_.Push(std::move(buffer));
      ++sends_in_flight_;
      if (!std::exchange(endpoint->in_backlog_, true)) backlog_.push_back(endpoint);
      status = UCS_OK;
    }
  }
  if (status == UCS_OK) return OkStatus();
  // A missing frame breaks the promised order, so the connection is over.
  MarkLost(endpoint, status);
  return UcxStatus(StatusCode::kUnavailable, "the peer is lost", endpoint->why_);
}

// UCS_ERR_NO_RESOURCE: not now; an event follows (TCP: writable, or connected).
ucs_status_t UcxWorker::Post(UcxEndpoint* endpoint, const FrameBuffer& buffer) {
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  const ucs_status_ptr_t sent = ucp_am_send_nbx(endpoint->handle_, kFrameMessageId, nullptr, 0,
                                                buffer.data(), buffer.size(), &param);
  TP_DCHECK(!UCS_PTR_IS_PTR(sent));
  return UCS_PTR_STATUS(sent);
}

ucs_status_t UcxWorker::SendByRequest(UcxEndpoint* endpoint, FrameBufferPtr buffer) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                       UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.cb.send = &UcxWorker::OnSent;
  param.user_data = endpoint;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  const ucs_status_ptr_t request = ucp_am_send_nbx(endpoint->handle_, kFrameMessageId, nullptr, 0,
                                                   buffer->data(), buffer->size(), &param);
  if (!UCS_PTR_IS_PTR(request)) return UCS_PTR_STATUS(request);
  // The buffer waits in the request's own space (see request_size): no allocation per send. UCX
  // runs callbacks in its progress and close calls only, so the store is in time.
  endpoint->bytes_in_requests_ += buffer->size();
  *static_cast<FrameBuffer**>(request) = buffer.release();
  ++sends_in_flight_;
  return UCS_OK;
}

// Tries the next few endpoints that have frames waiting, in turn. Returns the frames sent.
unsigned UcxWorker::SendBacklog(std::size_t endpoints_max) {
  using State = UcxEndpoint::State;
  unsigned sent = 0;
  for (std::size_t i = std::min(endpoints_max, backlog_.size()); i > 0; --i) {
    next_in_backlog_ = next_in_backlog_ < backlog_.size() ? next_in_backlog_ : 0;
    UcxEndpoint* endpoint = backlog_[next_in_backlog_];
    const auto may_send = [&] {
      return endpoint->state_ == State::kOpen || endpoint->state_ == State::kLeaving;
    };
    while (may_send() && !endpoint->queue_.empty()) {
      const ucs_status_t status = Post(endpoint, endpoint->queue_.front());
      if (status == UCS_ERR_NO_RESOURCE) break;
      if (status != UCS_OK) {
        MarkLost(endpoint, status);
        break;
      }
      endpoint->queue_.Pop();
      --sends_in_flight_;
      ++sent;
    }
    if (may_send() && !endpoint->queue_.empty()) {
      ++next_in_backlog_;
      continue;
    }
    if (endpoint->state_ == State::kLeaving) {
      endpoint->state_ = State::kClosing;
      closing_.push_back(endpoint);
    }
    endpoint->in_backlog_ = false;
    backlog_[next_in_backlog_] = backlog_.back();
    backlog_.pop_back();
  }
  return sent;
}

void UcxWorker::OnSent(void* request, ucs_status_t, void* arg) {
  // A failed send means a failed endpoint, which OnError reports.
  auto* endpoint = static_cast<UcxEndpoint*>(arg);
  UcxWorker* worker = endpoint->worker_;
  auto* buffer = *static_cast<FrameBuffer**>(request);
  // The endpoint may have been closed and given to another peer meanwhile, which starts from 0.
  endpoint->bytes_in_requests_ -= std::min(endpoint->bytes_in_requests_, buffer->size());
  FrameBufferReturner()(buffer);
  TP_DCHECK(worker->sends_in_flight_ > 0);
  --worker->sends_in_flight_;
  ucp_request_free(request);
}

ucs_status_t UcxWorker::OnMessage(void* self, const void*, std::size_t header_bytes, void* data,
                                  std::size_t bytes, const ucp_am_recv_param_t* param) {
  auto* worker = static_cast<UcxWorker*>(self);
  // Our frames are eager, bounded and have no header of UCX's. Anything else is a stranger's; to
  // return without fetching a rendezvous makes UCX refuse it to the sender.
  const bool is_frame = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0 && header_bytes == 0 &&
                        bytes <= limits::kFrameBytesMax;
  if (is_frame && worker->receiver_ != nullptr) {
    worker->receiver_->OnFrame({static_cast<const std::byte*>(data), bytes});
  }
  return UCS_OK;
}

void UcxWorker::OnError(void* arg, ucp_ep_h handle, ucs_status_t why) {
  auto* endpoint = static_cast<UcxEndpoint*>(arg);
  if (endpoint->handle_ != handle) return;  // Closed meanwhile.
  endpoint->worker_->MarkLost(endpoint, why);
}

void UcxWorker::MarkLost(UcxEndpoint* endpoint, ucs_status_t why) {
  if (endpoint->state_ == UcxEndpoint::State::kLeaving) {
    endpoint->state_ = UcxEndpoint::State::kClosing;
    closing_.push_back(endpoint);
  }
  if (endpoint->state_ != UcxEndpoint::State::kOpen) return;
  endpoint->state_ = UcxEndpoint::State::kLost;
  endpoint->why_ = why;
  lost_.push_back(endpoint);
}

unsigned UcxWorker::TellLost() {
  unsigned told = 0;
  // By index: a callback may lose further endpoints or close endpoints that wait here.
  for (std::size_t i = 0; i < lost_.size(); ++i) {
    UcxEndpoint* endpoint = std::exchange(lost_[i], nullptr);
    if (endpoint == nullptr || receiver_ == nullptr) continue;
    receiver_->OnPeerLost(endpoint, UcxStatus(StatusCode::kUnavailable,
                                              "the connection to the peer broke", endpoint->why_));
    ++told;
  }
  lost_.clear();
  return told;
}

void UcxWorker::Close(Endpoint* which) {
  OwnerCheck::Scope scope(owner_);
  auto* endpoint = static_cast<UcxEndpoint*>(which);
  TP_DCHECK(endpoint->worker_ == this);
  TP_CHECK(endpoint->state_ == UcxEndpoint::State::kOpen ||
           endpoint->state_ == UcxEndpoint::State::kLost);
  std::replace(lost_.begin(), lost_.end(), endpoint, static_cast<UcxEndpoint*>(nullptr));
  endpoint->state_ = UcxEndpoint::State::kClosing;
  if (in_progress_) {
    closing_.push_back(endpoint);
  } else {
    CloseNow(endpoint);
  }
}

void UcxWorker::CloseWhenSent(Endpoint* which) {
  OwnerCheck::Scope scope(owner_);
  auto* endpoint = static_cast<UcxEndpoint*>(which);
  if (endpoint->state_ != UcxEndpoint::State::kOpen || endpoint->queue_.empty()) {
    return Close(which);
  }
  endpoint->user = nullptr;
  endpoint->state_ = UcxEndpoint::State::kLeaving;
}

void UcxWorker::CloseNow(UcxEndpoint* endpoint) {
  sends_in_flight_ -= endpoint->queue_.Clear();
  if (std::exchange(endpoint->in_backlog_, false)) std::erase(backlog_, endpoint);
  must_progress_ = true;  // UCX tears the connection down in its next rounds.
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  param.cb.send = &UcxWorker::OnClosed;
  param.user_data = endpoint;
  const ucs_status_ptr_t request =
      ucp_ep_close_nbx(std::exchange(endpoint->handle_, nullptr), &param);
  if (UCS_PTR_IS_PTR(request)) {
    ++closes_in_flight_;
    return;
  }
  endpoint->state_ = UcxEndpoint::State::kUnused;
  unused_.push_back(endpoint);
}

void UcxWorker::OnClosed(void* request, ucs_status_t, void* arg) {
  auto* endpoint = static_cast<UcxEndpoint*>(arg);
  UcxWorker* worker = endpoint->worker_;
  --worker->closes_in_flight_;
  endpoint->state_ = UcxEndpoint::State::kUnused;
  worker->unused_.push_back(endpoint);
  ucp_request_free(request);
}

unsigned UcxWorker::CloseMarked() {
  const auto closed = static_cast<unsigned>(closing_.size());
  for (UcxEndpoint* endpoint : closing_) CloseNow(endpoint);
  closing_.clear();
  return closed;
}

unsigned UcxWorker::Progress() {
  OwnerCheck::Scope scope(owner_);
  TP_CHECK(!in_progress_);  // Called from a callback.
  in_progress_ = true;
  must_progress_ = false;
  // `out_` has no further events than: a connection is made, takes frames again, or is lost.
  unsigned events = 0;
  {
    const UcxRuns runs;
    events = ucp_worker_progress(in_);
    if (++rounds_ % kRoundsPerPollOfOut == 0 || polls_out_always_ || !backlog_.empty()) {
      events += ucp_worker_progress(out_);
    }
  }
  if (!lost_.empty()) events += TellLost();
  in_progress_ = false;
  if (!backlog_.empty()) events += SendBacklog(kBacklogPerRound);
  if (!closing_.empty()) events += CloseMarked();
  return events;
}

bool UcxWorker::Arm() {
  OwnerCheck::Scope scope(owner_);
  unsigned events = 0;
  {
    const UcxRuns runs;
    in_progress_ = true;
    events = ucp_worker_progress(out_);
    in_progress_ = false;
  }
  events += SendBacklog(backlog_.size());
  // A failed Send outside Progress leaves an unreported peer, and no event of UCX's.
  if (events > 0 || must_progress_ || !lost_.empty() || !closing_.empty()) return false;
  for (const ucp_worker_h worker : {in_, out_}) {
    const ucs_status_t status = ucp_worker_arm(worker);
    if (status == UCS_OK) continue;
    if (status != UCS_ERR_BUSY) {
      log::Error(std::string("transport: cannot arm the worker: ") + ucs_status_string(status));
    }
    return false;
  }
  return true;
}

void UcxWorker::Wake() {
  // Fails only when the wake-up pipe is full: then a wake-up is pending already.
  (void)ucp_worker_signal(in_);
}

std::string UcxWorker::Describe(Endpoint* which) const {
  OwnerCheck::Scope scope(owner_);
  auto* endpoint = static_cast<UcxEndpoint*>(which);
  if (!endpoint->alive()) return "lost";
  const std::string lanes = InfoOf(endpoint->handle_).lanes;
  return "ucx " + (lanes.empty() ? "unknown" : lanes);
}

}  // namespace tidepool::transport
