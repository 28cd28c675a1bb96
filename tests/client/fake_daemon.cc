#include "tests/client/fake_daemon.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <utility>

#include "proto/base/limits.h"
#include "proto/placement/owner.h"

namespace tidepool::testing {
namespace {

constexpr std::uint32_t kSpaceId = 7;

std::string AddressOf(std::uint16_t node, std::uint16_t core) {
  return "fake:" + std::to_string(node) + ":" + std::to_string(core);
}

}  // namespace

class FakeEndpoint final : public transport::Endpoint {
 public:
  bool alive() const override { return alive_; }
  std::uint16_t node = 0;
  std::uint16_t core = 0;
  bool alive_ = true;
  bool told_ = false;
  bool closed_ = false;
};

class FakeWorker final : public transport::Worker {
 public:
  FakeWorker(FakeCluster* cluster, transport::Receiver* receiver)
      : cluster_(cluster), receiver_(receiver), fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    const auto guard = cluster_->Guard();
    cluster_->workers_.push_back(this);
  }
  ~FakeWorker() override {
    const auto guard = cluster_->Guard();
    std::erase(cluster_->workers_, this);
    close(fd_);
  }

  std::string Address() const override {
    return std::to_string(reinterpret_cast<std::uintptr_t>(this));
  }

  Result<transport::Endpoint*> Connect(std::string_view address) override {
    auto endpoint = std::make_unique<FakeEndpoint>();
    unsigned node = 0;
    unsigned core = 0;
    if (std::sscanf(std::string(address).c_str(), "fake:%u:%u", &node, &core) != 2) {
      return Status(StatusCode::kInvalidArgument, "not an address");
    }
    endpoint->node = static_cast<std::uint16_t>(node);
    endpoint->core = static_cast<std::uint16_t>(core);
    endpoints_.push_back(std::move(endpoint));
    return static_cast<transport::Endpoint*>(endpoints_.back().get());
  }

  void Close(transport::Endpoint* endpoint) override {
    static_cast<FakeEndpoint*>(endpoint)->closed_ = true;
  }
  void CloseWhenSent(transport::Endpoint* endpoint) override { Close(endpoint); }

  Status Send(transport::Endpoint* to, transport::FrameBufferPtr buffer) override {
    auto* endpoint = static_cast<FakeEndpoint*>(to);
    if (!endpoint->alive_) return Status(StatusCode::kUnavailable, "cut");
    cluster_->OnClientFrame(this, endpoint->node, endpoint->core, {buffer->data(), buffer->size()});
    return {};
  }

  unsigned Progress() override {
    unsigned events = 0;
    std::deque<std::vector<std::byte>> arrived;
    {
      const auto guard = cluster_->Guard();
      if (quiet_left_ > 0) {
        --quiet_left_;
        return 0;
      }
      arrived.swap(arrived_);
      std::uint64_t count = 0;
      (void)!read(fd_, &count, sizeof count);
    }
    for (const auto& bytes : arrived) {
      receiver_->OnFrame(bytes);
      ++events;
    }
    for (std::size_t i = 0; i < endpoints_.size(); ++i) {
      FakeEndpoint* endpoint = endpoints_[i].get();
      if (endpoint->alive_ || endpoint->told_ || endpoint->closed_) continue;
      endpoint->told_ = true;
      receiver_->OnPeerLost(endpoint, Status(StatusCode::kUnavailable, "cut by the test"));
      ++events;
    }
    return events;
  }

  int event_fd() const override { return fd_; }
  bool Arm() override {
    const auto guard = cluster_->Guard();
    return arrived_.empty() || quiet_left_ > 0;
  }
  void Wake() override {
    const std::uint64_t one = 1;
    (void)!write(fd_, &one, sizeof one);
  }
  std::size_t sends_in_flight() const override { return 0; }
  std::string Describe(transport::Endpoint*) const override { return "memory"; }

  void Deliver(std::vector<std::byte> bytes) {
    arrived_.push_back(std::move(bytes));
    quiet_left_ = cluster_->options_.quiet_rounds;
    Wake();
  }
  void Cut(std::uint16_t node) {
    for (const auto& endpoint : endpoints_) {
      if (endpoint->node == node && !endpoint->closed_) endpoint->alive_ = false;
    }
    Wake();
  }

 private:
  FakeCluster* cluster_;
  transport::Receiver* receiver_;
  const int fd_;
  std::deque<std::vector<std::byte>> arrived_;
  unsigned quiet_left_ = 0;
  std::vector<std::unique_ptr<FakeEndpoint>> endpoints_;
};

class FakeContext final : public transport::Context {
 public:
  explicit FakeContext(FakeCluster* cluster) : cluster_(cluster) {}
  Result<std::unique_ptr<transport::Worker>> MakeWorker(transport::Receiver* receiver) override {
    return std::unique_ptr<transport::Worker>(std::make_unique<FakeWorker>(cluster_, receiver));
  }
  std::string_view name() const override { return "fake"; }

