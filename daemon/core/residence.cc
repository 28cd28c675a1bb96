#include "daemon/core/residence.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "daemon/core/core.h"

namespace tidepool::daemon {
namespace {

using storage::Partition;

constexpr std::uint64_t kLooksPerNode = 65'536;
constexpr std::uint64_t kLooksPerCoreMin = 1'024;
constexpr std::uint64_t kLooksPerPartitionMin = 64;
constexpr std::uint64_t kResidenceSliceNs = 100'000;

// State of one core's count; only the core's task, or the caller that waits for it, touches this.
struct Looking {
  struct Entry {
    PartitionId id;
    Partition::ResidenceWalk walk;
  };
  bool begun = false;
  std::vector<Entry> left;
  std::map<std::uint32_t, PartitionResidence> found;
};

void Begin(Core& core, NamespaceId space, std::uint64_t looks_max, Looking* looking) {
  looking->begun = true;
  std::vector<PartitionId> ids;
  core.store().ForEachPartition([&](Partition& held) {
    // Skips an incomplete copy, which has no owner yet.
    const bool counts = held.id().space() == space && held.kind() != Kind::kBloom;
    if (counts && !core.dispatcher().ownership().importing(held.id())) ids.push_back(held.id());
  });
  for (const PartitionId id : ids) {
    const std::uint64_t share = std::max(looks_max / ids.size(), kLooksPerPartitionMin);
    looking->left.push_back({id, Partition::ResidenceWalk(share)});
  }
}

void Look(Core& core, Looking* looking) {
  const std::uint64_t end_ns = Clock::Real().MonotonicNs() + kResidenceSliceNs;
  const auto done = [end_ns] { return Clock::Real().MonotonicNs() >= end_ns; };
  while (!looking->left.empty()) {
    Looking::Entry& entry = looking->left.back();
    if (Partition* held = core.store().Find(entry.id); held != nullptr) {
      if (entry.walk.Slice(*held, done)) return;
      looking->found[entry.id.index()] = {
          entry.walk.found().ScaledTo(held->records(), held->store().payload_bytes()),
          held->reads(), held->device_reads()};
    }
    looking->left.pop_back();
  }
}

}  // namespace

std::map<std::uint32_t, PartitionResidence> ResidenceOf(CoreGroup* cores, NamespaceId space,
                                                        Deadline deadline) {
  std::map<std::uint32_t, PartitionResidence> all;
  const std::uint64_t looks_max = std::max(kLooksPerNode / cores->size(), kLooksPerCoreMin);
  for (std::uint32_t i = 0; i < cores->size(); ++i) {
    const auto looking = std::make_shared<Looking>();
    Status status;
    do {
      status = cores->Run(
          CoreId(static_cast<std::uint16_t>(i)),
          [looking, space, looks_max](Core& at) {
            if (!looking->begun) Begin(at, space, looks_max, looking.get());
            Look(at, looking.get());
          },
          deadline);
    } while (status.ok() && !looking->left.empty());
    // A core that was too slow may still be at it.
    if (status.ok()) all.merge(looking->found);
  }
  return all;
}

}  // namespace tidepool::daemon
