#include "proto/transport/transport.h"

#include <catch2/catch.hpp>
#include <set>
#include <vector>

namespace tidepool::transport {

TEST_CASE("BufferPoolGivesDistinctBuffersOfFullCapacity") {
  BufferPool pool;
  std::vector<FrameBufferPtr> buffers;
  std::set<std::byte*> places;
  for (int i = 0; i < 10; ++i) {
    buffers.push_back(pool.Take());
    places.insert(buffers.back()->data());
    buffers.back()->data()[FrameBuffer::kCapacity - 1] = std::byte{1};
    CHECK(reinterpret_cast<std::uintptr_t>(buffers.back()->data()) % 64 == 0);
  }
  CHECK(places.size() == 10);
  CHECK(pool.made() == 10);
}

TEST_CASE("BufferPoolCountsThePagesThatFramesHaveFilled") {
  BufferPool pool;
  FrameBufferPtr buffer = pool.Take();
  CHECK(pool.bytes() == 0);
  buffer->set_size(100);
  CHECK(pool.bytes() == 4'096);
  buffer->set_size(5'000);
  CHECK(pool.bytes() == 8'192);
  buffer.reset();
  buffer = pool.Take();
  buffer->set_size(6'000);
  CHECK(pool.bytes() == 8'192);
}

TEST_CASE("BufferPoolGivesBackWhatNobodyHasNeeded") {
  BufferPool pool;
  std::vector<FrameBufferPtr> buffers;
  for (int i = 0; i < 100; ++i) {
    buffers.push_back(pool.Take());
    buffers.back()->set_size(100);
  }
  pool.Trim();  // All were needed.
  CHECK(pool.made() == 100);
  buffers.resize(20);
  pool.Trim();  // They were needed a moment ago.
  CHECK(pool.made() == 100);
  pool.Trim();
  CHECK(pool.made() == 60);
  buffers.clear();
  for (int i = 0; i < 20; ++i) pool.Trim();
  CHECK(pool.made() == 1);
  CHECK(pool.bytes() == 4'096);
}

TEST_CASE("BufferPoolReusesReturnedBuffersWithSizeZero") {
  BufferPool pool;
  FrameBufferPtr first = pool.Take();
  first->set_size(77);
  std::byte* place = first->data();
  CHECK(pool.free_count() == 0);
  first.reset();
  CHECK(pool.free_count() == 1);
  FrameBufferPtr second = pool.Take();
  CHECK(second->data() == place);
  CHECK(second->size() == 0);
  CHECK(pool.made() == 1);
}

}  // namespace tidepool::transport
