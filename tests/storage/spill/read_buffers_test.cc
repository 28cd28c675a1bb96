#include "storage/spill/read_buffers.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <vector>

#include "storage/device/device.h"

namespace tidepool::storage {

TEST_CASE("ReadBuffersAreAlignedAndHoldWhatIsAskedFor") {
  ReadBuffers buffers;
  std::vector<std::shared_ptr<std::byte>> held;
  for (const std::size_t bytes : {4'096, 8'192, 12'288, 1 << 20}) {
    held.push_back(buffers.Take(bytes));
    CHECK(reinterpret_cast<std::uintptr_t>(held.back().get()) % kDeviceBlockBytes == 0);
    std::memset(held.back().get(), 1, bytes);
  }
}

TEST_CASE("ASmallReadBufferServesAgain") {
  ReadBuffers buffers;
  std::byte* const first = buffers.Take(8'192).get();
  CHECK(buffers.Take(4'096).get() == first);
}

TEST_CASE("ReadBuffersMayOutliveTheirSource") {
  std::shared_ptr<std::byte> left;
  {
    ReadBuffers buffers;
    left = buffers.Take(4'096);
  }
  std::memset(left.get(), 1, 4'096);
}

TEST_CASE("ManyReadBuffersAtOnceAreNotAllKept") {
  ReadBuffers buffers;
  std::vector<std::shared_ptr<std::byte>> held;
  for (int i = 0; i < 1'000; ++i) held.push_back(buffers.Take(4'096));
  held.clear();
  std::memset(buffers.Take(4'096).get(), 1, 4'096);
}

}  // namespace tidepool::storage
