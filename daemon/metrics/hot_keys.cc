#include "daemon/metrics/hot_keys.h"

#include "proto/base/limits.h"

namespace tidepool::daemon {
namespace {

// The same key of two namespaces is two keys.
std::uint64_t Mixed(NamespaceId space, std::uint64_t hash) {
  return hash ^ (space.value() * 0x9e3779b97f4a7c15ull);
}

}  // namespace

void HotKeys::Add(NamespaceId space, std::uint64_t hash, Bytes key, bool is_change) {
  static_assert(limits::kKeyBytesMax <= UINT16_MAX);
  ++samples_;
  const std::uint64_t mixed = Mixed(space, hash);
  std::size_t at = kKeys;
  for (std::size_t i = 0; i < kKeys; ++i) {
    if (hashes_[i] == mixed) at = i;
  }
  if (at == kKeys || counts_[at] == 0) {
    // It takes the place of the one asked for least, and may have been asked for as often before.
    at = static_cast<std::size_t>(std::min_element(counts_.begin(), counts_.end()) -
                                  counts_.begin());
    hashes_[at] = mixed;
    Entry& entry = entries_[at];
    entry.space = space.value();
    entry.error = counts_[at];
    entry.changes = 0;
    entry.key_bytes = static_cast<std::uint16_t>(key.size());
    std::copy_n(key.begin(), std::min(key.size(), kKeyBytes), entry.key.begin());
  }
  ++counts_[at];
  entries_[at].changes += is_change ? 1 : 0;
}

void HotKeys::Halve() {
  samples_ /= 2;
  for (std::size_t i = 0; i < kKeys; ++i) {
    counts_[i] /= 2;
    entries_[i].error /= 2;
    entries_[i].changes /= 2;
  }
}

std::vector<HotKey> HotKeys::List() const {
  std::vector<HotKey> keys;
  for (std::size_t i = 0; i < kKeys; ++i) {
    if (counts_[i] == 0) continue;
    const Entry& entry = entries_[i];
    HotKey& to = keys.emplace_back();
    to.space = NamespaceId(entry.space);
    to.key = AsText(Bytes(entry.key.data(), std::min<std::size_t>(entry.key_bytes, kKeyBytes)));
    to.key_bytes = entry.key_bytes;
    to.samples = counts_[i];
    to.error = entry.error;
    to.changes = entry.changes;
  }
  std::sort(keys.begin(), keys.end(), [](const HotKey& a, const HotKey& b) {
    return a.samples != b.samples ? a.samples > b.samples : a.key < b.key;
  });
  return keys;
}

}  // namespace tidepool::daemon