 private:
  FakeCluster* cluster_;
};

class FakeControl final : public internal::ControlPlane {
 public:
  explicit FakeControl(FakeCluster* cluster) : cluster_(cluster) {}

  Result<internal::AttachReply> Attach(const std::string& address,
                                       const internal::AttachRequest& request, Deadline) override {
    const auto guard = cluster_->Guard();
    ++cluster_->attaches_;
    if (!cluster_->attach_error_.ok()) return cluster_->attach_error_;
    internal::AttachReply reply;
    const bool known = cluster_->connections_.contains(request.session.value());
    reply.resumed = known && cluster_->resumes_;
    reply.session = reply.resumed ? request.session : SessionId(++cluster_->next_session_);
    reply.connection = ++cluster_->connections_[reply.session.value()];
    reply.incarnation = 1;
    reply.credit_operations = cluster_->options_.credit_operations;
    reply.credit_bytes = cluster_->options_.credit_bytes;
    const auto node = static_cast<std::uint16_t>(std::stoi(address.substr(address.find(':') + 1)));
    for (std::uint16_t core = 0; core < cluster_->cores_; ++core) {
      reply.worker_addresses.push_back(AddressOf(node, core));
    }
    cluster_->worker_of_session_[reply.session.value()] =
        reinterpret_cast<FakeWorker*>(std::stoull(request.worker_address));
    return reply;
  }

  Result<placement::PlacementDelta> GetMap(const std::string&, Epoch known, Epoch wait_for,
                                           Deadline) override {
    if (cluster_->map_hook_) cluster_->map_hook_();
    const auto guard = cluster_->Guard();
    cluster_->map_waits_.push_back(wait_for);
    if (!cluster_->map_error_.ok()) return cluster_->map_error_;
    return placement::DeltaSince(cluster_->published_, known);
  }

  Result<internal::CreateReply> CreateNamespace(const std::string&, const std::string&,
                                                placement::Kind, const placement::NamespaceOptions&,
                                                Deadline) override {
    const auto guard = cluster_->Guard();
    return internal::CreateReply{NamespaceId(kSpaceId), true, cluster_->published_.epoch};
  }

  Status PersistNamespace(const std::string&, const std::string&, Deadline) override {
    return Status(StatusCode::kUnimplemented, "nothing is durable here");
  }
  Status DropNamespace(const std::string&, const std::string&, Epoch* epoch, Deadline) override {
    const auto guard = cluster_->Guard();
    cluster_->map_.namespaces.clear();
    cluster_->map_.dropped[NamespaceId(kSpaceId)] = Epoch(cluster_->map_.epoch.value() + 1);
    cluster_->PublishMap();
    *epoch = cluster_->published_.epoch;
    return {};
  }
  Status MigrateNamespace(const std::string&, const std::string&, const std::string&, std::uint64_t,
                          Epoch*, Deadline) override {
    return Status(StatusCode::kUnimplemented, "the fake cluster moves nothing");
  }

 private:
  FakeCluster* cluster_;
};

FakeCluster::FakeCluster(FakeOptions options) : options_(options), cores_(options.cores) {
  map_.epoch = Epoch(1);
  map_.cluster_uuid = "fake";
  map_.nodes_expected = options.nodes;
  for (std::uint16_t n = 0; n < options.nodes; ++n) {
    placement::Node node;
    node.id = NodeId(n);
    node.uuid = "uuid-" + std::to_string(n);
    node.incarnation = 1;
    node.control_address = "fake:" + std::to_string(n);
    node.host = "host" + std::to_string(n);
    node.cores = options.cores;
    map_.nodes.push_back(node);
  }
  placement::Namespace space;
  space.id = NamespaceId(kSpaceId);
  space.name = "space";
  for (std::uint32_t p = 0; p < options.partitions; ++p) {
    const std::uint32_t owner = p % (options.nodes * options.cores);
    space.partitions.push_back({NodeId(static_cast<std::uint16_t>(owner % options.nodes)),
                                CoreId(static_cast<std::uint16_t>(owner / options.nodes)), Term(1),
                                placement::PartitionState::kActive});
  }
  space.changed = Epoch(1);
  map_.namespaces[space.id] = std::make_shared<const placement::Namespace>(space);
  published_ = map_;
}

FakeCluster::~FakeCluster() = default;

