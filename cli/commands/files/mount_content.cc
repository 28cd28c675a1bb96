#include "cli/commands/files/mount_content.h"

#include <iterator>
#include <new>

#include "proto/convert/staged_keys.h"
#include "proto/manifest/holes.h"
#include "proto/manifest/keys.h"

namespace tidepool::cli {
namespace {

Status Replaced(const std::string& path) {
  return Status(StatusCode::kAborted, "'" + path + "' was replaced or removed after the mount",
                "mount again");
}

}  // namespace

Result<MountContent::Bytes> MountContent::Get(MountTree::Number file, std::uint32_t part) {
  const Key key{file, part};
  std::promise<Result<Bytes>> promise;
  {
    std::unique_lock lock(mutex_);
    const auto found = items_.find(key);
    if (found != items_.end()) {
      by_use_.splice(by_use_.begin(), by_use_, found->second.used);
      const auto content = found->second.content;
      lock.unlock();
      return content.get();
    }
    by_use_.push_front(key);
    items_.emplace(key, Item{promise.get_future().share(), 0, by_use_.begin()});
  }
  Result<Bytes> content = [&]() -> Result<Bytes> {
    try {
      return Fetch(file, part);
    } catch (const std::bad_alloc&) {
      return Status(StatusCode::kResourceExhausted, "no memory for '" + tree_.PathOf(file) + "'");
    }
  }();
  promise.set_value(content);
  const std::lock_guard lock(mutex_);
  const auto item = items_.find(key);
  if (content.ok()) {
    item->second.bytes = (*content)->size() + 1;
    bytes_ += item->second.bytes;
    MakeRoom();
  } else {  // The next reader asks again.
    by_use_.erase(item->second.used);
    items_.erase(item);
  }
  return content;
}

void MountContent::MakeRoom() {
  for (auto at = std::prev(by_use_.end()); bytes_ > bytes_max_ && at != by_use_.begin(); --at) {
    const auto item = items_.find(*at);
    if (item->second.bytes == 0) continue;
    bytes_ -= item->second.bytes;
    items_.erase(item);
    at = by_use_.erase(at);
  }
}

void MountContent::KernelHas(MountTree::Number file, std::uint32_t part) {
  const std::lock_guard lock(mutex_);
  const auto item = items_.find({file, part});
  if (item != items_.end()) by_use_.splice(by_use_.end(), by_use_, item->second.used);
}

Result<MountContent::Bytes> MountContent::Fetch(MountTree::Number file, std::uint32_t part) const {
  const MountTree::Node& node = tree_.node(file);
  const std::string path = tree_.PathOf(file);
  if (!node.parts.empty()) return FetchPart(path, node, part);
  auto value = map_.Get(path);
  if (value.code() == StatusCode::kNotFound) return Replaced(path);
  if (!value.ok()) return value.status();
  const bool same = node.version == 0 || value->version == node.version;
  if (!same || value->bytes.size() != node.bytes) return Replaced(path);
  return std::make_shared<const std::string>(std::move(value->bytes));
}

Result<MountContent::Bytes> MountContent::FetchPart(const std::string& path,
                                                    const MountTree::Node& node,
                                                    std::uint32_t part) const {
  const std::string key = convert::StagedPartKey(path, node.revision, part);
  auto value = map_.Get(key);
  if (value.code() == StatusCode::kNotFound) return Replaced(path);
  if (!value.ok()) return value.status();
  if (manifest::HashOf(AsBytes(value->bytes)) == node.parts[part]) {
    return std::make_shared<const std::string>(std::move(value->bytes));
  }
  // The record of a part of a sparse file leaves out the holes.
  const auto described = map_.Get(manifest::ManifestKey(key));
  if (!described.ok() && described.code() != StatusCode::kNotFound) return described.status();
  std::string content;
  if (described.ok()) {
    const auto entry = manifest::DecodeEntry(AsBytes(described->bytes));
    if (entry.ok() && !entry->holes.empty() &&
        manifest::AppendPart(*entry, AsBytes(value->bytes), &content).ok() &&
        manifest::HashOf(AsBytes(content)) == node.parts[part]) {
      return std::make_shared<const std::string>(std::move(content));
    }
  }
  return Status(StatusCode::kDataLoss,
                "part " + std::to_string(part + 1) + " of '" + path + "' is not what was staged",
                "stage it in again");
}

}  // namespace tidepool::cli
