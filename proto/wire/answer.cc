#include "proto/wire/answer.h"

#include <string>

#include "proto/base/check.h"

namespace tidepool::wire {
namespace {

// 8 bytes.
struct AnswerHeader {
  std::uint16_t index;
  std::uint8_t code;
  std::uint8_t flags;  // scope:2, value kind:2, version:1, number:1, streamed:1, zero:1
  std::uint16_t value_bytes;
  std::uint16_t reserved;
};
static_assert(sizeof(AnswerHeader) == limits::kAnswerHeaderBytes);
constexpr std::uint8_t kHasVersion = 1u << 4;
constexpr std::uint8_t kHasNumber = 1u << 5;
constexpr std::uint8_t kStreamed = 1u << 6;

Status MalformedAnswer(const char* what) {
  return Status(StatusCode::kInvalidArgument, std::string("malformed answer frame: ") + what);
}

// Checks an entry against its scope and flags. The writer obeys and the reader enforces this, so
// callers need not check again whether an index or a count makes sense.
bool FieldsFit(const Answer& answer, std::size_t value_bytes) {
  if (answer.index >= limits::kFrameOperationsMax) return false;
  if (answer.scope == Answer::Scope::kRun) {
    return answer.code == StatusCode::kOk && answer.has_number && answer.number > 0 &&
           answer.number <= limits::kFrameOperationsMax - answer.index && !answer.has_version &&
           !answer.streamed && value_bytes == 0;
  }
  if (answer.streamed) {
    return answer.has_number && answer.number <= limits::kValueBytesMax;
  }
  return true;
}

}  // namespace

AnswerWriter::AnswerWriter(MutableBytes frame) : frame_(frame) {
  TP_CHECK(frame.size() >= limits::kFrameHeaderBytes);
  TP_CHECK(frame.size() <= limits::kFrameBytesMax);
}

bool AnswerWriter::Add(const Answer& answer) {
  std::byte* value = AddInPlace(answer, answer.value.size());
  if (value == nullptr) return false;
  if (!answer.value.empty()) std::memcpy(value, answer.value.data(), answer.value.size());
  return true;
}

std::byte* AnswerWriter::AddInPlace(const Answer& answer, std::size_t value_bytes) {
  const std::size_t fixed =
      limits::kAnswerHeaderBytes + (answer.has_version ? 8u : 0u) + (answer.has_number ? 8u : 0u);
  if (used_ + fixed + value_bytes > frame_.size()) return nullptr;
  AnswerHeader header{};
  header.index = answer.index;
  header.code = static_cast<std::uint8_t>(answer.code);
  header.flags = static_cast<std::uint8_t>(
      static_cast<unsigned>(answer.scope) | static_cast<unsigned>(answer.value_kind) << 2 |
      (answer.has_version ? kHasVersion : 0u) | (answer.has_number ? kHasNumber : 0u) |
      (answer.streamed ? kStreamed : 0u));
  header.value_bytes = static_cast<std::uint16_t>(value_bytes);
  std::byte* at = frame_.data() + used_;
  StoreUnaligned(at, header);
  at += sizeof header;
  if (answer.has_version) {
    StoreUnaligned(at, answer.version.value());
    at += 8;
  }
  if (answer.has_number) {
    StoreUnaligned(at, answer.number);
    at += 8;
  }
  used_ += fixed + value_bytes;
  ++entry_count_;
  return at;
}

std::size_t AnswerWriter::Finish(FrameHeader header) {
  header.type = FrameType::kAnswer;
  header.bytes = static_cast<std::uint32_t>(used_);
  header.operation_count = entry_count_;
  StoreHeader(frame_.data(), header);
  return used_;
}

Status AnswerReader::Open(Bytes frame) {
  left_ = 0;
  TP_RETURN_IF_ERROR(DecodeHeader(frame, &header_));
  if (header_.type != FrameType::kAnswer) return MalformedAnswer("type");
  // An entry takes at least its header, which bounds the count before anything is read.
  rest_ = frame.subspan(limits::kFrameHeaderBytes);
  if (header_.operation_count > rest_.size() / limits::kAnswerHeaderBytes) {
    return MalformedAnswer("more entries than fit");
  }
  left_ = header_.operation_count;
  if (left_ == 0 && !rest_.empty()) return MalformedAnswer("bytes behind the last entry");
  return OkStatus();
}

Status AnswerReader::Next(Answer* answer) {
  TP_CHECK(left_ > 0);
  --left_;
  if (rest_.size() < sizeof(AnswerHeader))
    return left_ = 0, MalformedAnswer("entry header cut off");
  const auto header = LoadUnaligned<AnswerHeader>(rest_.data());
  const unsigned scope = header.flags & 3u;
  const unsigned kind = (header.flags >> 2) & 3u;
  if (scope > static_cast<unsigned>(Answer::Scope::kGroup) ||
      kind > static_cast<unsigned>(ValueKind::kF64) || (header.flags & 0x80) != 0 ||
      header.code >= kStatusCodeCount || header.reserved != 0) {
    return left_ = 0, MalformedAnswer("entry flags");
  }
  answer->index = header.index;
  answer->scope = static_cast<Answer::Scope>(scope);
  answer->code = static_cast<StatusCode>(header.code);
  answer->value_kind = static_cast<ValueKind>(kind);
  answer->has_version = (header.flags & kHasVersion) != 0;
  answer->has_number = (header.flags & kHasNumber) != 0;
  answer->streamed = (header.flags & kStreamed) != 0;
  const std::size_t fixed =
      sizeof header + (answer->has_version ? 8u : 0u) + (answer->has_number ? 8u : 0u);
  if (rest_.size() < fixed + header.value_bytes) return left_ = 0, MalformedAnswer("entry cut off");
  const std::byte* at = rest_.data() + sizeof header;
  answer->version = Lsn();
  answer->number = 0;
  if (answer->has_version) {
    answer->version = Lsn(LoadUnaligned<std::uint64_t>(at));
    at += 8;
  }
  if (answer->has_number) answer->number = LoadUnaligned<std::uint64_t>(at), at += 8;
  answer->value = Bytes(at, header.value_bytes);
  if (!FieldsFit(*answer, answer->value.size())) return left_ = 0, MalformedAnswer("entry fields");
  rest_ = rest_.subspan(fixed + header.value_bytes);
  if (left_ == 0 && !rest_.empty()) return MalformedAnswer("bytes behind the last entry");
  return OkStatus();
}

}  // namespace tidepool::wire
