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

TEST_CASE("AReadBufferServesAgainForWhatFitsIntoIt") {
  ReadBuffers buffers;
  std::byte* const small = buffers.Take(8'192).get();
  CHECK(buffers.Take(4'096).get() == small);
  std::byte* const large = buffers.Take((1 << 20) + 4'096).get();
  CHECK(buffers.Take(2 << 20).get() == large);
  CHECK(buffers.Take(8'192).get() == small);
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

TEST_CASE("LargeReadBuffersTakeTheRoomOfSmallOnes") {
  ReadBuffers buffers;
  std::vector<std::shared_ptr<std::byte>> held;
  for (std::size_t bytes = 0; bytes < ReadBuffers::kKeptBytesMax; bytes += 8'192) {
    held.push_back(buffers.Take(8'192));
  }
  held.clear();
  std::byte* const large = buffers.Take(1 << 20).get();
  CHECK(buffers.Take(1 << 20).get() == large);
}

TEST_CASE("WhatIsHeldLeavesLessRoomForWhatIsKept") {
  ReadBuffers buffers;
  buffers.Take(8'192).reset();
  CHECK(buffers.kept_bytes() == 8'192);
  std::shared_ptr<std::byte> held = buffers.Take(ReadBuffers::kKeptBytesMax);
  buffers.Take(1 << 20).reset();
  CHECK(buffers.kept_bytes() == 0);
  held.reset();
  CHECK(buffers.kept_bytes() == ReadBuffers::kKeptBytesMax);
}

TEST_CASE("AReadBufferLargerThanAllThatIsKeptIsMadeAnew") {
  ReadBuffers buffers;
  std::memset(buffers.Take(ReadBuffers::kKeptBytesMax + 1).get(), 1, 4'096);
  std::byte* const next = buffers.Take(4'096).get();
  CHECK(buffers.Take(4'096).get() == next);
}

}  // namespace tidepool::storage
