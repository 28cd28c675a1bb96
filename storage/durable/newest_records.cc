#include "storage/durable/newest_records.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "proto/base/check.h"

namespace tidepool::storage {
namespace {

constexpr std::size_t kKeptBytes = 1 << 20;
// A chunk has room for as many records as there are already, at most a huge page: few records take
// little memory.
constexpr std::size_t kChunkRecordsMin = 1024;
constexpr std::size_t kChunkBytesMax = kHugePageBytes;
// Records of a class: 80 KB, which a second-level cache holds together with their table.
constexpr std::size_t kClassRecords = 2048;
// Number of records to add, at least, before Settle runs: 40 MB.
constexpr std::size_t kUnsettledMin = 1024 * 1024;
constexpr std::uint32_t kFree = ~std::uint32_t{0};

}  // namespace

const std::byte* NewestRecords::Keep(Bytes bytes, Bytes more) {
  const std::size_t all = bytes.size() + more.size();
  if (kept_.empty() || kept_left_ < all) {
    kept_left_ = std::max(kKeptBytes, all);
    kept_.push_back(std::make_unique_for_overwrite<std::byte[]>(kept_left_));
    kept_end_ = kept_.back().get() + kept_left_;
  }
  std::byte* const at = kept_end_ - kept_left_;
  if (!bytes.empty()) std::memcpy(at, bytes.data(), bytes.size());
  if (!more.empty()) std::memcpy(at + bytes.size(), more.data(), more.size());
  kept_left_ -= all;
  return at;
}

void NewestRecords::Add(const ReplayedRecord& record, std::uint64_t location, bool in_ring) {
  const RecordType type = record.header.type;
  last_lsn_ = std::max(last_lsn_, Lsn(record.header.lsn));
  const bool is_large = type == RecordType::kPutExtent;
  const bool keeps_key = keeps_keys_ && (is_large || type == RecordType::kPut);
  std::size_t more = 0;
  if (in_ring || is_large || keeps_key || type == RecordType::kLease || record.expiry_ms != 0) {
    More& with = more_.emplace_back(More{record.expiry_ms, nullptr, 0, 0, in_ring});
    more = more_.size();
    if (is_large) with.extent_bytes = record.header.value_bytes;
    const Bytes kept = type == RecordType::kLease ? record.value : keeps_key ? record.key : Bytes{};
    if (!kept.empty() || is_large) with.kept = Keep(kept, record.value.first(record.link_bytes));
    with.key_bytes = static_cast<std::uint16_t>(kept.size());
  }
  if (chunk_left_ == 0) {
    chunk_left_ = std::clamp(unsettled_, kChunkRecordsMin, kChunkBytesMax / sizeof(Found));
    chunks_.push_back({MakeHugeArray<Found>(chunk_left_), 0});
  }
  Chunk& chunk = chunks_.back();
  chunk.found[chunk.count++] = {.hash = record.identity.hash,
                                .lsn = record.header.lsn,
                                .location = location,
                                .second = record.identity.second,
                                .payload_bytes = record.payload_bytes,
                                .bytes = record.bytes,
                                .type = static_cast<std::uint32_t>(type),
                                .more = static_cast<std::uint32_t>(more)};
  ++unsettled_;
  --chunk_left_;
  if (unsettled_ >= std::max(kUnsettledMin, settled_.count)) Settle();
}

// Sorts the records by class, in the order of their addition; `ends`: the end of each class.
NewestRecords::Chunk NewestRecords::Spread(std::size_t class_bits, std::vector<std::size_t>* ends) {
  const std::size_t mask = (std::size_t{1} << class_bits) - 1;
  chunks_.insert(chunks_.begin(), std::exchange(settled_, {}));
  ends->assign(mask + 2, 0);
  Chunk all;
  for (const Chunk& chunk : chunks_) {
    all.count += chunk.count;
    for (std::size_t i = 0; i < chunk.count; ++i) ++(*ends)[(chunk.found[i].hash & mask) + 1];
  }
  for (std::size_t i = 1; i < ends->size(); ++i) (*ends)[i] += (*ends)[i - 1];
  all.found = MakeHugeArray<Found>(all.count);
  for (Chunk& chunk : chunks_) {
    for (std::size_t i = 0; i < chunk.count; ++i) {
      const Found& found = chunk.found[i];
      all.found[(*ends)[found.hash & mask]++] = found;
    }
    chunk.found.reset();
  }
  ends->pop_back();
  chunks_.clear();
  chunk_left_ = 0;
  unsettled_ = 0;
  return all;
}

// `to` may be at or before `from`. Returns how many there are.
std::size_t NewestRecords::KeepNewest(Found* from, std::size_t count, Found* to,
                                      std::vector<std::uint32_t>* table) {
  const std::size_t mask = std::bit_ceil(2 * count + 1) - 1;
  table->assign(mask + 1, kFree);
  std::uint32_t kept = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Found found = from[i];
    // The lower bits of the hash are the class's.
    std::size_t at = (found.hash >> 32 ^ found.second) & mask;
    const auto is_other = [&](const Found& other) {
      return other.hash != found.hash || other.second != found.second;
    };
    while ((*table)[at] != kFree && is_other(to[(*table)[at]])) at = (at + 1) & mask;
    if ((*table)[at] == kFree) {
      (*table)[at] = kept;
      to[kept++] = found;
    } else if (Found& other = to[(*table)[at]]; found.lsn > other.lsn) {
      other = found;
    }
  }
  return kept;
}

