#include "client/partition_queue.h"

#include <algorithm>
#include <cstring>

#include "proto/base/check.h"

namespace tidepool::internal {

void OperationList::PushBack(Operation* operation) {
  TP_DCHECK(tail_ == nullptr || tail_->sequence < operation->sequence);
  operation->next = nullptr;
  operation->previous = tail_;
  (tail_ == nullptr ? head_ : tail_->next) = operation;
  tail_ = operation;
}

void OperationList::Insert(Operation* operation) {
  // What comes back is older than nearly everything that waits, so the walk is short.
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
  if (space->traffic == Traffic::kWaiting) return false;  // What waits has no order.
  if (operation.is_pack()) {                              // Its keys are not looked at.
    return !streamed.empty() && streamed.front()->sequence < operation.sequence;
  }
  return std::any_of(streamed.begin(), streamed.end(), [&](const Operation* before) {
    return before->sequence < operation.sequence && before->key_bytes == operation.key_bytes &&
           (operation.key_bytes == 0 ||
            std::memcmp(before->key, operation.key, operation.key_bytes) == 0);
  });
}

void PartitionQueue::ForgetStreamed(const Operation* operation) { std::erase(streamed, operation); }

void SpaceState::LearnValueBytes(std::size_t bytes) {
  const auto seen = static_cast<std::uint32_t>(std::min(bytes, limits::kUnstreamedValueBytesMax));
  if (seen >= value_bytes_expected) {
    value_bytes_expected = seen;
  } else {
    value_bytes_expected -= (value_bytes_expected - seen) / 256;
  }
}

}  // namespace tidepool::internal
