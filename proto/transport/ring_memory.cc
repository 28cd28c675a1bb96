#include "proto/transport/ring_memory.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "proto/base/check.h"

namespace tidepool::transport {
namespace {

constexpr std::uint64_t kPageBytes = 4'096;
constexpr std::uint64_t kControlBytes = kPageBytes;
static_assert(2 * sizeof(RingWords) <= kControlBytes);
// Bound on memory that a peer makes this process map.
constexpr std::uint64_t kWorkerMemoryBytesMax = 1ull << 20;

Status KernelRefuses(const char* what) {
  return Status(StatusCode::kResourceExhausted, std::string(what) + ": " + std::strerror(errno),
                "raise the limit with ulimit -n, if it is that");
}

// Sizing the memory beyond the limit would raise SIGXFSZ, which ends a program that does not expect
// the signal.
Status CheckSizeLimit(std::uint64_t bytes) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
      limit.rlim_cur >= bytes) {
    return OkStatus();
  }
  return Status(StatusCode::kResourceExhausted,
                "no shared memory for a connection: it takes " + std::to_string(bytes) +
                    " bytes, and the limit of the size of files is " +
                    std::to_string(limit.rlim_cur),
                "raise the limit: ulimit -f unlimited");
}

Result<UniqueFd> MakeMemory(const char* name, std::uint64_t bytes) {
  TP_RETURN_IF_ERROR(CheckSizeLimit(bytes));
  UniqueFd fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (fd.get() < 0 || ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return KernelRefuses("no shared memory for a connection");
  }
  return fd;
}

Status CheckSize(int descriptor, std::uint64_t bytes) {
  struct stat info {};
  const int seals = fcntl(descriptor, F_GET_SEALS);
  // Without the seal whoever shrinks it ends whoever reads it.
  if (fstat(descriptor, &info) == 0 && static_cast<std::uint64_t>(info.st_size) == bytes &&
      seals >= 0 && (seals & F_SEAL_SHRINK) != 0) {
    return OkStatus();
  }
  return Status(StatusCode::kInvalidArgument, "what came is not the memory of a connection",
                "check that both sides run the same version");
}

// The control page, then each ring twice in a row.
Result<std::byte*> MapRings(int descriptor, std::uint64_t ring_bytes) {
  const std::uint64_t all_bytes = kControlBytes + 4 * ring_bytes;
  void* const range =
      mmap(nullptr, all_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return KernelRefuses("no addresses for a connection");
  auto* const base = static_cast<std::byte*>(range);
  const struct {
    std::uint64_t at;
    std::uint64_t bytes;
    std::uint64_t file_offset;
  } parts[] = {
      {0, kControlBytes, 0},
      {kControlBytes, ring_bytes, kControlBytes},
      {kControlBytes + ring_bytes, ring_bytes, kControlBytes},
      {kControlBytes + 2 * ring_bytes, ring_bytes, kControlBytes + ring_bytes},
      {kControlBytes + 3 * ring_bytes, ring_bytes, kControlBytes + ring_bytes},
  };
  for (const auto& part : parts) {
    if (mmap(base + part.at, part.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor,
             static_cast<off_t>(part.file_offset)) == MAP_FAILED) {
      const Status refused = KernelRefuses("no mapping for a connection");
      munmap(range, all_bytes);
      return refused;
    }
  }
  return base;
}

}  // namespace

