// Large arrays for a while, beside the arenas.
//
// durable/newest_records -> [huge_array]; arena has the size of a page from here
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

namespace tidepool::storage {

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};

// Movable; owns its memory.
template <typename T>
using HugeArray = std::unique_ptr<T[], FreeMemory>;

inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

// Array of `count` uninitialised values; from 1 MiB on in huge pages, where the kernel allows them
// (transparent_hugepage/enabled: madvise, Debian's default). In a virtual machine the first write
// to a page of 4 KiB took up to 15 us. The same amount of a huge page took 0.3 us, or 10 us if the
// host had to find the memory first. Recovery of 4.8 M records took 1.4 s with huge pages and 6 to
// 9 s without. Throws std::bad_alloc.
template <typename T>
HugeArray<T> MakeHugeArray(std::size_t count) {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
  const std::size_t bytes = count * sizeof(T);
  const bool is_huge = bytes >= kHugePageBytes / 2;
  const std::size_t whole = (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  void* const memory = is_huge ? std::aligned_alloc(kHugePageBytes, whole) : std::malloc(bytes);
  if (memory == nullptr && bytes > 0) throw std::bad_alloc();
  if (is_huge) (void)madvise(memory, whole, MADV_HUGEPAGE);  // Without, it is only slower.
  return HugeArray<T>(static_cast<T*>(memory));
}

}  // namespace tidepool::storage
