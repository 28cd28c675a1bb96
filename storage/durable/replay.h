// Reads back the records of a durable stream from a segment, or from a commit of the ring.
//
//   recovery, log_check -> [replay] -> bytes of a segment
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "proto/base/bytes.h"
#include "storage/layout.h"

namespace tidepool::storage {

// A segment as it was read.
struct SegmentImage {
  Bytes bytes;
  std::uint64_t number = 0;
  // End of the records if a checkpoint limits them; 0: the end record ends them.
  std::uint32_t end = 0;
};

// Distinguishes the keys of a partition, and leases from their items: 96 bits of two hashes, the
// first of which is KeyHash. Among 10^9 keys two are equal once in 10^11.
struct KeyIdentity {
  std::uint64_t hash = 0;
  std::uint32_t second = 0;
  friend bool operator==(const KeyIdentity&, const KeyIdentity&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const KeyIdentity& identity) {
    return H::combine(std::move(state), identity.hash ^ identity.second);
  }
};
KeyIdentity IdentityOf(Bytes key, RecordType type);

struct ReplayedRecord {
  RecordHeader header;
  KeyIdentity identity;  // Identity of its key, if it has a key.
  Bytes key;
  Bytes value;  // Stored part of the value; for a large value links and the remainder.
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
  std::uint32_t link_bytes = 0;     // Size of the links at the beginning of `value`.
  std::uint32_t payload_bytes = 0;  // Size of the key and of the whole value.
  std::uint64_t expiry_ms = 0;
};

// Returns the size of a record with this header, whatever its content; 0: not a record.
// `segment_bytes`: segment size of large values; 0: no large values, as in a commit.
std::uint64_t ReplayedBytes(const RecordHeader& header, std::uint64_t segment_bytes);

// Calls `visit` for each record but padding, in order, and returns the end of the records. Accepts
// any bytes. 0: the header is not that of `number`, a record is damaged or of a type that this
// version does not write here, or the end is missing. The records before were visited.
std::uint32_t ReplaySegment(const SegmentImage& image,
                            absl::FunctionRef<void(const ReplayedRecord&)> visit);

// Returns the record at `offset`; nullopt: it is damaged, or no record is there.
std::optional<ReplayedRecord> ReplayRecord(const SegmentImage& image, std::uint32_t offset);

// Calls `visit` for each record of a commit whose checksum was found right. False: the content is
// not all records. Accepts any bytes aligned to 8.
bool ReplayCommit(Bytes records, absl::FunctionRef<void(const ReplayedRecord&)> visit);

}  // namespace tidepool::storage
