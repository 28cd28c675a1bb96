#include "tests/fuzz/nvm_checks.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "proto/base/check.h"
#include "storage/durable/checkpoint.h"
#include "storage/durable/commit.h"
#include "storage/durable/footer.h"
#include "storage/durable/replay.h"
#include "storage/nvm/catalog.h"
#include "storage/nvm/crc32c.h"
#include "storage/nvm/record_check.h"
#include "storage/nvm/superblock.h"

namespace tidepool::fuzz {
namespace {

constexpr std::size_t kCrcAt = 12;

bool Same(Bytes a, Bytes b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

}  // namespace

bool CheckRawSuperblock(Bytes input) {
  const auto decoded = storage::DecodeSuperblock(input);
  if (!decoded.ok()) {
    TP_CHECK(decoded.code() == StatusCode::kNotFound || decoded.code() == StatusCode::kDataLoss ||
             decoded.code() == StatusCode::kFailedPrecondition);
    return false;
  }
  TP_CHECK(storage::IsSound(decoded->layout));
  std::array<std::byte, storage::kDeviceBlockBytes> again;
  storage::EncodeSuperblock(*decoded, again);
  TP_CHECK(Same(again, input));
  return true;
}

bool CheckSuperblock(Bytes input) {
  std::array<std::byte, storage::kDeviceBlockBytes> block{};
  std::memcpy(block.data(), input.data(), std::min(input.size(), block.size()));
  StoreUnaligned(block.data() + kCrcAt, std::uint32_t{0});
  StoreUnaligned(block.data() + kCrcAt, storage::Crc32c(block));
  return CheckRawSuperblock(block);
}

bool CheckCatalog(Bytes input) {
  const auto decoded = storage::DecodeCatalog(input);
  if (!decoded.ok()) {
    TP_CHECK(decoded.code() == StatusCode::kDataLoss);
    return false;
  }
  TP_CHECK(Same(storage::EncodeCatalog(*decoded), input));
  return true;
}

bool CheckMark(Bytes input) {
  std::array<std::byte, storage::kDeviceBlockBytes> block{};
  std::memcpy(block.data(), input.data(), std::min(input.size(), block.size()));
  StoreUnaligned(block.data() + kCrcAt, std::uint32_t{0});
  StoreUnaligned(block.data() + kCrcAt, storage::Crc32c(block));
  const auto decoded = storage::DecodeCheckpoint(block);
  if (!decoded.ok()) {
    TP_CHECK(decoded.code() == StatusCode::kDataLoss);
    return false;
  }
  for (const auto& open : decoded->open) TP_CHECK(open.end % storage::kDeviceBlockBytes == 0);
  return true;
}

bool CheckCommit(Bytes input) {
  // Aligned like device reads, and not a byte longer, so that the sanitizer sees overruns.
  std::vector<std::uint64_t> words((sizeof(storage::CommitHeader) + input.size() + 7) / 8);
  const MutableBytes all = std::as_writable_bytes(std::span(words));
  if (!input.empty()) {
    std::memcpy(all.data() + sizeof(storage::CommitHeader), input.data(), input.size());
  }
  const std::size_t bytes = sizeof(storage::CommitHeader) + input.size();
  if (input.empty()) return false;
  (void)storage::SealCommit(all.first(bytes), {}, 1, 2, 3, 4);
  const auto commit = storage::ReadCommit(all);
  TP_CHECK(commit.ok());
  TP_CHECK(commit->records.size() == input.size());
  std::size_t sum = 0;
  const bool sound = storage::ReplayCommit(commit->records, [&](const storage::ReplayedRecord& r) {
    TP_CHECK(r.offset == sum);
    TP_CHECK(r.key.size() + r.value.size() + sizeof r.header <= r.bytes);
    sum += r.bytes;
  });
  TP_CHECK(!sound || sum == input.size());
  return sound;
}

bool CheckSegment(Bytes input) {
  constexpr std::uint64_t kNumber = 7;
  constexpr std::size_t kHeader = sizeof(storage::SegmentHeader);
  std::vector<std::uint64_t> words((kHeader + input.size() + 7) / 8);
  const MutableBytes all = std::as_writable_bytes(std::span(words));
  if (!input.empty()) std::memcpy(all.data() + kHeader, input.data(), input.size());
  auto* segment = reinterpret_cast<storage::SegmentHeader*>(all.data());
  segment->number = kNumber;
  segment->crc32c = storage::SegmentChecksum(*segment);
  for (std::size_t at = kHeader; at + sizeof(storage::RecordHeader) <= all.size();) {
    auto* record = reinterpret_cast<storage::RecordHeader*>(all.data() + at);
    const std::uint64_t bytes = storage::ReplayedBytes(*record, all.size());
    if (bytes == 0 || bytes > all.size() - at) break;
    record->crc32c = storage::RecordChecksum(*record, bytes, kNumber);
    if (record->type == storage::RecordType::kEnd) break;
    at += bytes;
  }
  const std::uint32_t end =
      storage::ReplaySegment({all, kNumber, 0}, [&](const storage::ReplayedRecord& r) {
        TP_CHECK(r.offset + r.bytes <= all.size());
        TP_CHECK(r.key.size() + r.value.size() + sizeof r.header <= r.bytes);
      });
  if (end == 0) return false;
  TP_CHECK(end <= all.size());
  return true;
}

bool CheckFooter(Bytes input) {
  constexpr std::uint64_t kNumber = 7;
  if (input.size() < sizeof(storage::FooterTrailer)) return false;
  std::vector<std::byte> tail(input.begin(), input.end());
  std::byte* const trailer = tail.data() + tail.size() - sizeof(storage::FooterTrailer);
  StoreUnaligned(trailer + offsetof(storage::FooterTrailer, number), kNumber);
  const std::uint64_t bytes = storage::FooterBytes(tail, kNumber);
  if (bytes != 0 && bytes <= tail.size()) {
    StoreUnaligned(trailer + offsetof(storage::FooterTrailer, crc32c),
                   storage::FooterChecksum(Bytes(tail).last(bytes), kNumber));
  }
  const auto footer = storage::Footer::Open(tail, kNumber);
  if (!footer.has_value()) return false;
  TP_CHECK(footer->used() != 0);
  std::uint32_t entries = 0;
  storage::Footer::Cursor cursor(*footer);
  for (storage::ReplayedRecord record; cursor.Next(&record); ++entries) {
    TP_CHECK(record.offset < footer->used() && record.key.size() <= record.payload_bytes);
    TP_CHECK(record.value.empty() || record.value.size() == sizeof(storage::LeaseNote));
    // Whatever the rest of the segment has.
    (void)storage::Footer::Complete(record, {tail, kNumber});
  }
  TP_CHECK(entries == footer->entries());
  TP_CHECK(bytes >= sizeof(storage::FooterTrailer) + entries * sizeof(storage::FooterEntry));
  return true;
}

}  // namespace tidepool::fuzz
