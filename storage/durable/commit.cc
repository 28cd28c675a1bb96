#include "storage/durable/commit.h"

#include <cstring>

#include "proto/base/check.h"
#include "storage/nvm/crc32c.h"

namespace tidepool::storage {
namespace {

constexpr char kCommitMagic[8] = {'T', 'I', 'D', 'E', 'C', 'O', 'M', '\n'};

std::uint32_t ChecksumOf(CommitHeader header, Bytes records) {
  header.crc32c = 0;
  return Crc32c(records, Crc32c(std::as_bytes(std::span(&header, 1))));
}

}  // namespace

std::uint32_t SealCommit(MutableBytes commit, const Uuid& volume, std::uint32_t core,
                         std::uint64_t incarnation, std::uint64_t number,
                         std::uint32_t previous_crc32c) {
  TP_CHECK(commit.size() > sizeof(CommitHeader));
  CommitHeader header{};
  std::memcpy(header.magic, kCommitMagic, sizeof kCommitMagic);
  header.previous_crc32c = previous_crc32c;
  header.volume = volume;
  header.incarnation = incarnation;
  header.number = number;
  header.records_bytes = static_cast<std::uint32_t>(commit.size() - sizeof header);
  header.core = core;
  header.crc32c = ChecksumOf(header, commit.subspan(sizeof header));
  std::memcpy(commit.data(), &header, sizeof header);
  return header.crc32c;
}

Result<Commit> ReadCommit(Bytes ring) {
  Commit commit;
  if (ring.size() < sizeof commit.header ||
      std::memcmp(ring.data(), kCommitMagic, sizeof kCommitMagic) != 0) {
    return Status(StatusCode::kNotFound, "no commit begins here");
  }
  std::memcpy(&commit.header, ring.data(), sizeof commit.header);
  const Status damaged(StatusCode::kDataLoss, "a commit is torn or damaged");
  const Bytes rest = ring.subspan(sizeof commit.header);
  if (commit.header.records_bytes > rest.size() || commit.header.reserved != 0) return damaged;
  commit.records = rest.first(commit.header.records_bytes);
  if (commit.header.crc32c != ChecksumOf(commit.header, commit.records)) return damaged;
  return commit;
}

}  // namespace tidepool::storage
