#include "daemon/core/ownership.h"

#include <algorithm>
#include <vector>

#include "proto/base/log.h"

namespace tidepool::daemon {
namespace {

storage::PrefilterOptions PrefilterOf(const placement::Namespace& space) {
  storage::PrefilterOptions prefilter;
  if (space.options.prefilter == "absent") prefilter.kind = storage::PrefilterKind::kAbsent;
  if (space.options.prefilter == "admit") prefilter.kind = storage::PrefilterKind::kAdmit;
  prefilter.expected_keys = space.options.expected_items / space.partitions.size();
  prefilter.false_positive_rate = space.options.false_positive_rate;
  return prefilter;
}

storage::KeyBounds BoundsOf(const placement::Namespace& space, std::uint32_t index) {
  storage::KeyBounds bounds;
  if (space.ranges == nullptr) return bounds;
  bounds.begin = space.ranges->BeginOf(index);
  if (const std::string* end = space.ranges->EndOf(index); end != nullptr) bounds.end = *end;
  return bounds;
}

// It has contents of an earlier term. So it must not begin empty.
bool MissesCopy(const placement::Namespace& space, const placement::PartitionPlace& place) {
  return space.options.replicas > 1 && place.data_from < place.term;
}

}  // namespace

storage::PartitionOptions PartitionOptionsOf(const placement::Namespace& space,
                                             std::uint32_t index) {
  storage::PartitionOptions options;
  options.kind = space.kind;
  options.ttl_ms = space.options.ttl_ms;
  options.partition_count = static_cast<std::uint32_t>(space.partitions.size());
  if (options.partition_count != 0) {
    options.prefilter = PrefilterOf(space);
    // With admission most expected keys are only marked, and never have a record.
    if (options.prefilter.kind != storage::PrefilterKind::kAdmit) {
      options.expected_records = space.options.expected_items / options.partition_count;
    }
  }
  options.has_replicas = space.options.replicas > 1;
  if (space.options.durability == "async") options.durability = storage::Durability::kAsync;
  if (space.options.durability == "sync") options.durability = storage::Durability::kSync;
  if (space.kind == Kind::kBloom) {
    // The coordinator has refused options that give no shape.
    options.filter = ShapeOfFilter(space.options.expected_items, space.options.false_positive_rate,
                                   options.partition_count)
                         .value_or(FilterShape{});
  }
  // Lanes get equal parts of the capacity; the first lanes get the remainder.
  const std::uint64_t capacity = space.options.capacity;
  options.queue.capacity = capacity / std::max(options.partition_count, 1u) +
                           (index < capacity % std::max(options.partition_count, 1u) ? 1 : 0);
  return options;
}

// False: the store has nothing of it (any more).
bool Ownership::AdoptRecovered(const placement::Namespace& space, PartitionId partition) {
  const placement::PartitionPlace& place = space.partitions[partition.index()];
  if (recovered_.erase(partition.value()) == 0) return false;
  const storage::Partition* incoming = store_.FindIncoming(partition);
  if (incoming == nullptr) return false;
  if (incoming->term() >= place.data_from && incoming->term() < place.term) {
    storage::Partition* adopted = store_.Adopt(partition, place.term);
    if (adopted == nullptr) return false;
    adopted->SetBounds(BoundsOf(space, partition.index()));
    return true;
  }
  store_.DropIncoming(partition);
  return false;
}

Status Ownership::Install(placement::PlacementMapPtr map, NodeId self, bool may_grant_durable) {
  if (map_ != nullptr && map->epoch <= map_->epoch && self == self_) return OkStatus();
  Status outcome;
  const auto ours = [&](const placement::PartitionPlace& place) {
    return place.node == self && place.core == core_ &&
           place.state != placement::PartitionState::kLost;
  };
  // Closes the partitions that the new map takes away first: their memory may be needed for new
  // partitions.
  std::vector<PartitionId> gone;
  if (map_ != nullptr) {
    for (const auto& [id, space] : map_->namespaces) {
      // Maps share unchanged namespaces, so the cost follows the changes and not the number of
      // namespaces.
      const auto now = map->namespaces.find(id);
      if (self == self_ && now != map->namespaces.end() && now->second == space) continue;
      for (std::uint32_t i = 0; i < space->partitions.size(); ++i) {
        const PartitionId partition(id, i);
        const placement::PartitionPlace* place = map->Find(partition);
        if (place == nullptr || !ours(*place)) gone.push_back(partition);
      }
    }
  }
  for (const PartitionId partition : gone) {
    importing_.erase(partition.value());
    store_.DropPartition(partition);
  }
  for (const auto& [id, space] : map->namespaces) {
    for (std::uint32_t i = 0; i < space->partitions.size(); ++i) {
      const placement::PartitionPlace& place = space->partitions[i];
      if (!ours(place)) continue;
      const PartitionId partition(id, i);
      if (space->options.durable() && !may_grant_durable) continue;
      if (AdoptRecovered(*space, partition)) continue;
      if (storage::Partition* held = store_.Find(partition); held != nullptr) {
        if (held->term() < place.term && !importing(partition)) {
          held->SetTerm(place.term);
          held->SetBounds(BoundsOf(*space, i));
        }
        continue;
      }
      // The move was requested when the copy was complete, and the next term replaces its owner's.
      if (const storage::Partition* incoming = store_.FindIncoming(partition);
          incoming != nullptr && incoming->term().value() + 1 == place.term.value()) {
        store_.Adopt(partition, place.term);
        continue;
      }
      if (MissesCopy(*space, place)) {
        log::Error("partition " + std::to_string(i) + " of '" + space->name +
                   "' came to this node, and its copy is not here");
        continue;
      }
      auto added = store_.AddPartition(partition, place.term, PartitionOptionsOf(*space, i));
      if (added.ok()) (*added)->SetBounds(BoundsOf(*space, i));
      if (!added.ok() && outcome.ok()) {
        outcome = added.status();
        log::Error("core " + std::to_string(core_.value()) + " cannot open partition " +
                   std::to_string(i) + " of '" + space->name + "': " + outcome.ToString());
      }
    }
  }
  if (may_grant_durable) {
    // Dropped meanwhile, or lost.
    for (const std::uint32_t left : recovered_) store_.DropIncoming(PartitionId(left));
    recovered_.clear();
  }
  may_grant_durable_ = may_grant_durable;
  shares_.Install(*map, self, core_);
  map_ = std::move(map);
  self_ = self;
  return outcome;
}

Status Ownership::BeginImport(PartitionId partition, Term term) {
  const auto space = map_ == nullptr ? nullptr : map_->Find(partition.space());
  if (space == nullptr) return Status(StatusCode::kNotFound, "the namespace was dropped");
  auto added = store_.AddPartition(partition, term, PartitionOptionsOf(*space, partition.index()));
  if (!added.ok()) return added.status();
  (*added)->Freeze();
  importing_.insert(partition.value());
  return OkStatus();
}

bool Ownership::EndImport(PartitionId partition) {
  storage::Partition* held = store_.Find(partition);
  const placement::PartitionPlace* place = map_ == nullptr ? nullptr : map_->Find(partition);
  const bool ours = place != nullptr && place->node == self_ && place->core == core_;
  if (importing_.erase(partition.value()) == 0 || held == nullptr || !ours) return false;
  held->SetBounds(BoundsOf(*map_->Find(partition.space()), partition.index()));
  held->SetTerm(place->term);
  return true;
}

void Ownership::CancelImport(PartitionId partition) {
  if (importing_.erase(partition.value()) > 0) store_.DropPartition(partition);
}

StatusCode Ownership::Freeze(PartitionId partition, Term term) {
  storage::Partition* held = store_.Find(partition);
  if (held == nullptr || held->term() != term) return StatusCode::kWrongEpoch;
  held->Freeze();
  return StatusCode::kOk;
}

bool Ownership::Thaw(PartitionId partition, Term term) {
  storage::Partition* held = store_.Find(partition);
  if (held == nullptr || held->term() != term || !held->frozen()) return false;
  held->Thaw();
  return true;
}

Verdict Ownership::CheckSlow(PartitionId partition, Term term) const {
  const placement::PartitionPlace* place = map_ == nullptr ? nullptr : map_->Find(partition);
  if (place == nullptr) {
    // Unknown here: dropped for good, or created by a map that is still on its way.
    if (map_ != nullptr && map_->dropped.contains(partition.space())) {
      return {Verdict::Kind::kRefuse, nullptr, StatusCode::kNotFound};
    }
    // That map may have split an ordered partition.
    const auto space = map_ == nullptr ? nullptr : map_->Find(partition.space());
    if (space != nullptr && space->ranges == nullptr)
      return {Verdict::Kind::kRefuse, nullptr, StatusCode::kInvalidArgument};
    return {Verdict::Kind::kWait};
  }
  if (term > place->term) return {Verdict::Kind::kWait};
  if (term < place->term || place->node != self_ || place->core != core_) {
    return {Verdict::Kind::kRefuse, nullptr, StatusCode::kWrongEpoch};
  }
  if (place->state == placement::PartitionState::kLost) {
    return {Verdict::Kind::kRefuse, nullptr, StatusCode::kDataLoss};
  }
  if (const storage::Partition* held = store_.Find(partition); held != nullptr && held->frozen()) {
    return {Verdict::Kind::kHold, nullptr, StatusCode::kWrongEpoch};
  }
  if (!may_grant_durable_ && map_->Find(partition.space())->options.durable()) {
    return {Verdict::Kind::kRefuse, nullptr, StatusCode::kDeviceError};
  }
  if (MissesCopy(*map_->Find(partition.space()), *place)) {
    return {Verdict::Kind::kRefuse, nullptr, StatusCode::kDataLoss};
  }
  // The map gives it to us and the store does not hold it: there was no memory to open it.
  return {Verdict::Kind::kRefuse, nullptr, StatusCode::kResourceExhausted};
}

}  // namespace tidepool::daemon
