#include "client/cache/read_cache.h"

#include <utility>

namespace tidepool::internal {

ReadCache::ReadPtr ReadCache::Find(std::string_view key) {
  Stripe& stripe = StripeOf(key);
  const std::lock_guard lock(stripe.mutex);
  if (const auto found = stripe.young.find(key); found != stripe.young.end()) return found->second;
  const auto found = stripe.old.find(key);
  if (found == stripe.old.end()) return nullptr;
  auto node = stripe.old.extract(found);
  ReadPtr read = node.mapped();
  Keep(&stripe, std::move(node.key()), read);
  return read;
}

void ReadCache::Keep(Stripe* stripe, std::string key, ReadPtr read) {
  const std::size_t bytes = kEntryBytes + key.size() + read->bytes.size();
  if (bytes > stripe_bytes_max_ / 2) return;
  if (stripe->young_bytes + bytes > stripe_bytes_max_ / 2) {
    stripe->old = std::exchange(stripe->young, {});
    stripe->young_bytes = 0;
  }
  if (stripe->young.try_emplace(std::move(key), std::move(read)).second)
    stripe->young_bytes += bytes;
}

void ReadCache::Insert(std::string_view key, std::uint64_t writes_before, Read read) {
  auto shared = std::make_shared<const Read>(std::move(read));
  Stripe& stripe = StripeOf(key);
  const std::lock_guard lock(stripe.mutex);
  // Checked under the lock: a write that is noted later removes this entry.
  if (writes() != writes_before) return;
  if (const auto old = stripe.old.find(key); old != stripe.old.end()) stripe.old.erase(old);
  Keep(&stripe, std::string(key), std::move(shared));
}

void ReadCache::NoteWrite(std::string_view key) {
  writes_.fetch_add(1, std::memory_order_acq_rel);
  Stripe& stripe = StripeOf(key);
  const std::lock_guard lock(stripe.mutex);
  for (Generation* generation : {&stripe.young, &stripe.old}) {
    const auto found = generation->find(key);
    if (found == generation->end()) continue;
    if (generation == &stripe.young) {
      stripe.young_bytes -= kEntryBytes + key.size() + found->second->bytes.size();
    }
    generation->erase(found);
  }
}

void ReadCache::Clear() {
  writes_.fetch_add(1, std::memory_order_acq_rel);
  for (Stripe& stripe : stripes_) {
    const std::lock_guard lock(stripe.mutex);
    stripe.young.clear();
    stripe.old.clear();
    stripe.young_bytes = 0;
  }
}

}  // namespace tidepool::internal
