// The operations of one partition that wait to be sent, and the rules of order between terms.
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
  // Puts one back that was sent and refused: before all that were called later.
  void Insert(Operation* operation);
  void Remove(Operation* operation);

 private:
  Operation* head_ = nullptr;
  Operation* tail_ = nullptr;
};

// Invariants:
// (1) A group never goes out under a term at or below `refused`: a refusal is final for
//     {partition, term}.
// (2) A group goes out under a newer term only when `outstanding` is 0, that is when everything
//     sent under older terms is answered or given up. So nothing overtakes what was refused.
// (3) `listed` says whether the queue is among its link's ready ones.
// (4) A queue whose range was a part of another one's sends nothing while the other one has
//     something outstanding that it sent before the split. So nothing overtakes that either.
struct PartitionQueue {
  PartitionId id;
  SpaceState* space = nullptr;

  // From the newest map.
  placement::PartitionState state = placement::PartitionState::kActive;
  Term term;
  CoreLink* link = nullptr;

  Term refused;                   // The greatest term that was refused.
  Term sent_term;                 // Of what is outstanding.
  std::uint32_t outstanding = 0;  // Operations sent, not answered and not given up.
  OperationList waiting;
  std::uint32_t waiting_count = 0;
  // Puts whose values are streamed, from their call to their answer. Later operations on the same
  // key are held back until then; other keys pass.
  std::vector<Operation*> streamed;

  bool listed = false;
  PartitionQueue* next_ready = nullptr;

  // Of an ordered namespace: whose range this one's was a part of, until all that was sent for it
  // before the split has come back, and the term that the other one has got by the split.
  PartitionQueue* parent = nullptr;
  Term parent_term;
  bool has_successors = false;  // Others have got parts of its range,
  bool is_split = false;        // and what waits here has not been looked through since.

  // Whether a group may be sent now.
  bool MaySend() {
    return term > refused && (outstanding == 0 || term == sent_term) && ParentsAreDone();
  }
  bool ParentsAreDone();
  // Whether `operation` of this queue may go, seen from the streamed Puts.
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

  // Once, before others look. At most `size_max` in the end.
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
  // As many as may come, so that nothing moves that others look at.
  std::unique_ptr<std::unique_ptr<PartitionQueue>[]> more_;
  std::atomic<std::uint32_t> size_{0};
};

// Operations that wait in the daemon have sessions of their own. A frame that is not answered holds
// back `ack_watermark`, and so, 1,024 frames later, all others of its session and core.
//
// What is forwarded goes to the aggregator of a node of this machine, whoever owns its keys. It is
// answered when the last of its owners has answered.
enum class Traffic : std::uint8_t { kPrompt = 0, kWaiting = 1, kForwarded = 2 };
inline constexpr std::size_t kTraffics = 3;

// What a client knows about one namespace, and its operations of one sort of traffic. Lives as long
// as the client, so operations may point at it.
struct SpaceState {
  SpaceState();
  ~SpaceState();
  NamespaceId id;
  Traffic traffic = Traffic::kPrompt;
  std::string name;
  placement::Kind kind = placement::Kind::kHash;
  placement::NamespaceOptions options;
  bool dropped = false;
  // A slowly falling maximum of the values that came back: what an answer is expected to take.
  std::uint32_t value_bytes_expected = 256;
  // Index = partition. kForwarded: of an ordered namespace only the first, which has all keys.
  QueueTable queues;
  // What is read without the owners; null: nothing. Of prompt traffic only.
  std::unique_ptr<DirectSpace> direct;
  // Of kind ordered, unless forwarded, from the newest map; guarded by the client's lock.
  std::shared_ptr<const placement::Ranges> ranges;

  void LearnValueBytes(std::size_t bytes);
  // Needs the client's lock. Sets the keys of a partition under a term; none: hashes place the
  // keys. False: the client's ranges are of another term, and a split changes keys and term
  // together.
  bool FindBounds(std::uint32_t partition, Term term, std::optional<KeyBounds>* bounds) const;
};

inline bool IsForwarded(const PartitionQueue& queue) {
  return queue.space->traffic == Traffic::kForwarded;
}

}  // namespace tidepool::internal
