#include "proto/file_tree/tree_writer.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "proto/file_tree/beneath.h"

namespace tidepool::file_tree {
namespace {

// Up to this number a sync of each file is cheaper than a sync of the whole file system.
constexpr std::size_t kSyncedOneByOneMax = 8;

std::string Below(std::string_view directory, std::string_view name) {
  std::string path(directory);
  if (!path.empty()) path.push_back('/');
  return path.append(name);
}

std::string_view DirectoryOf(std::string_view path) {
  const std::string_view parent = ParentOf(path);
  return parent.empty() ? "." : parent;
}

void TimesOf(FileTime mtime, timespec times[2]) {
  times[0].tv_sec = 0;
  times[0].tv_nsec = UTIME_OMIT;
  times[1] = mtime.ToTimespec();
}

// False if the file system cannot hold the time. The kernel then sets the last time that the file
// system knows, and reports no error.
bool IsHeld(int fd, FileTime mtime) {
  struct stat info;
  return fstat(fd, &info) != 0 || FileTime::Of(info.st_mtim).seconds == mtime.seconds;
}

Status SetAttributes(int fd, const Attributes& attributes, std::string_view path,
                     std::vector<Status>* left_out) {
  // From here on file systems differ: many have 32 bits of seconds.
  constexpr std::int64_t kAllKnow = (std::int64_t{1} << 31) - 1;
  timespec times[2];
  TimesOf(attributes.mtime, times);
  if (fchmod(fd, attributes.mode) != 0) return StatusOfErrno(errno, "cannot set mode of", path);
  if (!attributes.xattrs.empty()) {
    const Status set = WriteXattrs(fd, path, attributes.xattrs);
    if (!set.ok() && left_out == nullptr) return set;
    if (!set.ok()) left_out->push_back(set);
  }
  if (futimens(fd, times) != 0) return StatusOfErrno(errno, "cannot set time of", path);
  const std::int64_t seconds = attributes.mtime.seconds;
  if (left_out != nullptr && (seconds < 0 || seconds > kAllKnow) && !IsHeld(fd, attributes.mtime)) {
    left_out->push_back(Status(StatusCode::kOutOfRange,
                               "its time of change, " + std::to_string(seconds) +
                                   " seconds since 1970, is beyond what the file system can hold"));
  }
  return OkStatus();
}

}  // namespace

Result<int> ParentCache::ParentFd(int root_fd, std::string_view path) {
  const std::string_view directory = DirectoryOf(path);
  if (!fd_.is_open() || directory != directory_) {
    fd_.Reset();
    auto opened = OpenBeneath(root_fd, directory, O_RDONLY | O_DIRECTORY);
    if (!opened.ok()) return opened.status();
    fd_ = *std::move(opened);
    directory_ = directory;
  }
  return fd_.get();
}

NewFile::~NewFile() {
  if (fd_.is_open()) unlinkat(parent_.get(), temporary_.c_str(), 0);
}

Status NewFile::Write(Bytes bytes) {
  if (!bytes.empty()) ends_with_hole_ = false;
  while (!bytes.empty()) {
    const ssize_t written = write(fd_.get(), bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return StatusOfErrno(errno, "cannot write", path_);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    bytes_ += static_cast<std::uint64_t>(written);
  }
  return OkStatus();
}

Status NewFile::Skip(std::uint64_t bytes) {
  if (lseek(fd_.get(), static_cast<off_t>(bytes), SEEK_CUR) < 0) {
    return StatusOfErrno(errno, "cannot write", path_);
  }
  bytes_ += bytes;
  ends_with_hole_ = true;
  return OkStatus();
}

std::string TreeWriter::TemporaryName() {
  return std::string(kOwnNamePrefix) + tag_ + "-" + std::to_string(counter_.fetch_add(1));
}

Result<NewFile> TreeWriter::Create(std::string_view path, ParentCache* parents) {
  TP_RETURN_IF_ERROR(CheckPath(path));
  auto parent = parents->ParentFd(root_fd_, path);
  if (!parent.ok()) return parent.status();
  NewFile file;
  file.path_ = path;
  file.temporary_ = TemporaryName();
  file.parent_ = UniqueFd(fcntl(*parent, F_DUPFD_CLOEXEC, 0));
  if (!file.parent_.is_open()) return StatusOfErrno(errno, "cannot open the directory of", path);
  const int fd = openat(*parent, file.temporary_.c_str(),
                        O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return StatusOfErrno(errno, "cannot create", path);
  file.fd_ = UniqueFd(fd);
  struct stat root;
  struct stat info;
  file.other_device_ =
      fstat(root_fd_, &root) != 0 || fstat(fd, &info) != 0 || root.st_dev != info.st_dev;
  return file;
}

Result<Written> TreeWriter::Finish(NewFile file, const Attributes& attributes,
                                   std::vector<Status>* left_out) {
  if (file.ends_with_hole_ && ftruncate(file.fd_.get(), static_cast<off_t>(file.bytes_)) != 0) {
    return StatusOfErrno(errno, "cannot write", file.path_);
  }
  TP_RETURN_IF_ERROR(SetAttributes(file.fd_.get(), attributes, file.path_, left_out));
  Written written{file.path_, Below(ParentOf(file.path_), file.temporary_), file.bytes_,
                  file.other_device_};
  // Some file systems report a full disk at close() only.
  if (close(file.fd_.Release()) != 0) {
    const int error = errno;
    Remove(written);
    return StatusOfErrno(error, "cannot write", file.path_);
  }
  return written;
}

Result<Written> TreeWriter::MakeSymlink(std::string_view path, const std::string& target,
                                        FileTime mtime, ParentCache* parents) {
  TP_RETURN_IF_ERROR(CheckPath(path));
  auto parent = parents->ParentFd(root_fd_, path);
  if (!parent.ok()) return parent.status();
  const std::string name = TemporaryName();
  if (symlinkat(target.c_str(), *parent, name.c_str()) != 0) {
    return StatusOfErrno(errno, "cannot create the link", path);
  }
  timespec times[2];
  TimesOf(mtime, times);
  if (utimensat(*parent, name.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0) {
    const int error = errno;
    unlinkat(*parent, name.c_str(), 0);
    return StatusOfErrno(error, "cannot set time of", path);
  }
  return Written{std::string(path), Below(ParentOf(path), name), 0, false};
}

int TreeWriter::SyncOne(std::string_view path, bool directory) {
  auto opened = OpenBeneath(root_fd_, path, O_RDONLY | O_NONBLOCK | (directory ? O_DIRECTORY : 0));
  if (opened.ok()) return fsync(opened->get()) == 0 ? 0 : errno;
  // A symbolic link cannot be opened, and has no content: its directory is synced later.
  if (opened.code() == StatusCode::kFailedPrecondition) return 0;
  // A mode that forbids reading, to the owner too: everything on its file system, then.
  const auto parent = OpenBeneath(root_fd_, DirectoryOf(path), O_RDONLY | O_DIRECTORY);
  return syncfs(parent.ok() ? parent->get() : root_fd_) == 0 ? 0 : errno;
}

int TreeWriter::Sync(const std::vector<Written>& files) {
  if (sync_) return sync_(files);
  const bool one_by_one = files.size() <= kSyncedOneByOneMax;
  for (const Written& file : files) {
    if (!one_by_one && !file.other_device) continue;
    if (const int error = SyncOne(file.temporary, false); error != 0) return error;
  }
  return one_by_one || syncfs(root_fd_) == 0 ? 0 : errno;
}

Status TreeWriter::Rename(const Written& file, ParentCache* parents) {
  auto parent = parents->ParentFd(root_fd_, file.path);
  if (!parent.ok()) return parent.status();
  const std::string from(NameOf(file.temporary));
  const std::string to(NameOf(file.path));
  if (renameat(*parent, from.c_str(), *parent, to.c_str()) != 0) {
    return StatusOfErrno(errno, "cannot replace", file.path);
  }
  const std::lock_guard lock(directories_mutex_);
  directories_.emplace(DirectoryOf(file.path));
  return OkStatus();
}

void TreeWriter::Commit(std::vector<Written> files,
                        const std::function<void(const Written&, const Status&)>& done) {
  const int error = Sync(files);
  ParentCache parents;
  for (const Written& file : files) {
    Status status = error == 0 ? Rename(file, &parents)
                               : StatusOfErrno(error, "cannot make durable", file.path);
    if (!status.ok()) Remove(file);
    done(file, status);
  }
}

void TreeWriter::Remove(const Written& file) {
  ParentCache parents;
  if (auto parent = parents.ParentFd(root_fd_, file.temporary); parent.ok()) {
    unlinkat(*parent, std::string(NameOf(file.temporary)).c_str(), 0);
  }
}

void TreeWriter::Discard(const std::vector<Written>& files) {
  for (const Written& file : files) Remove(file);
}

Status TreeWriter::SyncDirectories() {
  std::set<std::string> directories;
  {
    const std::lock_guard lock(directories_mutex_);
    directories.swap(directories_);
  }
  if (directories.empty()) return OkStatus();
  int error = 0;
  if (sync_) {
    error = sync_({});
  } else {
    // The first sync of a journalling file system commits for all; further syncs find nothing to
    // do.
    const bool all = directories.size() > kSyncedOneByOneMax;
    struct stat root;
    if (fstat(root_fd_, &root) != 0) error = errno;
    for (auto at = directories.begin(); error == 0 && !all && at != directories.end(); ++at) {
      error = SyncOne(*at, true);
    }
    if (error == 0 && all && syncfs(root_fd_) != 0) error = errno;
  }
  if (error != 0) return StatusOfErrno(error, "cannot make durable the directories below", ".");
  return OkStatus();
}

Result<bool> TreeWriter::MakeDirectory(std::string_view path, std::uint32_t mode) {
  if (path == ".") return false;
  TP_RETURN_IF_ERROR(CheckPath(path));
  ParentCache parents;
  auto parent = parents.ParentFd(root_fd_, path);
  if (!parent.ok()) return parent.status();
  const std::string name(NameOf(path));
  constexpr mode_t kOwner = 0700;
  if (mkdirat(*parent, name.c_str(), kOwner) == 0) {
    const std::lock_guard lock(directories_mutex_);
    directories_.emplace(DirectoryOf(path));
    return true;
  }
  if (errno != EEXIST) return StatusOfErrno(errno, "cannot create the directory", path);
  auto there = OpenBeneath(root_fd_, path, O_RDONLY | O_DIRECTORY);
  struct stat info;
  if (there.ok() && fstat(there->get(), &info) == 0 && (info.st_mode & kOwner) == kOwner) {
    return false;
  }
  if (!there.ok() && there.code() != StatusCode::kPermissionDenied) return there.status();
  // Without the owner's own rights: they are lent to it, and taken back by FinishDirectory. Uses a
  // descriptor, which does not follow a link that another process puts in its place.
  const auto bare = OpenBeneath(root_fd_, path, O_PATH | O_DIRECTORY);
  if (!bare.ok()) return bare.status();
  const std::string self = "/proc/self/fd/" + std::to_string(bare->get());
  if (chmod(self.c_str(), (mode & 07777u) | kOwner) != 0) {
    return StatusOfErrno(errno, "cannot write into", path);
  }
  return false;
}

Status TreeWriter::FinishDirectory(std::string_view path, const Attributes& attributes,
                                   std::vector<Status>* left_out) {
  auto opened = OpenBeneath(root_fd_, path, O_RDONLY | O_DIRECTORY);
  if (!opened.ok()) return opened.status();
  struct stat info;
  if (fstat(opened->get(), &info) == 0 &&
      IsSameFileTime(attributes.mtime, FileTime::Of(info.st_mtim)) &&
      (info.st_mode & 07777u) == attributes.mode && attributes.xattrs.empty()) {
    return OkStatus();
  }
  {
    const std::lock_guard lock(directories_mutex_);
    directories_.emplace(path);
  }
  return SetAttributes(opened->get(), attributes, path, left_out);
}

Result<Written> TreeWriter::CreateShared(std::string_view path, std::uint64_t size) {
  ParentCache parents;
  auto file = Create(path, &parents);
  if (!file.ok()) return file.status();
  if (ftruncate(file->fd_.get(), static_cast<off_t>(size)) != 0) {
    return StatusOfErrno(errno, "cannot create", path);
  }
  file->fd_.Reset();  // Keeps it: only an open file is removed.
  return Written{std::string(path), Below(ParentOf(path), file->temporary_), size,
                 file->other_device_};
}

Status TreeWriter::FinishShared(const Written& file, const Attributes& attributes,
                                std::vector<Status>* left_out) {
  auto opened = OpenBeneath(root_fd_, file.temporary, O_RDWR);
  if (!opened.ok()) return opened.status();
  return SetAttributes(opened->get(), attributes, file.path, left_out);
}

}  // namespace tidepool::file_tree
