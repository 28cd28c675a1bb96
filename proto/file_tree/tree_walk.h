// Contents of a directory tree: each file, directory and symbolic link with its attributes.
//
//   stage-in's job -> [tree_walk] -> file system
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "proto/base/file_time.h"
#include "proto/base/status.h"

namespace tidepool::file_tree {

struct FoundFile {
  enum class Type : std::uint8_t { kFile, kDirectory, kSymlink };
  std::string path;  // Relative; "." for the root itself, which comes first.
  Type type = Type::kFile;
  std::uint32_t mode = 0;  // 07777.
  std::uint64_t size = 0;  // Files only.
  FileTime mtime;
  std::string link_target;
  std::uint64_t names = 1;  // Of files: hard links to it, wherever they are.
  std::uint32_t owner = 0;  // User.
  std::uint32_t group = 0;
};

struct WalkCallbacks {
  // False ends the walk.
  std::function<bool(FoundFile)> found;
  // Cannot be read or cannot be named. The walk goes on.
  std::function<void(std::string_view path, const Status& why)> failed;
  // A socket, pipe or device, which cannot be staged; may be empty.
  std::function<void(std::string_view path, const Status& why)> skipped = {};
  // Receives names that begin with kOwnNamePrefix; may be empty. The walk does not report such
  // files.
  std::function<void(std::string_view path)> own = {};
};

// Walks below `root_fd` and follows no link. A directory comes before its contents. Holds only one
// open directory at a time, so depth costs no descriptors.
void WalkTree(int root_fd, const WalkCallbacks& callbacks);

}  // namespace tidepool::file_tree
