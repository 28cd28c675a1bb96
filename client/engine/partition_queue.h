// The unsent operations of a partition, and the rules of order between terms.
//
//   engine -> [partition queue] -> core link (which takes groups out of it)
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/calls/call.h"
#include "client/direct/range_routing.h"
#include "proto/base/ids.h"
#include "proto/placement/placement_map.h"

namespace tidepool::internal {

class CoreLink;
class DirectSpace;
struct SpaceState;

// Operations in the order of their sequence numbers, linked through themselves. Guarded by the
// client's lock, like everything here.
class OperationList {
 public:
  bool empty() const { return head_ == nullptr; }
  Operation* front() const { return head_; }
  // `operation` is newer than all in the list.
  void PushBack(Operation* operation);
  // Returns a sent and refused operation to the queue, before all operations that were called
  // later.
  void Insert(Operation* operation);
  void Remove(Operation* operation);

 private:
  Operation* head_ = nullptr;
  Operation* tail_ = nullptr;
};

// Invariants:
// (1) A group never goes out under a term at or below `refused`: a refusal is final for
//     {partition, term}.
// (2) A group goes out under a newer term only when `outstanding` is 0: all operations sent under
//     older terms are answered or given up. A refused operation is thus not overtaken.
// (3) `listed` says if the queue is among its link's ready queues.
// (4) A queue may have a parent, whose range contained its range before a split. It sends nothing
//     while the parent has operations outstanding from before the split, so it overtakes none.
struct PartitionQueue {
  PartitionId id;
  SpaceState* space = nullptr;

  // From the newest map.
  placement::PartitionState state = placement::PartitionState::kActive;
  Term term;
  CoreLink* link = nullptr;

  Term refused;                   // The greatest term that was refused.
  Term sent_term;                 // Term of the outstanding operations.
  std::uint32_t outstanding = 0;  // Operations sent, not answered and not given up.
  OperationList waiting;
  std::uint32_t waiting_count = 0;
  // Puts with streamed values, from their call to their answer. Later operations on the same key
  // are held back until then. Other keys pass.
  std::vector<Operation*> streamed;

  bool listed = false;
  PartitionQueue* next_ready = nullptr;

  // In an ordered namespace: the queue whose range contained this range before a split. Null when
  // all operations that the parent sent before the split have ended. With it, the parent's term
  // after the split.
  PartitionQueue* parent = nullptr;
  Term parent_term;
  bool has_successors = false;  // Other queues have received parts of its range.
  bool is_split = false;        // Waiting operations were not yet assigned again after the split.

  // True if a group may be sent now.
  bool MaySend() {
    return term > refused && (outstanding == 0 || term == sent_term) && ParentsAreDone();
  }
  bool ParentsAreDone();
  // True if the streamed Puts hold back `operation` of this queue.
  bool IsHeldBack(const Operation& operation) const;
  void ForgetStreamed(const Operation* operation);
  void AddStreamed(Operation* operation);
};

// The queues of a namespace by partition. They never move, and their number only grows.
//
// Any thread may look a queue up; Append needs the client's lock, as all that a queue says does.
class QueueTable {
 public:
  class Iterator {
   public:
    Iterator(const QueueTable* table, std::uint32_t index) : table_(table), index_(index) {}
    PartitionQueue& operator*() const { return (*table_)[index_]; }
    Iterator& operator++() {
      ++index_;
      return *this;
    }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    const QueueTable* table_;
    std::uint32_t index_;
  };

  // REQUIRES: called once, before other threads look. `size_max` bounds all later growth.
  void Make(std::uint32_t size, std::uint32_t size_max);
  PartitionQueue& Append();

  std::uint32_t size() const { return size_.load(std::memory_order_acquire); }
  PartitionQueue& operator[](std::size_t index) const {
    return index < first_size_ ? first_[index] : *more_[index - first_size_];
  }
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, size()}; }

 private:
  std::unique_ptr<PartitionQueue[]> first_;
  std::size_t first_size_ = 0;
  // Room for all possible queues, so that no queue moves while other threads look at it.
  std::unique_ptr<std::unique_ptr<PartitionQueue>[]> more_;
  std::atomic<std::uint32_t> size_{0};
};

// Operations that wait in the daemon have their own sessions. A frame without an answer holds
// `ack_watermark` back. After 1,024 more frames that stops all frames of its session and core.
//
// Forwarded operations go to the aggregator of a node of this machine, for any owner. A forwarded
// frame is answered when the last of its owners has answered.
enum class Traffic : std::uint8_t { kPrompt = 0, kWaiting = 1, kForwarded = 2 };
inline constexpr std::size_t kTraffics = 3;

// A namespace in the client, with its operations of one kind of traffic. Lives as long as the
// client, so operations may point at it.
struct SpaceState {
  SpaceState();
  ~SpaceState();
  NamespaceId id;
  Traffic traffic = Traffic::kPrompt;
  std::string name;
  placement::Kind kind = placement::Kind::kHash;
  placement::NamespaceOptions options;
  bool dropped = false;
  // Expected size of an answer: a slowly falling maximum of the received values.
  std::uint32_t value_bytes_expected = 256;
  // Index = partition. kForwarded: of an ordered namespace only the first, which has all keys.
  QueueTable queues;
  // Direct reads, for prompt traffic only; null: none.
  std::unique_ptr<DirectSpace> direct;
  // Ranges of the newest map, for ordered namespaces that are not forwarded. Guarded by the
  // client's lock.
  std::shared_ptr<const placement::Ranges> ranges;

  void LearnValueBytes(std::size_t bytes);
  // Sets the keys of a partition under a term; no value: hashes place the keys. False: the client's
  // ranges are of another term, and a split changes keys and term together. REQUIRES: the client's
  // lock.
  bool FindBounds(std::uint32_t partition, Term term, std::optional<KeyBounds>* bounds) const;
};

inline bool IsForwarded(const PartitionQueue& queue) {
  return queue.space->traffic == Traffic::kForwarded;
}

}  // namespace tidepool::internal
