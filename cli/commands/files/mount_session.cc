#define FUSE_USE_VERSION 312
#include "cli/commands/files/mount_session.h"

#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "cli/spawn.h"
#include "proto/base/limits.h"
#include "proto/base/thread.h"
#include "proto/base/unique_fd.h"

namespace tidepool::cli {
namespace {

// Nothing of the tree ever changes, so the kernel keeps what it has learnt.
constexpr double kForEverSeconds = 365.0 * 24 * 3600;
constexpr std::size_t kThreads = 8;
constexpr unsigned kBlockBytes = 4096;

// The last words of libfuse.
std::mutex words_mutex;
std::string last_words;  // NOLINT(runtime/string): until the program ends.

void KeepWords(fuse_log_level /*level*/, const char* format, va_list arguments) {
  std::array<char, 512> text{};
  std::vsnprintf(text.data(), text.size(), format, arguments);
  const std::lock_guard lock(words_mutex);
  last_words = text.data();
}

// Catches what fusermount3 says on standard error.
class CaughtErrors {
 public:
  CaughtErrors()
      : file_(memfd_create("errors", MFD_CLOEXEC)), before_(fcntl(2, F_DUPFD_CLOEXEC, 3)) {
    if (file_.is_open() && before_.is_open()) dup2(file_.get(), 2);
  }
  ~CaughtErrors() { Release(); }
  CaughtErrors(const CaughtErrors&) = delete;
  CaughtErrors& operator=(const CaughtErrors&) = delete;

  // Returns the last line that was written since.
  std::string Release() {
    if (!before_.is_open()) return "";
    dup2(before_.get(), 2);
    before_.Reset();
    return LastLine("/proc/self/fd/" + std::to_string(file_.get()));
  }

 private:
  UniqueFd file_;
  UniqueFd before_;
};

int ErrnoOf(StatusCode code) {
  switch (code) {
    case StatusCode::kAborted:
      return ESTALE;
    case StatusCode::kResourceExhausted:
      return ENOMEM;
    case StatusCode::kDeadlineExceeded:
      return ETIMEDOUT;
    default:
      return EIO;
  }
}

class FuseSession final : public MountSession {
 public:
  FuseSession(Options options, const MountTree& tree, MountContent& content,
              std::function<void(const std::string&, const Status&)> failed)
      : options_(std::move(options)),
        tree_(tree),
        content_(content),
        failed_(std::move(failed)),
        owner_(geteuid()),
        group_(getegid()) {}
  ~FuseSession() override {
    End();
    if (session_ != nullptr) fuse_session_destroy(session_);
  }

  Status Mount();
  Status Start() override;
  bool ended() const override { return ended_; }
  void End() override;

 private:
  static FuseSession& Of(fuse_req_t request) {
    return *static_cast<FuseSession*>(fuse_req_userdata(request));
  }
  // The root's number is 1 for the kernel.
  static MountTree::Number NumberOf(fuse_ino_t inode) {
    return static_cast<MountTree::Number>(inode - 1);
  }
  static void Begin(void* session, fuse_conn_info* connection);
  static void LookUp(fuse_req_t request, fuse_ino_t parent, const char* name);
  static void GetAttributes(fuse_req_t request, fuse_ino_t inode, fuse_file_info* file);
  static void ReadLink(fuse_req_t request, fuse_ino_t inode);
  static void Open(fuse_req_t request, fuse_ino_t inode, fuse_file_info* file);
  static void Read(fuse_req_t request, fuse_ino_t inode, std::size_t bytes, off_t offset,
                   fuse_file_info* file);
  static void OpenFolder(fuse_req_t request, fuse_ino_t inode, fuse_file_info* file);
  static void ReadFolder(fuse_req_t request, fuse_ino_t inode, std::size_t bytes, off_t offset,
                         fuse_file_info* file);
  static void ReadFolderPlus(fuse_req_t request, fuse_ino_t inode, std::size_t bytes, off_t offset,
                             fuse_file_info* file);
  static void ReplyFolder(fuse_req_t request, fuse_ino_t inode, std::size_t bytes, off_t offset,
                          bool plus);
  static void ReplyOpen(fuse_req_t request, bool by_kernel, fuse_file_info* file);
  static void FileSystem(fuse_req_t request, fuse_ino_t inode);

