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

// Beside an item of the same key.
constexpr std::uint64_t kOfNotes = 0x2545f4914f6cdd1dull;
constexpr std::size_t kChunkBytes = 1 << 20;

NewestRecords::Key KeyOf(Bytes key, RecordType type) {
  const std::uint64_t second = SecondHash(key);
  return {KeyHash(key), type == RecordType::kLease ? second ^ kOfNotes : second};
}

}  // namespace

void NewestRecords::Drop(absl::FunctionRef<bool(std::uint64_t location)> is_dropped) {
  absl::erase_if(entries_, [&](const auto& each) {
    const Entry& entry = each.second;
    if (!entry.in_ring && !is_dropped(entry.location)) return false;
    if (entry.is_put()) --puts_;
    return true;
  });
}

NewestRecords::Key NewestRecords::KeyOf(const ReplayedRecord& record) {
  return storage::KeyOf(record.key, record.header.type);
}

const NewestRecords::Entry* NewestRecords::NoteOf(Bytes key) const {
  const auto found = entries_.find(storage::KeyOf(key, RecordType::kLease));
  return found == entries_.end() ? nullptr : &found->second;
}

const std::byte* NewestRecords::Keep(Bytes bytes, Bytes more) {
  const std::size_t all = bytes.size() + more.size();
  if (chunks_.empty() || left_ < all) {
    left_ = std::max(kChunkBytes, all);
    chunks_.push_back(std::make_unique_for_overwrite<std::byte[]>(left_));
    end_ = chunks_.back().get() + left_;
  }
  std::byte* const at = end_ - left_;
  if (!bytes.empty()) std::memcpy(at, bytes.data(), bytes.size());
  if (!more.empty()) std::memcpy(at + bytes.size(), more.data(), more.size());
  left_ -= all;
  return at;
}

void NewestRecords::Add(const Key& key, const ReplayedRecord& record, std::uint64_t location,
                        bool in_ring) {
  Entry entry;
  entry.lsn = record.header.lsn;
  entry.location = location;
  entry.expiry_ms = record.expiry_ms;
  entry.bytes = record.bytes;
  entry.in_ring = in_ring;
  entry.type = record.header.type;
  const bool is_large = entry.type == RecordType::kPutExtent;
  if (is_large) entry.extent_bytes = record.header.value_bytes;
  entry.payload_bytes = static_cast<std::uint32_t>(
      record.key.size() + (is_large ? entry.extent_bytes : record.value.size()));
  last_lsn_ = std::max(last_lsn_, Lsn(entry.lsn));
  const auto [found, added] = entries_.try_emplace(key, entry);
  if (!added && entry.lsn <= found->second.lsn) return;
  if (!added && found->second.is_put()) --puts_;
  if (entry.is_put()) ++puts_;
  // The key of a record that is replaced is its own.
  entry.kept = found->second.kept;
  entry.key_bytes = found->second.key_bytes;
  if (entry.type == RecordType::kLease) {
    entry.kept = Keep(record.value);
    entry.key_bytes = static_cast<std::uint16_t>(record.value.size());
  } else if (is_large || (keeps_keys_ && entry.kept == nullptr && entry.is_put())) {
    const Bytes kept_key = keeps_keys_ ? record.key : Bytes{};
    entry.kept = Keep(kept_key, record.value.first(record.link_bytes));
    entry.key_bytes = static_cast<std::uint16_t>(kept_key.size());
  }
  found->second = entry;
}

}  // namespace tidepool::storage
