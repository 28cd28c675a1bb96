#include "client/engine/partition_queue.h"

#include "client/direct/direct_space.h"

#include <algorithm>
#include <cstring>

#include "proto/base/check.h"

namespace tidepool::internal {

SpaceState::SpaceState() = default;
SpaceState::~SpaceState() = default;

bool SpaceState::FindBounds(std::uint32_t partition, Term term,
                            std::optional<KeyBounds>* bounds) const {
  if (ranges == nullptr) return true;
  if (queues[partition].term != term) return false;
  *bounds = KeyBounds::Of(*ranges, partition);
  return true;
}

void OperationList::PushBack(Operation* operation) {
  TP_DCHECK(tail_ == nullptr || tail_->sequence < operation->sequence);
  operation->next = nullptr;
  operation->previous = tail_;
  (tail_ == nullptr ? head_ : tail_->next) = operation;
  tail_ = operation;
}

void OperationList::Insert(Operation* operation) {
  // An operation that comes back is older than nearly all waiting operations, so the walk is short.
  // If it is newer than all of them, no walk is needed.
  if (tail_ != nullptr && tail_->sequence < operation->sequence) return PushBack(operation);
  Operation* behind = head_;
  while (behind != nullptr && behind->sequence < operation->sequence) behind = behind->next;
  if (behind == nullptr) return PushBack(operation);
  operation->next = behind;
  operation->previous = behind->previous;
  (behind->previous == nullptr ? head_ : behind->previous->next) = operation;
  behind->previous = operation;
}

void OperationList::Remove(Operation* operation) {
  (operation->previous == nullptr ? head_ : operation->previous->next) = operation->next;
  (operation->next == nullptr ? tail_ : operation->next->previous) = operation->previous;
  operation->next = nullptr;
  operation->previous = nullptr;
}

bool PartitionQueue::IsHeldBack(const Operation& operation) const {
  if (operation.streamed && !operation.upload_ready) return true;
  if (space->traffic == Traffic::kWaiting) return false;  // Waiting operations have no order.
  if (operation.may_have_any_key()) {
    return !streamed.empty() && streamed.front()->sequence < operation.sequence;
  }
  return std::any_of(streamed.begin(), streamed.end(), [&](const Operation* before) {
    return before->sequence < operation.sequence && before->key_bytes == operation.key_bytes &&
           (operation.key_bytes == 0 ||
            std::memcmp(before->key, operation.key, operation.key_bytes) == 0);
  });
}

void PartitionQueue::ForgetStreamed(const Operation* operation) { std::erase(streamed, operation); }

// In the order of calling.
void PartitionQueue::AddStreamed(Operation* operation) {
  streamed.insert(
      std::find_if(streamed.begin(), streamed.end(),
                   [&](const Operation* other) { return other->sequence > operation->sequence; }),
      operation);
}

bool PartitionQueue::ParentsAreDone() {
  if (parent == nullptr) [[likely]]
    return true;
  // Once it has sent under the new term, all that was sent before is answered: rule (2).
  if (parent->outstanding > 0 && parent->sent_term < parent_term) return false;
  if (!parent->ParentsAreDone()) return false;
  parent = nullptr;
  return true;
}

void QueueTable::Make(std::uint32_t size, std::uint32_t size_max) {
  TP_DCHECK(first_ == nullptr);
  first_ = std::make_unique<PartitionQueue[]>(size);
  first_size_ = size;
  if (size_max > size) {
    more_ = std::make_unique<std::unique_ptr<PartitionQueue>[]>(size_max - size);
  }
  size_.store(size, std::memory_order_release);
}

PartitionQueue& QueueTable::Append() {
  const std::uint32_t index = size();
  auto& slot = more_[index - first_size_];
  slot = std::make_unique<PartitionQueue>();
  size_.store(index + 1, std::memory_order_release);
  return *slot;
}

void SpaceState::LearnValueBytes(std::size_t bytes) {
  const auto seen = static_cast<std::uint32_t>(std::min(bytes, limits::kUnstreamedValueBytesMax));
  if (seen >= value_bytes_expected) {
    value_bytes_expected = seen;
  } else {
    value_bytes_expected -= (value_bytes_expected - seen) / 256;
  }
}

}  // namespace tidepool::internal