  struct stat StatOf(MountTree::Number number) const;
  fuse_entry_param EntryOf(MountTree::Number number) const;
  void Serve();
  void Answer(fuse_req_t request, MountTree::Number file, std::uint64_t begin, std::uint64_t end);

  const Options options_;
  const MountTree& tree_;
  MountContent& content_;
  const std::function<void(const std::string&, const Status&)> failed_;
  const uid_t owner_;
  const gid_t group_;
  fuse_session* session_ = nullptr;
  bool mounted_ = false;
  // Set by the first request, which the kernel sends before all others.
  std::atomic<bool> kernel_opens_files_ = false;
  std::atomic<bool> kernel_opens_folders_ = false;
  UniqueFd stop_;  // An eventfd; readable once the threads must end.
  std::array<std::thread, kThreads> threads_;
  std::atomic<bool> ended_ = false;
};

struct stat FuseSession::StatOf(MountTree::Number number) const {
  const MountTree::Node& node = tree_.node(number);
  struct stat stat {};
  stat.st_ino = number + 1;
  stat.st_uid = owner_;
  stat.st_gid = group_;
  stat.st_size = static_cast<off_t>(node.bytes);
  stat.st_blksize = kBlockBytes;
  stat.st_blocks = static_cast<blkcnt_t>((node.bytes + 511) / 512);
  stat.st_mtim.tv_sec = node.attributes.mtime.seconds;
  stat.st_mtim.tv_nsec = node.attributes.mtime.nanoseconds;
  stat.st_atim = stat.st_mtim;
  stat.st_ctim = stat.st_mtim;
  stat.st_nlink = 1;
  switch (node.type) {
    case MountTree::Type::kFolder:
      stat.st_mode = S_IFDIR | node.attributes.mode;
      stat.st_nlink = 2 + node.folders;
      break;
    case MountTree::Type::kFile:
      stat.st_mode = S_IFREG | node.attributes.mode;
      break;
    case MountTree::Type::kLink:
      stat.st_mode = S_IFLNK | 0777;
      break;
  }
  return stat;
}

fuse_entry_param FuseSession::EntryOf(MountTree::Number number) const {
  fuse_entry_param entry{};
  entry.ino = number + 1;
  entry.attr = StatOf(number);
  entry.attr_timeout = kForEverSeconds;
  entry.entry_timeout = kForEverSeconds;
  return entry;
}

void FuseSession::Begin(void* session, fuse_conn_info* connection) {
  auto& self = *static_cast<FuseSession*>(session);
  self.kernel_opens_files_ = (connection->capable & FUSE_CAP_NO_OPEN_SUPPORT) != 0;
  self.kernel_opens_folders_ = (connection->capable & FUSE_CAP_NO_OPENDIR_SUPPORT) != 0;
  connection->want &= ~static_cast<unsigned>(FUSE_CAP_AUTO_INVAL_DATA);
  if ((connection->capable & FUSE_CAP_CACHE_SYMLINKS) != 0) {
    connection->want |= FUSE_CAP_CACHE_SYMLINKS;
  }
}

void FuseSession::LookUp(fuse_req_t request, fuse_ino_t parent, const char* name) {
  const FuseSession& self = Of(request);
  const auto found = self.tree_.Find(NumberOf(parent), name);
  // The kernel keeps that there is no such name, too: imports look for many.
  fuse_entry_param entry{};
  entry.entry_timeout = kForEverSeconds;
  if (found.has_value()) entry = self.EntryOf(*found);
  fuse_reply_entry(request, &entry);
}

void FuseSession::GetAttributes(fuse_req_t request, fuse_ino_t inode, fuse_file_info* /*file*/) {
  const struct stat stat = Of(request).StatOf(NumberOf(inode));
  fuse_reply_attr(request, &stat, kForEverSeconds);
}

void FuseSession::ReadLink(fuse_req_t request, fuse_ino_t inode) {
  fuse_reply_readlink(request, Of(request).tree_.node(NumberOf(inode)).target.c_str());
}

void FuseSession::Open(fuse_req_t request, fuse_ino_t /*inode*/, fuse_file_info* file) {
  ReplyOpen(request, Of(request).kernel_opens_files_, file);
}

void FuseSession::OpenFolder(fuse_req_t request, fuse_ino_t /*inode*/, fuse_file_info* file) {
  ReplyOpen(request, Of(request).kernel_opens_folders_, file);
}

// Tells the kernel to open by itself from now on, if it can, and to keep pages and names. Linux
// opens folders by itself from 5.1 on.
void FuseSession::ReplyOpen(fuse_req_t request, bool by_kernel, fuse_file_info* file) {
  if (by_kernel) {
    fuse_reply_err(request, ENOSYS);
    return;
  }
  file->keep_cache = 1;
  file->cache_readdir = 1;
  fuse_reply_open(request, file);
}

void FuseSession::Read(fuse_req_t request, fuse_ino_t inode, std::size_t bytes, off_t offset,
                       fuse_file_info* /*file*/) {
  FuseSession& self = Of(request);
  const MountTree::Number number = NumberOf(inode);
  const std::uint64_t size = self.tree_.node(number).bytes;
  const std::uint64_t begin = std::min<std::uint64_t>(static_cast<std::uint64_t>(offset), size);
  self.Answer(request, number, begin, begin + std::min<std::uint64_t>(bytes, size - begin));
}

void FuseSession::Answer(fuse_req_t request, MountTree::Number file, std::uint64_t begin,
                         std::uint64_t end) {
  const bool in_parts = !tree_.node(file).parts.empty();
  std::vector<MountContent::Bytes> held;
  std::vector<iovec> pieces;
  while (begin < end) {
    const auto part =
        in_parts ? static_cast<std::uint32_t>(begin / limits::kStagedFileWholeBytesMax) : 0;
    auto content = content_.Get(file, part);
    std::uint64_t at = 0;
    if (content.ok()) {
      at = begin - part * limits::kStagedFileWholeBytesMax;
      if (at >= (*content)->size()) {
        content = Status(StatusCode::kDataLoss, "a part has fewer bytes than the file's size says");
      }
    }
    if (!content.ok()) {
      failed_(tree_.PathOf(file), content.status());
      fuse_reply_err(request, ErrnoOf(content.code()));
      return;
    }
    const std::uint64_t bytes = std::min<std::uint64_t>((*content)->size() - at, end - begin);
    if (at + bytes == (*content)->size()) content_.KernelHas(file, part);
    pieces.push_back({const_cast<char*>((*content)->data()) + at, bytes});
    held.push_back(*std::move(content));
    begin += bytes;
  }
  fuse_reply_iov(request, pieces.data(), static_cast<int>(pieces.size()));
}

void FuseSession::ReadFolder(fuse_req_t request, fuse_ino_t inode, std::size_t bytes, off_t offset,
                             fuse_file_info* /*file*/) {
  ReplyFolder(request, inode, bytes, offset, false);
}

void FuseSession::ReadFolderPlus(fuse_req_t request, fuse_ino_t inode, std::size_t bytes,
                                 off_t offset, fuse_file_info* /*file*/) {
  ReplyFolder(request, inode, bytes, offset, true);
}

// The offset of an entry is its place: "." and "..", then the children.
void FuseSession::ReplyFolder(fuse_req_t request, fuse_ino_t inode, std::size_t bytes, off_t offset,
                              bool plus) {
  const FuseSession& self = Of(request);
  const MountTree::Number folder = NumberOf(inode);
  const auto& children = self.tree_.node(folder).children;
  std::vector<char> buffer(bytes);
  std::size_t used = 0;
  for (auto place = static_cast<std::size_t>(offset); place < children.size() + 2; ++place) {
    MountTree::Number number = folder;
    const char* name = ".";
    if (place == 1) {
      number = self.tree_.node(folder).parent;
      name = "..";
    } else if (place > 1) {
      number = children[place - 2];
      name = self.tree_.node(number).name.c_str();
    }
    const auto next = static_cast<off_t>(place + 1);
    const fuse_entry_param entry = self.EntryOf(number);
    const std::size_t room = bytes - used;
    const std::size_t needed =
        plus ? fuse_add_direntry_plus(request, buffer.data() + used, room, name, &entry, next)
             : fuse_add_direntry(request, buffer.data() + used, room, name, &entry.attr, next);
    if (needed > room) break;
    used += needed;
  }
  fuse_reply_buf(request, buffer.data(), used);
}

void FuseSession::FileSystem(fuse_req_t request, fuse_ino_t /*inode*/) {
  const MountTree& tree = Of(request).tree_;
  struct statvfs stat {};
  stat.f_bsize = kBlockBytes;
  stat.f_frsize = kBlockBytes;
  stat.f_blocks = (tree.bytes() + kBlockBytes - 1) / kBlockBytes;
  stat.f_files = tree.nodes();
  stat.f_namemax = 255;
  fuse_reply_statfs(request, &stat);
}

Status FuseSession::Mount() {
  fuse_lowlevel_ops operations{};
  operations.init = Begin;
  operations.lookup = LookUp;
  operations.getattr = GetAttributes;
  operations.readlink = ReadLink;
  operations.open = Open;
  operations.read = Read;
  operations.opendir = OpenFolder;
  operations.readdir = ReadFolder;
  operations.readdirplus = ReadFolderPlus;
  operations.statfs = FileSystem;
  fuse_set_log_func(KeepWords);
  const std::string mount_options =
      "ro,nosuid,nodev,default_permissions,subtype=tidepool,fsname=" + options_.source +
      (options_.for_others ? ",allow_other" : "");
  std::array<char*, 3> words = {const_cast<char*>("kvctl"), const_cast<char*>("-o"),
                                const_cast<char*>(mount_options.c_str())};
  fuse_args arguments = FUSE_ARGS_INIT(words.size(), words.data());
  session_ = fuse_session_new(&arguments, &operations, sizeof(operations), this);
  fuse_opt_free_args(&arguments);
  if (session_ == nullptr) return Status(StatusCode::kInternal, "libfuse: " + last_words);
  CaughtErrors errors;
  if (fuse_session_mount(session_, options_.directory.c_str()) == 0) {
    mounted_ = true;
    return OkStatus();
  }
  std::string why = errors.Release();
  if (why.empty()) why = last_words;
  while (!why.empty() && why.back() == '\n') why.pop_back();
  const bool denied = why.find("not permitted") != std::string::npos ||
                      why.find("ermission denied") != std::string::npos;
  return Status(denied ? StatusCode::kPermissionDenied : StatusCode::kFailedPrecondition,
                "cannot mount on " + options_.directory + ": " + why,
                denied ? "ask who runs this machine or container to allow mounts by FUSE" : "");
}

Status FuseSession::Start() {
  stop_ = UniqueFd(eventfd(0, EFD_CLOEXEC));
  const int device = fuse_session_fd(session_);
  // A thread that finds a request gone must not wait for the next one in read.
  if (!stop_.is_open() || fcntl(device, F_SETFL, fcntl(device, F_GETFL) | O_NONBLOCK) != 0) {
    return Status(StatusCode::kResourceExhausted,
                  std::string("cannot prepare the mount: ") + std::strerror(errno));
  }
  for (std::thread& thread : threads_) {
    TP_RETURN_IF_ERROR(StartThread("answers to the kernel", &thread, [this] { Serve(); }));
  }
  return OkStatus();
}

void FuseSession::Serve() {
  fuse_buf buffer{};
  std::array<pollfd, 2> ready = {pollfd{fuse_session_fd(session_), POLLIN, 0},
                                 pollfd{stop_.get(), POLLIN, 0}};
  while (fuse_session_exited(session_) == 0) {
    if (poll(ready.data(), ready.size(), -1) < 0 && errno != EINTR) break;
    if (ready[1].revents != 0) break;
    const int bytes = fuse_session_receive_buf(session_, &buffer);
    if (bytes == -EAGAIN || bytes == -EINTR) continue;
    if (bytes <= 0) break;  // Unmounted.
    fuse_session_process_buf(session_, &buffer);
  }
  std::free(buffer.mem);
  ended_ = true;
}

void FuseSession::End() {
  const std::uint64_t one = 1;
  if (stop_.is_open() && write(stop_.get(), &one, sizeof(one)) < 0) std::perror("kvctl");
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
  if (!mounted_) return;
  CaughtErrors errors;  // Somebody may have unmounted it already.
  fuse_session_unmount(session_);
  mounted_ = false;
}

}  // namespace

Result<std::unique_ptr<MountSession>> MountSession::Open(
    const Options& options, const MountTree& tree, MountContent& content,
    std::function<void(const std::string& path, const Status& reason)> failed) {
  auto session = std::make_unique<FuseSession>(options, tree, content, std::move(failed));
  TP_RETURN_IF_ERROR(session->Mount());
  return std::unique_ptr<MountSession>(std::move(session));
}

}  // namespace tidepool::cli
