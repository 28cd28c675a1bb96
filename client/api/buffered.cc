#include "tidepool/buffered.h"

#include <bit>
#include <utility>

#include "client/buffers/item_buffer.h"
#include "client/buffers/key_buffer.h"
#include "client/calls/durations.h"

namespace tidepool {
namespace {

using wire::Argument;
using wire::Opcode;
using wire::OperationHeader;

constexpr std::uint8_t FlagsOf(wire::PutCondition condition, wire::ValueKind kind) {
  return static_cast<std::uint8_t>(static_cast<unsigned>(condition) | static_cast<unsigned>(kind)
                                                                          << 2);
}

constexpr OperationHeader AddHeader(wire::ValueKind kind,
                                    wire::PutCondition condition = wire::PutCondition::kAlways) {
  OperationHeader header;
  header.opcode = static_cast<std::uint8_t>(Opcode::kFetchAdd);
  header.flags = FlagsOf(condition, kind);
  header.arguments = wire::MaskOf(Argument::kOperand);
  return header;
}

OperationHeader PutHeader(wire::PutCondition condition, const BufferedPutOptions& options) {
  const wire::ValueKind kind = options.counter_i64   ? wire::ValueKind::kI64
                               : options.counter_f64 ? wire::ValueKind::kF64
                                                     : wire::ValueKind::kBytes;
  OperationHeader header;
  header.opcode = static_cast<std::uint8_t>(Opcode::kPut);
  header.flags = FlagsOf(condition, kind);
  header.arguments = options.ttl.has_value() ? wire::MaskOf(Argument::kTtlMs) : std::uint8_t{0};
  return header;
}

// For the argument that PutHeader names; otherwise it does not travel.
std::uint64_t TtlOf(const BufferedPutOptions& options) {
  return internal::ToTtlMs(options.ttl.value_or(kForEver));
}

// Each handle knows which of the two its buffer is: it has made it.
internal::KeyBuffer& Keys(internal::Buffer* buffer) {
  return *static_cast<internal::KeyBuffer*>(buffer);
}

}  // namespace

BufferedHandle::BufferedHandle(std::unique_ptr<internal::Buffer> buffer)
    : buffer_(std::move(buffer)) {}
BufferedHandle::BufferedHandle(BufferedHandle&&) noexcept = default;
BufferedHandle& BufferedHandle::operator=(BufferedHandle&&) noexcept = default;
BufferedHandle::~BufferedHandle() = default;

Status BufferedHandle::Flush() { return buffer_->Flush(); }
const std::vector<BufferedFailure>& BufferedHandle::failures() const { return buffer_->failures(); }
void BufferedHandle::Progress() { buffer_->Progress(); }
std::uint64_t BufferedHandle::pending() const { return buffer_->pending(); }
BufferedCounts BufferedHandle::counts() const { return buffer_->counts(); }

BufferedBytesMap::BufferedBytesMap(const Namespace& space, const BufferedOptions& options)
    : BufferedHandle(std::make_unique<internal::KeyBuffer>(space.space(), options)) {}

void BufferedBytesMap::Put(std::string_view key, std::string_view value,
                           const BufferedPutOptions& options) {
  Keys(buffer_.get())
      .Add(PutHeader(wire::PutCondition::kAlways, options), TtlOf(options), key, value);
}

void BufferedBytesMap::Insert(std::string_view key, std::string_view value,
                              const BufferedPutOptions& options) {
  Keys(buffer_.get())
      .Add(PutHeader(wire::PutCondition::kIfAbsent, options), TtlOf(options), key, value);
}

void BufferedBytesMap::Add(std::string_view key, std::int64_t by) {
  constexpr OperationHeader kHeader = AddHeader(wire::ValueKind::kI64);
  Keys(buffer_.get()).Add(kHeader, static_cast<std::uint64_t>(by), key, {});
}

void BufferedBytesMap::AddF64(std::string_view key, double by) {
  constexpr OperationHeader kHeader = AddHeader(wire::ValueKind::kF64);
  Keys(buffer_.get()).Add(kHeader, std::bit_cast<std::uint64_t>(by), key, {});
}

void BufferedBytesMap::AddIfPresent(std::string_view key, std::int64_t by) {
  constexpr OperationHeader kHeader =
      AddHeader(wire::ValueKind::kI64, wire::PutCondition::kIfPresent);
  Keys(buffer_.get()).Add(kHeader, static_cast<std::uint64_t>(by), key, {});
}

BufferedBytesBloom::BufferedBytesBloom(const Namespace& space, const BufferedOptions& options)
    : BufferedHandle(std::make_unique<internal::KeyBuffer>(space.space(), options)) {}

void BufferedBytesBloom::Insert(std::string_view value) {
  constexpr OperationHeader kHeader = [] {
    OperationHeader header;
    header.opcode = static_cast<std::uint8_t>(Opcode::kBloomInsert);
    return header;
  }();
  Keys(buffer_.get()).Add(kHeader, 0, value, {});
}

BufferedItems::BufferedItems(const Namespace& space, const BufferedOptions& options)
    : BufferedHandle(std::make_unique<internal::ItemBuffer>(space.space(), options)) {}

void BufferedItems::Add(std::uint64_t priority, std::string_view value,
                        const BufferedPushOptions& options) {
  std::optional<std::uint64_t> ttl_ms;
  if (options.ttl.has_value()) ttl_ms = internal::ToTtlMs(*options.ttl);
  static_cast<internal::ItemBuffer*>(buffer_.get())->Add(priority, ttl_ms, value);
}

}  // namespace tidepool
