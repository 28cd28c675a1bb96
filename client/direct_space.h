// What a client can read of one namespace without its owners: which of its partitions are shown to
// it, and the reads.
//
//   bytes_map, calls -> [DirectSpace] -> direct reader => arenas;  else by frames
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/direct_reader.h"
#include "client/mapped_arenas.h"
#include "client/unanswered_keys.h"
#include "proto/base/ids.h"

namespace tidepool::internal {

// A value, or that there is none.
struct DirectValue {
  bool found = false;
  std::uint8_t flags = 0;
  std::uint64_t version = 0;
  std::string bytes;
};

// Any thread, but for what is said to need the client's lock. Lives as long as the client.
class DirectSpace {
 public:
  DirectSpace(NamespaceId id, std::uint32_t partitions, const UnansweredKeys& unanswered);
  DirectSpace(const DirectSpace&) = delete;
  DirectSpace& operator=(const DirectSpace&) = delete;

  // What has become of a partition's view, or of the memory behind it.
  struct Wish {
    bool view = false;          // The owner is to be asked for a view (opcode kShow).
    std::uint64_t missing = 0;  // Memory to be asked for; 0: none.
  };

  // Nothing: the owner has to be asked; and `wish` says what else, which is seldom anything.
  std::optional<DirectValue> Get(std::uint32_t partition, Bytes key, std::uint64_t hash,
                                 Wish* wish);
  std::optional<bool> Contains(std::uint32_t partition, Bytes key, std::uint64_t hash, Wish* wish);

  // As Get of each, with their cache misses beside each other.
  struct Item {
    std::uint32_t partition = 0;
    Bytes key;
    std::uint64_t hash = 0;
    MutableBytes to;  // The value goes to its front; one that does not fit is the owner's.
    bool value_wanted = true;
    Wish wish;
    DirectRead read;  // kAskOwner unless it was answered.
  };
  static constexpr std::size_t kItemsMax = DirectReader::kStage;
  // Of at most kItemsMax items.
  void GetMany(std::span<Item> items);

  // Needs the client's lock: a view has come, of a partition in this memory.
  Wish Show(std::uint32_t partition, const storage::DirectView& view,
            const std::shared_ptr<MappedArenas>& arenas);
  // Needs the client's lock: memory that has been asked for will come, so the next reads may ask
  // for a view soon.
  void ExpectMemory(std::uint32_t partition);

  // That were answered, of all threads.
  std::uint64_t reads() const;

 private:
  struct Place {
    std::shared_ptr<MappedArenas> arenas;
    DirectPartition partition;
  };
  struct Slot {
    std::atomic<const Place*> place{nullptr};
    // So many more reads go to the owner before it is asked for a view again.
    std::atomic<std::uint32_t> asks_in{0};
  };

  // A line for each lease's slot: one counter for all would go from core to core with each read.
  struct alignas(64) Counter {
    std::atomic<std::uint64_t> value{0};
  };

  void Note(Slot& slot, const Place* place, const DirectRead& read, Counter& counter, Wish* wish);
  template <typename Read>
  DirectRead Try(std::uint32_t partition, std::uint64_t hash, Wish* wish, Read&& read);
  static bool CountDown(std::atomic<std::uint32_t>& counter, std::uint32_t again);

  const NamespaceId id_;
  const std::uint32_t partitions_;
  const UnansweredKeys& unanswered_;
  const std::unique_ptr<Slot[]> slots_;
  std::atomic<std::uint32_t> memory_asks_in_{0};
  std::array<Counter, MappedArenas::kSlots> reads_;
  std::vector<std::unique_ptr<Place>> places_;  // All ever made: a reader may hold on to one.
};

}  // namespace tidepool::internal
