// Writes a tree so that after a crash at any moment each file is either unchanged or complete: a
// temporary name, the content, a sync, and only then the real name.
//
//   stage-out -> [tree_writer] -> file system
//
// A sync per file would cost a disk round trip each. Files are finished in groups instead. A
// syncfs() makes all earlier writes durable, then the files get their names, then another sync of
// the directories makes the names durable.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/bytes.h"
#include "proto/base/file_time.h"
#include "proto/base/result.h"
#include "proto/base/unique_fd.h"
#include "proto/file_tree/xattrs.h"

namespace tidepool::file_tree {

struct Attributes {
  std::uint32_t mode = 0644;
  FileTime mtime;
  Xattrs xattrs;  // Empty: the attributes of the file stay.
};

// Remembers the directory opened last: files come in the order of their paths. One thread.
class ParentCache {
 public:
  // Returns the directory that holds `path`, valid until the next call.
  Result<int> ParentFd(int root_fd, std::string_view path);

 private:
  std::string directory_;
  UniqueFd fd_;
};

// A file under its temporary name. One thread. Destroying it before Finish removes it.
class NewFile {
 public:
  NewFile(NewFile&& other) noexcept = default;
  NewFile& operator=(NewFile&& other) noexcept = delete;
  ~NewFile();

  // Appends. Errors: kResourceExhausted, kDeviceError, kUnavailable.
  Status Write(Bytes bytes);
  // Leaves a hole of `bytes` bytes. Errors: as Write.
  Status Skip(std::uint64_t bytes);

 private:
  friend class TreeWriter;
  NewFile() = default;
  UniqueFd fd_;
  UniqueFd parent_;  // A duplicate, for the removal.
  std::string path_;
  std::string temporary_;  // The name alone.
  std::uint64_t bytes_ = 0;
  bool ends_with_hole_ = false;
  bool other_device_ = false;
};

// Complete but not yet durable, nor under its name.
struct Written {
  std::string path;
  std::string temporary;  // Path below the root.
  std::uint64_t bytes = 0;
  bool other_device = false;  // Below a mount of its own: syncfs() of the root does not reach it.
};

// Thread-safe but for the objects that it hands out. `root_fd` must outlive it.
class TreeWriter {
 public:
  // `tag` makes temporary names unique among jobs and nodes: [0-9a-f-].
  TreeWriter(int root_fd, std::string tag) : root_fd_(root_fd), tag_(std::move(tag)) {}

  // Errors of all: kFailedPrecondition (another file is in the way), kPermissionDenied,
  // kResourceExhausted, kInvalidArgument (path), kNotFound (no such parent), kDeviceError.
  Result<NewFile> Create(std::string_view path, ParentCache* parents);
  // Finish functions add to `left_out` each attribute that the file system cannot hold: an extended
  // attribute, or a time beyond its last valid time.
  Result<Written> Finish(NewFile file, const Attributes& attributes,
                         std::vector<Status>* left_out = nullptr);
  Result<Written> MakeSymlink(std::string_view path, const std::string& target, FileTime mtime,
                              ParentCache* parents);

  // Makes `files` durable, then gives each its name: `done` is called once for each. A file that
  // fails is removed. The names are durable after SyncDirectories.
  void Commit(std::vector<Written> files,
              const std::function<void(const Written&, const Status&)>& done);
  Status SyncDirectories();
  void Discard(const std::vector<Written>& files);

  // Returns true if it was made; an existing directory is fine. It has the owner's rwx at least
  // until FinishDirectory gives it its real attributes.
  Result<bool> MakeDirectory(std::string_view path, std::uint32_t mode);
  Status FinishDirectory(std::string_view path, const Attributes& attributes,
                         std::vector<Status>* left_out = nullptr);

  // Makes a large file: several daemons fill it, a single daemon makes and names it.
  Result<Written> CreateShared(std::string_view path, std::uint64_t size);
  Status FinishShared(const Written& file, const Attributes& attributes,
                      std::vector<Status>* left_out = nullptr);

  // Replaces the disk in tests: takes the files to sync (empty: directories), returns an errno.
  using SyncFunction = std::function<int(const std::vector<Written>&)>;
  void SetSyncForTesting(SyncFunction sync) { sync_ = std::move(sync); }

 private:
  std::string TemporaryName();
  int Sync(const std::vector<Written>& files);
  int SyncOne(std::string_view path, bool directory);
  Status Rename(const Written& file, ParentCache* parents);
  void Remove(const Written& file);

  const int root_fd_;
  const std::string tag_;
  std::atomic<std::uint64_t> counter_{0};
  std::mutex directories_mutex_;
  std::set<std::string> directories_;  // Directories with changed names that are not durable yet.
  SyncFunction sync_;
};

}  // namespace tidepool::file_tree
