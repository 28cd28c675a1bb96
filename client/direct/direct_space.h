// Direct reads of a namespace: the partitions that are shown to this client, and reads without
// their owners.
//
//   bytes_map, calls -> [DirectSpace] -> direct reader => arenas of this node
//                                     -> remote node  => arenas of another node;  or frames
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/direct/direct_reader.h"
#include "client/direct/mapped_arenas.h"
#include "client/direct/range_routing.h"
#include "client/direct/read_counts.h"
#include "client/direct/remote_node.h"
#include "client/direct/unanswered_keys.h"
#include "proto/base/clock.h"
#include "proto/base/ids.h"

namespace tidepool::internal {

// Thread-safety: any thread, except for methods that need the client's lock. Lives as long as the
// client.
class DirectSpace {
 public:
  // `partitions`: the largest number that the namespace can have. Its keys lie by their hashes
  // until SetRanges.
  DirectSpace(NamespaceId id, std::uint32_t partitions, const UnansweredKeys& unanswered,
              const Clock& clock, wire::DirectCounts& counts);
  DirectSpace(const DirectSpace&) = delete;
  DirectSpace& operator=(const DirectSpace&) = delete;

  // Needs the client's lock, before the first read: the namespace is ordered and has these ranges
  // now.
  void SetRanges(std::shared_ptr<const placement::Ranges> ranges);
  // Returns the partition that had the key a moment ago. Nothing: ask the owner.
  std::optional<std::uint32_t> PartitionOf(Bytes key, std::uint64_t hash) const;

  // Needed request for a partition's view, or for the memory behind it.
  struct ViewRequest {
    bool view = false;          // The owner is to be asked for a view (opcode kShow).
    std::uint64_t missing = 0;  // Memory to request; 0: no request.
  };

  // Copies the value to the front of `to`. If it does not fit, only its length is returned.
  // kAskOwner: `view_request` names a further request, which is seldom needed.
  DirectRead GetInto(std::uint32_t partition, Bytes key, std::uint64_t hash, MutableBytes to,
                     ViewRequest* view_request);
  // Copies the value into a string, and sets the string's length.
  DirectRead Get(std::uint32_t partition, Bytes key, std::uint64_t hash, std::string* to,
                 ViewRequest* view_request);
  DirectRead Contains(std::uint32_t partition, Bytes key, std::uint64_t hash,
                      ViewRequest* view_request);

  // An item of GetMany. Cache misses of the items overlap.
  struct Item {
    std::uint32_t partition = 0;
    Bytes key;
    std::uint64_t hash = 0;
    MutableBytes to;  // Room for the value, which goes to its front. The owner sends a value that
                      // does not fit.
    bool value_wanted = true;
    ViewRequest view_request;
    DirectRead read;  // kAskOwner unless it was answered.
  };
  static constexpr std::size_t kItemsMax = DirectReader::kStage;
  // Reads at most kItemsMax items.
  void GetMany(std::span<Item> items);

  // Takes over the view of a partition in this memory. REQUIRES: the client's lock. `count`: the
  // view's counter of reads. `bounds`: the keys of the partition under the view's term; no value:
  // the keys of its hashes.
  ViewRequest Show(std::uint32_t partition, const storage::DirectView& view,
                   std::optional<KeyBounds> bounds, const std::shared_ptr<MappedArenas>& arenas,
                   ReadCount* count);
  // Takes over the view of a partition on another node. The view may be read for the given time
  // from now.
  void ShowRemotely(std::uint32_t partition, const storage::DirectView& view,
                    std::optional<KeyBounds> bounds, const std::shared_ptr<RemoteNode>& node,
                    ReadCount* count, std::uint64_t from_ns, std::uint64_t lease_ns);
  // Expects requested memory, so the next reads may soon request a view. REQUIRES: the client's
  // lock.
  void ExpectMemory(std::uint32_t partition);
  // Notes that memory has come, perhaps for waiting views and records. REQUIRES: the client's lock.
  void MemoryCame();

  // That were answered, of all threads; and of these by a network card.
  std::uint64_t reads() const;
  std::uint64_t remote_reads() const { return remote_reads_.load(std::memory_order_relaxed); }

 private:
  // A partition on this node, or with `node` on another node.
  struct Place {
    std::shared_ptr<MappedArenas> arenas;
    DirectPartition partition;
    std::shared_ptr<RemoteNode> node;
    RemotePartition* remote = nullptr;
    ReadCount* count = nullptr;
    std::optional<KeyBounds> bounds;
    bool Has(Bytes key) const { return !bounds.has_value() || bounds->Hold(key); }
    // The owner serves until then, monotonic; to be renewed from the other time on.
    std::atomic<std::uint64_t> until_ns{0};
    std::atomic<std::uint64_t> renew_ns{0};
    void Lease(std::uint64_t from_ns, std::uint64_t lease_ns);
  };
  struct Slot {
    std::atomic<const Place*> place{nullptr};
    // Number of reads that go to the owner before the next request for a view.
    std::atomic<std::uint32_t> asks_in{0};
  };

  // A cache line for each lease's slot. A single counter would move from core to core with each
  // read.
  struct alignas(64) Counter {
    std::atomic<std::uint64_t> value{0};
  };

  // How a read was made: by which reader, and whether the value was wanted.
  struct Way {
    std::size_t reader_slot = 0;
    bool is_get = true;
  };
  void Note(Slot& slot, const Place* place, const DirectRead& read, Way way,
            ViewRequest* view_request);
  static bool IsOwnersTurn(const Place& place, const DirectRead& read);
  template <typename Read>
  DirectRead Try(std::uint32_t partition, Bytes key, std::uint64_t hash, bool is_get,
                 ViewRequest* view_request, Read&& read);
  void ReadRemotely(std::span<Item> items, std::span<const std::size_t> which);
  void NoteRemote(const Place* place, const DirectRead& read, std::uint64_t now_ns, Item* item);
  const Place* PlaceOf(Item& item);
  const Place* PlaceOf(std::uint32_t partition, Bytes key, ViewRequest* view_request);
  bool IsRemote(std::uint32_t partition) const;
  static bool CountDown(std::atomic<std::uint32_t>& counter, std::uint32_t again,
                        std::uint32_t by = 1);

  const NamespaceId id_;
  const std::uint32_t partitions_;
  const UnansweredKeys& unanswered_;
  const Clock& clock_;
  wire::DirectCounts& counts_;
  const std::unique_ptr<Slot[]> slots_;
  std::unique_ptr<RangeRouting> routing_;  // Used for ordered namespaces.
  std::atomic<std::uint32_t> memory_asks_in_{0};
  static_assert(MappedArenas::kSlots == wire::DirectCounts::kSlots);
  std::array<Counter, MappedArenas::kSlots> reads_;
  std::atomic<std::uint64_t> remote_reads_{0};
  // All places ever made, because a reader may still use an old place.
  std::vector<std::unique_ptr<Place>> places_;
};

}  // namespace tidepool::internal
