// The body of an answer frame: entries that name operations of one request by their index.
//
// A request may be answered in pieces, in any order, so that one slow operation holds back nobody's
// answer; each operation is answered exactly once per sending of its frame.
//
//   daemon/core/dispatcher --AnswerWriter--> frame --AnswerReader--> client/link/core_link_answers
#pragma once

#include <cstdint>

#include "proto/base/bytes.h"
#include "proto/base/ids.h"
#include "proto/base/limits.h"
#include "proto/base/status.h"
#include "proto/wire/frame.h"
#include "proto/wire/group.h"

namespace tidepool::wire {

struct Answer {
  enum class Scope : std::uint8_t {
    kOperation = 0,  // `index` is an operation of the frame.
    kRun = 1,        // Operations index .. index + count - 1 all succeeded with nothing to return.
    kGroup = 2,      // `index` is a group of the frame; all its operations end with `code`.
  };

  std::uint16_t index = 0;
  Scope scope = Scope::kOperation;
  StatusCode code = StatusCode::kOk;
  ValueKind value_kind = ValueKind::kBytes;
  bool has_version = false;
  bool has_number = false;
  // The value stays at the daemon and follows as stream parts; `number` is its size. `value` is
  // empty, or says what the operation's kind of answer says of it (queue_ops.h: which item).
  bool streamed = false;
  Lsn version;
  // FetchX: the value before, as i64 or f64 bits. Append: bytes of the value. Ttl: ms left, all
  // ones for ever. Length: records. Iterate: next cursor, 0 at the end. Of ranges, filters and
  // queues: see ordered_ops.h, bloom_ops.h, queue_ops.h. kRun: count. A refusal with
  // kWrongEpoch: the epoch of the owner's map. Streamed: bytes.
  std::uint64_t number = 0;
  // The value; or, for a code other than kOk and kNotFound, a text for people; or Iterate's records
  // (record_list.h). A view of the frame.
  Bytes value;

  std::size_t bytes() const {
    return limits::kAnswerHeaderBytes + (has_version ? 8u : 0u) + (has_number ? 8u : 0u) +
           value.size();
  }
};

// Writes an answer frame into memory of its caller.
class AnswerWriter {
 public:
  // `frame` holds at most kFrameBytesMax bytes and outlives the writer.
  explicit AnswerWriter(MutableBytes frame);

  // False if it does not fit (nothing changed).
  bool Add(const Answer& answer);
  // Writes the header of an answer whose value of `value_bytes` the caller then writes to the
  // returned memory, to spare a copy. Null if it does not fit (nothing changed).
  std::byte* AddInPlace(const Answer& answer, std::size_t value_bytes);
  // Takes `header` over with type, counts and bytes filled in. Returns the frame's bytes.
  std::size_t Finish(FrameHeader header);

  std::uint32_t entry_count() const { return entry_count_; }
  std::size_t bytes() const { return used_; }
  std::size_t room() const { return frame_.size() - used_; }

 private:
  MutableBytes frame_;
  std::size_t used_ = limits::kFrameHeaderBytes;
  std::uint32_t entry_count_ = 0;
};

// Reads the entries of an answer frame one by one.
class AnswerReader {
 public:
  // Decodes the header. Returns: kOk, kInvalidArgument.
  Status Open(Bytes frame);
  const FrameHeader& header() const { return header_; }
  bool Done() const { return left_ == 0; }
  // Decodes the next entry. Returns: kOk, kInvalidArgument (the rest of the frame is unusable).
  Status Next(Answer* answer);

 private:
  FrameHeader header_;
  Bytes rest_;
  std::uint32_t left_ = 0;
};

}  // namespace tidepool::wire
