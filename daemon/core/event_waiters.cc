#include "daemon/core/event_waiters.h"

#include <cstring>

#include "proto/base/check.h"

namespace tidepool::daemon {

void EventWaiter::CopyOperation(const wire::Operation& from) {
  operation = from;
  bytes.resize(from.key.size() + from.value.size());
  if (!from.key.empty()) std::memcpy(bytes.data(), from.key.data(), from.key.size());
  if (!from.value.empty()) {
    std::memcpy(bytes.data() + from.key.size(), from.value.data(), from.value.size());
  }
  operation.key = Bytes(bytes.data(), from.key.size());
  operation.value = Bytes(bytes.data() + from.key.size(), from.value.size());
}

void EventWaiters::Add(std::unique_ptr<EventWaiter> operation) {
  TP_CHECK(operation->wait_for != WaitFor::kNothing);
  EventWaiter* const added = operation.get();
  Line& line = partitions_[added->partition.value()][KeyOf(*added)];
  added->place = line.insert(line.end(), std::move(operation));
  const auto [at, is_new] =
      sessions_[added->session.value()].try_emplace({added->frame_id, added->index}, added);
  TP_CHECK(is_new);
  deadlines_.emplace(added->deadline_ns, added);
}

bool EventWaiters::Holds(SessionId session, std::uint64_t frame_id, std::uint16_t index) const {
  const auto found = sessions_.find(session.value());
  return found != sessions_.end() && found->second.contains({frame_id, index});
}

// ---- Lines.

EventWaiters::Line* EventWaiters::FindLine(PartitionId partition, const LineKey& key) {
  const auto lines = partitions_.find(partition.value());
  if (lines == partitions_.end()) return nullptr;
  const auto line = lines->second.find(key);
  return line == lines->second.end() ? nullptr : &line->second;
}

void EventWaiters::DropIfEmpty(PartitionId partition, const LineKey& key) {
  const auto lines = partitions_.find(partition.value());
  if (lines == partitions_.end()) return;
  const auto line = lines->second.find(key);
  if (line == lines->second.end() || !line->second.empty()) return;
  lines->second.erase(line);
  if (lines->second.empty()) partitions_.erase(lines);
}

EventWaiters::Line::iterator EventWaiters::Erase(Line* line, Line::iterator at) {
  EventWaiter* const operation = at->get();
  deadlines_.erase({operation->deadline_ns, operation});
  const auto frames = sessions_.find(operation->session.value());
  frames->second.erase({operation->frame_id, operation->index});
  if (frames->second.empty()) sessions_.erase(frames);
  return line->erase(at);
}

void EventWaiters::Drop(EventWaiter* operation) {
  const PartitionId partition = operation->partition;
  const LineKey key = KeyOf(*operation);
  Erase(FindLine(partition, key), operation->place);
  DropIfEmpty(partition, key);
}

// Returns true if a waiter was answered. If the first waiter for items or room does not proceed,
// the waiters behind it do not either.
bool EventWaiters::TryFirst(Line* line, Attempt attempt) {
  const std::size_t before = line->size();
  for (auto at = line->begin(); at != line->end();) {
    const Outcome outcome = attempt(**at, false);
    if (outcome == Outcome::kWaits) break;
    at = outcome == Outcome::kSkipped ? std::next(at) : Erase(line, at);
  }
  return line->size() != before;
}

void EventWaiters::TryAll(Line* line, Attempt attempt) {
  for (auto at = line->begin(); at != line->end();) {
    at = attempt(**at, false) == Outcome::kAnswered ? Erase(line, at) : std::next(at);
  }
}

void EventWaiters::RetryLines(Lines* lines, absl::FunctionRef<bool(WaitFor)> applies,
                              absl::FunctionRef<void(Line*)> retry) {
  for (auto line = lines->begin(); line != lines->end();) {
    const auto at = line++;
    if (!applies(at->first.wait_for)) continue;
    retry(&at->second);
    if (at->second.empty()) lines->erase(at);
  }
}

// ---- Retries.

void EventWaiters::RetryItems(PartitionId partition, Attempt attempt) {
  // A pop makes room for a push, whose item serves the next pop: repeats until neither proceeds.
  for (bool gained = true; gained;) {
    gained = false;
    for (const WaitFor wait_for : {WaitFor::kItem, WaitFor::kRoom}) {
      Line* const line = FindLine(partition, {wait_for, 0});
      if (line == nullptr) continue;
      gained = TryFirst(line, attempt) || gained;
      if (line->empty()) DropIfEmpty(partition, {wait_for, 0});
    }
  }
}

void EventWaiters::RetryKey(PartitionId partition, WaitFor wait_for, std::uint64_t hash,
                            Attempt attempt) {
  Line* const line = FindLine(partition, {wait_for, hash});
  if (line == nullptr) return;
  TryAll(line, attempt);
  if (line->empty()) DropIfEmpty(partition, {wait_for, hash});
}

void EventWaiters::RetryChanges(PartitionId partition, Attempt attempt) {
  const auto lines = partitions_.find(partition.value());
  if (lines == partitions_.end()) return;
  RetryLines(
      &lines->second, [](WaitFor wait_for) { return wait_for == WaitFor::kChange; },
      [&](Line* line) { TryAll(line, attempt); });
  if (lines->second.empty()) partitions_.erase(lines);
}

void EventWaiters::RetryAll(std::uint64_t now_ns, Attempt attempt) {
  if (empty()) return;
  for (auto lines = partitions_.begin(); lines != partitions_.end();) {
    const auto at = lines++;
    for (const WaitFor wait_for : {WaitFor::kItem, WaitFor::kRoom}) {
      const auto line = at->second.find(LineKey{wait_for, 0});
      if (line == at->second.end()) continue;
      TryFirst(&line->second, attempt);
      if (line->second.empty()) at->second.erase(line);
    }
    if (at->second.empty()) partitions_.erase(at);
  }
  for (auto due = deadlines_.begin(); due != deadlines_.end() && due->first <= now_ns;) {
    EventWaiter* const operation = (due++)->second;
    if (attempt(*operation, true) == Outcome::kAnswered) Drop(operation);
  }
}

void EventWaiters::Recheck(Attempt attempt) {
  for (auto lines = partitions_.begin(); lines != partitions_.end();) {
    const auto at = lines++;
    RetryLines(
        &at->second, [](WaitFor) { return true; }, [&](Line* line) { TryAll(line, attempt); });
    if (at->second.empty()) partitions_.erase(at);
  }
}

void EventWaiters::DropBelow(SessionId session, std::uint64_t frame_id,
                             absl::FunctionRef<void(const EventWaiter&)> dropped) {
  for (;;) {
    const auto frames = sessions_.find(session.value());
    if (frames == sessions_.end()) return;
    const auto& [place, first] = *frames->second.begin();
    if (place.first >= frame_id) return;
    dropped(*first);
    Drop(first);
  }
}

}  // namespace tidepool::daemon
