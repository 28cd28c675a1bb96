#include "client/read_cache.h"

#include <utility>

namespace tidepool::internal {

ReadCache::ReadPtr ReadCache::Find(std::string_view key) {
  Shard& shard = ShardOf(key);
  const std::lock_guard lock(shard.mutex);
  if (const auto found = shard.young.find(key); found != shard.young.end()) return found->second;
  const auto found = shard.old.find(key);
  if (found == shard.old.end()) return nullptr;
  auto node = shard.old.extract(found);
  ReadPtr read = node.mapped();
  Keep(&shard, std::move(node.key()), read);
  return read;
}

void ReadCache::Keep(Shard* shard, std::string key, ReadPtr read) {
  const std::size_t bytes = kEntryBytes + key.size() + read->bytes.size();
  if (bytes > shard_bytes_max_ / 2) return;
  if (shard->young_bytes + bytes > shard_bytes_max_ / 2) {
    shard->old = std::exchange(shard->young, {});
    shard->young_bytes = 0;
  }
  if (shard->young.try_emplace(std::move(key), std::move(read)).second) shard->young_bytes += bytes;
}

void ReadCache::Insert(std::string_view key, std::uint64_t writes_before, Read read) {
  auto shared = std::make_shared<const Read>(std::move(read));
  Shard& shard = ShardOf(key);
  const std::lock_guard lock(shard.mutex);
  // Under the lock: a write that is noted later removes what is kept here.
  if (writes() != writes_before) return;
  if (const auto old = shard.old.find(key); old != shard.old.end()) shard.old.erase(old);
  Keep(&shard, std::string(key), std::move(shared));
}

void ReadCache::NoteWrite(std::string_view key) {
  writes_.fetch_add(1, std::memory_order_acq_rel);
  Shard& shard = ShardOf(key);
  const std::lock_guard lock(shard.mutex);
  for (Generation* generation : {&shard.young, &shard.old}) {
    const auto found = generation->find(key);
    if (found == generation->end()) continue;
    if (generation == &shard.young) {
      shard.young_bytes -= kEntryBytes + key.size() + found->second->bytes.size();
    }
    generation->erase(found);
  }
}

void ReadCache::Clear() {
  writes_.fetch_add(1, std::memory_order_acq_rel);
  for (Shard& shard : shards_) {
    const std::lock_guard lock(shard.mutex);
    shard.young.clear();
    shard.old.clear();
    shard.young_bytes = 0;
  }
}

}  // namespace tidepool::internal
