// Body of an answer frame: entries that name operations of a request by their index.
//
// A request may be answered in pieces, in any order, so a slow operation does not delay other
// answers. Each operation is answered exactly once per sending of its frame.
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
  // empty, or has what the operation's answer adds (queue_ops.h: the item).
  bool streamed = false;
  Lsn version;
  // FetchX: the value before, as i64 or f64 bits. Append: bytes of the value. Ttl: ms left; all
  // bits set: for ever. Length: records. Iterate: next cursor, 0 at the end. Ranges, filters and
  // queues: see ordered_ops.h, bloom_ops.h, queue_ops.h. kRun: count. A refusal with kWrongEpoch:
  // the epoch of the owner's map. Streamed: bytes.
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

  // Returns false if it does not fit (no change).
  bool Add(const Answer& answer);
  // Writes the header of an answer and returns the memory for its value of `value_bytes`, which the
  // caller then fills without a copy. Null if the answer does not fit (no change).
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

// Reads the entries of an answer frame in sequence.
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
