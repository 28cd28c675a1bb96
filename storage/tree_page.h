// A page of the ordered index: cells in the order of their keys, without the prefix that all keys
// of the page share.
//
// TreeIndex -> [TreePages] -> bytes of a 4 KiB chunk. A page is [header | slots growing up | free |
// cells growing down | prefix]. A slot holds the first 4 bytes of the key after the prefix, so a
// search compares integers that lie side by side; the cell holds the rest of the key and what it
// leads to: a record's location in a leaf, a page in an inner page.
#pragma once

#include <algorithm>
#include <cstdint>

#include "proto/base/bytes.h"
#include "proto/base/check.h"
#include "storage/core_memory.h"
#include "storage/layout.h"

namespace tidepool::storage {

// Node offset of a page in units of 4 KiB; 0: no page.
using PageRef = std::uint32_t;
inline constexpr int kPageShift = 12;
inline constexpr std::uint32_t kPageBytes = 1u << kPageShift;
static_assert(kPageBytes == kChunkBytesMin);

// Where the whole of a key is that a page holds only the beginning of.
class TreeKeyReader {
 public:
  virtual ~TreeKeyReader() = default;
  // Reads the key that was inserted with `location`, or with a location that it replaced since.
  virtual Bytes KeyAt(std::uint64_t location) const = 0;
};

struct TreeSlot {
  std::uint32_t head;    // The first 4 bytes of the suffix, zeros behind its end; big-endian.
  std::uint16_t offset;  // Offset of the cell in the page.
  std::uint16_t size;    // Size of the suffix; the top bit is the caller's mark.
};
static_assert(sizeof(TreeSlot) == 8);

struct TreePage {
  std::uint16_t count;         // Of cells.
  std::uint16_t heap;          // Where the lowest cell begins.
  std::uint16_t dead;          // Bytes of removed cells above `heap`.
  std::uint16_t prefix_bytes;  // Cut off all keys; kept at the page's end.
  std::uint16_t marked;        // Cells with the mark.
  std::uint8_t level;          // 0: a leaf.
  std::uint8_t reserved;
  PageRef next;   // Leaves only: neighbours in the order of keys.
  PageRef prev;   // (A free page: the next free one is in `next`.)
  PageRef first;  // Inner pages only: the child below the first separator.

  TreeSlot* slots() { return reinterpret_cast<TreeSlot*>(this + 1); }
  const TreeSlot* slots() const { return reinterpret_cast<const TreeSlot*>(this + 1); }
  std::byte* at(std::size_t offset) { return reinterpret_cast<std::byte*>(this) + offset; }
  const std::byte* at(std::size_t offset) const {
    return reinterpret_cast<const std::byte*>(this) + offset;
  }
};
static_assert(sizeof(TreePage) == 24);
static_assert(sizeof(TreePage) % alignof(TreeSlot) == 0);

// Part of a page's keys in the page. A suffix longer than `inline_max` continues in the record
// (leaves) or in a chunk that holds the whole separator (inner pages).
struct TreePageShape {
  std::uint32_t page_bytes;
  std::uint32_t prefix_max;
  std::uint32_t inline_max;

  static constexpr TreePageShape Of(std::uint32_t page_bytes) {
    return {page_bytes, page_bytes / 16, page_bytes / 10};
  }
  // Largest cell with its slot: 8 + payload 8 + the suffix without its head.
  constexpr std::uint32_t cell_bytes_max() const { return 8 + 8 + inline_max - 4; }
  // Both halves of a split page have room for the largest cell: a half is at most half of the page
  // and a further cell.
  constexpr bool valid() const {
    const std::size_t room = page_bytes - sizeof(TreePage) - prefix_max;
    return page_bytes <= kPageBytes && page_bytes % 8 == 0 && prefix_max <= inline_max &&
           inline_max > 8 && room >= 5 * cell_bytes_max();
  }
};
inline constexpr std::uint32_t kTreeKeyBytesInlineMax =
    TreePageShape::Of(kPageBytes).prefix_max + TreePageShape::Of(kPageBytes).inline_max;
static_assert(TreePageShape::Of(kPageBytes).valid());
static_assert(TreePageShape::Of(256).valid());

// Where a key is put together that a page holds in pieces.
struct TreeKeyBuffer {
  std::byte bytes[kTreeKeyBytesInlineMax];
};

struct TreeSpot {
  std::uint32_t index;  // First cell whose key is not below the searched key.
  bool equal;
};

// Reads and changes single pages; knows nothing of the tree. Owner core only.
class TreePages {
 public:
  // `reader` may be null if no key is longer than the shape's inline_max.
  TreePages(CoreMemory& memory, const TreePageShape& shape, const TreeKeyReader* reader)
      : base_(memory.At(0)), shape_(shape), reader_(reader) {
    TP_CHECK(shape.valid());
  }

  const TreePageShape& shape() const { return shape_; }
  TreePage* At(PageRef ref) const {
    return reinterpret_cast<TreePage*>(base_ + (std::uint64_t{ref} << kPageShift));
  }
  // The header and the beginning of the slots, asked for before they are searched.
  void PrefetchSlots(PageRef ref) const { Prefetch(ref, 640); }
  // The cells, whose header must be here: about a third of a page is free.
  void PrefetchCells(PageRef ref) const {
    const TreePage& page = *At(ref);
    for (std::uint32_t line = page.heap & ~63u; line < shape_.page_bytes; line += 64) {
      __builtin_prefetch(page.at(line));
    }
    asm volatile("");
  }

