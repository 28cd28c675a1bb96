// Reads back the records that a durable stream has left in one segment, or a commit in the ring.
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
  // Where its records end, if a checkpoint says so; 0: at the record that ends it.
  std::uint32_t end = 0;
};

// Tells the keys of a partition apart, and leases from the items that they are of: 96 bits of two
// hashes, of which the first is KeyHash. Of 10^9 keys two are the same once in 10^11.
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
  KeyIdentity identity;  // Of its key, if it has one.
  Bytes key;
  Bytes value;  // What the record stores of it; of a large one links, and the remainder.
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
  std::uint32_t link_bytes = 0;     // Of `value`, at its beginning.
  std::uint32_t payload_bytes = 0;  // Of the key, and of the whole value.
  std::uint64_t expiry_ms = 0;
};

// How long a record with this header is, whatever it has; 0: it cannot be one. `segment_bytes`: of
// the segments of large values; 0: it cannot be of such, as in a commit.
std::uint64_t ReplayedBytes(const RecordHeader& header, std::uint64_t segment_bytes);

// Calls `visit` for each record, padding left out, in their order, and returns where they end. 0:
// the header is not that of this number, one of them is damaged, of a type that this version does
// not write here, or the end is missing; those before it were visited. For any bytes.
std::uint32_t ReplaySegment(const SegmentImage& image,
                            absl::FunctionRef<void(const ReplayedRecord&)> visit);

// The record at `offset`. None: it is damaged, or there is none.
std::optional<ReplayedRecord> ReplayRecord(const SegmentImage& image, std::uint32_t offset);

// The same of the records of a commit, whose checksum has been found right. False: not all of it is
// records. For any bytes, which are aligned to 8.
bool ReplayCommit(Bytes records, absl::FunctionRef<void(const ReplayedRecord&)> visit);

}  // namespace tidepool::storage
