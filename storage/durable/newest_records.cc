#include "storage/durable/newest_records.h"

#include <algorithm>
#include <cstring>

#include "proto/base/key_hash.h"

namespace tidepool::storage {
namespace {

// Independent of KeyHash: of the key's bytes in another order.
std::uint64_t SecondHash(Bytes key) {
  std::uint64_t hash = 0x9e3779b97f4a7c15ull ^ key.size();
  const auto mix = [&hash](std::uint64_t word) {
    const auto product = static_cast<unsigned __int128>(hash ^ word) * 0xa0761d6478bd642full;
    hash = static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  };
  std::size_t at = key.size();
  for (; at >= 8; at -= 8) mix(LoadUnaligned<std::uint64_t>(key.data() + at - 8));
  std::uint64_t rest = 0;
  if (at > 0) std::memcpy(&rest, key.data(), at);
  mix(rest);
  return hash;
}

}  // namespace

void NewestRecords::Drop(absl::FunctionRef<bool(std::uint64_t location)> is_dropped) {
  absl::erase_if(entries_, [&](const auto& each) {
    const Entry& entry = each.second;
    if (!entry.in_ring && !is_dropped(entry.location)) return false;
    if (!entry.tombstone) --puts_;
    return true;
  });
}

NewestRecords::Key NewestRecords::KeyOf(const ReplayedRecord& record) {
  return {KeyHash(record.key), SecondHash(record.key)};
}

void NewestRecords::Add(const Key& key, const ReplayedRecord& record, std::uint64_t location,
                        bool in_ring) {
  Entry entry;
  entry.lsn = record.header.lsn;
  entry.location = location;
  entry.expiry_ms = record.expiry_ms;
  entry.bytes = record.bytes;
  entry.in_ring = in_ring;
  entry.payload_bytes = static_cast<std::uint32_t>(record.key.size() + record.value.size());
  entry.tombstone = record.header.type == RecordType::kTombstone;
  last_lsn_ = std::max(last_lsn_, Lsn(entry.lsn));
  const auto [found, added] = entries_.try_emplace(key, entry);
  if (added) {
    if (!entry.tombstone) ++puts_;
    return;
  }
  if (entry.lsn <= found->second.lsn) return;
  if (!found->second.tombstone) --puts_;
  if (!entry.tombstone) ++puts_;
  found->second = entry;
}

}  // namespace tidepool::storage
