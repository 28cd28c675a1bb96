// Order of a partition's keys: a B+tree over byte strings that leads to locations.
//
// OrderedStore (scans, ranges), queues by priority -> [TreeIndex] -> a record's location in the
// log. Pages: tree_page.h. Stands beside the tag index, which finds single keys seven times faster.
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <span>
#include <vector>

#include "storage/core_memory.h"
#include "storage/tree_page.h"

namespace tidepool::storage {

struct TreeIndexOptions {
  std::uint32_t page_bytes = kPageBytes;  // Tests only: less makes deep trees of few keys.
};

// Keys of 0 to 16,384 bytes in lexicographic order of unsigned bytes, each once. A leaf holds the
// part of a key behind the page's prefix, at most 409 bytes of it; the rest of a longer key is read
// from the record through the reader. Inner pages hold the shortest string that separates two
// leaves; a string of more than 409 bytes lies whole in a chunk of its own, so that it outlives the
// records. Every page therefore has room for 9 cells however long the keys are, and the depth is
// logarithmic.
//
// Owner core only. A place is valid until the next Insert or Erase; Replace leaves places valid.
// Cost: one cache-cold page per operation (the leaf; inner pages are one in a hundred) and at most
// two page copies per level when it is split or merged, some us in all.
//
// Memory: pages are chunks of the core's memory. A page that falls below a quarter is merged into a
// neighbour when the two fill no more than three quarters (an empty page always, if they fit). Free
// pages beyond those promised to the next insert go back to the core.
//
// Invariants: keys grow along the leaves; all leaves have one depth; every key of a page begins
// with its prefix and lies between the separators around it; size = cells of all leaves.
class TreeIndex {
 public:
  // The cell of a key; `page` 0: no cell.
  struct Place {
    PageRef page = 0;
    std::uint32_t cell = 0;
    bool valid() const { return page != 0; }
    bool operator==(const Place&) const = default;
  };
  // Target of a cell. The mark is the caller's: OrderedStore marks records that expire.
  struct Entry {
    std::uint64_t location;
    bool marked;
  };

  // `reader` must outlive the index; it may be null if no key is longer than 409 bytes.
  TreeIndex(CoreMemory& memory, const TreeKeyReader* reader, const TreeIndexOptions& options = {});
  ~TreeIndex();
  TreeIndex(const TreeIndex&) = delete;
  TreeIndex& operator=(const TreeIndex&) = delete;

  // False: not even the root could be allocated; the index must not be used.
  bool valid() const { return root_ != 0; }
  std::uint64_t size() const { return size_; }

  // True if Insert of this key will succeed: pages for a split of every level are at hand. False:
  // memory is used up, and nothing has changed.
  bool MakeRoom(Bytes key) {
    const bool long_ones = key.size() > pages_.shape().inline_max || long_keys_ != 0;
    if (spare_count_ > height_ && (!long_ones || spare_separator_ != 0)) [[likely]]
      return true;
    return MakeRoomSlow(key, long_ones);
  }
  // The key must be absent, and MakeRoom for it must have succeeded.
  void Insert(Bytes key, std::uint64_t location, bool mark);
  // The record of a key that is present has moved. Both its old and its new memory must still hold
  // the key.
  void Replace(Bytes key, std::uint64_t location, bool mark);
  // The key must be present, and its record still readable. Needs no memory.
  void Erase(Bytes key);
  // Erases the first key, without searching for it. The index must not be empty.
  void EraseFirst();

  // ---- Places. An invalid place means: no cell. `ahead`: part of the leaf to be read.
  enum class Ahead : std::uint8_t { kOneCell, kRun };
  Place Find(Bytes key) const;
  // The first key that is not below `key`.
  Place LowerBound(Bytes key, Ahead ahead = Ahead::kOneCell) const;
  // The first key above `key`.
  Place UpperBound(Bytes key, Ahead ahead = Ahead::kOneCell) const;
  // The last key below `key`.
  Place LastBelow(Bytes key, Ahead ahead = Ahead::kOneCell) const;
  Place First() const;
  Place Last() const;
  Place Next(Place place) const;
  Place Previous(Place place) const;

  Entry At(Place place) const {
    const TreePage& leaf = *pages_.At(place.page);
    return {TreePages::Location(leaf, place.cell), TreePages::Marked(leaf.slots()[place.cell])};
  }
  // In `buffer`, or a view of the record's key where that is longer than the page holds.
  Bytes KeyOf(Place place, TreeKeyBuffer* buffer) const {
    return pages_.KeyOf(*pages_.At(place.page), place.cell, buffer);
  }

