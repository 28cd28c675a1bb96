#include "daemon/metrics/slow_log.h"

#include <algorithm>

namespace tidepool::daemon {

std::string_view SlowReasonName(SlowReason reason) {
  constexpr std::string_view kNames[] = {"work", "store", "commit"};
  return kNames[static_cast<std::size_t>(reason)];
}

void SlowLog::Add(const SlowEntry& entry, Bytes key) {
  Kept& to = kept_[total_++ % kEntries];
  to.entry = entry;
  to.entry.key.clear();
  to.entry.key_bytes = static_cast<std::uint32_t>(key.size());
  std::copy_n(key.begin(), std::min(key.size(), kKeyBytes), to.key.begin());
}

std::vector<SlowEntry> SlowLog::List() const {
  std::vector<SlowEntry> entries;
  for (std::uint64_t i = total_; i > total_ - std::min<std::uint64_t>(total_, kEntries); --i) {
    const Kept& kept = kept_[(i - 1) % kEntries];
    SlowEntry& to = entries.emplace_back(kept.entry);
    to.key = AsText(Bytes(kept.key.data(), std::min<std::size_t>(kept.entry.key_bytes, kKeyBytes)));
  }
  return entries;
}

}  // namespace tidepool::daemon
