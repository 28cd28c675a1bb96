#include "daemon/core/io_waiters.h"

#include <algorithm>

#include "proto/base/check.h"

namespace tidepool::daemon {

bool IoWaiters::Blocks(PartitionId partition, const std::vector<std::uint64_t>& hashes) const {
  return std::any_of(hashes.begin(), hashes.end(),
                     [&](std::uint64_t hash) { return Blocks(partition, hash); });
}

IoWaiter* IoWaiters::Add(std::unique_ptr<IoWaiter> operation) {
  operation->id = next_id_++;
  IoWaiter* const added = operation.get();
  const EventWaiter& of = added->operation;
  for (const std::uint64_t hash : added->hashes) {
    lines_[{of.partition.value(), hash}].push_back(added);
  }
  TP_CHECK(frames_.emplace(of.session.value(), of.frame_id, of.index).second);
  deadlines_.emplace(of.deadline_ns, added->id);
  operations_.emplace(added->id, std::move(operation));
  return added;
}

IoWaiter* IoWaiters::Find(std::uint64_t id) {
  const auto found = operations_.find(id);
  return found == operations_.end() ? nullptr : found->second.get();
}

bool IoWaiters::HasTurn(const IoWaiter& operation) const {
  return std::all_of(operation.hashes.begin(), operation.hashes.end(), [&](std::uint64_t hash) {
    return lines_.at({operation.operation.partition.value(), hash}).front() == &operation;
  });
}

std::unique_ptr<IoWaiter> IoWaiters::Remove(std::uint64_t id, std::vector<std::uint64_t>* next) {
  const auto found = operations_.find(id);
  TP_CHECK(found != operations_.end());
  std::unique_ptr<IoWaiter> removed = std::move(found->second);
  operations_.erase(found);
  const EventWaiter& of = removed->operation;
  frames_.erase({of.session.value(), of.frame_id, of.index});
  deadlines_.erase({of.deadline_ns, id});
  std::vector<IoWaiter*> first;
  for (const std::uint64_t hash : removed->hashes) {
    const auto line = lines_.find({of.partition.value(), hash});
    const bool was_first = line->second.front() == removed.get();
    std::erase(line->second, removed.get());
    if (line->second.empty()) {
      lines_.erase(line);
    } else if (was_first) {
      first.push_back(line->second.front());
    }
  }
  // An operation with several keys may be the first in only some of its lines, or in two at once.
  for (const IoWaiter* candidate : first) {
    const bool is_known = std::find(next->begin(), next->end(), candidate->id) != next->end();
    if (!is_known && HasTurn(*candidate)) next->push_back(candidate->id);
  }
  return removed;
}

std::vector<std::uint64_t> IoWaiters::Expired(std::uint64_t now_ns) const {
  std::vector<std::uint64_t> ids;
  for (const auto& [deadline_ns, id] : deadlines_) {
    if (deadline_ns > now_ns) break;
    ids.push_back(id);
  }
  return ids;
}

std::vector<std::uint64_t> IoWaiters::Parked() const {
  std::vector<std::uint64_t> ids;
  for (const auto& [id, operation] : operations_) {
    if (operation->parked && HasTurn(*operation)) ids.push_back(id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

std::vector<std::uint64_t> IoWaiters::Below(SessionId session, std::uint64_t frame_id) const {
  std::vector<std::uint64_t> ids;
  for (const auto& [id, operation] : operations_) {
    const EventWaiter& of = operation->operation;
    if (of.session == session && of.frame_id < frame_id) ids.push_back(id);
  }
  return ids;
}

}  // namespace tidepool::daemon
