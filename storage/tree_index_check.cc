// CheckInvariants of the ordered index: a walk over every page. For tests.
#include "proto/base/check.h"
#include "storage/tree_index.h"

namespace tidepool::storage {

struct TreeIndex::Walk {
  std::uint64_t keys = 0;
  std::uint64_t long_keys = 0;
  std::uint64_t pages = 0;
  std::uint64_t leaves = 0;
  std::uint64_t separators = 0;
  PageRef leaf_before = 0;
};

void TreeIndex::CheckPage(PageRef ref, int level, const Bytes* low, const Bytes* high,
                          Walk* walk) const {
  const TreePage& page = *pages_.At(ref);
  TP_CHECK(page.level == level);
  pages_.Check(page);
  ++walk->pages;
  TreeKeyBuffer buffers[2];
  if (page.count != 0) {
    if (low != nullptr) TP_CHECK(AsText(*low) <= AsText(pages_.KeyOf(page, 0, &buffers[0])));
    if (high != nullptr) {
      TP_CHECK(AsText(pages_.KeyOf(page, page.count - 1u, &buffers[0])) < AsText(*high));
    }
  }
  if (level == 0) {
    ++walk->leaves;
    walk->keys += page.count;
    for (std::uint32_t i = 0; i < page.count; ++i) {
      if (TreePages::KeyBytes(page, i) > pages_.shape().inline_max) ++walk->long_keys;
    }
    TP_CHECK(page.prev == walk->leaf_before);
    if (page.prev == 0) {
      TP_CHECK(ref == first_leaf_);
    } else {
      TP_CHECK(pages_.At(page.prev)->next == ref);
    }
    walk->leaf_before = ref;
    return;
  }
  TP_CHECK(page.marked == 0);
  for (std::uint32_t child = 0; child <= page.count; ++child) {
    if (child != 0 && pages_.Payload(page, child - 1) >> 32 != 0) {
      TP_CHECK(TreePages::KeyBytes(page, child - 1) > pages_.shape().inline_max);
      ++walk->separators;
    }
    const Bytes below = child == 0 ? Bytes{} : pages_.KeyOf(page, child - 1, &buffers[0]);
    const Bytes above = child == page.count ? Bytes{} : pages_.KeyOf(page, child, &buffers[1]);
    CheckPage(pages_.Child(page, child), level - 1, child == 0 ? low : &below,
              child == page.count ? high : &above, walk);
  }
}

void TreeIndex::CheckInvariants() const {
  TP_CHECK(valid());
  Walk walk;
  CheckPage(root_, static_cast<int>(height_) - 1, nullptr, nullptr, &walk);
  TP_CHECK(walk.leaf_before == last_leaf_);
  TP_CHECK(pages_.At(last_leaf_)->next == 0);
  TP_CHECK(walk.keys == size_);
  TP_CHECK(walk.long_keys == long_keys_);
  TP_CHECK(walk.pages == page_count_);
  TP_CHECK(walk.leaves == leaf_count_);
  TP_CHECK(walk.separators * separator_unit_ == separator_bytes_);
  std::uint64_t spare = 0;
  for (PageRef ref = spare_; ref != 0; ref = pages_.At(ref)->next) ++spare;
  TP_CHECK(spare == spare_count_);
}

}  // namespace tidepool::storage