void NewestRecords::Settle() {
  if (unsettled_ == 0) return;
  const std::size_t classes = (settled_.count + unsettled_) / kClassRecords + 1;
  std::vector<std::size_t> ends;
  Chunk all = Spread(static_cast<std::size_t>(std::bit_width(classes) - 1), &ends);
  std::vector<std::uint32_t> table;
  std::size_t begin = 0;
  std::size_t kept = 0;
  for (const std::size_t end : ends) {
    kept += KeepNewest(&all.found[begin], end - begin, &all.found[kept], &table);
    begin = end;
  }
  all.count = kept;
  settled_ = std::move(all);
  puts_ = 0;
  ForEach([this](const Entry& entry) {
    if (entry.is_put()) ++puts_;
    return true;
  });
}

void NewestRecords::Drop(absl::FunctionRef<bool(std::uint64_t location)> is_dropped) {
  Settle();
  Found* const end = std::remove_if(settled_.found.get(), settled_.found.get() + settled_.count,
                                    [&](const Found& found) {
                                      const Entry entry = EntryOf(found);
                                      const bool goes = entry.in_ring || is_dropped(entry.location);
                                      if (goes && entry.is_put()) --puts_;
                                      return goes;
                                    });
  settled_.count = static_cast<std::size_t>(end - settled_.found.get());
}

NewestRecords::Entry NewestRecords::EntryOf(const Found& found) const {
  Entry entry;
  entry.hash = found.hash;
  entry.lsn = found.lsn;
  entry.location = found.location;
  entry.second = found.second;
  entry.bytes = found.bytes;
  entry.payload_bytes = found.payload_bytes;
  entry.type = static_cast<RecordType>(found.type);
  if (found.more == 0) return entry;
  const More& more = more_[found.more - 1];
  entry.expiry_ms = more.expiry_ms;
  entry.kept = more.kept;
  entry.extent_bytes = more.extent_bytes;
  entry.key_bytes = more.key_bytes;
  entry.in_ring = more.in_ring;
  return entry;
}

bool NewestRecords::ForEach(Visitor visit) const {
  TP_CHECK(unsettled_ == 0);
  return std::all_of(settled_.found.get(), settled_.found.get() + settled_.count,
                     [&](const Found& found) { return visit(EntryOf(found)); });
}

}  // namespace tidepool::storage
