// Inserting with splits, erasing with merges, and the memory for both.
#include <algorithm>
#include <bit>
#include <cstring>

#include "proto/base/check.h"
#include "proto/base/limits.h"
#include "storage/tree_index.h"

namespace tidepool::storage {
namespace {

// Free pages kept beyond what the next insert may need: a page that is merged and split again and
// again costs no chunk each time.
constexpr std::uint32_t kSpareSlack = 2;

std::uint32_t CommonBytes(Bytes a, Bytes b) {
  const std::size_t both = std::min(a.size(), b.size());
  std::size_t common = 0;
  while (common < both && a[common] == b[common]) ++common;
  return static_cast<std::uint32_t>(common);
}

}  // namespace

TreeIndex::TreeIndex(CoreMemory& memory, const TreeKeyReader* reader,
                     const TreeIndexOptions& options)
    : memory_(memory),
      pages_(memory, TreePageShape::Of(options.page_bytes), reader),
      separator_unit_(
          std::min<std::uint64_t>(std::bit_ceil(limits::kKeyBytesMax), memory.block_bytes())) {
  const std::uint64_t offset = memory_.AllocateChunk(kPageBytes);
  if (offset == 0) return;
  root_ = static_cast<PageRef>(offset >> kPageShift);
  pages_.Init(pages_.At(root_), 0, {});
  first_leaf_ = last_leaf_ = root_;
  height_ = 1;
  page_count_ = leaf_count_ = 1;
}

TreeIndex::~TreeIndex() {
  const bool more = FreeSlice([] { return false; });
  TP_CHECK(!more);
}

// ---- Memory.

bool TreeIndex::MakeRoomSlow(Bytes key, bool separator) {
  bool enough = true;
  while (enough && spare_count_ <= height_) {
    const std::uint64_t offset = memory_.AllocateChunk(kPageBytes);
    enough = offset != 0;
    if (!enough) break;
    const auto ref = static_cast<PageRef>(offset >> kPageShift);
    pages_.At(ref)->next = spare_;
    spare_ = ref;
    ++spare_count_;
  }
  if (enough && separator && spare_separator_ == 0) {
    const std::uint64_t offset = memory_.AllocateChunk(separator_unit_);
    enough = offset != 0;
    if (enough) spare_separator_ = static_cast<PageRef>(offset >> kPageShift);
  }
  if (enough) return true;
  const TreePage& leaf = *pages_.At(LeafOf(key, Ahead::kOneCell));
  return FitsUnsplit(
      leaf, pages_.CellBytes(0, leaf.prefix_bytes, static_cast<std::uint32_t>(key.size())));
}

TreePage* TreeIndex::TakePage(PageRef* ref) {
  TP_CHECK(spare_count_ > 0);
  *ref = spare_;
  TreePage* page = pages_.At(spare_);
  spare_ = page->next;
  --spare_count_;
  ++page_count_;
  return page;
}

void TreeIndex::GivePage(PageRef ref) {
  --page_count_;
  if (spare_count_ > height_ + kSpareSlack) {
    memory_.FreeChunk(std::uint64_t{ref} << kPageShift, kPageBytes);
    return;
  }
  pages_.At(ref)->next = spare_;
  spare_ = ref;
  ++spare_count_;
}

PageRef TreeIndex::TakeSeparator(Bytes key) {
  TP_CHECK(spare_separator_ != 0);
  TP_CHECK(key.size() <= separator_unit_);
  const PageRef ref = spare_separator_;
  spare_separator_ = 0;
  separator_bytes_ += separator_unit_;
  std::memcpy(memory_.At(std::uint64_t{ref} << kPageShift), key.data(), key.size());
  return ref;
}

void TreeIndex::GiveSeparator(PageRef ref) {
  if (ref == 0) return;
  separator_bytes_ -= separator_unit_;
  memory_.FreeChunk(std::uint64_t{ref} << kPageShift, separator_unit_);
}

// ---- Bounds of pages: what all keys between two separators begin with need not be in the page.

TreeIndex::Fence TreeIndex::LowFence(const Path& path, std::uint32_t depth,
                                     std::uint32_t child) const {
  Fence fence;
  while (child == 0) {
    if (depth == 0) return fence;
    child = path.steps[--depth].child;
  }
  fence.size =
      pages_.FirstBytes(*path.steps[depth].page, child - 1, fence.bytes, pages_.shape().prefix_max);
  fence.present = true;
  return fence;
}

TreeIndex::Fence TreeIndex::HighFence(const Path& path, std::uint32_t depth,
                                      std::uint32_t child) const {
  Fence fence;
  while (child == path.steps[depth].page->count) {
    if (depth == 0) return fence;
    child = path.steps[--depth].child;
  }
  fence.size =
      pages_.FirstBytes(*path.steps[depth].page, child, fence.bytes, pages_.shape().prefix_max);
  fence.present = true;
  return fence;
}

// ---- Inserting.

// Winning dead bytes back is worth it only if it lasts: else a full page would be compacted again
// for every insert after an erase.
bool TreeIndex::FitsUnsplit(const TreePage& page, std::uint32_t bytes) const {
  const std::uint32_t free = TreePages::Free(page);
  return free >= bytes || free + page.dead >= bytes + pages_.shape().page_bytes / 16;
}

void TreeIndex::AddCell(Path& path, std::uint32_t depth, Bytes key, std::uint64_t payload,
                        bool mark) {
  TreePage* page = path.steps[depth].page;
  const std::uint32_t bytes =
      pages_.CellBytes(page->level, page->prefix_bytes, static_cast<std::uint32_t>(key.size()));
  if (!FitsUnsplit(*page, bytes)) [[unlikely]] {
    page = Split(path, depth, key);
  } else if (TreePages::Free(*page) < bytes) {
    pages_.Compact(page);
  }
  const TreeSpot spot = pages_.Search(*page, key);
  TP_CHECK(!spot.equal);
  pages_.Put(page, spot.index, key, payload, mark);
}

// Where a full page is cut: cells before `index` stay. In an inner page cell `index` itself goes
// up.
struct TreeIndex::Cut {
  std::uint32_t index;
  Bytes separator;
  PageRef chunk;  // That holds the separator, or 0.
};

TreeIndex::Cut TreeIndex::ChooseCut(const TreePage& old, Bytes key, bool left_edge, bool right_edge,
                                    TreeKeyBuffer* buffer) {
  const bool leaf = old.level == 0;
  const std::uint32_t spot = pages_.Search(old, key).index;
  std::uint32_t index = 0;
  if (right_edge && spot == old.count) {
    // Keys that arrive in order leave full pages behind.
    index = leaf ? old.count : old.count - 1u;
  } else if (!left_edge || spot != 0) {
    const std::uint32_t half = pages_.Used(old) / 2;
    for (std::uint32_t bytes = 0; bytes < half && index + 1 < old.count; ++index) {
      bytes += pages_.UsedBy(old, index);
    }
    if (!leaf) index = std::clamp<std::uint32_t>(index, 1, old.count - 2u);
  }
  if (!leaf) {
    const Bytes separator = pages_.KeyOf(old, index, buffer);
    return {index, separator, static_cast<PageRef>(pages_.Payload(old, index) >> 32)};
  }
  TreeKeyBuffer below_buffer;
  const Bytes below = index == 0 ? key : pages_.KeyOf(old, index - 1, &below_buffer);
  const Bytes above = index == old.count ? key : pages_.KeyOf(old, index, buffer);
  // Returns the shortest string above the left key and not above the right key.
  const Bytes separator = above.first(CommonBytes(below, above) + 1);
  const bool long_one = separator.size() > pages_.shape().inline_max;
  return {index, separator, long_one ? TakeSeparator(separator) : PageRef{0}};
}

// Cuts a page in two, and gives the half that the key belongs to.
TreePage* TreeIndex::Split(Path& path, std::uint32_t depth, Bytes key) {
  Fence low;
  Fence high;
  if (depth != 0) {
    low = LowFence(path, depth - 1, path.steps[depth - 1].child);
    high = HighFence(path, depth - 1, path.steps[depth - 1].child);
  }
  TreePage* left = path.steps[depth].page;
  const PageRef left_ref = path.steps[depth].ref;
  alignas(64) std::byte copy[kPageBytes];
  std::memcpy(copy, left, pages_.shape().page_bytes);
  const auto& old = *reinterpret_cast<const TreePage*>(copy);
  TreeKeyBuffer buffer;
  const Cut cut = ChooseCut(old, key, !low.present, !high.present, &buffer);
  PageRef right_ref = 0;
  TreePage* right = TakePage(&right_ref);
  const auto prefix = [&](const Fence& fence) {
    return cut.separator.first(CommonBytes(fence.view(), cut.separator));
  };
  pages_.Init(left, old.level, prefix(low));
  pages_.Init(right, old.level, prefix(high));
  pages_.AppendFrom(left, old, 0, cut.index);
  if (old.level == 0) {
    pages_.AppendFrom(right, old, cut.index, old.count);
    left->prev = old.prev;
    left->next = right_ref;
    right->prev = left_ref;
    right->next = old.next;
    (old.next == 0 ? last_leaf_ : pages_.At(old.next)->prev) = right_ref;
    ++leaf_count_;
  } else {
    left->first = old.first;
    right->first = pages_.Child(old, cut.index + 1);
    pages_.AppendFrom(right, old, cut.index + 1, old.count);
  }
  const std::uint64_t payload = right_ref | std::uint64_t{cut.chunk} << 32;
  if (depth != 0) {
    AddCell(path, depth - 1, cut.separator, payload, false);
  } else {
    TP_CHECK(height_ < kHeightMax);
    TreePage* root = TakePage(&root_);
    pages_.Init(root, static_cast<std::uint8_t>(old.level + 1), {});
    root->first = left_ref;
    pages_.Put(root, 0, cut.separator, payload, false);
    ++height_;
  }
  return AsText(key) < AsText(cut.separator) ? left : right;
}

void TreeIndex::Insert(Bytes key, std::uint64_t location, bool mark) {
  TP_DCHECK(location != 0);
  TP_DCHECK(location <= kLocationMask);
  Path path;
  DescendTo(key, &path);
  AddCell(path, path.leaf, key, location, mark);
  ++size_;
  if (key.size() > pages_.shape().inline_max) ++long_keys_;
}

void TreeIndex::Replace(Bytes key, std::uint64_t location, bool mark) {
  const Place place = Find(key);
  TP_CHECK(place.valid());
  pages_.SetLocation(pages_.At(place.page), place.cell, location, mark);
}

// ---- Erasing.

void TreeIndex::EraseAt(Path& path, std::uint32_t cell) {
  TreePage* leaf = path.steps[path.leaf].page;
  if (TreePages::KeyBytes(*leaf, cell) > pages_.shape().inline_max && --long_keys_ == 0 &&
      spare_separator_ != 0) {
    memory_.FreeChunk(std::uint64_t{spare_separator_} << kPageShift, separator_unit_);
    spare_separator_ = 0;
  }
  pages_.Remove(leaf, cell);
  --size_;
  if (path.leaf != 0 && pages_.Used(*leaf) < pages_.shape().page_bytes / 4) Shrink(path);
}

void TreeIndex::Erase(Bytes key) {
  Path path;
  const TreePage* leaf = DescendTo(key, &path);
  const TreeSpot spot = pages_.Search(*leaf, key);
  TP_CHECK(spot.equal);
  EraseAt(path, spot.index);
}

void TreeIndex::EraseFirst() {
  TP_CHECK(size_ != 0);
  Path path;
  PageRef ref = root_;
  TreePage* page = pages_.At(ref);
  std::uint32_t depth = 0;
  for (; page->level != 0; ++depth) {
    path.steps[depth] = {page, ref, 0};
    ref = page->first;
    page = pages_.At(ref);
  }
  path.steps[depth] = {page, ref, 0};
  path.leaf = depth;
  if (page->count != 0) [[likely]] {
    EraseAt(path, 0);
    return;
  }
  // The first leaf is empty and waits for its neighbour to have room for its range.
  TreeKeyBuffer buffer;
  Erase(KeyOf(First(), &buffer));
}

// Pages below a quarter go into a neighbour, from the leaf upwards.
void TreeIndex::Shrink(Path& path) {
  for (std::uint32_t depth = path.leaf; depth != 0; --depth) {
    if (pages_.Used(*path.steps[depth].page) >= pages_.shape().page_bytes / 4) break;
    const std::uint32_t child = path.steps[depth - 1].child;
    const std::uint32_t last = path.steps[depth - 1].page->count;
    const bool merged = (child != 0 && TryMerge(path, depth - 1, child - 1)) ||
                        (child != last && TryMerge(path, depth - 1, child));
    // An only child has no neighbour under its parent, which is then to be merged itself.
    if (!merged && last != 0) break;
  }
  for (TreePage* root = pages_.At(root_); root->level != 0 && root->count == 0;) {
    const PageRef child = root->first;
    --height_;
    GivePage(root_);
    root_ = child;
    root = pages_.At(child);
  }
}

// Children `left` and `left` + 1 of the inner page at `depth` become one, if they fit.
bool TreeIndex::TryMerge(Path& path, std::uint32_t depth, std::uint32_t left) {
  TreePage* parent = path.steps[depth].page;
  const PageRef into_ref = pages_.Child(*parent, left);
  const PageRef from_ref = pages_.Child(*parent, left + 1);
  TreePage* into = pages_.At(into_ref);
  TreePage* from = pages_.At(from_ref);
  const Fence low = LowFence(path, depth, left);
  const Fence high = HighFence(path, depth, left + 1);
  const Bytes prefix = low.view().first(CommonBytes(low.view(), high.view()));
  const auto prefix_bytes = static_cast<std::uint32_t>(prefix.size());
  // Keys that were cut grow again where less is common to the two.
  const auto grown = [&](const TreePage& page) {
    return pages_.Used(page) + page.count * (page.prefix_bytes - prefix_bytes);
  };
  const bool leaf = into->level == 0;
  std::uint32_t bytes = grown(*into) + grown(*from) + prefix_bytes;
  if (!leaf) {
    bytes += pages_.CellBytes(into->level, prefix_bytes, TreePages::KeyBytes(*parent, left));
  }
  std::uint32_t limit = pages_.shape().page_bytes - static_cast<std::uint32_t>(sizeof(TreePage));
  // Room is left, so that the next insert does not split again.
  if (into->count != 0 && from->count != 0) limit -= pages_.shape().page_bytes / 4;
  if (bytes > limit) return false;

  alignas(64) std::byte copy[kPageBytes];
  std::memcpy(copy, into, pages_.shape().page_bytes);
  const auto& old = *reinterpret_cast<const TreePage*>(copy);
  pages_.Init(into, old.level, prefix);
  pages_.AppendFrom(into, old, 0, old.count);
  const std::uint64_t payload = pages_.Payload(*parent, left);
  if (leaf) {
    GiveSeparator(static_cast<PageRef>(payload >> 32));
    into->prev = old.prev;
    into->next = from->next;
    (from->next == 0 ? last_leaf_ : pages_.At(from->next)->prev) = into_ref;
    --leaf_count_;
  } else {
    // The separator comes down, with its chunk.
    TreeKeyBuffer buffer;
    into->first = old.first;
    pages_.Put(into, into->count, pages_.KeyOf(*parent, left, &buffer),
               (payload >> 32 << 32) | from->first, false);
  }
  pages_.AppendFrom(into, *from, 0, from->count);
  pages_.Remove(parent, left);
  GivePage(from_ref);
  return true;
}

bool TreeIndex::FreeSlice(absl::FunctionRef<bool()> done) {
  while (root_ != 0) {
    if (done()) return true;
    TreePage* parent = nullptr;
    PageRef ref = root_;
    for (TreePage* page = pages_.At(ref); page->level != 0 && page->first != 0;) {
      parent = page;
      ref = pages_.Child(*page, page->count);
      page = pages_.At(ref);
    }
    if (parent == nullptr) {
      root_ = 0;
    } else if (parent->count == 0) {
      parent->first = 0;
    } else {
      const std::uint32_t last = parent->count - 1u;
      GiveSeparator(static_cast<PageRef>(pages_.Payload(*parent, last) >> 32));
      pages_.Remove(parent, last);
    }
    memory_.FreeChunk(std::uint64_t{ref} << kPageShift, kPageBytes);
    --page_count_;
  }
  size_ = long_keys_ = leaf_count_ = 0;
  for (; spare_count_ != 0; --spare_count_) {
    const PageRef ref = spare_;
    spare_ = pages_.At(ref)->next;
    memory_.FreeChunk(std::uint64_t{ref} << kPageShift, kPageBytes);
  }
  if (spare_separator_ != 0) {
    memory_.FreeChunk(std::uint64_t{spare_separator_} << kPageShift, separator_unit_);
    spare_separator_ = 0;
  }
  return false;
}

}  // namespace tidepool::storage
