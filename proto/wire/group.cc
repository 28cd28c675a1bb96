#include "proto/wire/group.h"

#include <string>

#include "proto/base/check.h"

namespace tidepool::wire {
namespace {

// 16 bytes: {partition:4, term:4, bytes of the operations:4, operations:2, flags:1, reserved:1}.
struct GroupHeader {
  std::uint32_t partition;
  std::uint32_t term;
  std::uint32_t bytes;
  std::uint16_t operation_count;
  std::uint8_t flags;
  std::uint8_t reserved;
};
static_assert(sizeof(GroupHeader) == limits::kGroupHeaderBytes);
constexpr std::uint8_t kGroupAtomic = 1;
constexpr std::uint8_t kGroupQuiet = 2;
constexpr std::uint8_t kGroupUniform = 4;
constexpr std::uint8_t kGroupForwarded = 8;

static_assert(limits::kFrameBytesMax <= 0xffff);
static_assert(limits::kFrameOperationsMax <= 0xffff);

Status MalformedGroup(const char* what) {
  return Status(StatusCode::kInvalidArgument, std::string("malformed request frame: ") + what);
}

// Checks an operation's header alone: whether opcode, arguments and sizes fit each other.
Status CheckHeader(const OperationHeader& header) {
  const OpcodeInfo* info = FindOpcode(header.opcode);
  if (info == nullptr) return MalformedGroup("unknown opcode");
  if ((header.flags & 0xf0) != 0 || header.reserved != 0)
    return MalformedGroup("reserved bits set");
  if ((header.flags >> 2) > static_cast<int>(ValueKind::kF64)) return MalformedGroup("value kind");
  if ((header.arguments & info->required) != info->required ||
      (header.arguments & ~(info->required | info->optional)) != 0) {
    return MalformedGroup("arguments do not fit the opcode");
  }
  if (header.key_bytes > limits::kKeyBytesMax) return MalformedGroup("key too long");
  if (!info->keyed && !info->ranged && header.key_bytes != 0) {
    return MalformedGroup("key of an operation without one");
  }
  if (info->ranged && header.value_bytes > limits::kKeyBytesMax) {
    return MalformedGroup("end of a range too long");
  }
  if (!info->takes_value && header.value_bytes != 0) return MalformedGroup("value not expected");
  const auto has = [&](Argument argument) { return (header.arguments & MaskOf(argument)) != 0; };
  if (static_cast<PutCondition>(header.flags & 3) == PutCondition::kIfVersion &&
      !has(Argument::kVersion)) {
    return MalformedGroup("if-version without a version");
  }
  if (has(Argument::kUpload) && header.value_bytes != 0) {
    return MalformedGroup("a streamed value that is also inline");
  }
  return OkStatus();
}

// Fills `operation` from its checked header and from `at`, where its arguments begin.
void ReadOperation(const OperationHeader& header, const std::byte* at, Operation* operation) {
  operation->opcode = static_cast<Opcode>(header.opcode);
  operation->condition = static_cast<PutCondition>(header.flags & 3);
  operation->value_kind = static_cast<ValueKind>(header.flags >> 2);
  operation->arguments = header.arguments;
  for (unsigned mask = header.arguments; mask != 0; mask &= mask - 1) {
    operation->words[static_cast<std::size_t>(__builtin_ctz(mask))] =
        LoadUnaligned<std::uint64_t>(at);
    at += 8;
  }
  operation->key = Bytes(at, header.key_bytes);
  operation->value = Bytes(at + header.key_bytes, header.value_bytes);
}

}  // namespace

Status DecodeOperation(Bytes* rest, Operation* operation) {
  if (rest->size() < sizeof(OperationHeader)) return MalformedGroup("operation header cut off");
  const auto header = LoadUnaligned<OperationHeader>(rest->data());
  TP_RETURN_IF_ERROR(CheckHeader(header));
  const std::size_t bytes = header.bytes();
  if (rest->size() < bytes) return MalformedGroup("operation cut off");
  ReadOperation(header, rest->data() + sizeof header, operation);
  if (operation->has(Argument::kExpectedBytes) &&
      operation->get(Argument::kExpectedBytes) > operation->value.size()) {
    return MalformedGroup("expected value longer than the value");
  }
  *rest = rest->subspan(bytes);
  return OkStatus();
}

namespace {

// Checks an operation of a quiet group: a change of a single key that neither waits nor comes in
// parts. kLength stands for an operation that was given up before its frame was sent again.
Status CheckQuiet(const OperationHeader& header, std::uint8_t flags) {
  if ((flags & kGroupForwarded) != 0 && __builtin_popcount(header.arguments) > 1) {
    return MalformedGroup("arguments that a forwarded group cannot have");
  }
  if (static_cast<Opcode>(header.opcode) == Opcode::kLength) return OkStatus();
  const OpcodeInfo& info = InfoOf(static_cast<Opcode>(header.opcode));
  constexpr std::uint8_t kNotQuiet =
      MaskOf(Argument::kUpload) | MaskOf(Argument::kWaitMs) | MaskOf(Argument::kExpectedBytes);
  const bool chain = static_cast<Opcode>(header.opcode) == Opcode::kChain;
  if (!info.mutates || !info.keyed || chain || (header.arguments & kNotQuiet) != 0) {
    return MalformedGroup("not an operation of a quiet group");
  }
  return OkStatus();
}

Status DecodeUniform(Bytes body, std::uint32_t count, std::uint8_t flags, Request* request) {
  if (body.size() < sizeof(OperationHeader)) return MalformedGroup("operation header cut off");
  const auto header = LoadUnaligned<OperationHeader>(body.data());
  TP_RETURN_IF_ERROR(CheckHeader(header));
  if ((flags & kGroupQuiet) != 0) TP_RETURN_IF_ERROR(CheckQuiet(header, flags));
  if ((header.arguments & MaskOf(Argument::kExpectedBytes)) != 0) {
    return MalformedGroup("argument that a uniform group cannot share");
  }
  const std::size_t stride = header.bytes() - sizeof header;
  const std::byte* at = body.data() + sizeof header;
  if (body.size() - sizeof header != stride * count)
    return MalformedGroup("bytes of a uniform group");
  for (std::uint32_t i = 0; i < count; ++i, at += stride) {
    ReadOperation(header, at, &request->operations.emplace_back());
  }
  return OkStatus();
}

Status DecodeOperations(Bytes body, std::uint32_t count, std::uint8_t flags, Request* request) {
  const bool quiet = (flags & kGroupQuiet) != 0;
  if ((flags & kGroupUniform) != 0) return DecodeUniform(body, count, flags, request);
  for (std::uint32_t i = 0; i < count; ++i) {
    const Bytes at = body;
    TP_RETURN_IF_ERROR(DecodeOperation(&body, &request->operations.emplace_back()));
    if (quiet) {
      TP_RETURN_IF_ERROR(CheckQuiet(LoadUnaligned<OperationHeader>(at.data()), flags));
    }
  }
  return body.empty() ? OkStatus() : MalformedGroup("bytes behind a group's operations");
}

bool FlagsFit(std::uint8_t flags) {
  if ((flags & kGroupAtomic) != 0) return flags == kGroupAtomic;
  if ((flags & kGroupForwarded) != 0 && (flags & kGroupQuiet) == 0) return false;
  return (flags & ~(kGroupQuiet | kGroupUniform | kGroupForwarded)) == 0;
}

}  // namespace

Status DecodeRequest(Bytes frame, Request* request) {
  TP_RETURN_IF_ERROR(DecodeHeader(frame, &request->header));
  const FrameHeader& header = request->header;
  if (header.type != FrameType::kRequest) return MalformedGroup("type");
  if (header.operation_count > limits::kFrameOperationsMax)
    return MalformedGroup("too many operations");
  if (header.group_count > limits::kFrameGroupsMax) return MalformedGroup("too many groups");
  request->groups.clear();
  request->operations.clear();
  Bytes rest = frame.subspan(limits::kFrameHeaderBytes);
  for (std::uint32_t i = 0; i < header.group_count; ++i) {
    if (rest.size() < sizeof(GroupHeader)) return MalformedGroup("group header cut off");
    const auto group = LoadUnaligned<GroupHeader>(rest.data());
    rest = rest.subspan(sizeof group);
    if (group.bytes > rest.size()) return MalformedGroup("group cut off");
    if (group.term > limits::kTermMax) return MalformedGroup("term");
    if (!FlagsFit(group.flags) || group.reserved != 0) return MalformedGroup("group flags");
    if (group.operation_count == 0) return MalformedGroup("empty group");
    if (request->operations.size() + group.operation_count > header.operation_count) {
      return MalformedGroup("more operations than the header says");
    }
    request->groups.push_back({PartitionId(group.partition), Term(group.term),
                               (group.flags & kGroupAtomic) != 0, (group.flags & kGroupQuiet) != 0,
                               (group.flags & kGroupUniform) != 0,
                               (group.flags & kGroupForwarded) != 0,
                               static_cast<std::uint32_t>(request->operations.size()),
                               group.operation_count, rest.first(group.bytes)});
    TP_RETURN_IF_ERROR(
        DecodeOperations(rest.first(group.bytes), group.operation_count, group.flags, request));
    rest = rest.subspan(group.bytes);
  }
  if (!rest.empty()) return MalformedGroup("bytes behind the last group");
  if (request->operations.size() != header.operation_count) {
    return MalformedGroup("fewer operations than the header says");
  }
  return OkStatus();
}

OperationHeader HeaderOf(const Operation& operation) {
  OperationHeader header;
  header.opcode = static_cast<std::uint8_t>(operation.opcode);
  header.flags = static_cast<std::uint8_t>(static_cast<unsigned>(operation.condition) |
                                           static_cast<unsigned>(operation.value_kind) << 2);
  header.arguments = operation.arguments;
  header.key_bytes = static_cast<std::uint16_t>(operation.key.size());
  header.value_bytes = static_cast<std::uint16_t>(operation.value.size());
  return header;
}

void EncodeOperation(const Operation& operation, std::byte* to) {
  StoreUnaligned(to, HeaderOf(operation));
  to += sizeof(OperationHeader);
  for (unsigned mask = operation.arguments; mask != 0; mask &= mask - 1) {
    StoreUnaligned(to, operation.words[static_cast<std::size_t>(__builtin_ctz(mask))]);
    to += 8;
  }
  if (!operation.key.empty()) {
    std::memcpy(to, operation.key.data(), operation.key.size());
    to += operation.key.size();
  }
  if (!operation.value.empty()) std::memcpy(to, operation.value.data(), operation.value.size());
}

RequestWriter::RequestWriter(MutableBytes frame) : frame_(frame) {
  TP_CHECK(frame.size() >= limits::kFrameHeaderBytes);
  TP_CHECK(frame.size() <= limits::kFrameBytesMax);
}

void RequestWriter::CloseGroup() {
  if (group_at_ == 0) return;
  if (group_operations_ == 0) {
    used_ = group_at_;
    --group_count_;
  } else {
    auto header = LoadUnaligned<GroupHeader>(frame_.data() + group_at_);
    header.bytes = static_cast<std::uint32_t>(used_ - group_at_ - sizeof header);
    header.operation_count = static_cast<std::uint16_t>(group_operations_);
    StoreUnaligned(frame_.data() + group_at_, header);
  }
  group_at_ = 0;
  group_operations_ = 0;
}

bool RequestWriter::BeginGroup(PartitionId partition, Term term, bool atomic) {
  // A preceding empty group gives its place to this group. This is decided before any change: after
  // a refusal the caller may still add to its group.
  const bool replaces = group_at_ != 0 && group_operations_ == 0;
  if ((replaces ? group_at_ : used_) + sizeof(GroupHeader) > frame_.size()) return false;
  if (group_count_ - (replaces ? 1u : 0u) >= limits::kFrameGroupsMax) return false;
  CloseGroup();
  GroupHeader header{};
  header.partition = partition.value();
  header.term = term.value();
  header.flags = atomic ? kGroupAtomic : 0;
  group_at_ = used_;
  StoreUnaligned(frame_.data() + used_, header);
  used_ += sizeof header;
  ++group_count_;
  return true;
}

bool RequestWriter::Add(const Operation& operation) {
  TP_CHECK(group_at_ != 0);
  TP_DCHECK(operation.key.size() <= limits::kKeyBytesMax);
  if (used_ + operation.bytes() > frame_.size()) return false;
  if (operation_count_ >= limits::kFrameOperationsMax) return false;
  EncodeOperation(operation, frame_.data() + used_);
  used_ += operation.bytes();
  ++group_operations_;
  ++operation_count_;
  return true;
}

bool RequestWriter::AddEncodedGroup(PartitionId partition, Term term, bool quiet,
                                    std::uint32_t operation_count, bool uniform, Bytes body,
                                    bool forwarded) {
  CloseGroup();
  if (used_ + sizeof(GroupHeader) + body.size() > frame_.size() ||
      group_count_ >= limits::kFrameGroupsMax ||
      operation_count_ + operation_count > limits::kFrameOperationsMax) {
    return false;
  }
  GroupHeader header{};
  header.partition = partition.value();
  header.term = term.value();
  header.bytes = static_cast<std::uint32_t>(body.size());
  header.operation_count = static_cast<std::uint16_t>(operation_count);
  header.flags =
      static_cast<std::uint8_t>((quiet ? kGroupQuiet : 0) | (uniform ? kGroupUniform : 0) |
                                (forwarded ? kGroupForwarded : 0));
  StoreUnaligned(frame_.data() + used_, header);
  std::memcpy(frame_.data() + used_ + sizeof header, body.data(), body.size());
  used_ += sizeof header + body.size();
  ++group_count_;
  operation_count_ += operation_count;
  return true;
}

std::size_t RequestWriter::Finish(FrameHeader header) {
  CloseGroup();
  header.type = FrameType::kRequest;
  header.bytes = static_cast<std::uint32_t>(used_);
  header.operation_count = operation_count_;
  header.group_count = group_count_;
  StoreHeader(frame_.data(), header);
  return used_;
}

}  // namespace tidepool::wire
