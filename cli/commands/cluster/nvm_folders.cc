#include "cli/commands/cluster/nvm_folders.h"

#include <filesystem>
#include <system_error>

#include "cli/text.h"
#include "proto/cluster_file/cluster_file.h"
#include "proto/cluster_file/file_io.h"

namespace tidepool::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kDaemonsMax = 64;

std::string FolderOf(const std::string& directory, std::uint64_t daemon) {
  return directory + "/" + std::to_string(daemon);
}

Status Refused(const std::string& what, const std::string& remedy) {
  return Status(StatusCode::kFailedPrecondition, "--nvm-dir: " + what, remedy);
}

}  // namespace

Result<NvmFolders> MakeNvmFolders(const std::string& directory, std::uint64_t daemons) {
  std::error_code error;
  if (!fs::is_directory(directory, error)) {
    return Status(StatusCode::kInvalidArgument,
                  "--nvm-dir: " + Quote(directory) + " is no directory",
                  "make it, on a local disk, or name another one");
  }
  NvmFolders folders;
  for (std::uint64_t i = 0; i < kDaemonsMax; ++i) {
    const std::string folder = FolderOf(directory, i);
    if (!fs::exists(fs::path(folder) / cluster_file::kCoordinatorStateName, error)) continue;
    if (folders.coordinator.has_value()) {
      return Refused(Quote(FolderOf(directory, *folders.coordinator)) + " and " + Quote(folder) +
                         " are of two clusters",
                     "see with kvd check which of them has what you need, and remove the other");
    }
    folders.coordinator = i;
  }
  if (folders.coordinator.has_value() && *folders.coordinator >= daemons) {
    return Refused(
        "the cluster in " + Quote(directory) + " has more daemons than " + std::to_string(daemons),
        "start as many as it had: --local N; or remove what is there if nothing in it "
        "is needed");
  }
  for (std::uint64_t i = 0; i < daemons; ++i) {
    folders.paths.push_back(FolderOf(directory, i));
    TP_RETURN_IF_ERROR(cluster_file::MakeFolders(folders.paths.back()));
  }
  return folders;
}

}  // namespace tidepool::cli
