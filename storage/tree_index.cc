// Finding places in the order, and walking runs of keys. Changes are in tree_index_change.cc.
#include "storage/tree_index.h"

#include <algorithm>

#include "proto/base/check.h"

namespace tidepool::storage {
namespace {

// Up to here the median is counted out leaf by leaf: 256 cold headers are some 25 us.
constexpr std::uint64_t kMedianLeavesExact = 256;

}  // namespace

TreePage* TreeIndex::DescendTo(Bytes key, Path* path) const {
  PageRef ref = root_;
  TreePage* page = pages_.At(ref);
  std::uint32_t depth = 0;
  for (; page->level != 0; ++depth) {
    const std::uint32_t child = pages_.ChildIndex(*page, key);
    path->steps[depth] = {page, ref, child};
    ref = pages_.Child(*page, child);
    pages_.PrefetchSlots(ref);
    page = pages_.At(ref);
  }
  path->steps[depth] = {page, ref, 0};
  path->leaf = depth;
  return page;
}

PageRef TreeIndex::LeafOf(Bytes key, Ahead ahead) const {
  PageRef ref = root_;
  for (const TreePage* page = pages_.At(ref); page->level != 0;) {
    ref = pages_.Child(*page, pages_.ChildIndex(*page, key));
    pages_.PrefetchSlots(ref);
    page = pages_.At(ref);
  }
  // While the slots are searched, the cells come.
  if (ahead == Ahead::kRun) pages_.PrefetchCells(ref);
  return ref;
}

// The place of a cell that may be behind its leaf's last one.
TreeIndex::Place TreeIndex::Settle(PageRef leaf, std::uint32_t cell) const {
  const TreePage* page = pages_.At(leaf);
  while (cell >= page->count) {
    leaf = page->next;
    if (leaf == 0) return {};
    page = pages_.At(leaf);
    cell = 0;
  }
  return {leaf, cell};
}

TreeIndex::Place TreeIndex::Find(Bytes key) const {
  const PageRef leaf = LeafOf(key, Ahead::kOneCell);
  const TreeSpot spot = pages_.Search(*pages_.At(leaf), key);
  return spot.equal ? Place{leaf, spot.index} : Place{};
}

TreeIndex::Place TreeIndex::LowerBound(Bytes key, Ahead ahead) const {
  const PageRef leaf = LeafOf(key, ahead);
  return Settle(leaf, pages_.Search(*pages_.At(leaf), key).index);
}

TreeIndex::Place TreeIndex::UpperBound(Bytes key, Ahead ahead) const {
  const PageRef leaf = LeafOf(key, ahead);
  const TreeSpot spot = pages_.Search(*pages_.At(leaf), key);
  return Settle(leaf, spot.index + (spot.equal ? 1 : 0));
}

TreeIndex::Place TreeIndex::LastBelow(Bytes key, Ahead ahead) const {
  const PageRef leaf = LeafOf(key, ahead);
  return Previous({leaf, pages_.Search(*pages_.At(leaf), key).index});
}

TreeIndex::Place TreeIndex::First() const { return Settle(first_leaf_, 0); }

TreeIndex::Place TreeIndex::Last() const {
  return Previous({last_leaf_, pages_.At(last_leaf_)->count});
}

TreeIndex::Place TreeIndex::Next(Place place) const { return Settle(place.page, place.cell + 1); }

TreeIndex::Place TreeIndex::Previous(Place place) const {
  while (place.cell == 0) {
    place.page = pages_.At(place.page)->prev;
    if (place.page == 0) return {};
    place.cell = pages_.At(place.page)->count;
  }
  --place.cell;
  return place;
}

std::size_t TreeIndex::CollectUp(Place* from, const Bytes* end, std::span<Entry> entries,
                                 Place* places) const {
  std::size_t filled = 0;
  while (from->valid() && filled < entries.size()) {
    const TreePage& leaf = *pages_.At(from->page);
    const std::uint32_t bound = end == nullptr ? leaf.count : pages_.CountBelow(leaf, *end);
    const auto stop = static_cast<std::uint32_t>(
        std::min<std::size_t>(bound, from->cell + (entries.size() - filled)));
    // The next leaf is asked for while this one is read: its slots, and when its header can be
    // here, its cells.
    const bool goes_on =
        leaf.next != 0 && bound == leaf.count && entries.size() - filled > leaf.count - from->cell;
    if (goes_on) pages_.PrefetchSlots(leaf.next);
    const std::uint32_t middle = goes_on ? from->cell + (leaf.count - from->cell) / 2 : ~0u;
    for (std::uint32_t cell = from->cell; cell < stop; ++cell, ++filled) {
      if (cell == middle) pages_.PrefetchCells(leaf.next);
      entries[filled] = At({from->page, cell});
      if (places != nullptr) places[filled] = {from->page, cell};
    }
    from->cell = std::max(from->cell, stop);
    if (from->cell < bound) return filled;
    *from = bound < leaf.count ? Place{} : Settle(from->page, leaf.count);
  }
  return filled;
}

std::size_t TreeIndex::CollectDown(Place* from, Bytes begin, std::span<Entry> entries,
                                   Place* places) const {
  std::size_t filled = 0;
  while (from->valid() && filled < entries.size()) {
    const TreePage& leaf = *pages_.At(from->page);
    const std::uint32_t bound = begin.empty() ? 0 : pages_.CountBelow(leaf, begin);
    const bool goes_on = leaf.prev != 0 && bound == 0 && entries.size() - filled > from->cell;
    if (goes_on) pages_.PrefetchSlots(leaf.prev);
    std::uint32_t left = from->cell + 1;  // Cells of this leaf not yet passed.
    const std::uint32_t middle = goes_on ? left - left / 2 : 0;
    for (; left > bound && filled < entries.size(); --left, ++filled) {
      if (left == middle) pages_.PrefetchCells(leaf.prev);
      entries[filled] = At({from->page, left - 1});
      if (places != nullptr) places[filled] = {from->page, left - 1};
    }
    if (left > bound) {
      from->cell = left - 1;
      return filled;
    }
    *from = bound != 0 ? Place{} : Previous({from->page, 0});
  }
  return filled;
}

std::uint64_t TreeIndex::CountUp(Place* from, const Bytes* end, std::uint64_t leaves_max,
                                 absl::FunctionRef<bool(const Entry&)> marked) const {
  // One more descent instead of a comparison in each leaf: of the others only headers are read.
  const Place stop = end == nullptr ? Place{} : LowerBound(*end);
  // An empty range may be given the wrong way round: then the end is never met.
  if (from->valid() && stop.valid() && end != nullptr &&
      pages_.CountBelow(*pages_.At(from->page), *end) <= from->cell) {
    *from = {};
    return 0;
  }
  std::uint64_t count = 0;
  for (; from->valid() && leaves_max-- != 0;) {
    const TreePage& leaf = *pages_.At(from->page);
    const bool last = stop.valid() && stop.page == from->page;
    const std::uint32_t bound = last ? stop.cell : leaf.count;
    count += bound - from->cell;
    if (leaf.marked != 0) {
      for (std::uint32_t cell = from->cell; cell < bound; ++cell) {
        const Entry entry = At({from->page, cell});
        if (entry.marked && !marked(entry)) --count;
      }
    }
    *from = last ? Place{} : Settle(from->page, leaf.count);
    if (*from == stop) *from = {};
  }
  return count;
}

PageRef TreeIndex::LeafAfter(PageRef inner, std::uint64_t* skip) const {
  const TreePage& page = *pages_.At(inner);
  const std::uint64_t children = page.count + 1u;
  if (page.level == 1) {
    if (*skip < children) return pages_.Child(page, static_cast<std::uint32_t>(*skip));
    *skip -= children;
    return 0;
  }
  for (std::uint32_t child = 0; child < children; ++child) {
    if (const PageRef leaf = LeafAfter(pages_.Child(page, child), skip); leaf != 0) return leaf;
  }
  return 0;
}

TreeIndex::Place TreeIndex::Median() const {
  if (size_ < 2) return {};
  if (leaf_count_ <= kMedianLeavesExact) {
    std::uint64_t left = size_ / 2;
    PageRef leaf = first_leaf_;
    for (; left >= pages_.At(leaf)->count; leaf = pages_.At(leaf)->next) {
      left -= pages_.At(leaf)->count;
    }
    return {leaf, static_cast<std::uint32_t>(left)};
  }
  std::uint64_t skip = leaf_count_ / 2;
  return Settle(LeafAfter(root_, &skip), 0);
}

}  // namespace tidepool::storage
