// A mounted tree: the kernel's requests, answered from MountTree and MountContent by libfuse 3.
//
// a program => the kernel => /dev/fuse -> [MountSession] -> mount_content -> BytesMap
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cli/commands/files/mount_content.h"
#include "cli/commands/files/mount_tree.h"
#include "proto/base/result.h"

namespace tidepool::cli {

// A build without libfuse 3 has another implementation, whose Open fails.
class MountSession {
 public:
  struct Options {
    std::string directory;
    std::string source;  // As `mount` shows it.
    bool for_others = false;
  };

  // Mounts. `failed` is called with the reason of each read that fails, on any thread. `tree` and
  // `content` outlive the session. Errors: kUnimplemented (a build without libfuse),
  // kPermissionDenied, kFailedPrecondition, with the words of the kernel or of fusermount3.
  static Result<std::unique_ptr<MountSession>> Open(
      const Options& options, const MountTree& tree, MountContent& content,
      std::function<void(const std::string& path, const Status& reason)> failed);
  virtual ~MountSession() = default;

  // Starts the threads that answer.
  virtual Status Start() = 0;
  // True if the threads have ended: somebody has unmounted the directory.
  virtual bool ended() const = 0;
  // Unmounts, also while programs use the tree: their later reads fail. Waits for the threads.
  virtual void End() = 0;
};

}  // namespace tidepool::cli
