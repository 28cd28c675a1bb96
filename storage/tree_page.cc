// Cells of a page: searching, putting, removing, and moving them to pages with another prefix.
#include "storage/tree_page.h"

#include <cstring>

#include "proto/base/short_copy.h"

namespace tidepool::storage {
namespace {

int SignOf(std::size_t a, std::size_t b) { return a < b ? -1 : a > b ? 1 : 0; }

}  // namespace

void TreePages::Init(TreePage* page, std::uint8_t level, Bytes prefix) const {
  TP_DCHECK(prefix.size() <= shape_.prefix_max);
  *page = TreePage{};
  page->level = level;
  page->prefix_bytes = static_cast<std::uint16_t>(prefix.size());
  page->heap = static_cast<std::uint16_t>(shape_.page_bytes - prefix.size());
  if (!prefix.empty()) std::memcpy(page->at(page->heap), prefix.data(), prefix.size());
}

int TreePages::CompareRest(const TreePage& page, std::uint32_t index, Bytes suffix) const {
  const TreeSlot& slot = page.slots()[index];
  const std::uint32_t size = SuffixBytes(slot);
  const std::size_t held = std::min(size, shape_.inline_max);
  const std::size_t common = std::min<std::size_t>(held, suffix.size());
  if (common > 4) {
    const std::byte* rest =
        page.at(slot.offset + PayloadBytes(page.level, page.prefix_bytes + size));
    if (const int sign = std::memcmp(suffix.data() + 4, rest, common - 4); sign != 0) return sign;
  }
  if (held < size && suffix.size() > held) [[unlikely]] {
    const Bytes whole = WholeKey(page, index).subspan(page.prefix_bytes);
    const std::size_t both = std::min(whole.size(), suffix.size());
    if (const int sign = std::memcmp(suffix.data() + held, whole.data() + held, both - held);
        sign != 0) {
      return sign;
    }
  }
  // Zeros behind the end of a short suffix stand in its head: then the shorter is the prefix.
  return SignOf(suffix.size(), size);
}

TreeSpot TreePages::Search(const TreePage& page, Bytes key) const {
  TP_DCHECK(key.size() >= page.prefix_bytes);
  const Bytes suffix = key.subspan(page.prefix_bytes);
  const std::uint32_t head = HeadOf(suffix.data(), suffix.size());
  const TreeSlot* const slots = page.slots();
  const std::uint32_t count = page.count;
  if (count == 0) return {0, false};
  // Without a branch that depends on the keys: the processor could not foresee it.
  const TreeSlot* at = slots;
  for (std::uint32_t left = count; left > 1;) {
    const std::uint32_t half = left / 2;
    at += at[half - 1].head < head ? half : 0;
    left -= half;
  }
  auto begin = static_cast<std::uint32_t>(at - slots) + (at->head < head ? 1 : 0);
  std::uint32_t end = begin;
  while (end < count && slots[end].head == head && end < begin + 4) ++end;
  if (end == begin + 4) {
    // Many equal heads: keys that differ late in a page that can cut off no more.
    std::uint32_t beyond = count;
    while (end < beyond) {
      const std::uint32_t middle = end + (beyond - end) / 2;
      if (slots[middle].head == head) {
        end = middle + 1;
      } else {
        beyond = middle;
      }
    }
  }
  while (begin < end) {
    const std::uint32_t middle = begin + (end - begin) / 2;
    const int sign = CompareRest(page, middle, suffix);
    if (sign == 0) return {middle, true};
    if (sign > 0) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return {begin, false};
}

std::uint32_t TreePages::CountBelow(const TreePage& page, Bytes key) const {
  const std::size_t common = std::min<std::size_t>(key.size(), page.prefix_bytes);
  if (common != 0) {
    const std::byte* prefix = page.at(shape_.page_bytes - page.prefix_bytes);
    const int sign = std::memcmp(key.data(), prefix, common);
    if (sign != 0) return sign < 0 ? 0 : page.count;
  }
  if (key.size() < page.prefix_bytes) return 0;
  return Search(page, key).index;
}

std::uint64_t TreePages::Payload(const TreePage& page, std::uint32_t index) const {
  if (page.level == 0) return Location(page, index);
  const std::byte* cell = page.at(page.slots()[index].offset);
  if (KeyBytes(page, index) > shape_.inline_max) return LoadUnaligned<std::uint64_t>(cell);
  return LoadUnaligned<std::uint32_t>(cell);
}

void TreePages::SetLocation(TreePage* leaf, std::uint32_t index, std::uint64_t location,
                            bool mark) const {
  TP_DCHECK(leaf->level == 0);
  TP_DCHECK(location <= kLocationMask);
  TreeSlot& slot = leaf->slots()[index];
  std::memcpy(leaf->at(slot.offset), &location, 5);
  if (Marked(slot) == mark) return;
  slot.size ^= kMark;
  leaf->marked = static_cast<std::uint16_t>(mark ? leaf->marked + 1 : leaf->marked - 1);
}

Bytes TreePages::WholeKey(const TreePage& page, std::uint32_t index) const {
  const std::uint64_t payload = Payload(page, index);
  if (page.level != 0) {
    return {base_ + (payload >> 32 << kPageShift), KeyBytes(page, index)};
  }
  TP_CHECK(reader_ != nullptr);
  const Bytes key = reader_->KeyAt(payload);
  TP_CHECK(key.size() == KeyBytes(page, index));
  return key;
}

Bytes TreePages::KeyOf(const TreePage& page, std::uint32_t index, TreeKeyBuffer* buffer) const {
  const TreeSlot& slot = page.slots()[index];
  const std::uint32_t size = SuffixBytes(slot);
  if (Continues(size)) return WholeKey(page, index);
  std::byte* to = buffer->bytes;
  CopyShort(to, page.at(shape_.page_bytes - page.prefix_bytes), page.prefix_bytes);
  to += page.prefix_bytes;
  const std::uint32_t head = __builtin_bswap32(slot.head);
  std::memcpy(to, &head, sizeof head);
  if (size > 4) {
    CopyShort(to + 4, page.at(slot.offset + PayloadBytes(page.level, page.prefix_bytes + size)),
              size - 4);
  }
  return {buffer->bytes, page.prefix_bytes + size};
}

std::uint32_t TreePages::FirstBytes(const TreePage& page, std::uint32_t index, std::byte* to,
                                    std::uint32_t count) const {
  TP_DCHECK(count <= shape_.prefix_max);
  const TreeSlot& slot = page.slots()[index];
  const std::uint32_t held = std::min(SuffixBytes(slot), shape_.inline_max);
  TreeKeyBuffer buffer;
  std::byte* at = buffer.bytes;
  std::memcpy(at, page.at(shape_.page_bytes - page.prefix_bytes), page.prefix_bytes);
  at += page.prefix_bytes;
  const std::uint32_t head = __builtin_bswap32(slot.head);
  std::memcpy(at, &head, sizeof head);
  if (held > 4) {
    std::memcpy(at + 4, page.at(slot.offset + PayloadBytes(page.level, KeyBytes(page, index))),
                held - 4);
  }
  const std::uint32_t all = std::min(page.prefix_bytes + held, count);
  std::memcpy(to, buffer.bytes, all);
  return all;
}

void TreePages::Put(TreePage* page, std::uint32_t index, Bytes key, std::uint64_t payload,
                    bool mark) const {
  TP_DCHECK(index <= page->count);
  const auto key_bytes = static_cast<std::uint32_t>(key.size());
  TP_CHECK(Free(*page) >= CellBytes(page->level, page->prefix_bytes, key_bytes));
  const Bytes suffix = key.subspan(page->prefix_bytes);
  const auto size = static_cast<std::uint32_t>(suffix.size());
  const std::uint32_t payload_bytes = PayloadBytes(page->level, key_bytes);
  const std::uint32_t rest_bytes = RestBytes(size);
  page->heap = static_cast<std::uint16_t>(page->heap - payload_bytes - rest_bytes);
  std::byte* cell = page->at(page->heap);
  std::memcpy(cell, &payload, payload_bytes);
  if (rest_bytes != 0) CopyShort(cell + payload_bytes, suffix.data() + 4, rest_bytes);
  TreeSlot* slot = page->slots() + index;
  std::memmove(slot + 1, slot, (page->count - index) * sizeof(TreeSlot));
  *slot = {HeadOf(suffix.data(), size), page->heap,
           static_cast<std::uint16_t>(size | (mark ? kMark : 0))};
  ++page->count;
  if (mark) ++page->marked;
}

void TreePages::Remove(TreePage* page, std::uint32_t index) const {
  TP_DCHECK(index < page->count);
  TreeSlot* slot = page->slots() + index;
  const auto bytes =
      static_cast<std::uint16_t>(UsedBy(*page, index) - static_cast<std::uint32_t>(sizeof *slot));
  if (Marked(*slot)) --page->marked;
  if (slot->offset == page->heap) {
    page->heap = static_cast<std::uint16_t>(page->heap + bytes);
  } else {
    page->dead = static_cast<std::uint16_t>(page->dead + bytes);
  }
  --page->count;
  std::memmove(slot, slot + 1, (page->count - index) * sizeof(TreeSlot));
  if (page->count != 0) return;
  page->heap = static_cast<std::uint16_t>(shape_.page_bytes - page->prefix_bytes);
  page->dead = 0;
}

void TreePages::AppendFrom(TreePage* page, const TreePage& other, std::uint32_t from,
                           std::uint32_t to) const {
  TreeKeyBuffer buffer;
  for (std::uint32_t i = from; i < to; ++i) {
    Put(page, page->count, KeyOf(other, i, &buffer), Payload(other, i), Marked(other.slots()[i]));
  }
}

void TreePages::Compact(TreePage* page) const {
  alignas(64) std::byte copy[kPageBytes];
  std::memcpy(copy, page, shape_.page_bytes);
  const auto* old = reinterpret_cast<const TreePage*>(copy);
  std::uint32_t heap = shape_.page_bytes - page->prefix_bytes;
  TreeSlot* slot = page->slots();
  for (std::uint32_t i = 0; i < old->count; ++i, ++slot) {
    const std::uint32_t bytes = UsedBy(*old, i) - static_cast<std::uint32_t>(sizeof(TreeSlot));
    heap -= bytes;
    std::memcpy(page->at(heap), old->at(slot->offset), bytes);
    slot->offset = static_cast<std::uint16_t>(heap);
  }
  page->heap = static_cast<std::uint16_t>(heap);
  page->dead = 0;
}

void TreePages::Check(const TreePage& page) const {
  TP_CHECK(page.heap >= sizeof(TreePage) + page.count * sizeof(TreeSlot));
  TP_CHECK(page.heap + page.prefix_bytes <= shape_.page_bytes);
  std::uint32_t cells = 0;
  std::uint32_t marked = 0;
  TreeKeyBuffer buffers[2];
  Bytes before;
  for (std::uint32_t i = 0; i < page.count; ++i) {
    const TreeSlot& slot = page.slots()[i];
    TP_CHECK(slot.offset >= page.heap);
    cells += UsedBy(page, i) - static_cast<std::uint32_t>(sizeof(TreeSlot));
    if (Marked(slot)) ++marked;
    TP_CHECK(Payload(page, i) != 0);
    const Bytes key = KeyOf(page, i, &buffers[i % 2]);
    TP_CHECK(key.size() == KeyBytes(page, i));
    TP_CHECK(std::memcmp(key.data(), page.at(shape_.page_bytes - page.prefix_bytes),
                         page.prefix_bytes) == 0);
    if (i != 0) TP_CHECK(AsText(before) < AsText(key));
    before = key;
  }
  TP_CHECK(marked == page.marked);
  TP_CHECK(cells + page.dead + page.heap + page.prefix_bytes == shape_.page_bytes);
}

}  // namespace tidepool::storage
