#include "storage/durable/newest_records.h"

#include <algorithm>
#include <cstring>

namespace tidepool::storage {
namespace {

constexpr std::size_t kChunkBytes = 1 << 20;

}  // namespace

void NewestRecords::Drop(absl::FunctionRef<bool(std::uint64_t location)> is_dropped) {
  absl::erase_if(entries_, [&](const auto& each) {
    const Entry& entry = each.second;
    if (!entry.in_ring && !is_dropped(entry.location)) return false;
    if (entry.is_put()) --puts_;
    return true;
  });
}

const NewestRecords::Entry* NewestRecords::NoteOf(Bytes key) const {
  const auto found = entries_.find(IdentityOf(key, RecordType::kLease));
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

void NewestRecords::Add(const ReplayedRecord& record, std::uint64_t location, bool in_ring) {
  Entry entry;
  entry.lsn = record.header.lsn;
  entry.location = location;
  entry.expiry_ms = record.expiry_ms;
  entry.bytes = record.bytes;
  entry.in_ring = in_ring;
  entry.type = record.header.type;
  const bool is_large = entry.type == RecordType::kPutExtent;
  if (is_large) entry.extent_bytes = record.header.value_bytes;
  entry.payload_bytes = record.payload_bytes;
  last_lsn_ = std::max(last_lsn_, Lsn(entry.lsn));
  const auto [found, added] = entries_.try_emplace(record.identity, entry);
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
