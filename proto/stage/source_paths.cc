#include "proto/stage/source_paths.h"

#include <algorithm>

#include "proto/file_tree/beneath.h"

namespace tidepool::stage {
namespace {

bool IsLess(const manifest::Hash128& a, const manifest::Hash128& b) {
  return a.high != b.high ? a.high < b.high : a.low < b.low;
}

bool Holds(const std::vector<manifest::Hash128>& hashes, std::string_view path) {
  return std::binary_search(hashes.begin(), hashes.end(), manifest::HashOf(AsBytes(path)), IsLess);
}

}  // namespace

void SourcePaths::Add(std::string_view path, bool directory) {
  (directory ? directories_ : others_).push_back(manifest::HashOf(AsBytes(path)));
  sorted_ = false;
}

void SourcePaths::Sort() {
  if (sorted_) return;
  std::sort(directories_.begin(), directories_.end(), IsLess);
  std::sort(others_.begin(), others_.end(), IsLess);
  sorted_ = true;
}

bool SourcePaths::Has(std::string_view path) {
  Sort();
  return Holds(others_, path) || Holds(directories_, path);
}

bool SourcePaths::IsBelowFile(std::string_view path) {
  Sort();
  for (std::string_view up = file_tree::ParentOf(path); !up.empty(); up = file_tree::ParentOf(up)) {
    if (Holds(others_, up)) return true;
  }
  return false;
}

}  // namespace tidepool::stage