  // ---- Runs of keys.
  // Fills `entries` with the cells from `*from` on upwards while their keys are below `*end` (null:
  // to the last key), and moves `*from` behind them; it is invalid at the end of the range. Fetches
  // the following cells ahead. Returns the count. `places`, if not null, receives each cell's
  // place.
  std::size_t CollectUp(Place* from, const Bytes* end, std::span<Entry> entries,
                        Place* places = nullptr) const;
  // Fills `entries` downwards, while keys are not below `begin`.
  std::size_t CollectDown(Place* from, Bytes begin, std::span<Entry> entries,
                          Place* places = nullptr) const;
  // Counts like CollectUp, leaf by leaf: at most `leaves_max` of them. Calls marked(entry) for each
  // marked cell, and counts it if that says true.
  std::uint64_t CountUp(Place* from, const Bytes* end, std::uint64_t leaves_max,
                        absl::FunctionRef<bool(const Entry&)> marked) const;
  // Returns a key with about half of the keys below it, to split the partition at: exact up to 256
  // leaves, beyond that the first key of the middle leaf. Reads one page in a hundred. Invalid
  // below 2 keys.
  Place Median() const;

  // Frees the pages of a dropped partition, without reading keys; nothing else may be called any
  // more. True: more to do.
  bool FreeSlice(absl::FunctionRef<bool()> done);

  // A key up to this is never read from its record.
  std::uint32_t whole_key_bytes_max() const { return pages_.shape().inline_max; }

  // ---- Accounts.
  std::uint32_t height() const { return height_; }  // 1: the root is a leaf.
  std::uint64_t page_count() const { return page_count_; }
  // Pages in use and long separators.
  std::uint64_t bytes() const { return page_count_ * kPageBytes + separator_bytes_; }
  // Including the spare pages.
  std::uint64_t allocated_bytes() const {
    return bytes() + spare_count_ * kPageBytes + (spare_separator_ != 0 ? separator_unit_ : 0);
  }

  // Walks everything; for tests.
  void CheckInvariants() const;

 private:
  // A height of 48 takes more records than locations of 40 bits can name: a root is split only when
  // it has 5 children or more.
  static constexpr std::uint32_t kHeightMax = 48;

  // The way from the root to a leaf: the child that was taken in each inner page.
  struct Step {
    TreePage* page;
    PageRef ref;
    std::uint32_t child;
  };
  struct Path {
    Step steps[kHeightMax];
    std::uint32_t leaf = 0;  // Index of the leaf's step.
  };
  // The beginning of a page's lower or upper bound.
  struct Fence {
    std::byte bytes[TreePageShape::Of(kPageBytes).prefix_max];
    std::uint32_t size = 0;
    bool present = false;
    Bytes view() const { return {bytes, size}; }
  };

  TreePage* DescendTo(Bytes key, Path* path) const;
  PageRef LeafOf(Bytes key, Ahead ahead) const;
  Fence LowFence(const Path& path, std::uint32_t depth, std::uint32_t child) const;
  Fence HighFence(const Path& path, std::uint32_t depth, std::uint32_t child) const;
  Place Settle(PageRef leaf, std::uint32_t cell) const;

  bool MakeRoomSlow(Bytes key, bool separator);
  TreePage* TakePage(PageRef* ref);
  void GivePage(PageRef ref);
  PageRef TakeSeparator(Bytes key);
  void GiveSeparator(PageRef ref);
  bool FitsUnsplit(const TreePage& page, std::uint32_t bytes) const;
  void AddCell(Path& path, std::uint32_t depth, Bytes key, std::uint64_t payload, bool mark);
  struct Cut;
  Cut ChooseCut(const TreePage& old, Bytes key, bool left_edge, bool right_edge,
                TreeKeyBuffer* buffer);
  TreePage* Split(Path& path, std::uint32_t depth, Bytes key);
  void EraseAt(Path& path, std::uint32_t cell);
  void Shrink(Path& path);
  bool TryMerge(Path& path, std::uint32_t depth, std::uint32_t left);
  // The leaf with `*skip` leaves before it below this page; else 0, and `*skip` is less by all.
  PageRef LeafAfter(PageRef inner, std::uint64_t* skip) const;
  struct Walk;
  void CheckPage(PageRef ref, int level, const Bytes* low, const Bytes* high, Walk* walk) const;

  CoreMemory& memory_;
  const TreePages pages_;
  // Chunk of a separator: the longest key, or a whole block where blocks are smaller (a record, and
  // with it its key, is smaller than a block).
  const std::uint64_t separator_unit_;
  PageRef root_ = 0;
  PageRef first_leaf_ = 0;
  PageRef last_leaf_ = 0;
  std::uint32_t height_ = 0;
  std::uint64_t size_ = 0;
  std::uint64_t long_keys_ = 0;  // Keys that may need a long separator.
  std::uint64_t page_count_ = 0;
  std::uint64_t leaf_count_ = 0;
  std::uint64_t separator_bytes_ = 0;
  PageRef spare_ = 0;
  std::uint32_t spare_count_ = 0;
  PageRef spare_separator_ = 0;
};

}  // namespace tidepool::storage