Result<std::unique_ptr<RingMemory>> RingMemory::Create(std::uint64_t ring_bytes,
                                                       UniqueFd* descriptor) {
  TP_CHECK(IsRingSize(ring_bytes));
  auto fd = MakeMemory("tidepool-ring", kControlBytes + 2 * ring_bytes);
  if (!fd.ok()) return fd.status();
  if (fcntl(fd->get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return KernelRefuses("a connection's memory cannot be sealed");
  }
  auto base = MapRings(fd->get(), ring_bytes);
  if (!base.ok()) return base.status();
  *descriptor = *std::move(fd);
  return std::unique_ptr<RingMemory>(new RingMemory(*base, ring_bytes));
}

Result<std::unique_ptr<RingMemory>> RingMemory::Map(int descriptor, std::uint64_t ring_bytes) {
  if (!IsRingSize(ring_bytes)) {
    return Status(StatusCode::kInvalidArgument, "no ring has " + std::to_string(ring_bytes) + " B");
  }
  TP_RETURN_IF_ERROR(CheckSize(descriptor, kControlBytes + 2 * ring_bytes));
  auto base = MapRings(descriptor, ring_bytes);
  if (!base.ok()) return base.status();
  return std::unique_ptr<RingMemory>(new RingMemory(*base, ring_bytes));
}

RingMemory::~RingMemory() { munmap(base_, kControlBytes + 4 * ring_bytes_); }

std::byte* RingMemory::requests() const { return base_ + kControlBytes; }
std::byte* RingMemory::answers() const { return base_ + kControlBytes + 2 * ring_bytes_; }
RingWords* RingMemory::request_words() const {
  return std::launder(reinterpret_cast<RingWords*>(base_));
}
RingWords* RingMemory::answer_words() const {
  return std::launder(reinterpret_cast<RingWords*>(base_ + sizeof(RingWords)));
}
RingProducer RingMemory::RequestProducer() const {
  return {requests(), ring_bytes_, request_words()};
}
RingConsumer RingMemory::RequestConsumer() const {
  return {requests(), ring_bytes_, request_words()};
}
RingProducer RingMemory::AnswerProducer() const { return {answers(), ring_bytes_, answer_words()}; }
RingConsumer RingMemory::AnswerConsumer() const { return {answers(), ring_bytes_, answer_words()}; }

Result<std::unique_ptr<SharedWords>> SharedWords::Create(UniqueFd* descriptor) {
  auto fd = MakeMemory("tidepool-words", kPageBytes);
  if (!fd.ok()) return fd.status();
  void* const page = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd->get(), 0);
  if (page == MAP_FAILED) return KernelRefuses("no mapping for a core's words");
  std::unique_ptr<SharedWords> words(new SharedWords(page));
  // From now on no other process can map it for writing.
  if (fcntl(fd->get(), F_ADD_SEALS,
            F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0) {
    return KernelRefuses("a core's words cannot be sealed");
  }
  *descriptor = *std::move(fd);
  return words;
}

Result<std::unique_ptr<SharedWords>> SharedWords::Map(int descriptor) {
  TP_RETURN_IF_ERROR(CheckSize(descriptor, kPageBytes));
  void* const page = mmap(nullptr, kPageBytes, PROT_READ, MAP_SHARED, descriptor, 0);
  if (page == MAP_FAILED) return KernelRefuses("no mapping for a core's words");
  return std::unique_ptr<SharedWords>(new SharedWords(page));
}

Result<std::unique_ptr<WorkerMemory>> WorkerMemory::Create(std::size_t bytes,
                                                           UniqueFd* descriptor) {
  const std::size_t whole = AlignUp(bytes, kPageBytes);
  TP_CHECK(whole > 0 && whole <= kWorkerMemoryBytesMax);
  auto fd = MakeMemory("tidepool-worker", whole);
  if (!fd.ok()) return fd.status();
  void* const at = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_SHARED, fd->get(), 0);
  if (at == MAP_FAILED) return KernelRefuses("no mapping for a worker's memory");
  std::unique_ptr<WorkerMemory> memory(new WorkerMemory({static_cast<std::byte*>(at), whole}));
  if (fcntl(fd->get(), F_ADD_SEALS,
            F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0) {
    return KernelRefuses("a worker's memory cannot be sealed");
  }
  *descriptor = *std::move(fd);
  return memory;
}

Result<std::unique_ptr<WorkerMemory>> WorkerMemory::Map(int descriptor) {
  struct stat info {};
  const bool is_known = fstat(descriptor, &info) == 0 && info.st_size > 0;
  const auto bytes = static_cast<std::uint64_t>(is_known ? info.st_size : 0);
  if (bytes == 0 || bytes > kWorkerMemoryBytesMax || bytes % kPageBytes != 0) {
    return Status(StatusCode::kInvalidArgument, "what came is not the memory of a worker",
                  "check that both sides run the same version");
  }
  TP_RETURN_IF_ERROR(CheckSize(descriptor, bytes));
  void* const at = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
  if (at == MAP_FAILED) return KernelRefuses("no mapping for a worker's memory");
  return std::unique_ptr<WorkerMemory>(new WorkerMemory({static_cast<std::byte*>(at), bytes}));
}

WorkerMemory::~WorkerMemory() { munmap(bytes_.data(), bytes_.size()); }

SharedWords::~SharedWords() { munmap(page_, kPageBytes); }

std::atomic<std::uint32_t>& SharedWords::sleeps() const {
  return *std::launder(static_cast<std::atomic<std::uint32_t>*>(page_));
}

}  // namespace tidepool::transport
