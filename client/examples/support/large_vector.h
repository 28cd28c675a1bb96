// A vector for a great many numbers.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace support {

// resize() leaves new elements uninitialized. From 2 MiB on, the memory has huge pages where the
// kernel allows them. The first write to a page of 4 KiB costs up to 15 us: half of the time of a
// sort.
template <typename T>
class LargeMemory {
 public:
  static_assert(std::is_trivial_v<T>);
  using value_type = T;
  LargeMemory() = default;
  template <typename U>
  explicit LargeMemory(const LargeMemory<U>&) {}

  T* allocate(std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    if (bytes < kHugePageBytes) return static_cast<T*>(::operator new(bytes));
    const std::size_t whole = (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
    void* const memory = std::aligned_alloc(kHugePageBytes, whole);
    if (memory == nullptr) throw std::bad_alloc();
    (void)madvise(memory, whole, MADV_HUGEPAGE);  // Without, it is only slower.
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t count) {
    count * sizeof(T) < kHugePageBytes ? ::operator delete(memory) : std::free(memory);
  }
  template <typename U, typename... Arguments>
  void construct(U* at, Arguments&&... arguments) {
    if constexpr (sizeof...(arguments) == 0) {
      ::new (static_cast<void*>(at)) U;
    } else {
      ::new (static_cast<void*>(at)) U(std::forward<Arguments>(arguments)...);
    }
  }
  bool operator==(const LargeMemory&) const = default;

 private:
  static constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
};

template <typename T>
using LargeVector = std::vector<T, LargeMemory<T>>;

}  // namespace support
