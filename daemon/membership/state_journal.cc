#include "daemon/membership/state_journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace tidepool::daemon {
namespace {

constexpr std::size_t kJournalBytesMax = 128 << 20;

}  // namespace

Result<std::string> StateJournal::Read() const {
  auto text = cluster_file::ReadSmallFile(path_, kJournalBytesMax);
  if (text.code() == StatusCode::kNotFound) return std::string();
  return text;
}

Status StateJournal::OpenFile() {
  if (file_.is_open()) return OkStatus();
  file_ = UniqueFd(open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file_.is_open()) return cluster_file::FileError("write", path_, errno);
  return cluster_file::SyncFolder(cluster_file::FolderOf(path_));
}

// A part of a change may be in the file. Later changes behind it would look damaged.
Status StateJournal::TakeBack(int error) {
  broken_ = ftruncate(file_.get(), static_cast<off_t>(end_)) != 0 || fsync(file_.get()) != 0;
  return cluster_file::FileError("write", path_, error);
}

Status StateJournal::Append(std::string_view change) {
  if (const Status opened = OpenFile(); !opened.ok()) {
    file_ = UniqueFd();
    return opened;
  }
  std::uint64_t at = end_;
  for (std::string_view left = change; !left.empty();) {
    const ssize_t written = pwrite(file_.get(), left.data(), left.size(), static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return TakeBack(written < 0 ? errno : ENOSPC);
    at += static_cast<std::uint64_t>(written);
    left.remove_prefix(static_cast<std::size_t>(written));
  }
  // What a crash left behind the end goes too.
  if (ftruncate(file_.get(), static_cast<off_t>(at)) != 0 || fsync(file_.get()) != 0) {
    return TakeBack(errno);
  }
  end_ = at;
  return OkStatus();
}

Status StateJournal::Clear() {
  file_ = UniqueFd();
  end_ = 0;
  broken_ = false;
  if (unlink(path_.c_str()) == 0) {
    return cluster_file::SyncFolder(cluster_file::FolderOf(path_));
  }
  return errno == ENOENT ? OkStatus() : cluster_file::FileError("remove", path_, errno);
}

}  // namespace tidepool::daemon
