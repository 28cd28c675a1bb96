// The tree that a mount shows: folders, files and links of a namespace as they were at one time.
//
// BytesMap (keys, manifest entries) -> [LoadTree] -> [MountTree] -> mount_session
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "proto/base/file_time.h"
#include "proto/base/result.h"
#include "proto/manifest/entry.h"
#include "tidepool/bytes_map.h"

namespace tidepool::cli {

// Built by one thread; after Finish it never changes, so any number of threads may read it.
class MountTree {
 public:
  enum class Type : std::uint8_t { kFolder, kFile, kLink };
  using Number = std::uint32_t;
  static constexpr Number kRoot = 0;

  struct Attributes {
    std::uint32_t mode = 0;  // Permission bits.
    FileTime mtime;
  };
  struct Node {
    Type type = Type::kFolder;
    Attributes attributes;
    Number parent = kRoot;
    std::uint32_t folders = 0;  // Directly below it.
    std::string name;
    std::uint64_t bytes = 0;  // Of a file's content or of a link's target.
    Version version = 0;      // Of the record of a whole file; 0: not known.
    std::uint64_t revision = 0;
    std::vector<manifest::Hash128> parts;  // Empty: the file is one record under its path.
    std::string target;                    // Of a link.
    std::vector<Number> children;          // Sorted by name.
  };

  MountTree();

  // Add a path with the folders above it. False: no file system can have the path, which the tree
  // then leaves out.
  bool AddFolder(std::string_view path, const Attributes& attributes);
  bool Add(std::string_view path, Node node);
  // Sorts the children. Of a folder and a file of the same name the folder stays.
  void Finish();

  const Node& node(Number number) const { return nodes_[number]; }
  // Returns the child of this name.
  std::optional<Number> Find(Number folder, std::string_view name) const;
  // Returns the path below the root: the key of a file.
  std::string PathOf(Number number) const;

  std::uint64_t nodes() const { return nodes_.size(); }
  std::uint64_t files() const { return files_; }
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t left_out() const { return left_out_; }

 private:
  // Returns the folder at `path`, which it makes if need be.
  Number Folder(std::string_view path);

  std::vector<Node> nodes_;
  std::unordered_map<std::string, Number> folders_;  // Until Finish.
  std::uint64_t files_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t left_out_ = 0;
};

// Reads keys and manifest entries, no contents. `incomplete`: also what a stage-in left that has
// not ended well. Errors: kFailedPrecondition (such a stage-in), kDataLoss (entries cannot be
// read), and those of the calls.
Result<MountTree> LoadTree(const BytesMap& map, bool incomplete);

}  // namespace tidepool::cli
