// Making, touching and handing out arenas. Runs once per block, never per operation.
//
// Owners take blocks from the front of what was touched; a thread of the pool's own stays ahead.
#include "storage/arena.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string>

#include "proto/base/check.h"
#include "proto/base/thread.h"
#include "storage/huge_array.h"

namespace tidepool::storage {
namespace {

// One step of touching: 256 KiB of fresh 4 KiB pages take 20 to 60 us, so a slice overshoots by
// little.
constexpr std::uint64_t kTouchStepBytes = 256 * 1024;
constexpr std::uint64_t kMemoryPageBytes = 4096;
constexpr std::uint64_t kPrepareSliceNs = 10'000'000;

// Has the kernel back the page with memory without changing what is in it. Owners may be writing
// there already: an atomic or with 0 harms none, which ThreadSanitizer cannot know.
__attribute__((no_sanitize("thread"))) void TouchByte(std::byte* at) {
  __atomic_fetch_or(reinterpret_cast<unsigned char*>(at), 0, __ATOMIC_RELAXED);
}

// Backs a huge page's range with a huge page. Works where shared memory gets no huge pages by
// itself (shmem_enabled=never, the default), from Linux 6.1 on, without privileges. Gain with 10 M
// records: finds at 1.6 times the rate of 4 KiB pages. It takes 0.1 ms, 5 ms if the machine must
// first make room, and the kernel wants one page there to begin with.
bool MakeHuge(std::byte* at) {
#ifndef MADV_COLLAPSE
  constexpr int MADV_COLLAPSE = 25;  // Headers of Linux 6.1.
#endif
  TouchByte(at);
  return madvise(at, kHugePageBytes, MADV_COLLAPSE) == 0;
}

// Backs [at, at + bytes) with pages without a change of content. False: the kernel has no pages.
bool Touch(std::byte* at, std::uint64_t bytes) {
#ifdef MADV_POPULATE_WRITE
  if (madvise(at, bytes, MADV_POPULATE_WRITE) == 0) return true;
  if (errno != EINVAL) return false;
#endif
  // Kernels before 5.14.
  for (std::uint64_t offset = 0; offset < bytes; offset += kMemoryPageBytes) TouchByte(at + offset);
  return true;
}

}  // namespace

ArenaPool::ArenaPool(const ArenaPoolOptions& options)
    : options_(options), blocks_max_(options.memory_bytes / options.block_bytes) {}

Result<std::unique_ptr<ArenaPool>> ArenaPool::Create(const ArenaPoolOptions& options) {
  const std::uint64_t block = options.block_bytes;
  if (!std::has_single_bit(block) || block < kMemoryPageBytes ||
      options.arena_first_bytes % block != 0 || options.arena_first_bytes == 0 ||
      options.arena_bytes < options.arena_first_bytes || options.arena_bytes % block != 0 ||
      options.memory_bytes < block) {
    return Status(StatusCode::kInvalidArgument, "the sizes of arenas and blocks do not fit",
                  "arenas must be whole blocks, a block a power of two of at least 4 KiB");
  }
  std::unique_ptr<ArenaPool> pool(new ArenaPool(options));
  // The first block's worth of addresses stays unused, so that node offset 0 can mean none. Huge
  // pages need an aligned start.
  pool->reserved_bytes_ = (pool->blocks_max_ + 1) * block + kHugePageBytes;
  void* base = mmap(nullptr, pool->reserved_bytes_, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    return Status(StatusCode::kResourceExhausted,
                  "cannot reserve " + std::to_string(pool->reserved_bytes_) +
                      " bytes of address space: " + std::strerror(errno),
                  "give less --memory or raise ulimit -v");
  }
  pool->reserved_ = base;
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  pool->base_ = static_cast<std::byte*>(base) + (kHugePageBytes - address % kHugePageBytes);
  pool->next_fresh_ = block;
  pool->mapped_end_ = block;
  const std::lock_guard lock(pool->mutex_);
  if (!pool->AddArena()) {
    return Status(StatusCode::kResourceExhausted,
                  std::string("cannot make the first memory arena: ") + std::strerror(errno),
                  "check the limits on memory and open files");
  }
  pool->UpdateAvailable();
  if (options.prepare_in_background) {
    TP_RETURN_IF_ERROR(StartThread("memory ahead of use", &pool->preparer_,
                                   [raw = pool.get()] { raw->PrepareAsNeeded(); }));
  }
  return pool;
}

ArenaPool::~ArenaPool() {
  if (preparer_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    fresh_used_.notify_all();
    preparer_.join();
  }
  for (const Arena& arena : arenas_) close(arena.descriptor);
  if (reserved_ != nullptr) munmap(reserved_, reserved_bytes_);
}

bool ArenaPool::AddArena() {
  const std::uint64_t block = options_.block_bytes;
  const std::uint64_t mapped = mapped_end_ - block;
  const std::uint64_t left = blocks_max_ * block - mapped;
  const std::uint64_t bytes = std::min(
      left, std::clamp(mapped, options_.arena_first_bytes, options_.arena_bytes) / block * block);
  if (bytes == 0) return false;
  const int descriptor = memfd_create("tidepool-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) return false;
  if (ftruncate(descriptor, static_cast<off_t>(bytes)) != 0 ||
      mmap(base_ + mapped_end_, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor,
           0) == MAP_FAILED) {
    close(descriptor);
    return false;
  }
  // Huge pages only where the site allows them for shared memory (shmem_enabled=advise); else
  // ignored.
  madvise(base_ + mapped_end_, bytes, MADV_HUGEPAGE);
  // A core file of a daemon must not have the size of its records.
  madvise(base_ + mapped_end_, bytes, MADV_DONTDUMP);
  // The mapping just made stays writable; nobody can make a second one, resize or punch the file.
  if (fcntl(descriptor, F_ADD_SEALS,
            F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0) {
    mmap(base_ + mapped_end_, bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    close(descriptor);
    return false;
  }
  arenas_.push_back(Arena{descriptor, mapped_end_, bytes, 0});
  mapped_end_ += bytes;
  return true;
}

std::uint64_t ArenaPool::FreeBlocks() const { return blocks_max_ - used_blocks_; }

void ArenaPool::UpdateAvailable() {
  const std::uint64_t free_blocks = FreeBlocks();
  available_.store(free_blocks > promised_blocks_ ? free_blocks - promised_blocks_ : 0,
                   std::memory_order_relaxed);
}

std::uint64_t ArenaPool::Allocate(bool from_promise) {
  const std::lock_guard lock(mutex_);
  return AllocateLocked(from_promise);
}

std::uint64_t ArenaPool::AllocateLocked(bool from_promise) {
  if (from_promise) {
    TP_CHECK(promised_blocks_ > 0);
  } else if (FreeBlocks() <= promised_blocks_) {
    return 0;
  }
  std::uint64_t offset = 0;
  if (!free_.empty()) {
    offset = free_.back();
    free_.pop_back();
  } else {
    if (next_fresh_ == mapped_end_ && !AddArena()) {
      kernel_refused_ = true;
      return 0;
    }
    offset = next_fresh_;
    next_fresh_ += options_.block_bytes;
    if (options_.prepare_in_background) fresh_used_.notify_one();
  }
  ++used_blocks_;
  if (from_promise) --promised_blocks_;
  UpdateAvailable();
  return offset;
}

void ArenaPool::Free(std::uint64_t node_offset, bool to_promise) {
  const std::lock_guard lock(mutex_);
  TP_CHECK(node_offset >= options_.block_bytes);
  TP_CHECK(node_offset < next_fresh_);
  TP_CHECK(node_offset % options_.block_bytes == 0);
  TP_CHECK(used_blocks_ > 0);
  free_.push_back(node_offset);
  --used_blocks_;
  if (to_promise) ++promised_blocks_;
  ServeLines();
  UpdateAvailable();
}

bool ArenaPool::Promise(std::uint64_t blocks) {
  const std::lock_guard lock(mutex_);
  if (FreeBlocks() < promised_blocks_ + blocks) return false;
  promised_blocks_ += blocks;
  set_aside_blocks_ += blocks;
  UpdateAvailable();
  return true;
}

void ArenaPool::Unpromise(std::uint64_t blocks) {
  const std::lock_guard lock(mutex_);
  TP_CHECK(promised_blocks_ >= blocks);
  promised_blocks_ -= blocks;
  set_aside_blocks_ -= blocks;
  ServeLines();
  UpdateAvailable();
}

bool ArenaPool::NextStep(Step* step) {
  std::size_t& which = step->arena;
  which = 0;
  while (which < arenas_.size() && arenas_[which].touched == arenas_[which].bytes) ++which;
  if (which == arenas_.size()) {
    // Ahead of use by an eighth of what is there: a burst of inserts meets touched memory.
    const std::uint64_t fresh = mapped_end_ - next_fresh_ + free_.size() * options_.block_bytes;
    const std::uint64_t ahead =
        std::min(options_.arena_bytes, std::max(4 * options_.block_bytes, mapped_end_ / 8));
    if (kernel_refused_ || fresh >= ahead || !AddArena()) return false;
  }
  const Arena& arena = arenas_[which];
  const std::uint64_t begin = arena.begin + arena.touched;
  const std::uint64_t left = arena.bytes - arena.touched;
  step->at = base_ + begin;
  // Only memory that owners have not begun to write: an owner would wait for the kernel meanwhile.
  step->huge = !huge_refused_ && options_.block_bytes % kHugePageBytes == 0 &&
               arena.touched % kHugePageBytes == 0 && left >= kHugePageBytes &&
               begin >= next_fresh_;
  step->bytes = step->huge ? kHugePageBytes : std::min(kTouchStepBytes, left);
  return true;
}

bool ArenaPool::PrepareSlice(const Clock& clock, std::uint64_t deadline_ns) {
  const std::unique_lock prepare(prepare_mutex_, std::try_to_lock);
  if (!prepare.owns_lock()) return false;
  for (;;) {
    Step step;
    {
      const std::lock_guard lock(mutex_);
      if (!NextStep(&step)) return false;
    }
    const bool huge = step.huge && MakeHuge(step.at);
    const bool cannot = step.huge && !huge && errno == EINVAL;
    const bool touched = Touch(step.at, step.bytes);
    {
      const std::lock_guard lock(mutex_);
      huge_refused_ |= cannot;
      // The kernel has no pages now; owners will meet that when they write. Do not spin on it.
      if (!touched) return false;
      if (huge) huge_bytes_ += step.bytes;
      arenas_[step.arena].touched += step.bytes;
    }
    if (clock.MonotonicNs() >= deadline_ns) return true;
  }
}

void ArenaPool::PrepareAsNeeded() {
  pthread_setname_np(pthread_self(), "arena-prepare");
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const std::uint64_t seen = next_fresh_;
    lock.unlock();
    const Clock& clock = Clock::Real();
    const bool more = PrepareSlice(clock, clock.MonotonicNs() + kPrepareSliceNs);
    lock.lock();
    if (!more) fresh_used_.wait(lock, [&] { return stopping_ || next_fresh_ != seen; });
  }
}

ArenaPoolUsage ArenaPool::usage() const {
  const std::lock_guard lock(mutex_);
  ArenaPoolUsage usage;
  usage.limit_bytes = blocks_max_ * options_.block_bytes;
  usage.mapped_bytes = mapped_end_ - options_.block_bytes;
  for (const Arena& arena : arenas_) usage.touched_bytes += arena.touched;
  usage.huge_bytes = huge_bytes_;
  usage.used_bytes = used_blocks_ * options_.block_bytes;
  usage.promised_bytes = promised_blocks_ * options_.block_bytes;
  usage.available_bytes = available_.load(std::memory_order_relaxed) * options_.block_bytes;
  return usage;
}

std::uint64_t ArenaPool::BlocksAvailable() const {
  return available_.load(std::memory_order_relaxed);
}

ArenaPool::Shown ArenaPool::Show(std::uint64_t node_offset) const {
  const std::lock_guard lock(mutex_);
  for (const Arena& arena : arenas_) {
    const bool holds = node_offset >= arena.begin && node_offset - arena.begin < arena.bytes;
    if (holds || node_offset == 0) {
      return {arena.descriptor, arena.begin, arena.bytes, arena.touched};
    }
  }
  return {};
}

}  // namespace tidepool::storage
