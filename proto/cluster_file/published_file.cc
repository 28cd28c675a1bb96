#include "proto/cluster_file/published_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <tuple>
#include <utility>

#include "proto/base/clock.h"

namespace tidepool::cluster_file {
namespace {

enum class LockState { kFree, kHeld, kUnknown };

// Returns whether a coordinator holds the file. NFS needs a file open for writing to lock it.
LockState LockStateOf(const std::string& path) {
  const UniqueFd file(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_open()) return LockState::kUnknown;
  if (flock(file.get(), LOCK_EX | LOCK_NB) == 0) return LockState::kFree;
  return errno == EWOULDBLOCK ? LockState::kHeld : LockState::kUnknown;
}

// The new content in a temporary file that is locked already: at no moment does an unlocked file of
// a live cluster stand at the path.
Result<TemporaryFile> WriteLocked(const std::string& path, const ClusterFile& content) {
  auto temporary = WriteTemporary(path, Serialize(content, path));
  if (!temporary.ok()) return temporary;
  // Fails only where the file system has no locks; starters then ask the nodes.
  std::ignore = flock(temporary->descriptor.get(), LOCK_EX | LOCK_NB);
  return temporary;
}

void RemoveSecrets(const ClusterFile& file) {
  unlink(file.token_file.c_str());
  if (!file.tls.file.empty()) unlink(file.tls.file.c_str());
}

}  // namespace

PublishedFile::PublishedFile(std::string path, ClusterFile content, UniqueFd lock)
    : path_(std::move(path)), content_(std::move(content)), lock_(std::move(lock)) {}

Result<PublishedFile> PublishedFile::Create(const std::string& path, const ClusterFile& file) {
  auto temporary = WriteLocked(path, file);
  if (!temporary.ok()) return temporary.status();
  // link() fails if the name exists, also over NFS, where O_EXCL alone leaves an empty file that
  // other processes read.
  const int error = link(temporary->path.c_str(), path.c_str()) == 0 ? 0 : errno;
  unlink(temporary->path.c_str());
  if (error == EEXIST) {
    return Status(StatusCode::kAlreadyExists, "the connection file '" + path + "' exists");
  }
  if (error != 0) return FileError("make", path, error);
  TP_RETURN_IF_ERROR(SyncFolder(FolderOf(path)));
  return PublishedFile(path, file, std::move(temporary->descriptor));
}

Result<PublishedFile> PublishedFile::Adopt(const std::string& path, const ClusterFile& file) {
  PublishedFile published(path, file, UniqueFd());
  const Status ours = published.CheckOwnership();
  if (ours == StatusCode::kNotFound) return Create(path, file);
  TP_RETURN_IF_ERROR(ours);
  TP_RETURN_IF_ERROR(published.Update(file));
  return published;
}

Status PublishedFile::CheckOwnership() const {
  auto standing = Read(path_);
  // A malformed file belongs to no cluster: files of clusters are whole at each moment.
  if (standing.code() == StatusCode::kInvalidArgument) return OkStatus();
  if (!standing.ok()) return standing.status();
  if (standing->cluster_uuid == content_.cluster_uuid) return OkStatus();
  return Status(StatusCode::kFailedPrecondition,
                "the connection file '" + path_ + "' is now that of cluster " +
                    standing->cluster_uuid + ", not of " + content_.cluster_uuid,
                "start each service with a connection file of its own (--cluster)");
}

Status PublishedFile::Update(const ClusterFile& file) {
  TP_RETURN_IF_ERROR(CheckOwnership());
  auto temporary = WriteLocked(path_, file);
  if (!temporary.ok()) return temporary.status();
  if (rename(temporary->path.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    unlink(temporary->path.c_str());
    return FileError("write", path_, error);
  }
  lock_ = std::move(temporary->descriptor);
  content_ = file;
  return SyncFolder(FolderOf(path_));
}

void PublishedFile::Remove() {
  if (!CheckOwnership().ok()) return;
  unlink(path_.c_str());
  RemoveSecrets(content_);
  std::ignore = SyncFolder(FolderOf(path_));
}

Result<Examination> Examine(const std::string& path, const std::string& job_id,
                            const Probe& probe) {
  auto file = Read(path);
  if (file.code() == StatusCode::kNotFound) return Examination{};
  if (!file.ok()) return file.status();
  Examination examination{Finding::kStale, *std::move(file)};
  const ClusterFile& found = *examination.file;
  // A job's file has the job's id in its name, so another id in it means a reused number.
  if (!job_id.empty() && !found.job_id.empty() && job_id != found.job_id) return examination;
  if (LockStateOf(path) == LockState::kHeld) {
    examination.finding = Finding::kLive;
    return examination;
  }
  // The coordinator may be gone and other nodes live, or the file system may have no locks.
  for (const FileNode& node : found.nodes) {
    if (probe(found, node.control_address)) {
      examination.finding = Finding::kLive;
      break;
    }
  }
  return examination;
}

Status MoveAside(const std::string& path, const ClusterFile& stale) {
  auto standing = Read(path);
  if (standing.code() == StatusCode::kNotFound) return OkStatus();
  if (standing.ok() && standing->cluster_uuid != stale.cluster_uuid) return OkStatus();
  const std::string aside = path + ".stale-" + stale.cluster_uuid.substr(0, 8);
  if (rename(path.c_str(), aside.c_str()) != 0 && errno != ENOENT) {
    return FileError("move aside", path, errno);
  }
  RemoveSecrets(stale);
  return SyncFolder(FolderOf(path));
}

void RemoveEnded(const std::string& path, const ClusterFile& ended) {
  const auto standing = Read(path);
  if (!standing.ok() || standing->cluster_uuid != ended.cluster_uuid) return;
  unlink(path.c_str());
  RemoveSecrets(*standing);
  std::ignore = SyncFolder(FolderOf(path));
}

Result<UniqueFd> TakeStartLock(const std::string& path, std::uint64_t timeout_ms) {
  const Deadline deadline = Deadline::AfterMs(timeout_ms);
  while (true) {
    auto lock = LockFile(path + ".lock");
    if (lock.ok()) return lock;
    if (lock.code() == StatusCode::kInternal) return UniqueFd();  // No locks here: ENOLCK and kin.
    if (lock.code() != StatusCode::kAborted) return lock.status();
    if (deadline.Passed()) {
      return Status(StatusCode::kDeadlineExceeded,
                    "another daemon has been starting with '" + path + "' for " +
                        std::to_string(timeout_ms / 1000) + " s",
                    "look for a kvd that hangs while it starts (its state in ps is D or T)");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace tidepool::cluster_file
