#include "tests/client/api/copy_counter.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

namespace tidepool::testing {
namespace {

CopyCounts own;
// Counts used by memcpy; `own` until a file is mapped. Constant initialization: memcpy runs before
// any constructor.
constinit std::atomic<CopyCounts*> counts{&own};

void Note(std::size_t bytes) {
  CopyCounts* const to = counts.load(std::memory_order_relaxed);
  if (bytes != 0 && bytes == to->watched_bytes.load(std::memory_order_relaxed)) {
    to->copies.fetch_add(1, std::memory_order_relaxed);
  }
}

// Copies without memcpy, and without code that the compiler turns into memcpy.
void* Forward(void* to, const void* from, std::size_t bytes) {
  auto* out = static_cast<volatile char*>(to);
  const auto* in = static_cast<const volatile char*>(from);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = in[i];
  return to;
}

void* Backward(void* to, const void* from, std::size_t bytes) {
  auto* out = static_cast<volatile char*>(to);
  const auto* in = static_cast<const volatile char*>(from);
  for (std::size_t i = bytes; i > 0; --i) out[i - 1] = in[i - 1];
  return to;
}

__attribute__((constructor)) void MapOwn() {
  const char* path = std::getenv(kCopyCountsVariable);
  CopyCounts* const mapped = path == nullptr ? nullptr : MapCopyCounts(path);
  if (mapped != nullptr) counts = mapped;
}

}  // namespace

CopyCounts& OwnCopyCounts() { return own; }

CopyCounts* MapCopyCounts(const char* path) {
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  void* const at = mmap(nullptr, sizeof(CopyCounts), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return at == MAP_FAILED ? nullptr : static_cast<CopyCounts*>(at);
}

}  // namespace tidepool::testing

extern "C" {

__attribute__((visibility("default"))) void* memcpy(void* to, const void* from, std::size_t bytes) {
  tidepool::testing::Note(bytes);
  return tidepool::testing::Forward(to, from, bytes);
}

__attribute__((visibility("default"))) void* memmove(void* to, const void* from,
                                                     std::size_t bytes) {
  tidepool::testing::Note(bytes);
  return to < from ? tidepool::testing::Forward(to, from, bytes)
                   : tidepool::testing::Backward(to, from, bytes);
}

__attribute__((visibility("default"))) void* __memcpy_chk(void* to, const void* from,
                                                          std::size_t bytes, std::size_t) {
  return memcpy(to, from, bytes);
}

__attribute__((visibility("default"))) void* __memmove_chk(void* to, const void* from,
                                                           std::size_t bytes, std::size_t) {
  return memmove(to, from, bytes);
}

}  // extern "C"
