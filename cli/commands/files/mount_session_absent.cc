// For builds without libfuse 3.
#include "cli/commands/files/mount_session.h"

namespace tidepool::cli {

Result<std::unique_ptr<MountSession>> MountSession::Open(
    const Options& /*options*/, const MountTree& /*tree*/, MountContent& /*content*/,
    std::function<void(const std::string& path, const Status& reason)> /*failed*/) {
  return Status(StatusCode::kUnimplemented, "this kvctl was built without libfuse 3",
                "build it where libfuse3-dev is installed");
}

}  // namespace tidepool::cli
