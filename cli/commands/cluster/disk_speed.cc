#include "cli/commands/cluster/disk_speed.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "cli/text.h"
#include "proto/base/clock.h"
#include "proto/cluster_file/file_io.h"

namespace tidepool::cli {
namespace {

constexpr std::size_t kBlockBytes = 1 << 20;
constexpr std::size_t kPageBytes = 4096;
constexpr std::uint64_t kBlocksMax = 64;
constexpr std::uint64_t kBlocksMin = 8;
constexpr int kSyncs = 32;
constexpr int kReads = 256;
// Time of each of the four parts.
constexpr std::uint64_t kPartMs = 1200;

struct FileSystem {
  std::uint32_t magic;
  const char* name;
  bool is_memory;
  bool is_shared;
};
// Numbers of the kernel's magic.h, and of Lustre, GPFS and BeeGFS, which are not in it.
constexpr FileSystem kFileSystems[] = {
    {0xEF53, "ext4", false, false},      {0x58465342, "xfs", false, false},
    {0x9123683E, "btrfs", false, false}, {0x01021994, "tmpfs", true, false},
    {0x858458F6, "ramfs", true, false},  {0x794C7630, "overlay", false, false},
    {0x6969, "nfs", false, true},        {0x0BD00BD0, "lustre", false, true},
    {0x47504653, "gpfs", false, true},   {0x19830326, "beegfs", false, true},
    {0x65735546, "fuse", false, true},   {0x2FC12FC1, "zfs", false, false},
    {0xFF534D42, "cifs", false, true},   {0xF2F52010, "f2fs", false, false},
    {0x01021997, "9p", false, true},     {0x00C36400, "ceph", false, true},
};

void NameFileSystem(std::uint32_t magic, DiskSpeed* speed) {
  const auto* const found =
      std::find_if(std::begin(kFileSystems), std::end(kFileSystems),
                   [magic](const FileSystem& each) { return each.magic == magic; });
  if (found == std::end(kFileSystems)) {
    speed->file_system = "type " + std::to_string(magic);
    return;
  }
  speed->file_system = found->name;
  speed->is_memory = found->is_memory;
  speed->is_shared = found->is_shared;
}

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

class Measurement {
 public:
  explicit Measurement(const std::string& directory) : directory_(directory) {}

  Result<DiskSpeed> Run() {
    TP_RETURN_IF_ERROR(Open());
    buffer_.reset(static_cast<char*>(std::aligned_alloc(kPageBytes, kBlockBytes)));
    if (buffer_ == nullptr) return Status(StatusCode::kResourceExhausted, "no memory");
    // Not zeros, because some devices do not store zeros.
    for (std::size_t i = 0; i < kBlockBytes; ++i) {
      buffer_.get()[i] = static_cast<char>(i * 2654435761u >> 13);
    }
    TP_RETURN_IF_ERROR(Write());
    TP_RETURN_IF_ERROR(Synchronise());
    TP_RETURN_IF_ERROR(ReadAll());
    TP_RETURN_IF_ERROR(ReadPages());
    void* const mapped = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE,
                              MAP_SHARED_VALIDATE | MAP_SYNC, file_.get(), 0);
    speed_.dax = mapped != MAP_FAILED;
    if (speed_.dax) munmap(mapped, kPageBytes);
    return speed_;
  }

 private:
  Status Failed(const char* doing) const {
    const int error = errno;
    if (error == EIO) {
      return Status(
          StatusCode::kDeviceError,
          std::string("cannot ") + doing + " in " + Quote(directory_) + ": " + std::strerror(error),
          "see the kernel's log: dmesg");
    }
    return cluster_file::FileError(doing, directory_, error);
  }

  Status Open() {
    struct stat info {};
    if (stat(directory_.c_str(), &info) != 0) {
      return cluster_file::FileReadError("look at", directory_, errno);
    }
    if (!S_ISDIR(info.st_mode)) {
      return Status(StatusCode::kInvalidArgument, Quote(directory_) + " is no directory");
    }
    struct statfs system {};
    if (statfs(directory_.c_str(), &system) != 0) return Failed("look at");
    NameFileSystem(static_cast<std::uint32_t>(system.f_type), &speed_);
    speed_.free_bytes = system.f_bavail * static_cast<std::uint64_t>(system.f_bsize);
    // At most a tenth of the free space.
    blocks_ = std::min(kBlocksMax, speed_.free_bytes / 10 / kBlockBytes);
    if (blocks_ < kBlocksMin) {
      return Status(StatusCode::kResourceExhausted,
                    Quote(directory_) + " has " + FormatBytes(speed_.free_bytes) + " free",
                    "make room, or name another directory");
    }
    for (const int flags : {O_DIRECT, 0}) {
      file_ = UniqueFd(open(directory_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600));
      speed_.direct = file_.is_open() && flags == O_DIRECT;
      if (file_.is_open()) return OkStatus();
    }
    if (errno != EOPNOTSUPP && errno != EISDIR) return Failed("make a file");
    // A file system without files without names.
    std::string path = directory_ + "/.kvctl-doctor-XXXXXX";
    file_ = UniqueFd(mkostemp(path.data(), O_CLOEXEC));
    if (!file_.is_open()) return Failed("make a file");
    unlink(path.c_str());
    return OkStatus();
  }

