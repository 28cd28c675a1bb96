#include "tests/daemon/raw_client.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <utility>

#include "daemon/core/core.h"
#include "proto/base/clock.h"

namespace tidepool::daemon {

TestNode::TestNode(std::uint32_t partitions, std::uint64_t memory_bytes, Kind kind,
                   std::uint64_t capacity, std::string prefilter,
                   std::shared_ptr<const Functions> functions, wire::Aggregator* aggregator,
                   storage::Volume* volume)
    : partitions_(partitions),
      kind_(kind),
      capacity_(capacity),
      prefilter_(std::move(prefilter)),
      is_durable_(volume != nullptr) {
  lease_.ExtendTo(Clock::Real().MonotonicNs() + 3'600'000'000'000ull);
  transport::UcxSettings settings;
  settings.workers_move_between_threads = true;  // The test's clients; cores keep to their threads.
  auto context = transport::MakeUcxContext(settings);
  REQUIRE(context.ok());
  context_ = *std::move(context);
  CoreGroupOptions options;
  options.memory_bytes = memory_bytes;
  options.functions = std::move(functions);
  options.aggregator = aggregator;
  options.volume = volume;
  auto cores = CoreGroup::Start(options, &lease_, context_.get());
  REQUIRE(cores.ok());
  cores_ = *std::move(cores);
  if (is_durable_) {
    const Status recovered = cores_->Run(
        CoreId(0), [](Core& core) { (void)core.store().Recover({}); }, Deadline::AfterMs(10'000));
    REQUIRE(recovered.ok());
  }
  Publish();
}

void TestNode::RaiseTerms() {
  term_ = Term(term_.value() + 1);
  Publish();
}

void TestNode::SetRanges(std::vector<std::string> begins) {
  auto ranges = placement::Ranges::Create(std::move(begins));
  REQUIRE(ranges.ok());
  ranges_ = std::make_shared<const placement::Ranges>(*std::move(ranges));
  partitions_ = ranges_->size();
  RaiseTerms();
}

void TestNode::SetMemoryShare(std::uint32_t percent) {
  memory_share_percent_ = percent;
  Publish();
}

void TestNode::SetState(placement::PartitionState state) {
  state_ = state;
  Publish();
}

std::shared_ptr<const placement::Namespace> TestNode::MakeSpace(
    NamespaceId id, std::uint64_t expected_items) const {
  auto space = std::make_shared<placement::Namespace>();
  space->id = id;
  space->name = id == TestNode::space() ? "test" : "test-" + std::to_string(id.value());
  space->kind = kind_;
  space->changed = Epoch(epoch_);
  space->options.partitions = partitions_;
  space->options.memory_share_percent = memory_share_percent_;
  space->options.expected_items = expected_items;
  space->options.prefilter = prefilter_;
  space->options.capacity = capacity_;
  if (is_durable_ && id == TestNode::space()) space->options.durability = "sync";
  space->ranges = ranges_;
  for (std::uint32_t i = 0; i < partitions_; ++i) {
    space->partitions.push_back({NodeId(0), CoreId(0), term_, state_});
  }
  return space;
}

void TestNode::Publish() {
  auto map = std::make_shared<placement::PlacementMap>();
  map->epoch = Epoch(++epoch_);
  map->nodes.push_back({NodeId(0), "uuid", 1, "127.0.0.1:1", "here"});
  const bool is_filter = kind_ == Kind::kBloom;
  map->namespaces.emplace(space(), MakeSpace(space(), is_filter ? 100'000 : 0));
  if (is_durable_) map->namespaces.emplace(like_it(), MakeSpace(like_it(), 0));
  if (is_filter) {
    map->namespaces.emplace(like_it(), MakeSpace(like_it(), 100'000));
    map->namespaces.emplace(smaller(), MakeSpace(smaller(), 1'000));
  }
  REQUIRE(cores_->InstallMap(map, NodeId(0), Deadline::AfterMs(10'000)).ok());
}

PartitionId TestNode::PartitionOf(std::string_view key, NamespaceId of) const {
  if (addressed_.has_value()) return PartitionId(of, *addressed_);
  if (ranges_ != nullptr) return PartitionId(of, ranges_->IndexOf(AsBytes(key)));
  return PartitionId(of, placement::PartitionIndexOf(AsBytes(key), partitions_));
}

SharedWorker::SharedWorker(TestNode& node) {
  auto worker = node.context().MakeWorker(this);
  REQUIRE(worker.ok());
  worker_ = *std::move(worker);
}

void SharedWorker::OnFrame(Bytes frame) {
  wire::FrameHeader header;
  REQUIRE(wire::DecodeHeader(frame, &header).ok());
  const auto found = clients_.find(header.session);
  if (found != clients_.end()) found->second->OnFrame(frame);
}

void SharedWorker::OnPeerLost(transport::Endpoint* endpoint, const Status& why) {
  static_cast<RawClient*>(endpoint->user)->OnPeerLost(endpoint, why);
}

RawClient::RawClient(TestNode& node, SharedWorker* shared) : node_(node), shared_(shared) {}

RawClient::~RawClient() = default;

bool RawClient::Attach() {
  lost_ = false;
  endpoint_ = nullptr;
  worker_.reset();
  if (shared_ == nullptr) {
    auto made = node_.context().MakeWorker(this);
    REQUIRE(made.ok());
    worker_ = *std::move(made);
  }
  AttachRequest request;
  request.worker_address = worker().Address();
  request.session = attached_.session;
  request.client_name = "raw";
  request.uncounted = uncounted;
  auto attached = node_.cores().Attach(request, Deadline::AfterMs(10'000));
  REQUIRE(attached.ok());
  attached_ = *std::move(attached);
  if (shared_ != nullptr) shared_->Add(attached_.session, this);
  auto endpoint = worker().Connect(attached_.worker_addresses[0]);
  REQUIRE(endpoint.ok());
  endpoint_ = *endpoint;
  endpoint_->user = this;
  return attached_.resumed;
}

void RawClient::CutConnection() {
  endpoint_ = nullptr;
  worker_.reset();
  answers_.clear();
  streams_.clear();
}

wire::FrameHeader RawClient::NextHeader() {
  wire::FrameHeader header;
  header.session = attached_.session.value();
  header.connection = attached_.connection;
  header.frame_id = next_frame_++;
  header.ack_watermark = ack_watermark;
  header.time_left_us = time_left_us;
  header.reply_bytes_max = reply_bytes_max;
  return header;
}

std::string RawClient::Request(const wire::FrameHeader& header, Term term,
                               const std::vector<wire::Operation>& operations, NamespaceId space) {
  std::string frame(limits::kFrameBytesMax, '\0');
  wire::RequestWriter writer({reinterpret_cast<std::byte*>(frame.data()), frame.size()});
  PartitionId last;
  bool begun = false;
  for (const wire::Operation& operation : operations) {
    const PartitionId partition = node_.PartitionOf(AsText(operation.key), space);
    if (!begun || partition != last) REQUIRE(writer.BeginGroup(partition, term, false));
    begun = true;
    last = partition;
    REQUIRE(writer.Add(operation));
  }
  frame.resize(writer.Finish(header));
  return frame;
}

void RawClient::Send(const std::string& frame) {
  REQUIRE(frame.size() <= transport::FrameBuffer::kCapacity);
  auto buffer = pool_.Take();
  std::memcpy(buffer->data(), frame.data(), frame.size());
  buffer->set_size(frame.size());
  REQUIRE(worker().Send(endpoint_, std::move(buffer)).ok());
}

std::uint64_t RawClient::Call(const std::vector<wire::Operation>& operations, NamespaceId space) {
  const wire::FrameHeader header = NextHeader();
  Send(Request(header, node_.term(), operations, space));
  return header.frame_id;
}

void RawClient::OnFrame(Bytes frame) {
  wire::FrameHeader header;
  if (wire::DecodeHeader(frame, &header).ok() && header.type == wire::FrameType::kDetach) {
    lost_ = true;
    return;
  }
  wire::StreamFrame stream;
  if (wire::DecodeStream(frame, &stream).ok()) {
    streams_.push_back({stream, std::string(AsText(stream.data))});
    return;
  }
  wire::AnswerReader reader;
  REQUIRE(reader.Open(frame).ok());
  while (!reader.Done()) {
    OwnedAnswer answer;
    REQUIRE(reader.Next(&answer.answer).ok());
    answer.frame_id = reader.header().frame_id;
    if (answer.answer.scope == wire::Answer::Scope::kRun) {
      // As if each had its own answer.
      ++runs_;
      const std::uint64_t count = answer.answer.number;
      answer.answer.scope = wire::Answer::Scope::kOperation;
      answer.answer.has_number = false;
      answer.answer.number = 0;
      for (std::uint64_t i = 0; i < count; ++i, ++answer.answer.index) answers_.push_back(answer);
      continue;
    }
    answer.value = AsText(answer.answer.value);
    answer.answer.value = {};
    answers_.push_back(std::move(answer));
  }
}

void RawClient::OnPeerLost(transport::Endpoint* /*endpoint*/, const Status& /*why*/) {
  lost_ = true;
}

template <typename Condition>
void RawClient::WaitUntil(const char* what, Condition&& condition) {
  // Two thousand of these clients attach to a core on a loaded machine.
  const Deadline deadline = Deadline::AfterMs(60'000);
  while (!condition()) {
    INFO("waiting for " << what);
    REQUIRE_FALSE(deadline.Passed());
    worker().Progress();
  }
}

OwnedAnswer RawClient::WaitAnswer() {
  WaitUntil("an answer", [&] { return !answers_.empty(); });
  OwnedAnswer answer = std::move(answers_.front());
  answers_.pop_front();
  return answer;
}

RawClient::OwnedStream RawClient::WaitStream() {
  WaitUntil("a stream frame", [&] { return !streams_.empty(); });
  OwnedStream stream = std::move(streams_.front());
  streams_.pop_front();
  return stream;
}

void RawClient::WaitLost() {
  WaitUntil("the end of the connection", [&] { return lost_; });
}

bool RawClient::WaitAnswerOrLost() {
  WaitUntil("an answer or the end", [&] { return !answers_.empty() || lost_; });
  return !answers_.empty();
}

void RawClient::Settle() {
  // A frame of ours that is behind everything sent before, and its answer behind every answer.
  const std::uint64_t frame_id = next_frame_;
  Call({GetOp("settle")});
  WaitUntil("the settling answer",
            [&] { return !answers_.empty() && answers_.back().frame_id == frame_id; });
  answers_.pop_back();
}

void UploadPart(RawClient& client, std::uint64_t number, const std::string& value,
                std::size_t offset, std::size_t bytes) {
  wire::FrameHeader header = client.NextHeader();
  header.type = wire::FrameType::kStreamPart;
  header.frame_id = 0;
  wire::StreamHeader part;
  part.stream = number;
  part.offset = offset;
  part.total_bytes = static_cast<std::uint32_t>(value.size());
  part.upload = 1;
  std::string frame(limits::kFrameBytesMax, '\0');
  frame.resize(wire::EncodeStream(header, part, AsBytes(value).subspan(offset, bytes),
                                  {reinterpret_cast<std::byte*>(frame.data()), frame.size()}));
  client.Send(frame);
}

void UploadValue(RawClient& client, std::uint64_t number, const std::string& value) {
  std::size_t acked = 0;
  std::size_t sent = 0;
  while (acked < value.size()) {
    while (sent < value.size() && sent - acked < limits::kStreamWindowBytes) {
      const std::size_t bytes = std::min(limits::kStreamPartBytesMax, value.size() - sent);
      UploadPart(client, number, value, sent, bytes);
      sent += bytes;
    }
    const auto ack = client.WaitStream();
    REQUIRE(ack.frame.stream.code == StatusCode::kOk);
    acked = ack.frame.stream.offset;
  }
}

std::string DownloadValue(RawClient& client, const OwnedAnswer& answer) {
  REQUIRE(answer.answer.streamed);
  std::string value;
  while (value.size() < answer.answer.number) {
    const auto part = client.WaitStream();
    REQUIRE(part.frame.stream.offset == value.size());
    value += part.data;
    wire::FrameHeader header = client.NextHeader();
    header.type = wire::FrameType::kStreamAck;
    header.frame_id = part.frame.header.frame_id;
    wire::StreamHeader ack = part.frame.stream;
    ack.offset = value.size();
    std::string frame(limits::kFrameBytesMax, '\0');
    frame.resize(wire::EncodeStream(header, ack, {},
                                    {reinterpret_cast<std::byte*>(frame.data()), frame.size()}));
    client.Send(frame);
  }
  return value;
}

wire::Operation GetOp(std::string_view key) {
  wire::Operation operation;
  operation.opcode = wire::Opcode::kGet;
  operation.key = AsBytes(key);
  return operation;
}

wire::Operation PutOp(std::string_view key, std::string_view value) {
  wire::Operation operation;
  operation.opcode = wire::Opcode::kPut;
  operation.key = AsBytes(key);
  operation.value = AsBytes(value);
  return operation;
}

wire::Operation AddOp(std::string_view key, std::int64_t by) {
  wire::Operation operation;
  operation.opcode = wire::Opcode::kFetchAdd;
  operation.key = AsBytes(key);
  operation.value_kind = wire::ValueKind::kI64;
  operation.set(wire::Argument::kOperand, static_cast<std::uint64_t>(by));
  return operation;
}

}  // namespace tidepool::daemon
