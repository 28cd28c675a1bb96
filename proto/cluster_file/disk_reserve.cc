#include "proto/cluster_file/disk_reserve.h"

#include <fcntl.h>
#include <unistd.h>

#include "proto/cluster_file/file_io.h"

namespace tidepool::cluster_file {
namespace {

constexpr off_t kReserveBytes = 1 << 20;

std::string ReservePath(const std::string& folder) { return folder + "/reserve"; }

}  // namespace

void ReleaseReserve(const std::string& folder) { unlink(ReservePath(folder).c_str()); }

void RefillReserve(const std::string& folder) {
  const std::string path = ReservePath(folder);
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.is_open()) return;
  // A file system that cannot reserve blocks without writing them (NFS) gets zeros.
  if (posix_fallocate(file.get(), 0, kReserveBytes) != 0) unlink(path.c_str());
}

}  // namespace tidepool::cluster_file
