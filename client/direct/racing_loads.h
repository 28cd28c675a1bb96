// Loads of memory that another process may change: each word has its value of a single moment.
//
//   DirectReader -> [these] -> arenas, read-only
//
// The results may be torn between words or belong to another record by now. The caller checks
// afterwards, behind AcquireFence, that no change came between. All words are aligned to their
// size, so no load reaches beyond the last requested word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "proto/base/bytes.h"
#include "storage/layout.h"

// A test that wants to be slow between two steps compiles the reader with a function of its own.
#ifdef TIDEPOOL_DIRECT_READ_HOOK
void DirectReadStep(int step);
#define TIDEPOOL_STEP(step) DirectReadStep(step)
#else
#define TIDEPOOL_STEP(step) static_cast<void>(0)
#endif

// ThreadSanitizer takes the load beside an owner's plain store for a race. The race is intended, so
// in its builds the loads are calls that it does not check.
#if defined(__SANITIZE_THREAD__)
#define TIDEPOOL_RACING_LOAD __attribute__((no_sanitize("thread"), noinline)) inline
#else
#define TIDEPOOL_RACING_LOAD [[gnu::always_inline]] inline
#endif

namespace tidepool::internal::racing {

TIDEPOOL_RACING_LOAD std::uint64_t Acquire(const std::uint64_t& word) {
  return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}
TIDEPOOL_RACING_LOAD std::uint32_t Acquire(const std::uint32_t& word) {
  return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}
TIDEPOOL_RACING_LOAD std::uint64_t Relaxed(const std::uint64_t& word) {
  return __atomic_load_n(&word, __ATOMIC_RELAXED);
}
TIDEPOOL_RACING_LOAD std::uint64_t RelaxedAt(const std::byte* aligned) {
  return __atomic_load_n(reinterpret_cast<const std::uint64_t*>(aligned), __ATOMIC_RELAXED);
}

// Orders all earlier loads before all later loads. Pairs with the owner's release fences.
inline void AcquireFence() { __atomic_thread_fence(__ATOMIC_ACQUIRE); }

// True if the bytes at `aligned` (a multiple of 8) equal `wanted`. Reads whole words.
inline bool Equal(const std::byte* aligned, Bytes wanted) {
  std::size_t at = 0;
  std::uint64_t differs = 0;
  for (; at + 8 <= wanted.size(); at += 8) {
    differs |= RelaxedAt(aligned + at) ^ LoadUnaligned<std::uint64_t>(wanted.data() + at);
  }
  const std::size_t rest = wanted.size() - at;
  if (rest != 0) {
    std::uint64_t last = 0;
    std::memcpy(&last, wanted.data() + at, rest);
    differs |= (RelaxedAt(aligned + at) ^ last) << (64 - 8 * rest);
  }
  return differs == 0;
}

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
// Copies with the processor's string instruction, which no compiler takes for a race. It is twice
// as fast as words if the value is in no near cache. The fence orders its loads before later loads.
inline constexpr std::size_t kStringCopyBytes = 1024;
inline void CopyString(const std::byte* from, std::byte* to, std::size_t bytes) {
  asm volatile("rep movsb\n\tlfence" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}
#endif

// Copies from anywhere. Reads the whole words that the bytes lie in.
inline void Copy(const std::byte* from, MutableBytes to) {
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
  if (to.size() >= kStringCopyBytes) return CopyString(from, to.data(), to.size());
#endif
  const std::size_t skipped = reinterpret_cast<std::uintptr_t>(from) % 8;
  const std::byte* aligned = from - skipped;
  std::byte* out = to.data();
  std::size_t left = to.size();
  if (skipped != 0 && left != 0) {
    const std::uint64_t first = RelaxedAt(aligned) >> 8 * skipped;
    const std::size_t count = left < 8 - skipped ? left : 8 - skipped;
    std::memcpy(out, &first, count);
    out += count;
    left -= count;
    aligned += 8;
  }
  for (; left >= 8; left -= 8, out += 8, aligned += 8) StoreUnaligned(out, RelaxedAt(aligned));
  if (left != 0) {
    const std::uint64_t last = RelaxedAt(aligned);
    std::memcpy(out, &last, left);
  }
}

// Bit i: slot i has this tag, or had it a moment ago.
inline unsigned MatchesOf(const storage::Bucket& at, std::uint64_t tag) {
  unsigned matches = 0;
  for (int i = 0; i < storage::kSlotsPerBucket; ++i) {
    const std::uint64_t slot = Relaxed(at.slots[i]);
    matches |= static_cast<unsigned>(storage::SlotTag(slot) == tag && slot != 0) << i;
  }
  return matches;
}

}  // namespace tidepool::internal::racing
