#include "client/buffers/key_buffer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "proto/base/limits.h"
#include "proto/placement/owner.h"

namespace tidepool::internal {
namespace {

// With fewer operations per core and flush, a message costs more than its content.
constexpr std::uint64_t kForwardBelow = 16;
// After this number of lonely flushes at the aggregator, no other client is expected.
constexpr std::uint32_t kLonelyFlushesMax = 4;
constexpr std::uint64_t kPatienceMaxNs = 4'000'000'000;
}  // namespace

KeyBuffer::KeyBuffer(std::shared_ptr<Space> space, const BufferedOptions& options)
    : Buffer(std::move(space), options), route_(space_->state()) {
  // A pack of a single operation may exceed the size in the options, but fits a frame.
  static_assert(limits::kOperationHeaderBytes + 8 + limits::kKeyBytesMax +
                    limits::kUnstreamedValueBytesMax <=
                kBytesMax);
  if (options_.aggregation == Aggregation::kNode) ChooseAggregation();
  LearnCores();
}

// Which partitions travel together. If the map changes later, packs still arrive: their queues know
// where to. Every pack is empty.
void KeyBuffer::LearnCores() {
  epoch_ = space_->engine()->epoch_hint();
  ranges_ = space_->engine()->RangesOf(*route_);
  packs_.resize(ranges_ != nullptr ? ranges_->size() : route_->queues.size());
  core_of_.resize(packs_.size());
  const std::vector<const void*> identities = space_->engine()->CoresOf(*route_);
  for (std::size_t i = 0; i < packs_.size(); ++i) {
    const auto found = std::find_if(cores_.begin(), cores_.end(), [&](const auto& core) {
      return core->identity == identities[i];
    });
    core_of_[i] = static_cast<std::uint32_t>(found - cores_.begin());
    if (found != cores_.end()) continue;
    cores_.push_back(std::make_unique<Core>());
    cores_.back()->identity = identities[i];
  }
}

// No call is under way, so no operation is overtaken.
void KeyBuffer::ChooseAggregation() {
  SpaceState* const before = route_;
  route_ = space_->state();
  Engine& engine = *space_->engine();
  if (TakesNode(before != route_) && engine.AggregatorNode().has_value()) {
    SpaceState* forwarded = engine.FindSpace(route_->id, Traffic::kForwarded);
    if (forwarded != nullptr) route_ = forwarded;
  }
  if (route_ == before) return;
  cores_.clear();
  LearnCores();
}

// The operations since the last flush predict the operations until the next flush. `forwarded`:
// they went through the aggregator.
bool KeyBuffer::TakesNode(bool forwarded) {
  if (options_.aggregation != Aggregation::kAuto) return options_.aggregation == Aggregation::kNode;
  if (!forwarded) owner_cores_ = cores_.size();
  const std::uint64_t operations =
      counts_.operations - std::exchange(flushed_operations_, counts_.operations);
  if (operations == 0) return forwarded;
  if (owner_cores_ < 2 || operations >= kForwardBelow * owner_cores_) return false;
  if (!forwarded) return space_->engine()->Now() >= try_again_ns_;
  // C clients that reach D cores by themselves send C * D messages, together C + D.
  const std::uint64_t clients = space_->engine()->companions();
  if (clients * owner_cores_ > clients + owner_cores_) {
    lonely_flushes_ = 0;
    patience_ns_ = kPatienceMinNs;
    return true;
  }
  if (++lonely_flushes_ < kLonelyFlushesMax) return true;
  lonely_flushes_ = 0;
  try_again_ns_ = space_->engine()->Now() + patience_ns_;
  patience_ns_ = std::min(2 * patience_ns_, kPatienceMaxNs);
  return false;
}

std::uint32_t KeyBuffer::PartitionOf(std::string_view key) const {
  return ranges_ != nullptr
             ? ranges_->IndexOf(AsBytes(key))
             : placement::PartitionIndexOf(AsBytes(key), static_cast<std::uint32_t>(packs_.size()));
}

void KeyBuffer::Add(wire::OperationHeader header, std::uint64_t word, std::string_view key,
                    std::string_view value) {
  if (busy()) [[unlikely]] {
    Defer([this, header, word, key = std::string(key), value = std::string(value)] {
      AddNow(header, word, key, value);
    });
    return;
  }
  const Busy busy(this);
  AddNow(header, word, key, value);
}

void KeyBuffer::AddNow(wire::OperationHeader header, std::uint64_t word, std::string_view key,
                       std::string_view value) {
  ++counts_.operations;
  ++pending_;
  if (key.size() > limits::kKeyBytesMax || value.size() > limits::kValueBytesMax) [[unlikely]] {
    return Refuse(key, CheckSizes(key, value.size(), false));
  }
  std::uint32_t partition = PartitionOf(key);
  Core* core = cores_[core_of_[partition]].get();
  if (value.size() > limits::kUnstreamedValueBytesMax) [[unlikely]] {
    return AddLarge(core, header, word, key, value);
  }
  if (space_->minds_writes()) [[unlikely]]
    space_->NoteWrite(key, false);
  header.key_bytes = static_cast<std::uint16_t>(key.size());
  header.value_bytes = static_cast<std::uint16_t>(value.size());
  const std::size_t bytes = header.bytes();
  if (core->bytes + bytes > options_.bytes_max && core->operations > 0) {
    Send(core);
    partition = PartitionOf(key);  // A newer map may have been learned.
    core = cores_[core_of_[partition]].get();
  }
  wire::Pack& pack = packs_[partition];
  if (pack.count() == 0) core->filled.push_back(partition);
  pack.Add(header, word, AsBytes(key), AsBytes(value));
  core->bytes += bytes;
  if (++core->operations == 1) core->since_ns = space_->engine()->Now();
  if (core->operations >= options_.operations_max) Send(core);
  if (counts_.operations % kOperationsPerLook == 0) SendOld();
}

// A value that goes ahead as a stream: a call of its own.
void KeyBuffer::AddLarge(Core* core, const wire::OperationHeader& header, std::uint64_t word,
                         std::string_view key, std::string_view value) {
  Send(core);
  // It takes a way of its own: nothing that is forwarded may be overtaken by it, or overtake it.
  TakeIn(&core->flying, forwards() ? 0 : options_.buffers_in_flight - 1);
  OperationSpec spec;
  spec.opcode = static_cast<wire::Opcode>(header.opcode);
  spec.key = key;
  spec.value = value;
  spec.condition = static_cast<wire::PutCondition>(header.flags & 3);
  spec.value_kind = static_cast<wire::ValueKind>(header.flags >> 2);
  if (header.arguments != 0) spec.Add(wire::Argument::kTtlMs, word);
  spec.timeout = options_.timeout;
  core->flying.push_back(StartOne(*space_, spec, Mode::kAsync));
  ++counts_.buffers;
  if (forwards()) TakeIn(&core->flying, 0);
}

void KeyBuffer::Refuse(std::string_view key, Status why) {
  --pending_;
  Note({std::string(key), std::move(why)});
}

void KeyBuffer::Send(Core* core) {
  if (core->operations == 0) return;
  std::size_t bytes = 0;
  for (const std::uint32_t partition : core->filled) bytes += packs_[partition].bytes().size();
  Call* call = Call::Make(core->filled.size(), bytes);
  std::size_t i = 0;
  for (const std::uint32_t partition : core->filled) {
    wire::Pack& pack = packs_[partition];
    call->operations()[i++].FillPack(&route_->queues[partition], pack,
                                     call->Copy(AsText(pack.bytes())));
    pack.Clear();
  }
  core->filled.clear();
  core->operations = 0;
  core->bytes = 0;
  call->urgent = true;
  // Takes answers in before the next call goes, so that the daemon always has work.
  TakeIn(&core->flying, options_.buffers_in_flight - 1);
  core->flying.push_back(
      StartCall(*space_, call, Mode::kAsync, options_.timeout, bytes, ranges_.get()));
  ++counts_.buffers;
  if (forwards()) ++counts_.forwarded;
  if (space_->minds_writes()) [[unlikely]]
    NoteWrites(core->flying.back());
  if (epoch_ == space_->engine()->epoch_hint()) [[likely]]
    return;
  SendAll();
  LearnCores();  // Every pack is empty now.
}

// Acts like a WriteNotice. Repeats after the start of the operations, because a copy of the
// prefilter may have been made in between.
void KeyBuffer::NoteWrites(const CallRef& call) {
  for (const Operation& pack : call.get()->operations()) {
    wire::VisitKeys({pack.value, pack.value_bytes}, pack.pack_uniform, pack.pack_count,
                    [this](Bytes key) { space_->NoteWrite(AsText(key), false); });
  }
}

void KeyBuffer::SendAll() {
  for (std::size_t i = 0; i < cores_.size(); ++i) {
    if (cores_[i]->operations > 0) Send(cores_[i].get());
  }
}

void KeyBuffer::SendOld() {
  if (options_.age_max.count() == 0) return;
  const std::uint64_t now_ns = space_->engine()->Now();
  for (std::size_t i = 0; i < cores_.size(); ++i) {
    Core& core = *cores_[i];
    if (core.operations > 0 && IsOld(core.since_ns, now_ns)) Send(&core);
  }
}

void KeyBuffer::TakeInAll(bool waits) {
  for (std::size_t i = 0; i < cores_.size(); ++i) {
    Flying& flying = cores_[i]->flying;
    if (flying.empty()) continue;
    if (!waits) (void)flying.front().Wait(CallRef::TimePoint());
    TakeIn(&flying, waits ? 0 : ~std::size_t{0});
  }
}

void KeyBuffer::Settle(const CallRef& ref) {
  Call* call = ref.get();
  for (const Operation& operation : call->operations()) {
    pending_ -= operation.count();
    if (!operation.is_pack() && operation.code != StatusCode::kOk &&
        operation.code != StatusCode::kAlreadyExists) {
      Note({std::string(AsText(operation.key_view())), call->StatusOf(operation)});
    }
  }
  for (const Call::PackFailure& failure : call->pack_failures()) {
    const Operation& pack = call->operations()[failure.pack];
    const Bytes bytes(pack.value, pack.value_bytes);
    for (std::uint32_t i = 0; i < failure.count; ++i) {
      if (!HasRoomForFailures()) {
        NoteUnnamed(failure.count - i, failure.why);
        break;
      }
      const Bytes key = wire::KeyInPack(bytes, pack.pack_uniform, failure.first + i);
      Note({std::string(AsText(key)), failure.why});
    }
  }
}

}  // namespace tidepool::internal
