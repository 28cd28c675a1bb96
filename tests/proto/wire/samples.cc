#include "tests/proto/wire/samples.h"

#include <algorithm>

namespace tidepool::wire::test {
namespace {

// Source of the keys and values of a frame: filled once, because random bytes cost more than all
// decoders.
Bytes Pool() {
  static const Frame pool = [] {
    Frame bytes(limits::kFrameBytesMax);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::byte>(i * 37 + i / 251);
    return bytes;
  }();
  return pool;
}

Bytes Slice(Random& random, Bytes pool, std::size_t bytes_max) {
  const std::size_t size = random.Size(std::min(bytes_max, pool.size()));
  return pool.subspan(random.Below(pool.size() - size + 1), size);
}

}  // namespace

FrameHeader RandomHeader(Random& random) {
  FrameHeader header;
  header.core = static_cast<std::uint16_t>(random.Word());
  header.connection = static_cast<std::uint32_t>(random.Word());
  header.session = random.Word();
  header.frame_id = random.Word();
  header.map_epoch = random.Word();
  header.ack_watermark = random.Word();
  header.time_left_us = static_cast<std::uint32_t>(random.Word());
  header.reply_bytes_max = static_cast<std::uint32_t>(random.Word());
  return header;
}

Operation RandomOperation(Random& random, Bytes pool) {
  Operation operation;
  operation.opcode = kOpcodes[random.Below(kOpcodes.size())].opcode;
  const OpcodeInfo& info = InfoOf(operation.opcode);
  const unsigned mask = info.required | (info.optional & static_cast<unsigned>(random.Word()));
  if (info.keyed || info.ranged) operation.key = Slice(random, pool, limits::kKeyBytesMax);
  const bool uploaded = (mask & MaskOf(Argument::kUpload)) != 0;
  if (info.takes_value && !uploaded) {
    operation.value =
        Slice(random, pool, info.ranged ? limits::kKeyBytesMax : limits::kUnstreamedValueBytesMax);
  }
  for (int i = 0; i < kArgumentCount; ++i) {
    const auto argument = static_cast<Argument>(i);
    if ((mask & MaskOf(argument)) == 0) continue;
    operation.set(argument, argument == Argument::kExpectedBytes
                                ? random.Below(operation.value.size() + 1)
                                : random.Word());
  }
  operation.condition = static_cast<PutCondition>(random.Below(4));
  if (operation.condition == PutCondition::kIfVersion && !operation.has(Argument::kVersion)) {
    operation.condition = PutCondition::kAlways;
  }
  operation.value_kind = static_cast<ValueKind>(random.Below(3));
  return operation;
}

Answer RandomAnswerEntry(Random& random, Bytes pool) {
  Answer answer;
  answer.index = static_cast<std::uint16_t>(random.Below(limits::kFrameOperationsMax));
  answer.scope = static_cast<Answer::Scope>(random.Below(3));
  answer.value_kind = static_cast<ValueKind>(random.Below(3));
  if (answer.scope == Answer::Scope::kRun) {
    answer.has_number = true;
    answer.number = 1 + random.Below(limits::kFrameOperationsMax - answer.index);
    return answer;
  }
  answer.code = static_cast<StatusCode>(random.Below(kStatusCodeCount));
  answer.has_version = random.OneIn(2);
  if (answer.has_version) answer.version = Lsn(random.Word());
  answer.streamed = random.OneIn(4);
  answer.has_number = answer.streamed || random.OneIn(2);
  if (answer.has_number) {
    answer.number = answer.streamed ? random.Below(limits::kValueBytesMax + 1) : random.Word();
  }
  if (!answer.streamed || random.OneIn(2))
    answer.value = Slice(random, pool, limits::kUnstreamedValueBytesMax);
  return answer;
}

ListedRecord RandomRecord(Random& random, Bytes pool) {
  ListedRecord record;
  record.key = Slice(random, pool, limits::kKeyBytesMax);
  record.value_omitted = random.OneIn(3);
  if (record.value_omitted) {
    record.value_bytes = static_cast<std::uint32_t>(random.Below(limits::kValueBytesMax + 1));
  } else {
    record.value = Slice(random, pool, limits::kUnstreamedValueBytesMax);
    record.value_bytes = static_cast<std::uint32_t>(record.value.size());
  }
  record.value_kind = static_cast<ValueKind>(random.Below(3));
  record.version = Lsn(random.Word());
  record.expiry_ms = random.Word();
  return record;
}

Frame RandomRequest(Random& random, std::size_t bytes_max) {
  Frame frame(bytes_max);
  RequestWriter writer(frame);
  const std::size_t groups = random.Size(16);
  for (std::size_t g = 0; g < groups; ++g) {
    const PartitionId partition(static_cast<std::uint32_t>(random.Word()));
    const Term term(static_cast<std::uint32_t>(random.Below(limits::kTermMax + 1)));
    if (!writer.BeginGroup(partition, term, random.OneIn(3))) break;
    const std::size_t operations = random.Size(64);
    for (std::size_t i = 0; i < operations; ++i) {
      if (!writer.Add(RandomOperation(random, Pool()))) break;
    }
  }
  frame.resize(writer.Finish(RandomHeader(random)));
  return frame;
}

Frame RandomAnswer(Random& random, std::size_t bytes_max) {
  Frame frame(bytes_max);
  AnswerWriter writer(frame);
  const std::size_t entries = random.Size(64);
  for (std::size_t i = 0; i < entries; ++i) {
    if (!writer.Add(RandomAnswerEntry(random, Pool()))) break;
  }
  frame.resize(writer.Finish(RandomHeader(random)));
  return frame;
}

Frame RandomStream(Random& random, std::size_t bytes_max) {
  FrameHeader header = RandomHeader(random);
  header.type = random.OneIn(3) ? FrameType::kStreamAck : FrameType::kStreamPart;
  StreamHeader stream;
  stream.stream = random.Word();
  stream.total_bytes = static_cast<std::uint32_t>(random.Below(limits::kValueBytesMax + 1));
  stream.offset = random.Below(std::uint64_t{stream.total_bytes} + 1);
  stream.code = static_cast<StatusCode>(random.Below(kStatusCodeCount));
  stream.upload = static_cast<std::uint8_t>(random.Below(2));
  Bytes data;
  const std::size_t overhead = limits::kFrameHeaderBytes + sizeof stream;
  if (header.type == FrameType::kStreamPart && bytes_max > overhead) {
    data = Slice(random, Pool(),
                 std::min({bytes_max - overhead, limits::kStreamPartBytesMax,
                           static_cast<std::size_t>(stream.total_bytes - stream.offset)}));
  }
  Frame frame(overhead + data.size());
  EncodeStream(header, stream, data, frame);
  return frame;
}

Frame RandomRecordList(Random& random, std::size_t bytes_max) {
  Frame list;
  const std::size_t records = random.Size(64);
  for (std::size_t i = 0; i < records; ++i) {
    const ListedRecord record = RandomRecord(random, Pool());
    const std::size_t at = list.size();
    if (at + record.bytes() > bytes_max) break;
    list.resize(at + record.bytes());
    AppendRecord(record, list.data() + at);
  }
  return list;
}

}  // namespace tidepool::wire::test
