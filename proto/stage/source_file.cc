#include "proto/stage/source_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "proto/base/limits.h"
#include "proto/file_tree/beneath.h"
#include "proto/manifest/holes.h"

namespace tidepool::stage {
namespace {

constexpr std::uint64_t kBlockBytes = 512;  // Unit of st_blocks.
// More holes than this are data: their list would be longer than the zeros of a small file.
constexpr std::size_t kHolesKeptMax = 16 * 1024;

Status SourceChanged() {
  return Status(StatusCode::kFailedPrecondition, "it changed while it was read",
                "run the same command again when nobody writes there");
}

// Files of /proc and /sys, and of some network file systems, say another size than they have.
Status NotItsSize(const char* which, std::uint64_t listed_size) {
  return Status(
      StatusCode::kFailedPrecondition,
      std::string("it yields ") + which + " bytes than its size of " + std::to_string(listed_size),
      "store it with: kvctl put NAMESPACE KEY @FILE, which reads a file to its end");
}

}  // namespace

Result<SourceFile> SourceFile::Open(int root_fd, const std::string& path,
                                    const manifest::Entry& listed, std::uint32_t part) {
  auto fd = file_tree::OpenBeneath(root_fd, path, O_RDONLY | O_NONBLOCK);
  if (!fd.ok()) return fd.status();
  SourceFile file;
  file.fd_ = *std::move(fd);
  file.listed_size_ = listed.size;
  file.listed_mtime_ = listed.mtime;
  file.bytes_ = listed.size;
  if (part != 0) {
    file.offset_ = (part - 1) * limits::kStagedFileWholeBytesMax;
    file.bytes_ = std::min(limits::kStagedFileWholeBytesMax, listed.size - file.offset_);
    file.leaves_out_holes_ = true;
  }
  if (!file.IsAsListed()) {
    return Status(StatusCode::kFailedPrecondition, "it changed since the directory was listed",
                  "run the same command again when nobody writes there");
  }
  file.FindHoles();
  file.stored_bytes_ = file.bytes_;
  if (!file.leaves_out_holes_) return file;
  for (const manifest::Hole& hole : file.holes_) file.stored_bytes_ -= hole.bytes;
  return file;
}

bool SourceFile::IsAsListed() const {
  struct stat info;
  if (fstat(fd_.get(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  return static_cast<std::uint64_t>(info.st_size) == listed_size_ &&
         FileTime::Of(info.st_mtim) == listed_mtime_;
}

void SourceFile::FindHoles() {
  struct stat info;
  if (fstat(fd_.get(), &info) != 0) return;
  if (static_cast<std::uint64_t>(info.st_blocks) * kBlockBytes >= listed_size_) return;
  const std::uint64_t end = offset_ + bytes_;
  for (std::uint64_t at = offset_; at < end;) {
    const off_t found = lseek(fd_.get(), static_cast<off_t>(at), SEEK_DATA);
    if (found < 0 && errno != ENXIO) break;  // A file system that knows no holes.
    // ENXIO: nothing but a hole up to the end of the file.
    const std::uint64_t data = found < 0 ? end : std::min(end, static_cast<std::uint64_t>(found));
    if (data > at) holes_.push_back({at - offset_, data - at});
    if (data >= end) break;
    const off_t hole = lseek(fd_.get(), static_cast<off_t>(data), SEEK_HOLE);
    if (hole < 0 || static_cast<std::uint64_t>(hole) <= data) break;
    at = static_cast<std::uint64_t>(hole);
  }
  if (holes_.size() > kHolesKeptMax) holes_.clear();
}

std::uint64_t SourceFile::EndOfData() {
  if (!leaves_out_holes_) return bytes_;
  for (; next_hole_ < holes_.size() && holes_[next_hole_].offset == at_; ++next_hole_) {
    // A part that is a single hole has a known hash: see Hash().
    if (holes_[next_hole_].bytes < bytes_)
      manifest::AddZeros(holes_[next_hole_].bytes, hash_.get());
    at_ += holes_[next_hole_].bytes;
  }
  return next_hole_ < holes_.size() ? holes_[next_hole_].offset : bytes_;
}

Status SourceFile::Read(std::size_t bytes_max, std::string* to) {
  const std::size_t limit = to->size() + bytes_max;
  for (;;) {
    const auto wanted =
        static_cast<std::size_t>(std::min<std::uint64_t>(limit - to->size(), EndOfData() - at_));
    if (wanted == 0) return OkStatus();
    const std::size_t begin = to->size();
    to->resize(begin + wanted);
    const ssize_t got =
        pread(fd_.get(), to->data() + begin, wanted, static_cast<off_t>(offset_ + at_));
    const int error = errno;
    to->resize(begin + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && error == EINTR) continue;
    if (got < 0) return file_tree::StatusOfErrno(error, "cannot read", "it");
    if (got == 0) return IsAsListed() ? NotItsSize("fewer", listed_size_) : SourceChanged();
    hash_->Add(AsBytes(*to).subspan(begin));
    at_ += static_cast<std::uint64_t>(got);
  }
}

Status SourceFile::CheckUnchanged() const {
  if (!IsAsListed()) return SourceChanged();
  if (offset_ + bytes_ < listed_size_) return OkStatus();  // Another part has the end.
  char byte = 0;
  const ssize_t got = pread(fd_.get(), &byte, 1, static_cast<off_t>(listed_size_));
  return got > 0 ? NotItsSize("more", listed_size_) : OkStatus();
}

manifest::Hash128 SourceFile::Hash() {
  if (leaves_out_holes_ && stored_bytes_ == 0) return manifest::HashOfZeros(bytes_);
  (void)EndOfData();
  return hash_->Finish();
}

}  // namespace tidepool::stage
