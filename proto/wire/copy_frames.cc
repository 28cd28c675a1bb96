#include "proto/wire/copy_frames.h"

#include <algorithm>
#include <cstring>

namespace tidepool::wire {
namespace {

struct CopyHeader {
  std::uint8_t kind;
  std::uint8_t value_flags;
  std::uint16_t key_bytes;
  std::uint32_t partition;
  std::uint64_t version;
  std::uint64_t expiry_ms;
  std::uint64_t number;
  std::uint32_t value_bytes;
  std::uint32_t copy;
};
static_assert(sizeof(CopyHeader) == kCopyMessageHeaderBytes);

}  // namespace

std::size_t BytesOf(const CopyMessage& message) {
  return sizeof(CopyHeader) + message.key.size() + message.value.size() + message.value_tail.size();
}

std::size_t EncodeCopyMessage(const CopyMessage& message, std::byte* to) {
  const CopyHeader header{
      static_cast<std::uint8_t>(message.kind),
      message.value_flags,
      static_cast<std::uint16_t>(message.key.size()),
      message.partition.value(),
      message.version,
      message.expiry_ms,
      message.number,
      static_cast<std::uint32_t>(message.value.size() + message.value_tail.size()),
      message.copy};
  StoreUnaligned(to, header);
  std::byte* at = to + sizeof header;
  for (const Bytes part : {message.key, message.value, message.value_tail}) {
    at = std::copy(part.begin(), part.end(), at);
  }
  return static_cast<std::size_t>(at - to);
}

bool CopyMessages::Next(CopyMessage* message) {
  if (rest_.empty() || malformed_) return false;
  malformed_ = true;
  if (rest_.size() < sizeof(CopyHeader)) return false;
  const auto header = LoadUnaligned<CopyHeader>(rest_.data());
  const Bytes behind = rest_.subspan(sizeof header);
  if (header.kind == 0 || header.kind > kCopyMessageKindMax ||
      header.key_bytes > limits::kKeyBytesMax || header.value_bytes > kCopyValueBytesMax ||
      behind.size() < header.key_bytes + std::size_t{header.value_bytes}) {
    return false;
  }
  malformed_ = false;
  message->kind = static_cast<CopyMessageKind>(header.kind);
  message->value_flags = header.value_flags;
  message->partition = PartitionId(header.partition);
  message->copy = header.copy;
  message->key = behind.first(header.key_bytes);
  message->value = behind.subspan(header.key_bytes, header.value_bytes);
  message->value_tail = {};
  message->version = header.version;
  message->expiry_ms = header.expiry_ms;
  message->number = header.number;
  rest_ = behind.subspan(header.key_bytes + std::size_t{header.value_bytes});
  return true;
}

}  // namespace tidepool::wire
