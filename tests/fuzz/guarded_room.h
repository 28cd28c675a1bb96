// Memory whose last byte is followed by a page without any access, so that a read beyond the input
// ends the program in every build, not only under AddressSanitizer.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>

#include "proto/base/bytes.h"

namespace tidepool::fuzz {

class GuardedRoom {
 public:
  explicit GuardedRoom(std::size_t bytes_max) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    usable_ = AlignUp(bytes_max, page);
    mapped_ = usable_ + page;
    void* memory =
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    base_ = static_cast<std::byte*>(memory);
    REQUIRE(mprotect(base_ + usable_, page, PROT_NONE) == 0);
  }
  ~GuardedRoom() { munmap(base_, mapped_); }
  GuardedRoom(const GuardedRoom&) = delete;
  GuardedRoom& operator=(const GuardedRoom&) = delete;

  // A copy at the end. Good until the next.
  Bytes Put(Bytes bytes) {
    std::byte* at = base_ + usable_ - bytes.size();
    if (!bytes.empty()) std::memcpy(at, bytes.data(), bytes.size());
    return {at, bytes.size()};
  }

 private:
  std::byte* base_ = nullptr;
  std::size_t usable_ = 0;
  std::size_t mapped_ = 0;
};

}  // namespace tidepool::fuzz
