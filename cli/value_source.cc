#include "cli/value_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "cli/descriptor_io.h"
#include "cli/text.h"
#include "proto/base/limits.h"

namespace tidepool::cli {
namespace {

// Files up to this size are read to their end before their size is believed. Files of /proc claim
// to be empty, and files of /sys claim a page.
constexpr off_t kReadWholeBytesMax = 1 << 20;

Status TooLarge(const std::string& name) {
  return Status(StatusCode::kInvalidArgument, name + " is larger than 1 GiB, the most for a value",
                "split it, or use: kvctl stage in");
}

Result<std::string> ReadToEnd(int fd, const std::string& name) {
  constexpr std::size_t kStepBytes = 256 * 1024;
  std::string all;
  for (;;) {
    const std::size_t before = all.size();
    all.resize(before + kStepBytes);
    const Result<std::size_t> got = ReadSome(fd, all.data() + before, kStepBytes, name);
    if (!got.ok()) return got.status();
    all.resize(before + *got);
    if (*got == 0) return all;
    if (all.size() > limits::kValueBytesMax) return TooLarge(name);
  }
}

}  // namespace

Result<ValueSource> ValueSource::Open(const std::string& argument, bool literal) {
  ValueSource source;
  const bool from_stdin = !literal && argument == "-";
  const bool from_file = !literal && argument.size() > 1 && argument[0] == '@';
  if (!from_stdin && !from_file) {
    source.memory_ = argument;
    source.bytes_ = argument.size();
    return source;
  }
  source.name_ = from_stdin ? "standard input" : argument.substr(1);
  if (from_file) {
    source.file_ = UniqueFd(open(source.name_.c_str(), O_RDONLY | O_CLOEXEC));
    if (!source.file_.is_open()) {
      Status failure = cluster_file::FileReadError("read", source.name_, errno);
      return Status(failure.code(), std::string(failure.what()),
                    "@ means a file; for a value that begins with @ give --literal");
    }
  }
  struct stat info {};
  const int fd = from_stdin ? STDIN_FILENO : source.file_.get();
  if (fstat(fd, &info) != 0) return cluster_file::FileReadError("read", source.name_, errno);
  if (S_ISDIR(info.st_mode)) {
    return Status(StatusCode::kInvalidArgument, Quote(source.name_) + " is a folder",
                  "for folders use: kvctl stage in");
  }
  const bool is_file = from_file && S_ISREG(info.st_mode);
  Result<std::string> all = std::string();
  if (!is_file || info.st_size <= kReadWholeBytesMax) {
    all = ReadToEnd(fd, source.name_);
    if (!all.ok()) return all.status();
  }
  // Reads again in pieces, so that a change meanwhile is noticed.
  const bool is_as_told =
      info.st_size > kReadWholeBytesMax ||
      (all->size() == static_cast<std::uint64_t>(info.st_size) && lseek(fd, 0, SEEK_SET) == 0);
  if (is_file && is_as_told) {
    source.bytes_ = static_cast<std::uint64_t>(info.st_size);
    if (source.bytes_ > limits::kValueBytesMax) return TooLarge("'" + source.name_ + "'");
    return source;
  }
  source.memory_ = *std::move(all);
  source.bytes_ = source.memory_.size();
  source.file_ = UniqueFd();
  return source;
}

Result<std::string_view> ValueSource::Next(std::size_t bytes_max) {
  const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(bytes_max, bytes_ - done_));
  if (wanted == 0) return std::string_view();
  if (!file_.is_open()) {
    done_ += wanted;
    return std::string_view(memory_).substr(done_ - wanted, wanted);
  }
  piece_.resize(wanted);
  const Result<std::size_t> got = ReadSome(file_.get(), piece_.data(), wanted, name_);
  if (!got.ok()) return got.status();
  if (*got == 0) {
    return Status(StatusCode::kAborted, Quote(name_) + " became shorter while it was read",
                  "try again when nobody writes it");
  }
  done_ += *got;
  if (done_ == bytes_) TP_RETURN_IF_ERROR(CheckEnd());
  return std::string_view(piece_).substr(0, *got);
}

Status ValueSource::CheckEnd() const {
  char byte = 0;
  const Result<std::size_t> got = ReadSome(file_.get(), &byte, 1, name_);
  if (!got.ok()) return got.status();
  if (*got == 0) return OkStatus();
  return Status(StatusCode::kAborted, Quote(name_) + " became longer while it was read",
                "try again when nobody writes it");
}

Result<std::string> ValueSource::Rest() {
  std::string all;
  for (;;) {
    const Result<std::string_view> piece = Next(1 << 20);
    if (!piece.ok()) return piece.status();
    if (piece->empty()) return all;
    all += *piece;
  }
}

}  // namespace tidepool::cli
