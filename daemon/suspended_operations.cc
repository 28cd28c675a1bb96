#include "daemon/suspended_operations.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "proto/base/check.h"

namespace tidepool::daemon {

void SuspendedOperation::CopyOperation(const wire::Operation& from) {
  operation = from;
  bytes.resize(from.key.size() + from.value.size());
  if (!from.key.empty()) std::memcpy(bytes.data(), from.key.data(), from.key.size());
  if (!from.value.empty()) {
    std::memcpy(bytes.data() + from.key.size(), from.value.data(), from.value.size());
  }
  operation.key = Bytes(bytes.data(), from.key.size());
  operation.value = Bytes(bytes.data() + from.key.size(), from.value.size());
}

void SuspendedOperations::Add(std::unique_ptr<SuspendedOperation> operation) {
  TP_CHECK(operation->wait_for != WaitFor::kNothing);
  const LineKey key{operation->wait_for, WaitsOnKey(operation->wait_for) ? operation->hash : 0};
  partitions_[operation->partition.value()][key].push_back(std::move(operation));
  ++count_;
}

bool SuspendedOperations::WaitsOn(PartitionId partition) const {
  return count_ != 0 && partitions_.contains(partition.value());
}

bool SuspendedOperations::Holds(SessionId session, std::uint64_t frame_id,
                                std::uint16_t index) const {
  for (const auto& [id, lines] : partitions_) {
    for (const auto& [key, line] : lines) {
      for (const auto& waiter : line) {
        if (waiter->session == session && waiter->frame_id == frame_id && waiter->index == index) {
          return true;
        }
      }
    }
  }
  return false;
}

// True if one was answered. Where the first of those that wait for items or room gains nothing,
// those behind it do not either.
bool SuspendedOperations::TryFirst(Line* line, Attempt attempt) {
  const std::size_t before = line->size();
  for (std::size_t i = 0; i < line->size();) {
    const Outcome outcome = attempt(*(*line)[i], false);
    if (outcome == Outcome::kWaits) break;
    if (outcome == Outcome::kSkipped) {
      ++i;
    } else {
      line->erase(line->begin() + static_cast<std::ptrdiff_t>(i));
      --count_;
    }
  }
  return line->size() != before;
}

void SuspendedOperations::TryAll(Line* line, Attempt attempt) {
  count_ -= std::erase_if(
      *line, [&](const auto& waiter) { return attempt(*waiter, false) == Outcome::kAnswered; });
}

void SuspendedOperations::RetryItems(PartitionId partition, Attempt attempt) {
  const auto found = partitions_.find(partition.value());
  if (found == partitions_.end()) return;
  // A pop makes room for a push, whose item is the next pop's: until neither gains.
  for (bool gained = true; gained;) {
    gained = false;
    for (const WaitFor wait_for : {WaitFor::kItem, WaitFor::kRoom}) {
      const auto line = found->second.find(LineKey{wait_for, 0});
      if (line != found->second.end()) gained = TryFirst(&line->second, attempt) || gained;
    }
  }
  DropEmptyLines();
}

void SuspendedOperations::RetryKey(PartitionId partition, WaitFor wait_for, std::uint64_t hash,
                                   Attempt attempt) {
  const auto found = partitions_.find(partition.value());
  if (found == partitions_.end()) return;
  const auto line = found->second.find(LineKey{wait_for, hash});
  if (line == found->second.end()) return;
  TryAll(&line->second, attempt);
  DropEmptyLines();
}

void SuspendedOperations::RetryChanges(PartitionId partition, Attempt attempt) {
  const auto found = partitions_.find(partition.value());
  if (found == partitions_.end()) return;
  for (auto& [key, line] : found->second) {
    if (key.wait_for == WaitFor::kChange) TryAll(&line, attempt);
  }
  DropEmptyLines();
}

void SuspendedOperations::RetryAll(std::uint64_t now_ns, Attempt attempt) {
  if (count_ == 0) return;
  for (auto& [id, lines] : partitions_) {
    for (auto& [key, line] : lines) {
      if (!WaitsOnKey(key.wait_for)) TryFirst(&line, attempt);
    }
  }
  DropIf([&](const SuspendedOperation& waiter) {
    return now_ns >= waiter.deadline_ns && attempt(waiter, true) == Outcome::kAnswered;
  });
}

void SuspendedOperations::Recheck(Attempt attempt) {
  DropIf([&](const SuspendedOperation& waiter) {
    return attempt(waiter, false) == Outcome::kAnswered;
  });
}

std::uint32_t SuspendedOperations::DropIf(
    absl::FunctionRef<bool(const SuspendedOperation&)> given_up) {
  if (count_ == 0) return 0;
  std::size_t dropped = 0;
  for (auto& [id, lines] : partitions_) {
    for (auto& [key, line] : lines) {
      dropped += std::erase_if(line, [&](const auto& waiter) { return given_up(*waiter); });
    }
  }
  count_ -= dropped;
  DropEmptyLines();
  return static_cast<std::uint32_t>(dropped);
}

void SuspendedOperations::DropEmptyLines() {
  for (auto lines = partitions_.begin(); lines != partitions_.end();) {
    absl::erase_if(lines->second, [](const auto& entry) { return entry.second.empty(); });
    const auto at = lines++;
    if (at->second.empty()) partitions_.erase(at);
  }
}

}  // namespace tidepool::daemon
