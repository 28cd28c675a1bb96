#include "client/buffer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "proto/base/limits.h"
#include "proto/base/log.h"
#include "proto/placement/owner.h"

namespace tidepool::internal {
namespace {

constexpr std::size_t kFailuresMax = 64 * 1024;
constexpr std::uint32_t kBytesMax = 56 * 1024;
// With fewer operations per core and flush a message costs more than what is in it.
constexpr std::uint64_t kForwardBelow = 16;
// So many flushes alone at the aggregator show that nobody else comes.
constexpr std::uint32_t kLonelyFlushesMax = 4;
constexpr std::uint64_t kPatienceMaxNs = 4'000'000'000;
// Looking at the clock costs 20 ns, as much as an operation.
constexpr std::uint64_t kOperationsPerLook = 32;

// A pack that is full in bytes, each operation with its header, fits a frame.
static_assert(limits::kFrameHeaderBytes + limits::kGroupHeaderBytes + kBytesMax <=
              limits::kFrameBytesMax);
// So does a pack of one operation, which may be larger than options say.
static_assert(limits::kOperationHeaderBytes + 8 + limits::kKeyBytesMax +
                  limits::kUnstreamedValueBytesMax <=
              kBytesMax);

BufferedOptions Bounded(BufferedOptions options) {
  options.operations_max = std::clamp<std::uint32_t>(options.operations_max, 1,
                                                     std::uint32_t{limits::kFrameOperationsMax});
  options.bytes_max = std::clamp<std::uint32_t>(options.bytes_max, 1024, kBytesMax);
  options.buffers_in_flight = std::clamp<std::uint32_t>(options.buffers_in_flight, 1, 64);
  options.age_max = std::max(options.age_max, std::chrono::milliseconds(0));
  return options;
}

}  // namespace

Buffer::Buffer(std::shared_ptr<Space> space, const BufferedOptions& options)
    : space_(std::move(space)), options_(Bounded(options)), route_(space_->state()) {
  if (options_.aggregation == Aggregation::kNode) ChooseAggregation();
  LearnCores();
}

Buffer::~Buffer() {
  const std::uint64_t pending = pending_;
  if (pending == 0 && failed_ == 0) return;
  const Status status = Flush();
  if (status.ok()) return;
  log::Warn("a buffered handle of namespace '" + space_->state()->name +
            "' was destroyed unflushed: " + status.ToString());
}

// Which partitions travel together. If the map changes later, packs still arrive: their queues know
// where to. Every pack is empty.
void Buffer::LearnCores() {
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

// Nothing is under way, so nothing is overtaken.
void Buffer::ChooseAggregation() {
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

// The operations since the last flush stand for those until the next one. `forwarded`: they went
// through the aggregator.
bool Buffer::TakesNode(bool forwarded) {
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

std::uint32_t Buffer::PartitionOf(std::string_view key) const {
  return ranges_ != nullptr
             ? ranges_->IndexOf(AsBytes(key))
             : placement::PartitionIndexOf(AsBytes(key), static_cast<std::uint32_t>(packs_.size()));
}

// From the outermost call's begin to its end, when what was added meanwhile follows.
class Buffer::Busy {
 public:
  explicit Busy(Buffer* buffer) : buffer_(*buffer) { buffer_.busy_ = true; }
  ~Busy() {
    while (!buffer_.deferred_.empty()) {
      const Deferred next = std::move(buffer_.deferred_.front());
      buffer_.deferred_.pop_front();
      buffer_.AddNow(next.header, next.word, next.key, next.value);
    }
    buffer_.busy_ = false;
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  Buffer& buffer_;
};

void Buffer::Add(wire::OperationHeader header, std::uint64_t word, std::string_view key,
                 std::string_view value) {
  if (busy_) [[unlikely]] {
    deferred_.push_back({header, word, std::string(key), std::string(value)});
    return;
  }
  const Busy busy(this);
  AddNow(header, word, key, value);
}

void Buffer::AddNow(wire::OperationHeader header, std::uint64_t word, std::string_view key,
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
void Buffer::AddLarge(Core* core, const wire::OperationHeader& header, std::uint64_t word,
                      std::string_view key, std::string_view value) {
  Send(core);
  // It takes a way of its own: nothing that is forwarded may be overtaken by it, or overtake it.
  TakeIn(core, forwards() ? 0 : options_.buffers_in_flight - 1);
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
  if (forwards()) TakeIn(core, 0);
}

void Buffer::Refuse(std::string_view key, Status why) {
  --pending_;
  Note(key, 1, why);
}

void Buffer::Send(Core* core) {
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
  // Before this one goes, so that the daemon always has something to do meanwhile.
  TakeIn(core, options_.buffers_in_flight - 1);
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

// As a WriteNotice does: again when the operations have been started, since a copy of the prefilter
// may have been made between.
void Buffer::NoteWrites(const CallRef& call) {
  for (const Operation& pack : call.get()->operations()) {
    wire::VisitKeys({pack.value, pack.value_bytes}, pack.pack_uniform, pack.pack_count,
                    [this](Bytes key) { space_->NoteWrite(AsText(key), false); });
  }
}

void Buffer::SendAll() {
  for (std::size_t i = 0; i < cores_.size(); ++i) {
    if (cores_[i]->operations > 0) Send(cores_[i].get());
  }
}

void Buffer::SendOld() {
  if (options_.age_max.count() == 0) return;
  const std::uint64_t now_ns = space_->engine()->Now();
  const auto age_max_ns = static_cast<std::uint64_t>(options_.age_max.count()) * 1'000'000;
  for (std::size_t i = 0; i < cores_.size(); ++i) {
    Core& core = *cores_[i];
    if (core.operations > 0 && now_ns >= core.since_ns + age_max_ns) Send(&core);
  }
}

void Buffer::Progress() {
  if (busy_) return;
  const Busy busy(this);
  SendOld();
  for (const auto& core : cores_) {
    if (core->flying.empty()) continue;
    (void)core->flying.front().Wait(CallRef::TimePoint());
    TakeIn(core.get(), ~std::size_t{0});
  }
}

// Takes in what has ended, in the order of sending, and waits until at most `flying_max` are left:
// each has a deadline.
void Buffer::TakeIn(Core* core, std::size_t flying_max) {
  while (!core->flying.empty()) {
    const CallRef& oldest = core->flying.front();
    if (!oldest.Done()) {
      if (core->flying.size() <= flying_max) return;
      oldest.Wait(CallRef::TimePoint::max());
    }
    Settle(oldest);
    core->flying.pop_front();
  }
}

void Buffer::Settle(const CallRef& ref) {
  Call* call = ref.get();
  for (const Operation& operation : call->operations()) {
    pending_ -= operation.count();
    if (!operation.is_pack() && operation.code != StatusCode::kOk &&
        operation.code != StatusCode::kAlreadyExists) {
      Note(AsText(operation.key_view()), 1, call->StatusOf(operation));
    }
  }
  for (const Call::PackFailure& failure : call->pack_failures()) {
    const Operation& pack = call->operations()[failure.pack];
    const Bytes bytes(pack.value, pack.value_bytes);
    for (std::uint32_t i = 0; i < failure.count; ++i) {
      if (failures_.size() >= kFailuresMax) {
        Note({}, failure.count - i, failure.why);
        break;
      }
      Note(AsText(wire::KeyInPack(bytes, pack.pack_uniform, failure.first + i)), 1, failure.why);
    }
  }
}

void Buffer::Note(std::string_view key, std::uint32_t count, const Status& why) {
  if (failed_ == 0) first_failure_ = why;
  failed_ += count;
  counts_.failed += count;
  if (failures_.size() < kFailuresMax) failures_.push_back({std::string(key), why});
}

Status Buffer::Flush() {
  if (busy_) {
    return Status(StatusCode::kFailedPrecondition,
                  "a buffered handle was flushed in the middle of one of its own calls",
                  "flush it outside of Future::Then");
  }
  const Busy busy(this);
  SendAll();
  for (std::size_t i = 0; i < cores_.size(); ++i) TakeIn(cores_[i].get(), 0);
  ChooseAggregation();
  reported_ = std::exchange(failures_, {});
  const std::uint64_t failed = std::exchange(failed_, 0);
  const Status first = std::exchange(first_failure_, {});
  if (failed == 0) return {};
  return Status(first.code(),
                std::to_string(failed) +
                    " buffered operations failed; the first: " + std::string(first.what()),
                std::string(first.remedy()));
}

}  // namespace tidepool::internal
