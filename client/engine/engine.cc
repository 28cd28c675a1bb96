// Calls begin and end here.
#include "client/engine/engine.h"

#include <algorithm>
#include <limits>
#include <random>
#include <utility>

#include "client/direct/direct_space.h"
#include "client/direct/remote_node.h"
#include "client/engine/connector.h"
#include "client/engine/fork_guard.h"
#include "proto/base/check.h"
#include "proto/base/limits.h"
#include "proto/base/thread.h"
#include "proto/placement/owner.h"

namespace tidepool::internal {
namespace {

// Above these bounds an asynchronous call waits for room, because calls under way occupy memory.
constexpr std::size_t kActiveOperationsMax = 64 * 1024;
constexpr std::size_t kActiveBytesMax = 256u << 20;
constexpr std::size_t kKeyTextBytes = 40;

// Bound on continuations that Then runs inside each other on this thread. A continuation may start
// a call that ends at once and continues with another.
constexpr int kContinuationsAtOnceMax = 32;
thread_local int continuations_at_once = 0;

transport::SpinPolicy::Mode ModeOf(WaitMode mode) {
  switch (mode) {
    case WaitMode::kPoll:
      return transport::SpinPolicy::Mode::kPoll;
    case WaitMode::kBlock:
      return transport::SpinPolicy::Mode::kBlock;
    case WaitMode::kAuto:
      break;
  }
  return transport::SpinPolicy::Mode::kAuto;
}

// Returns the beginning of a key for messages, with unprintable bytes replaced.
std::string KeyText(const Operation& operation) {
  std::string text(AsText(
      operation.key_view().first(std::min<std::size_t>(operation.key_bytes, kKeyTextBytes))));
  for (char& c : text) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  if (operation.key_bytes > kKeyTextBytes) text.append("...");
  return text;
}

std::size_t BytesOf(Call* call) {
  std::size_t bytes = 0;
  for (const Operation& operation : call->operations()) {
    bytes += operation.key_bytes + operation.value_bytes;
  }
  return bytes;
}

}  // namespace

std::uint64_t DeadlineFor(const Engine& engine, std::chrono::milliseconds timeout,
                          std::size_t bytes) {
  const std::uint64_t now_ns = engine.Now();
  const auto to_ns = [](std::chrono::milliseconds time) {
    const auto ms = static_cast<std::uint64_t>(std::max<std::int64_t>(1, time.count()));
    return std::min(ms, Deadline::kMsMax) * 1'000'000;
  };
  if (timeout.count() > 0) return now_ns + to_ns(timeout);
  return now_ns + to_ns(engine.options().connect.call_timeout) +
         bytes * 1'000 / (limits::kTimeoutBytesPerSecond / 1'000'000);
}

Engine::Engine(EngineOptions options, std::unique_ptr<ControlPlane> control,
               std::unique_ptr<transport::Context> context)
    : options_(std::move(options)),
      host_(HostName()),
      fork_generation_(ForkGeneration()),
      control_(std::move(control)),
      context_(std::move(context)),
      spin_(ModeOf(options_.connect.wait)),
      next_lane_(std::random_device{}()) {}

Result<std::shared_ptr<Engine>> Engine::Create(EngineOptions options,
                                               std::unique_ptr<ControlPlane> control,
                                               std::unique_ptr<transport::Context> context) {
  std::shared_ptr<Engine> owner(
      new Engine(std::move(options), std::move(control), std::move(context)));
  auto worker = owner->context_->MakeWorker(owner.get());
  if (!worker.ok()) return worker.status();
  owner->worker_ = *std::move(worker);
  const bool reads_directly = owner->options_.connect.direct_read_bytes_max != 0;
  owner->read_counts_ = std::make_unique<ReadCounts>(
      reads_directly ? owner->worker_->MakeSharedMemory(sizeof(wire::DirectCounts))
                     : MutableBytes());
  // Handles share this pointer. Its end closes the engine; the memory stays until the threads have
  // left.
  std::shared_ptr<Engine> shared(owner.get(), [owner](Engine* engine) mutable {
    engine->Close();
    owner.reset();  // Here, since the engine itself holds a weak reference to this deleter.
  });
  owner->shared_ = shared;
  if (owner->options_.connect.background_progress) {
    TP_RETURN_IF_ERROR(
        StartThread("background progress", &owner->background_, [owner] { RunBackground(owner); }));
  }
  return shared;
}

Engine::~Engine() {
  if (fork_generation_ == ForkGeneration()) return;
  // In a fork the parent's connections must not be touched, not even to close them.
  (void)worker_.release();
  (void)context_.release();
  if (background_.joinable()) background_.detach();
}

Status Engine::Usable() const {
  if (fork_generation_ != ForkGeneration()) {
    return Status(StatusCode::kFailedPrecondition,
                  "this process is a fork of the one that connected",
                  "connect in the parent only, or start the child as a program");
  }
  if (closed_.load(std::memory_order_acquire)) {
    return Status(StatusCode::kCancelled, "the client is closed");
  }
  return {};
}

bool Engine::HasRoom() const {
  return active_operations_ < kActiveOperationsMax && active_bytes_ < kActiveBytesMax;
}

void Engine::Submit(Call* call, bool waits, const placement::Ranges* packed_by) {
  call->engine = this;
  const Status usable = Usable();
  if (!usable.ok()) return EndUnstarted(call, usable);
  if (call->left == 0) return call->MarkDone();
  Lock lock(*this);
  if (!HasRoom()) {
    Waiter waiter;
    WaitCondition condition;
    condition.room = true;
    condition.until_ns = call->deadline_ns;
    Run(lock, condition, &waiter);
  }
  if (closed_.load(std::memory_order_relaxed)) return EndUnstarted(call, Usable());
  call->AddReference();
  call->next = active_;
  (active_ != nullptr ? active_->previous : oldest_) = call;
  active_ = call;
  call->sequence = sequence_ + 1;
  active_operations_ += call->operations().size();
  active_bytes_ += BytesOf(call);
  next_expiry_ns_ = std::min(next_expiry_ns_, call->deadline_ns);
  for (Operation& operation : call->operations()) {
    if (operation.state == Operation::State::kEnded) continue;
    operation.sequence = ++sequence_;
    stats_.operations += operation.count();
    NoteUnanswered(operation, true);
    PartitionQueue* queue = operation.queue;
    if (queue->space->ranges != nullptr) {
      EnqueueByRange(&operation, packed_by);
    } else {
      CoreLink::Enqueue(&operation);
      if (IsDown(*queue)) down_waiting_ = true;
    }
    if (queue->space->dropped) {
      Abandon(&operation);
      End(&operation, Explain(operation, StatusCode::kNotFound, "the namespace was dropped"));
    }
  }
  if (down_waiting_) {
    // Fails operations that a fresh map calls down at once. Otherwise requests a fresh map.
    FailDown();
  }
  if (waits) return;  // Wait() flushes.
  const bool full =
      call->urgent || std::any_of(dirty_.begin(), dirty_.end(), [](const CoreLink* link) {
        return link->waiting_operations() >= link->FlushOperations() ||
               link->waiting_bytes() >= limits::kFrameBytesMax;
      });
  if (full) FlushDirty(Now());
  if (!dirty_.empty()) WakeLeader();
  // Operations that were sent at once may still expire.
  WakeLeaderBefore(next_expiry_ns_);
}

// Ends a call that only its handle knows: it was never started, or a fork's parent started it.
void Engine::EndUnstarted(Call* call, const Status& why) {
  for (Operation& operation : call->operations()) {
    operation.code = why.code();
    call->SetFailure(operation, why);
  }
  call->left = 0;
  call->MarkDone();
}

bool Engine::Wait(Call* call, std::uint64_t until_ns) {
  if (call->done()) return true;
  if (fork_generation_ != ForkGeneration()) {
    EndUnstarted(call, Usable());
    return true;
  }
  Lock lock(*this);
  Waiter waiter;
  WaitCondition condition;
  condition.call = call;
  condition.until_ns = until_ns;
  call->waiter = &waiter;
  const bool done = Run(lock, condition, &waiter);
  call->waiter = nullptr;
  return done;
}

Status Engine::WaitForAll(std::chrono::milliseconds timeout) {
  TP_RETURN_IF_ERROR(Usable());
  const std::uint64_t until_ns = DeadlineFor(*this, timeout, 0);
  Lock lock(*this);
  Waiter waiter;
  WaitCondition condition;
  condition.all_up_to = std::max<std::uint64_t>(1, sequence_);
  condition.until_ns = until_ns;
  if (Run(lock, condition, &waiter)) return {};
  return Status(StatusCode::kDeadlineExceeded, "operations of this client are still under way");
}

void Engine::Then(Call* call, std::function<void(CallRef)> next) {
  // A call that waits for its continuation does not keep the client. Otherwise the client could not
  // end.
  const std::shared_ptr<Engine> keep = std::move(call->keeps_engine);
  if (fork_generation_ != ForkGeneration()) {
    EndUnstarted(call, Usable());
  } else {
    Lock lock(*this);
    if (!call->done()) {
      call->then = std::move(next);
      call->Release();  // The handle's reference; the engine's goes to `next`.
      return;
    }
  }
  ++continuations_at_once;
  next(CallRef(call));
  --continuations_at_once;
}

bool Engine::MayEndAtOnce() { return continuations_at_once < kContinuationsAtOnceMax; }

void Engine::End(Operation* operation, StatusCode code) {
  TP_DCHECK(operation->state != Operation::State::kEnded);
  if (operation->piece_of != nullptr) [[unlikely]]
    return EndPiece(operation);
  operation->state = Operation::State::kEnded;
  operation->code = code;
  NoteUnanswered(*operation, false);
  stats_.operations_done += operation->count();
  if (code == StatusCode::kUnknown) stats_.operations_unknown += operation->count();
  Call* call = operation->call;
  if (--call->left == 0) EndCall(call);
}

void Engine::End(Operation* operation, Status why) {
  const StatusCode code = why.code();
  operation->call->SetFailure(*operation, std::move(why));
  End(operation, code);
}

void Engine::EndCall(Call* call) {
  if (call->previous != nullptr) call->previous->next = call->next;
  if (call->next != nullptr) call->next->previous = call->previous;
  if (active_ == call) active_ = call->next;
  if (oldest_ == call) oldest_ = call->previous;
  call->next = call->previous = nullptr;
  active_operations_ -= call->operations().size();
  active_bytes_ -= BytesOf(call);
  if (call->waiter != nullptr) call->waiter->Wake();
  const bool continues = call->then != nullptr;
  if (continues) ready_.push_back(call);
  call->MarkDone();
  if (!continues) call->Release();
}

Status Engine::Explain(const Operation& operation, StatusCode code, std::string_view text) const {
  const PartitionQueue& queue = *operation.queue;
  std::string what(text.empty() ? StatusCodeName(code) : text);
  // A forwarded operation has its text from another client, which has added the rest.
  if (!IsForwarded(queue) || text.empty()) {
    what.append(" (namespace '").append(queue.space->name).append("'");
    if (operation.key_bytes > 0) what.append(", key '").append(KeyText(operation)).append("'");
    what.append(", ").append(queue.link->session().Describe()).append(")");
  }
  std::string remedy;
  if (code == StatusCode::kDataLoss) {
    remedy = "go on with what is left by: kvctl namespace accept-loss " + queue.space->name;
  } else if (code == StatusCode::kUnknown) {
    remedy = "it took effect once or not at all; read to find out";
  }
  return Status(code, std::move(what), std::move(remedy));
}

void Engine::ExtendDeadline(Call* call, std::size_t bytes) {
  if (!call->deadline_extends) return;
  call->deadline_ns += bytes * 1'000 / (limits::kTimeoutBytesPerSecond / 1'000'000);
}

// Takes the operation out of the queue or frame that knows it.
bool Engine::Abandon(Operation* operation) {
  switch (operation->state) {
    case Operation::State::kQueued:
      operation->queue->link->Unqueue(operation);
      return false;
    case Operation::State::kSent:
      operation->frame->link->GiveUp(operation);
      return operation->mutates();
    case Operation::State::kSpread:
      return AbandonPieces(operation);
    case Operation::State::kEnded:
      break;
  }
  TP_CHECK(false);
  return false;
}

void Engine::Expire(std::uint64_t now_ns) {
  next_expiry_ns_ = std::numeric_limits<std::uint64_t>::max();
  for (Call* call = active_; call != nullptr;) {
    Call* following = call->next;
    if (call->deadline_ns > now_ns) {
      next_expiry_ns_ = std::min(next_expiry_ns_, call->deadline_ns);
      call = following;
      continue;
    }
    call->AddReference();  // Its last operation ends it.
    for (Operation& operation : call->operations()) {
      if (operation.state == Operation::State::kEnded) continue;
      const bool sent = operation.state != Operation::State::kQueued;
      // An owner that stands still breaks no connection, and may have a successor by now.
      if (sent && operation.queue->space->options.replicas > 1) WantMap(Epoch());
      const NodeSession& session = operation.queue->link->session();
      const bool unknown = Abandon(&operation);
      std::string text = sent ? "no answer before the deadline" : "not sent before the deadline";
      if (!sent && !session.attached() && !session.last_error().ok()) {
        text.append("; ").append(session.last_error().what());
      } else if (!sent && operation.room_awaited) {
        text =
            "its value waited for room until the deadline: the owner's memory is full, and its "
            "devices are too slow for what leaves it";
      }
      End(&operation,
          Explain(operation, unknown ? StatusCode::kUnknown : StatusCode::kDeadlineExceeded, text));
    }
    call->Release();
    call = following;
  }
}

void Engine::EndAll(StatusCode code, std::string_view text) {
  while (active_ != nullptr) {
    Call* call = active_;
    call->AddReference();
    for (Operation& operation : call->operations()) {
      if (operation.state == Operation::State::kEnded) continue;
      const bool unknown = Abandon(&operation);
      End(&operation, Explain(operation, unknown ? StatusCode::kUnknown : code, text));
    }
    call->Release();
  }
}

void Engine::OnFrame(Bytes frame) {
  wire::FrameHeader header;
  if (!wire::DecodeHeader(frame, &header).ok()) return;
  const auto found = sessions_by_id_.find(header.session);
  if (found == sessions_by_id_.end()) return;
  NodeSession& session = *found->second;
  // Late frames of an older connection are ignored: their operations are sent again.
  if (!session.attached() || header.connection != session.connection() ||
      header.core >= session.links().size() || session.links()[header.core] == nullptr) {
    return;
  }
  ++stats_.frames_received;
  stats_.bytes_received += frame.size();
  session.Heard();
  CoreLink& link = *session.links()[header.core];
  wire::StreamFrame stream;
  switch (header.type) {
    case wire::FrameType::kAnswer:
      return link.OnAnswer(frame);
    case wire::FrameType::kStreamPart:
      if (wire::DecodeStream(frame, &stream).ok()) link.OnStreamPart(stream);
      return;
    case wire::FrameType::kStreamAck:
      if (wire::DecodeStream(frame, &stream).ok()) link.OnStreamAck(stream);
      return;
    case wire::FrameType::kDetach:
      return session.OnLost(
          Status(StatusCode::kUnavailable, session.Describe() + " has ended the session"));
    case wire::FrameType::kRequest:
      return;
  }
}

void Engine::OnPeerLost(transport::Endpoint* endpoint, const Status& why) {
  auto* link = static_cast<CoreLink*>(endpoint->user);
  if (link == nullptr) return worker_->Close(endpoint);
  // The node is asked again; whether it is still there is for the map to say.
  WantMap(Epoch());
  link->session().OnLost(why);
}

ClientStats Engine::Stats() const {
  const Lock lock(*this);
  ClientStats stats = stats_;
  for (const auto& [id, space] : spaces_[static_cast<std::size_t>(Traffic::kPrompt)]) {
    if (space->direct == nullptr) continue;
    stats.direct_reads += space->direct->reads();
    stats.remote_reads += space->direct->remote_reads();
  }
  return stats;
}

placement::PlacementMapPtr Engine::map() const {
  const Lock lock(*this);
  return map_;
}

std::uint32_t Engine::OwnerOf(const SpaceState& space, Bytes key) const {
  const Lock lock(*this);
  const std::uint32_t index = space.ranges != nullptr
                                  ? space.ranges->IndexOf(key)
                                  : placement::PartitionIndexOf(key, space.queues.size());
  return space.queues[index].link->session().node().value();
}

std::vector<const void*> Engine::CoresOf(const SpaceState& space) const {
  std::vector<const void*> cores;
  cores.reserve(space.queues.size());
  const Lock lock(*this);
  for (const PartitionQueue& queue : space.queues) cores.push_back(queue.link);
  return cores;
}

std::uint32_t Engine::NextPartitionOn(const SpaceState& space, std::uint32_t from,
                                      NodeId node) const {
  const Lock lock(*this);
  while (from < space.queues.size() && space.queues[from].link->session().node() != node) ++from;
  return from;
}

Result<std::uint32_t> Engine::PartitionOn(const SpaceState& space, NodeId node) const {
  const Lock lock(*this);
  for (const PartitionQueue& queue : space.queues) {
    if (queue.link->session().node() == node) return queue.id.index();
  }
  return Status(StatusCode::kNotFound, "node " + std::to_string(node.value()) +
                                           " holds no partition of '" + space.name + "'");
}

bool Engine::IsLocal(const SpaceState& space, std::uint32_t partition, std::string* owner) const {
  const Lock lock(*this);
  const CoreLink& link = *space.queues[partition].link;
  const NodeId node = link.session().node();
  const placement::Node* found = map_ == nullptr ? nullptr : map_->FindNode(node);
  if (found == nullptr) return false;
  *owner = "node " + std::to_string(node.value()) + " on " + found->host;
  if (found->host == host_) return true;
  // Two containers of a machine have different names for it; a ring is proof.
  return link.endpoint() != nullptr && worker_->Describe(link.endpoint()) == "ring";
}

std::string Engine::DataPath(NodeId node) const {
  if (!Usable().ok()) return {};
  const Lock lock(*this);
  const NodeSession* session = FindSession(node, Traffic::kPrompt);
  if (session == nullptr) return {};
  for (const auto& link : session->links()) {
    if (link == nullptr || link->endpoint() == nullptr) continue;
    const bool by_card =
        session->remote != nullptr && session->remote->state() == RemoteNode::State::kReady;
    return worker_->Describe(link->endpoint()) +
           (by_card ? ", reads by " + session->remote->transports() : "");
  }
  return {};
}

bool Engine::Attached(NodeId node) const {
  const Lock lock(*this);
  const NodeSession* session = FindSession(node, Traffic::kPrompt);
  return session != nullptr && session->attached();
}

void Engine::Close() {
  if (fork_generation_ != ForkGeneration()) return;
  TellRemoteReads();
  {
    Lock lock(*this);
    if (!closed_.exchange(true)) {
      EndAll(StatusCode::kCancelled, "the client was closed");
      RunReady(lock);
      for (const auto& session : sessions_) {
        if (session != nullptr) session->Detach();
      }
      // Farewell messages should leave, but a peer that does not take them is not waited for.
      const std::uint64_t until_ns = Now() + 100'000'000;
      while (worker_->sends_in_flight() > 0 && Now() < until_ns) worker_->Progress();
      for (const auto& session : sessions_) {
        if (session != nullptr) session->OnLost(Status(StatusCode::kCancelled, "closed"));
      }
    }
    WakeLeader();
    if (background_sleeps_) worker_->Wake();
    Appoint();
  }
  if (!background_.joinable()) return;
  if (background_.get_id() == std::this_thread::get_id()) {
    background_.detach();
  } else {
    background_.join();
  }
}

void Engine::RunBackground(std::shared_ptr<Engine> self) {
  Lock lock(*self);
  Waiter waiter;
  WaitCondition condition;
  condition.background = true;
  self->Run(lock, condition, &waiter);
}

}  // namespace tidepool::internal
