// The functions of ReadCounts that know links and sessions; direct reads see the header only.
#include "client/direct/read_counts.h"

#include <algorithm>
#include <new>

#include "client/link/core_link.h"
#include "client/link/node_session.h"

namespace tidepool::internal {

using wire::DirectCounts;

ReadCounts::ReadCounts(MutableBytes shared) {
  if (shared.size() < sizeof(DirectCounts)) {
    own_ = std::make_unique<DirectCounts>();
    shared_ = own_.get();
  } else {
    shared_ = std::launder(reinterpret_cast<DirectCounts*>(shared.data()));
  }
}

ReadCount& ReadCounts::Of(const CoreLink& link, NamespaceId space, std::uint64_t now_ns) {
  const auto found = std::find_if(counts_.begin(), counts_.end(), [&](const auto& each) {
    return &each->link == &link && each->space == space;
  });
  if (found != counts_.end()) return **found;
  counts_.push_back(std::make_unique<ReadCount>(link, space, now_ns));
  counts_.back()->entry.store(NewEntry(*counts_.back()), std::memory_order_relaxed);
  return *counts_.back();
}

void ReadCounts::OnNewSession(const NodeSession& session) {
  for (const auto& each : counts_) {
    if (&each->link.session() != &session) continue;
    each->entry.store(NewEntry(*each), std::memory_order_relaxed);
  }
}

// Returns 0, an entry of no daemon, if there is no room.
std::uint32_t ReadCounts::NewEntry(const ReadCount& count) {
  const std::uint32_t index =
      std::max<std::uint32_t>(1, shared_->entries.load(std::memory_order_relaxed));
  if (index == DirectCounts::kEntries) return 0;
  DirectCounts::Entry& entry = shared_->entry[index];
  entry.session.store(count.link.session().id().value(), std::memory_order_relaxed);
  entry.space.store(count.space.value(), std::memory_order_relaxed);
  entry.core.store(count.link.core().value(), std::memory_order_relaxed);
  shared_->entries.store(index + 1, std::memory_order_release);
  return index;
}

}  // namespace tidepool::internal