  Status WritePart(std::uint64_t offset, std::size_t bytes) {
    const ssize_t done = pwrite(file_.get(), buffer_.get(), bytes, static_cast<off_t>(offset));
    return done == static_cast<ssize_t>(bytes) ? OkStatus() : Failed("write");
  }

  Status Write() {
    const std::uint64_t begin_ns = Clock::Real().MonotonicNs();
    const Deadline deadline = Deadline::AfterMs(kPartMs);
    std::uint64_t block = 0;
    for (; block < blocks_ && (block < kBlocksMin || !deadline.Passed()); ++block) {
      TP_RETURN_IF_ERROR(WritePart(block * kBlockBytes, kBlockBytes));
    }
    if (fdatasync(file_.get()) != 0) return Failed("write");
    speed_.write_bytes_per_s = PerSecond(block * kBlockBytes, begin_ns);
    blocks_ = block;
    return OkStatus();
  }

  Status Synchronise() {
    const Deadline deadline = Deadline::AfterMs(kPartMs);
    std::vector<std::uint64_t> times;
    for (int i = 0; i < kSyncs && (i == 0 || !deadline.Passed()); ++i) {
      const std::uint64_t begin_ns = Clock::Real().MonotonicNs();
      TP_RETURN_IF_ERROR(WritePart(static_cast<std::uint64_t>(i) * kPageBytes, kPageBytes));
      if (fdatasync(file_.get()) != 0) return Failed("write");
      times.push_back(Clock::Real().MonotonicNs() - begin_ns);
    }
    speed_.sync_ns = Middle(&times);
    return OkStatus();
  }

  Status ReadPart(std::uint64_t offset, std::size_t bytes) {
    const ssize_t done = pread(file_.get(), buffer_.get(), bytes, static_cast<off_t>(offset));
    return done == static_cast<ssize_t>(bytes) ? OkStatus() : Failed("read");
  }

  Status ReadAll() {
    if (!speed_.direct) posix_fadvise(file_.get(), 0, 0, POSIX_FADV_DONTNEED);
    const std::uint64_t begin_ns = Clock::Real().MonotonicNs();
    const Deadline deadline = Deadline::AfterMs(kPartMs);
    std::uint64_t block = 0;
    for (; block < blocks_ && (block == 0 || !deadline.Passed()); ++block) {
      TP_RETURN_IF_ERROR(ReadPart(block * kBlockBytes, kBlockBytes));
    }
    speed_.read_bytes_per_s = PerSecond(block * kBlockBytes, begin_ns);
    return OkStatus();
  }

  Status ReadPages() {
    if (!speed_.direct) posix_fadvise(file_.get(), 0, 0, POSIX_FADV_DONTNEED);
    const std::uint64_t pages = blocks_ * kBlockBytes / kPageBytes;
    const Deadline deadline = Deadline::AfterMs(kPartMs);
    std::vector<std::uint64_t> times;
    for (std::uint64_t i = 0; i < kReads && (i == 0 || !deadline.Passed()); ++i) {
      // Steps of a prime that no read-ahead follows.
      const std::uint64_t page = i * 7919 % pages;
      const std::uint64_t begin_ns = Clock::Real().MonotonicNs();
      TP_RETURN_IF_ERROR(ReadPart(page * kPageBytes, kPageBytes));
      times.push_back(Clock::Real().MonotonicNs() - begin_ns);
    }
    speed_.read_ns = Middle(&times);
    return OkStatus();
  }

  static std::uint64_t PerSecond(std::uint64_t bytes, std::uint64_t begin_ns) {
    const std::uint64_t ns = std::max<std::uint64_t>(1, Clock::Real().MonotonicNs() - begin_ns);
    return static_cast<std::uint64_t>(static_cast<double>(bytes) * 1e9 / static_cast<double>(ns));
  }
  static std::uint64_t Middle(std::vector<std::uint64_t>* times) {
    const auto middle = times->begin() + static_cast<std::ptrdiff_t>(times->size() / 2);
    std::nth_element(times->begin(), middle, times->end());
    return *middle;
  }

  const std::string directory_;
  DiskSpeed speed_;
  UniqueFd file_;
  std::uint64_t blocks_ = 0;
  std::unique_ptr<char, Free> buffer_;
};

}  // namespace

Result<DiskSpeed> MeasureDisk(const std::string& directory) { return Measurement(directory).Run(); }

}  // namespace tidepool::cli