  // An empty page whose keys all begin with `prefix`.
  void Init(TreePage* page, std::uint8_t level, Bytes prefix) const;

  // ---- Searching. The key must lie in the page's range, and so begin with its prefix.
  TreeSpot Search(const TreePage& page, Bytes key) const;
  // Returns how many of the page's keys are below any key.
  std::uint32_t CountBelow(const TreePage& page, Bytes key) const;
  // Child 0 is `first`, child i that of cell i - 1.
  std::uint32_t ChildIndex(const TreePage& page, Bytes key) const {
    const TreeSpot spot = Search(page, key);
    return spot.index + (spot.equal ? 1 : 0);
  }
  PageRef Child(const TreePage& page, std::uint32_t index) const {
    if (index == 0) return page.first;
    return LoadUnaligned<PageRef>(page.at(page.slots()[index - 1].offset));
  }

  // ---- Cells.
  static std::uint32_t SuffixBytes(const TreeSlot& slot) { return slot.size & ~kMark; }
  static bool Marked(const TreeSlot& slot) { return (slot.size & kMark) != 0; }
  static std::uint32_t KeyBytes(const TreePage& page, std::uint32_t index) {
    return page.prefix_bytes + SuffixBytes(page.slots()[index]);
  }
  // A record's location (leaf), or child and chunk of the separator (inner page).
  std::uint64_t Payload(const TreePage& page, std::uint32_t index) const;
  static std::uint64_t Location(const TreePage& leaf, std::uint32_t index) {
    // The 3 bytes before the cell are the page's own.
    return LoadUnaligned<std::uint64_t>(leaf.at(leaf.slots()[index].offset - 3u)) >> 24;
  }
  void SetLocation(TreePage* leaf, std::uint32_t index, std::uint64_t location, bool mark) const;
  // A key: put together in `buffer`, or a view of where it is whole.
  Bytes KeyOf(const TreePage& page, std::uint32_t index, TreeKeyBuffer* buffer) const;
  // The first bytes of a key, at most `count` of them and at most prefix_max.
  std::uint32_t FirstBytes(const TreePage& page, std::uint32_t index, std::byte* to,
                           std::uint32_t count) const;

  // Bytes that a key takes in a page with this prefix, slot included.
  std::uint32_t CellBytes(std::uint8_t level, std::uint32_t prefix_bytes,
                          std::uint32_t key_bytes) const {
    return static_cast<std::uint32_t>(sizeof(TreeSlot)) + PayloadBytes(level, key_bytes) +
           RestBytes(key_bytes - prefix_bytes);
  }
  // There must be room.
  void Put(TreePage* page, std::uint32_t index, Bytes key, std::uint64_t payload, bool mark) const;
  void Remove(TreePage* page, std::uint32_t index) const;
  // Appends cells [from, to) of another page.
  void AppendFrom(TreePage* page, const TreePage& other, std::uint32_t from,
                  std::uint32_t to) const;
  // Wins the dead bytes back.
  void Compact(TreePage* page) const;

  // ---- Room.
  static std::uint32_t Free(const TreePage& page) {
    return page.heap - static_cast<std::uint32_t>(sizeof(TreePage) + page.count * sizeof(TreeSlot));
  }
  // Slots and live cells.
  std::uint32_t Used(const TreePage& page) const { return capacity(page) - Free(page) - page.dead; }
  std::uint32_t capacity(const TreePage& page) const {
    return shape_.page_bytes - static_cast<std::uint32_t>(sizeof(TreePage)) - page.prefix_bytes;
  }
  // Bytes of a cell with its slot.
  std::uint32_t UsedBy(const TreePage& page, std::uint32_t index) const {
    return CellBytes(page.level, page.prefix_bytes, KeyBytes(page, index));
  }

  // Every count agrees with the cells, which are in order.
  void Check(const TreePage& page) const;

 private:
  static constexpr std::uint16_t kMark = 0x8000;

  void Prefetch(PageRef ref, std::uint32_t bytes) const {
    const auto* at = reinterpret_cast<const char*>(At(ref));
    for (std::uint32_t line = 0; line < bytes; line += 64) __builtin_prefetch(at + line);
    // g++ takes a function that only prefetches for a pure one and leaves its calls out.
    asm volatile("");
  }
  static std::uint32_t HeadOf(const std::byte* suffix, std::size_t count) {
    if (count >= 4) [[likely]]
      return __builtin_bswap32(LoadUnaligned<std::uint32_t>(suffix));
    std::uint32_t head = 0;
    if (count != 0) std::memcpy(&head, suffix, count);
    return __builtin_bswap32(head);
  }
  // Part of a suffix that the cell holds behind the payload: all but the head, up to the cut.
  std::uint32_t RestBytes(std::uint32_t suffix_bytes) const {
    return std::max(std::min(suffix_bytes, shape_.inline_max), 4u) - 4;
  }
  bool Continues(std::uint32_t suffix_bytes) const { return suffix_bytes > shape_.inline_max; }
  std::uint32_t PayloadBytes(std::uint8_t level, std::uint32_t key_bytes) const {
    if (level == 0) return 5;
    return key_bytes > shape_.inline_max ? 8 : 4;
  }
  Bytes WholeKey(const TreePage& page, std::uint32_t index) const;
  // Sign of key - cell where the heads agree. `suffix` is the key's.
  int CompareRest(const TreePage& page, std::uint32_t index, Bytes suffix) const;

  std::byte* const base_;
  const TreePageShape shape_;
  const TreeKeyReader* const reader_;
};

}  // namespace tidepool::storage
