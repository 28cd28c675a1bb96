#include "cli/descriptor_io.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "cli/text.h"

namespace tidepool::cli {
namespace {

constexpr std::size_t kReadBytes = 64 * 1024;

// True if a call that failed with `errno` is to be made again.
bool WaitsFor(int fd, short event) {
  if (errno == EINTR) return true;
  if (errno != EAGAIN && errno != EWOULDBLOCK) return false;
  pollfd what = {.fd = fd, .events = event, .revents = 0};
  return poll(&what, 1, -1) >= 0 || errno == EINTR;
}

}  // namespace

Result<std::size_t> ReadSome(int fd, char* to, std::size_t bytes, const std::string& name) {
  for (;;) {
    const ssize_t got = read(fd, to, bytes);
    if (got >= 0) return static_cast<std::size_t>(got);
    if (!WaitsFor(fd, POLLIN)) return cluster_file::FileReadError("read", name, errno);
  }
}

std::ptrdiff_t WriteSome(int fd, std::string_view bytes) {
  for (;;) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written >= 0 || !WaitsFor(fd, POLLOUT)) return written;
  }
}

Result<LineSource> LineSource::Open(const std::string& file) {
  LineSource lines;
  lines.name_ = file == "-" ? "standard input" : file;
  lines.fd_ = STDIN_FILENO;
  if (file != "-") {
    lines.file_ = UniqueFd(open(file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!lines.file_.is_open()) return cluster_file::FileReadError("read", file, errno);
    lines.fd_ = lines.file_.get();
  }
  struct stat info {};
  if (fstat(lines.fd_, &info) == 0 && S_ISDIR(info.st_mode)) {
    return Status(StatusCode::kInvalidArgument, Quote(lines.name_) + " is a folder",
                  "for folders use: kvctl stage in");
  }
  return lines;
}

Result<bool> LineSource::ReadMore() {
  buffer_.erase(0, begin_);
  begin_ = 0;
  const std::size_t before = buffer_.size();
  buffer_.resize(before + kReadBytes);
  const Result<std::size_t> got = ReadSome(fd_, buffer_.data() + before, kReadBytes, name_);
  buffer_.resize(before + (got.ok() ? *got : 0));
  if (!got.ok()) return got.status();
  is_at_end_ = *got == 0;
  return !is_at_end_;
}

// Editors of other systems begin a text with the mark; it belongs to no key.
Status LineSource::SkipMark() {
  constexpr std::string_view kUtf8 = "\xEF\xBB\xBF";
  has_begun_ = true;
  while (buffer_.size() < kUtf8.size() && !is_at_end_) {
    const Result<bool> more = ReadMore();
    if (!more.ok()) return more.status();
  }
  if (buffer_.starts_with(kUtf8)) begin_ = kUtf8.size();
  if (!buffer_.starts_with("\xFF\xFE") && !buffer_.starts_with("\xFE\xFF")) return OkStatus();
  return Status(StatusCode::kInvalidArgument, name_ + " begins with a byte order mark of UTF-16",
                "convert the text first: iconv -f UTF-16 -t UTF-8");
}

Result<std::optional<std::string_view>> LineSource::Next() {
  if (!has_begun_) TP_RETURN_IF_ERROR(SkipMark());
  std::size_t looked_at = begin_;
  for (;;) {
    const std::size_t end = buffer_.find('\n', looked_at);
    if (end != std::string::npos) {
      const std::size_t from = std::exchange(begin_, end + 1);
      return std::optional(std::string_view(buffer_).substr(from, end - from));
    }
    if (is_at_end_) break;
    looked_at = buffer_.size() - begin_;  // ReadMore moves the line to the front.
    const Result<bool> more = ReadMore();
    if (!more.ok()) return more.status();
  }
  if (begin_ == buffer_.size()) return std::optional<std::string_view>();
  const std::size_t from = std::exchange(begin_, buffer_.size());
  return std::optional(std::string_view(buffer_).substr(from));
}

}  // namespace tidepool::cli
