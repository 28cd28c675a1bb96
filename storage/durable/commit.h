// Format of a commit in the ring of `sync`: a header and log records, padded to whole blocks.
//
//   commit_ring writes it, recovery reads it -> [commit] -> bytes
#pragma once

#include <cstddef>
#include <cstdint>

#include "proto/base/bytes.h"
#include "proto/base/result.h"
#include "storage/layout.h"
#include "storage/nvm/superblock.h"

namespace tidepool::storage {

struct CommitHeader {
  char magic[8];
  std::uint32_t crc32c;  // Over the header, with zeros here, and the records.
  std::uint32_t previous_crc32c;
  Uuid volume;
  std::uint64_t incarnation;
  std::uint64_t number;         // Number of the commit before plus 1.
  std::uint32_t records_bytes;  // Bytes of the records behind the header.
  std::uint32_t core;
  std::uint64_t reserved;  // 0
};
static_assert(sizeof(CommitHeader) == 64);

// `commit`: room for a header, then the records. Fills in the header; returns its checksum.
std::uint32_t SealCommit(MutableBytes commit, const Uuid& volume, std::uint32_t core,
                         std::uint64_t incarnation, std::uint64_t number,
                         std::uint32_t previous_crc32c);

// Reads the commit at the beginning of `ring`: any bytes, aligned to 8. Errors: kNotFound (no
// commit there), kDataLoss (torn or damaged).
struct Commit {
  CommitHeader header;
  Bytes records;
};
Result<Commit> ReadCommit(Bytes ring);

// Stores the position where a record of a segment has its checksum and sequence.
inline void SetCommitPosition(std::byte* record, std::uint64_t position) {
  StoreUnaligned(record, position);
}
inline std::uint64_t CommitPosition(const RecordHeader& record) {
  return record.crc32c | std::uint64_t{record.sequence} << 32;
}

}  // namespace tidepool::storage
