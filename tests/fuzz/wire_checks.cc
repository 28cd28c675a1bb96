#include "tests/fuzz/wire_checks.h"

#include <cstring>
#include <string>
#include <vector>

#include "proto/base/check.h"
#include "proto/wire/answer.h"
#include "proto/wire/chain.h"
#include "proto/wire/frame.h"
#include "proto/wire/group.h"
#include "proto/wire/ordered_ops.h"
#include "proto/wire/pack.h"
#include "proto/wire/process_group_ops.h"
#include "proto/wire/queue_ops.h"
#include "proto/wire/record_list.h"
#include "proto/wire/stream.h"

namespace tidepool::fuzz {
namespace {

// An empty view may point anywhere.
bool Inside(Bytes view, Bytes whole) {
  return view.empty() ||
         (view.data() >= whole.data() && view.data() + view.size() <= whole.data() + whole.size());
}

bool Same(Bytes a, Bytes b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

// Room for a frame of `bytes`, reused since an allocation of 60 KiB costs more than most decodings.
MutableBytes Room(std::size_t bytes) {
  static std::vector<std::byte> room(limits::kFrameBytesMax);
  TP_CHECK(bytes <= room.size());
  return MutableBytes(room).first(bytes);
}

// Returns the operations of a group in their form on the wire, in memory that is reused.
Bytes BodyOf(const wire::Request& request, const wire::Group& group) {
  static std::vector<std::byte> body;
  body.clear();
  for (std::uint32_t i = 0; i < group.operation_count; ++i) {
    const wire::Operation& operation = request.operations[group.first_operation + i];
    const std::size_t at = body.size();
    body.resize(at + operation.bytes());
    wire::EncodeOperation(operation, body.data() + at);
    // A header for the first of them only.
    if (group.uniform && i > 0) {
      const auto begin = body.begin() + static_cast<std::ptrdiff_t>(at);
      body.erase(begin, begin + sizeof(wire::OperationHeader));
    }
  }
  return body;
}

// Every failure of a decoder is the sender's.
bool Accepted(const Status& status) {
  TP_CHECK(status.ok() || status.code() == StatusCode::kInvalidArgument);
  return status.ok();
}

}  // namespace

bool CheckHeader(Bytes input) {
  wire::FrameHeader header;
  if (!Accepted(wire::DecodeHeader(input, &header))) return false;
  TP_CHECK(header.bytes == input.size());
  std::byte again[limits::kFrameHeaderBytes];
  wire::StoreHeader(again, header);
  TP_CHECK(Same(Bytes(again), input.first(sizeof again)));
  return true;
}

// Acts like an aggregator with a forwarded group: its operations join operations of other groups.
void CheckMerges(const wire::Group& group) {
  TP_CHECK(group.quiet);
  wire::Pack alone;
  alone.AddEncoded(group.body, group.uniform, group.operation_count);
  TP_CHECK(alone.count() == group.operation_count);
  wire::Pack behind;
  const Bytes key = AsBytes("another");
  wire::OperationHeader header;
  header.opcode = static_cast<std::uint8_t>(wire::Opcode::kDelete);
  header.key_bytes = static_cast<std::uint16_t>(key.size());
  behind.Add(header, 0, key, {});
  behind.AddEncoded(group.body, group.uniform, group.operation_count);
  TP_CHECK(behind.count() == group.operation_count + 1);
  for (std::uint32_t i = 0; i < group.operation_count; ++i) {
    TP_CHECK(Same(wire::KeyInPack(alone.bytes(), alone.uniform(), i),
                  wire::KeyInPack(behind.bytes(), behind.uniform(), i + 1)));
  }
}

bool CheckRequest(Bytes input) {
  static wire::Request request;  // Reused, like in the dispatcher: old content must not matter.
  if (!Accepted(wire::DecodeRequest(input, &request))) return false;
  TP_CHECK(request.operations.size() <= limits::kFrameOperationsMax);
  wire::RequestWriter writer(Room(input.size()));
  std::size_t next_operation = 0;
  for (const wire::Group& group : request.groups) {
    TP_CHECK(group.first_operation == next_operation);
    TP_CHECK(group.operation_count > 0);
    TP_CHECK(group.operation_count <= request.operations.size() - next_operation);
    if (group.quiet || group.uniform) {
      TP_CHECK(!group.atomic);
      TP_CHECK(writer.AddEncodedGroup(group.partition, group.term, group.quiet,
                                      group.operation_count, group.uniform, BodyOf(request, group),
                                      group.forwarded));
      TP_CHECK(Inside(group.body, input) && Same(group.body, BodyOf(request, group)));
      if (group.forwarded) CheckMerges(group);
      next_operation += group.operation_count;
      continue;
    }
    TP_CHECK(writer.BeginGroup(group.partition, group.term, group.atomic));
    for (std::uint32_t i = 0; i < group.operation_count; ++i) {
      const wire::Operation& operation = request.operations[next_operation++];
      TP_CHECK(Inside(operation.key, input) && Inside(operation.value, input));
      TP_CHECK(writer.Add(operation));
    }
  }
  TP_CHECK(next_operation == request.operations.size());
  TP_CHECK(writer.Finish(request.header) == input.size());
  TP_CHECK(Same(Room(input.size()), input));
  return true;
}

bool CheckAnswers(Bytes input) {
  wire::AnswerReader reader;
  if (!Accepted(reader.Open(input))) return false;
  wire::AnswerWriter writer(Room(input.size()));
  while (!reader.Done()) {
    wire::Answer answer;
    if (!Accepted(reader.Next(&answer))) {
      TP_CHECK(reader.Done());
      return false;
    }
    TP_CHECK(Inside(answer.value, input));
    TP_CHECK(answer.index < limits::kFrameOperationsMax);
    TP_CHECK(writer.Add(answer));
  }
  TP_CHECK(writer.Finish(reader.header()) == input.size());
  // Bodies only: an answer's header has fields that the reader passes over and the writer clears.
  TP_CHECK(Same(Room(input.size()).subspan(limits::kFrameHeaderBytes),
                input.subspan(limits::kFrameHeaderBytes)));
  return true;
}

bool CheckStream(Bytes input) {
  wire::StreamFrame frame;
  if (!Accepted(wire::DecodeStream(input, &frame))) return false;
  TP_CHECK(Inside(frame.data, input));
  TP_CHECK(frame.stream.offset + frame.data.size() <= frame.stream.total_bytes);
  if (frame.data.size() > limits::kStreamPartBytesMax) return true;  // Longer than we would send.
  TP_CHECK(wire::EncodeStream(frame.header, frame.stream, frame.data, Room(input.size())) ==
           input.size());
  TP_CHECK(Same(Room(input.size()), input));
  return true;
}

bool CheckRecords(Bytes input) {
  static std::vector<std::byte> again;
  Bytes rest = input;
  while (!rest.empty()) {
    const Bytes before = rest;
    wire::ListedRecord record;
    if (!Accepted(wire::TakeRecord(&rest, &record))) {
      TP_CHECK(Same(rest, before));
      return false;
    }
    TP_CHECK(Inside(record.key, before) && Inside(record.value, before));
    TP_CHECK(rest.size() + record.bytes() == before.size());
    again.resize(record.bytes());
    TP_CHECK(wire::AppendRecord(record, again.data()) == again.data() + again.size());
    TP_CHECK(Same(again, before.first(again.size())));
  }
  return true;
}

bool CheckRangeRest(Bytes input) {
  const auto rest = wire::LoadRangeRest(input);
  if (!Accepted(rest.status())) return false;
  TP_CHECK(Inside(rest->key, input) && rest->bytes() == input.size());
  std::byte again[wire::kRangeRestBytesMax];
  TP_CHECK(wire::StoreRangeRest(*rest, again) == again + input.size());
  TP_CHECK(Same(Bytes(again, input.size()), input));
  return true;
}

bool CheckPushedItems(Bytes input) {
  for (Bytes rest = input; !rest.empty();) {
    const Bytes before = rest;
    wire::PushedItem item;
    if (!Accepted(wire::TakePushedItem(&rest, &item))) {
      TP_CHECK(Same(rest, before));
      return false;
    }
    TP_CHECK(Inside(item.value, before));
    const MutableBytes again = Room(before.size() - rest.size());
    TP_CHECK(wire::AppendPushedItem(item, again.data()) == again.data() + again.size());
    TP_CHECK(Same(again, before.first(again.size())));
  }
  return true;
}

bool CheckDeliveredItems(Bytes input) {
  for (Bytes rest = input; !rest.empty();) {
    const Bytes before = rest;
    wire::DeliveredItem item;
    if (!Accepted(wire::TakeDeliveredItem(&rest, &item))) {
      TP_CHECK(Same(rest, before));
      return false;
    }
    TP_CHECK(Inside(item.value, before));
    TP_CHECK(rest.size() + item.bytes() == before.size());
    const MutableBytes again = Room(item.bytes());
    TP_CHECK(wire::AppendDeliveredItem(item, again.data()) == again.data() + again.size());
    TP_CHECK(Same(again, before.first(again.size())));
  }
  return true;
}

bool CheckChain(Bytes input) {
  static std::vector<wire::ChainStep> steps;
  if (!Accepted(wire::DecodeChain(input, &steps))) return false;
  TP_CHECK(!steps.empty() && steps.size() <= wire::kChainStepsMax);
  static std::string again;
  again.clear();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const wire::ChainStep& step = steps[i];
    TP_CHECK(wire::MayBeStep(step.operation.opcode));
    TP_CHECK(step.tested == wire::kNoStep || step.tested < i);
    TP_CHECK(step.fed_by == wire::kNoStep || step.fed_by < i);
    TP_CHECK(Inside(step.expected, input) && Inside(step.operation.key, input) &&
             Inside(step.operation.value, input));
    wire::EncodeChainStep(step, &again);
  }
  TP_CHECK(Same(AsBytes(again), input));
  return true;
}

bool CheckChainOutcomes(Bytes input) {
  const auto outcomes = wire::DecodeChainOutcomes(input);
  if (!Accepted(outcomes.status())) return false;
  std::size_t bytes = 0;
  for (const wire::ChainOutcome& outcome : *outcomes) {
    TP_CHECK(Inside(outcome.value, input));
    bytes += wire::kChainOutcomeBytes + outcome.value.size();
  }
  TP_CHECK(bytes == input.size());
  return true;
}

bool CheckProcessGroup(Bytes input) {
  if (input.empty()) return false;
  const Bytes body = input.subspan(1);
  switch (static_cast<unsigned>(input[0]) % 3) {
    case 0: {
      const auto join = wire::LoadJoin(body);
      if (!Accepted(join.status())) return false;
      TP_CHECK(join->size <= wire::kProcessGroupSizeMax && Inside(AsBytes(join->label), body));
      std::byte again[wire::kJoinHeaderBytes];
      wire::StoreJoinHeader(*join, again);
      TP_CHECK(Same(Bytes(again), body.first(sizeof again)));
      return true;
    }
    case 1: {
      const auto meet = wire::LoadMeet(body);
      if (!Accepted(meet.status())) return false;
      TP_CHECK(Inside(meet->contribution, body));
      TP_CHECK(!wire::Describe(meet->call).empty());
      return true;
    }
    default:
      return Accepted(wire::LoadLeave(body).status());
  }
}

}  // namespace tidepool::fuzz
