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
  CHECK(pool.bytes() >= 10 * FrameBuffer::kCapacity);
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