std::shared_ptr<internal::Engine> FakeCluster::Connect(ConnectOptions options) {
  internal::EngineOptions parts;
  parts.connect = options;
  if (!options_.real_time) parts.connect.wait = WaitMode::kPoll;
  parts.addresses = {"fake:0"};
  parts.client_name = "test";
  if (!options_.real_time) parts.clock = &clock_;
  auto engine = internal::Engine::Create(std::move(parts), std::make_unique<FakeControl>(this),
                                         std::make_unique<FakeContext>(this));
  REQUIRE(engine.ok());
  REQUIRE((*engine)->RefreshMap(Epoch(), Deadline::AfterMs(1'000)).ok());
  return *std::move(engine);
}

BytesMap FakeCluster::Open(const std::shared_ptr<internal::Engine>& engine) {
  internal::SpaceState* state = engine->FindSpace("space");
  REQUIRE(state != nullptr);
  return BytesMap(Namespace(std::make_shared<internal::Space>(engine, state)));
}

bool FakeCluster::Pump(const std::shared_ptr<internal::Engine>& engine,
                       const std::function<bool()>& condition) {
  constexpr int kRoundsMax = 3'000;
  // A call that nothing ever ends: waiting for it drives everything else.
  internal::Call* nothing = internal::Call::Make(1, 0);
  bool holds = condition();
  for (int i = 0; i < kRoundsMax && !holds; ++i) {
    engine->Wait(nothing, clock_.Peek() + 10'000);
    holds = condition();
  }
  nothing->Release();
  return holds;
}

void FakeCluster::Settle(const std::shared_ptr<internal::Engine>& engine) {
  int rounds = 0;
  Pump(engine, [&] { return ++rounds > 20; });
}

void FakeCluster::SetAuto(bool on) {
  const auto guard = Guard();
  auto_ = on;
}

std::size_t FakeCluster::auto_answered() const {
  const auto guard = Guard();
  return auto_answered_;
}

std::size_t FakeCluster::request_count() const {
  const auto guard = Guard();
  return requests_.size();
}

std::size_t FakeCluster::stream_count() const {
  const auto guard = Guard();
  return streams_.size();
}

std::shared_ptr<ReceivedFrame> FakeCluster::TakeRequest() {
  const auto guard = Guard();
  REQUIRE(!requests_.empty());
  auto frame = requests_.front();
  requests_.pop_front();
  return frame;
}

std::shared_ptr<ReceivedFrame> FakeCluster::TakeStream() {
  const auto guard = Guard();
  REQUIRE(!streams_.empty());
  auto frame = streams_.front();
  streams_.pop_front();
  return frame;
}

std::uint64_t FakeCluster::detaches() const {
  const auto guard = Guard();
  return detaches_;
}

std::size_t FakeCluster::attach_count() const {
  const auto guard = Guard();
  return attaches_;
}

std::vector<Epoch> FakeCluster::map_waits() const {
  const auto guard = Guard();
  return map_waits_;
}

void FakeCluster::OnClientFrame(FakeWorker*, std::uint16_t node, std::uint16_t core, Bytes bytes) {
  const auto guard = Guard();
  auto frame = std::make_shared<ReceivedFrame>();
  frame->node = node;
  frame->core = core;
  frame->bytes.assign(bytes.begin(), bytes.end());
  REQUIRE(wire::DecodeHeader(frame->bytes, &frame->header).ok());
  REQUIRE(frame->header.core == core);
  switch (frame->header.type) {
    case wire::FrameType::kRequest:
      REQUIRE(wire::DecodeRequest(frame->bytes, &frame->request).ok());
      if (auto_) return AnswerByItself(*frame);
      requests_.push_back(frame);
      return;
    case wire::FrameType::kStreamPart:
    case wire::FrameType::kStreamAck:
      REQUIRE(wire::DecodeStream(frame->bytes, &frame->stream).ok());
      streams_.push_back(frame);
      return;
    case wire::FrameType::kDetach:
      ++detaches_;
      return;
    case wire::FrameType::kAnswer:
      FAIL("a client sent an answer");
  }
}

wire::Answer FakeCluster::Apply(const wire::Operation& operation, std::string* value) {
  wire::Answer answer;
  answer.has_version = true;
  answer.version = Lsn(Term(1), 1);
  const std::string key(AsText(operation.key));
  const auto found = store_.find(key);
  switch (operation.opcode) {
    case wire::Opcode::kPut:
      store_[key] = std::string(AsText(operation.value));
      break;
    case wire::Opcode::kGet:
      answer.code = found == store_.end() ? StatusCode::kNotFound : StatusCode::kOk;
      if (found != store_.end()) *value = found->second;
      break;
    case wire::Opcode::kDelete:
      answer.code = store_.erase(key) == 0 ? StatusCode::kNotFound : StatusCode::kOk;
      break;
    default:
      answer.code = StatusCode::kUnimplemented;
  }
  answer.value = AsBytes(*value);
  return answer;
}

void FakeCluster::AnswerByItself(const ReceivedFrame& frame) {
  std::vector<std::string> values(frame.request.operations.size());
  std::vector<wire::Answer> answers;
  for (std::size_t i = 0; i < frame.request.operations.size(); ++i) {
    answers.push_back(Apply(frame.request.operations[i], &values[i]));
    answers.back().index = static_cast<std::uint16_t>(i);
  }
  ++auto_answered_;
  Send(frame, answers);
}

void FakeCluster::Post(const ReceivedFrame& to, std::vector<std::byte> bytes) {
  const auto guard = Guard();
  FakeWorker* worker = worker_of_session_[to.header.session];
  if (std::find(workers_.begin(), workers_.end(), worker) == workers_.end()) return;
  worker->Deliver(std::move(bytes));
}

void FakeCluster::Send(const ReceivedFrame& to, const std::vector<wire::Answer>& answers) {
  std::vector<std::byte> bytes(limits::kFrameBytesMax);
  wire::AnswerWriter writer(bytes);
  for (const wire::Answer& answer : answers) REQUIRE(writer.Add(answer));
  wire::FrameHeader header;
  header.core = to.header.core;
  header.session = to.header.session;
  header.connection = to.header.connection;
  header.frame_id = to.header.frame_id;
  bytes.resize(writer.Finish(header));
  Post(to, std::move(bytes));
}

void FakeCluster::AnswerAll(const ReceivedFrame& to, std::string_view value) {
  std::vector<wire::Answer> answers;
  for (std::size_t i = 0; i < to.request.operations.size(); ++i) {
    wire::Answer answer;
    answer.index = static_cast<std::uint16_t>(i);
    answer.has_version = true;
    answer.version = Lsn(Term(1), 1);
    answer.value = AsBytes(value);
    answers.push_back(answer);
  }
  Send(to, answers);
}

void FakeCluster::Refuse(const ReceivedFrame& to, std::uint16_t group, StatusCode code,
                         std::uint64_t number, std::string_view text) {
  wire::Answer answer;
  answer.scope = wire::Answer::Scope::kGroup;
  answer.index = group;
  answer.code = code;
  answer.has_number = number != 0;
  answer.number = number;
  answer.value = AsBytes(text);
  Send(to, {answer});
}

void FakeCluster::SendPart(const ReceivedFrame& to, std::uint16_t index, std::uint64_t offset,
                           std::string_view whole, std::size_t bytes, StatusCode code) {
  wire::FrameHeader header;
  header.type = wire::FrameType::kStreamPart;
  header.core = to.header.core;
  header.session = to.header.session;
  header.connection = to.header.connection;
  header.frame_id = to.header.frame_id;
  wire::StreamHeader part;
  part.stream = index;
  part.offset = offset;
  part.total_bytes = static_cast<std::uint32_t>(whole.size());
  part.code = code;
  std::vector<std::byte> frame(limits::kFrameBytesMax);
  frame.resize(wire::EncodeStream(header, part, AsBytes(whole.substr(offset, bytes)), frame));
  Post(to, std::move(frame));
}

void FakeCluster::SendAck(const ReceivedFrame& part, std::uint64_t offset, StatusCode code) {
  wire::FrameHeader header = part.header;
  header.type = wire::FrameType::kStreamAck;
  wire::StreamHeader ack = part.stream.stream;
  ack.offset = offset;
  ack.code = code;
  std::vector<std::byte> frame(limits::kFrameBytesMax);
  frame.resize(wire::EncodeStream(header, ack, {}, frame));
  Post(part, std::move(frame));
}

void FakeCluster::PublishMap() {
  const auto guard = Guard();
  map_.epoch = Epoch(map_.epoch.value() + 1);
  for (auto& [id, space] : map_.namespaces) {
    auto changed = std::make_shared<placement::Namespace>(*space);
    changed->changed = map_.epoch;
    space = changed;
  }
  published_ = map_;
}

void FakeCluster::SetTerm(std::uint32_t partition, std::uint32_t term, std::uint16_t node,
                          std::uint16_t core) {
  const auto guard = Guard();
  auto changed = std::make_shared<placement::Namespace>(*map_.namespaces[NamespaceId(kSpaceId)]);
  changed->partitions[partition].term = Term(term);
  changed->partitions[partition].node = NodeId(node);
  changed->partitions[partition].core = CoreId(core);
  map_.namespaces[NamespaceId(kSpaceId)] = changed;
}

void FakeCluster::Cut(std::uint16_t node) {
  const auto guard = Guard();
  for (FakeWorker* worker : workers_) worker->Cut(node);
}

std::string FakeCluster::KeyIn(std::uint32_t index, int number) const {
  int found = 0;
  for (int i = 0;; ++i) {
    std::string key = "key" + std::to_string(i);
    if (placement::PartitionIndexOf(AsBytes(key), options_.partitions) != index) continue;
    if (found++ == number) return key;
  }
}

}  // namespace tidepool::testing
