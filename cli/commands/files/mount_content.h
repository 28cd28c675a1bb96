// Contents of files for a mount: each record is fetched once, however many readers wait for it, and
// kept while there is room. The kernel's page cache keeps what was read.
//
// mount_session -> [MountContent] -> BytesMap::Get
#pragma once

#include <cstdint>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "cli/commands/files/mount_tree.h"
#include "proto/base/result.h"
#include "tidepool/bytes_map.h"

namespace tidepool::cli {

// Thread-safe.
class MountContent {
 public:
  using Bytes = std::shared_ptr<const std::string>;

  // `bytes_max`: memory for contents that no reader holds. `tree` outlives this object.
  MountContent(BytesMap map, const MountTree& tree, std::uint64_t bytes_max)
      : map_(std::move(map)), tree_(tree), bytes_max_(bytes_max) {}

  // Returns part `part` of a file, or the content of a whole file as part 0. Errors: kAborted (the
  // file was replaced or removed since the tree was loaded), kDataLoss, and those of
  // BytesMap::Get.
  Result<Bytes> Get(MountTree::Number file, std::uint32_t part);
  // The end of this content was read, so the kernel probably has all of it: it is dropped first.
  void KernelHas(MountTree::Number file, std::uint32_t part);

 private:
  using Key = std::pair<MountTree::Number, std::uint32_t>;
  struct Item {
    std::shared_future<Result<Bytes>> content;
    std::uint64_t bytes = 0;  // 0 while it is fetched.
    std::list<Key>::iterator used;
  };

  Result<Bytes> Fetch(MountTree::Number file, std::uint32_t part) const;
  Result<Bytes> FetchPart(const std::string& path, const MountTree::Node& node,
                          std::uint32_t part) const;
  // Drops contents that were not used for the longest time, but never the latest: reads of a large
  // part come in small pieces.
  void MakeRoom();

  const BytesMap map_;
  const MountTree& tree_;
  const std::uint64_t bytes_max_;
  std::mutex mutex_;
  std::map<Key, Item> items_;
  std::list<Key> by_use_;  // The latest first.
  std::uint64_t bytes_ = 0;
};

}  // namespace tidepool::cli
