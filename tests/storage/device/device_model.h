// Random traffic against a device, compared with an array in memory: for every kind of device.
#pragma once

#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <random>
#include <vector>

#include "storage/device/device.h"
#include "storage/device/device_io.h"

namespace tidepool::storage::test {

// Sends `rounds` requests through a queue of `depth`, no two under way on one block.
inline void CheckAgainstModel(Device& device, unsigned depth, int rounds, std::uint32_t seed) {
  struct UnderWay {
    BlockBuffer buffer;
    std::uint64_t offset = 0;
    bool is_read = false;
  };
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  std::vector<std::byte> model(device.bytes());
  auto opened = device.OpenQueue(depth);
  REQUIRE(opened.ok());
  DeviceQueue& queue = **opened;
  REQUIRE(WriteBlocks(&queue, 0, BlockBuffer(device.bytes()).bytes()).ok());
  std::map<std::uint64_t, UnderWay> under_way;  // By tag.
  std::vector<int> busy(device.bytes() / kDeviceBlockBytes);
  std::uint64_t completed = 0;
  const auto done = [&](const DeviceCompletion& completion) {
    ++completed;
    const auto found = under_way.find(completion.tag);
    REQUIRE(found != under_way.end());
    UnderWay& request = found->second;
    REQUIRE(completion.error == 0);
    if (request.is_read) {
      REQUIRE(std::memcmp(request.buffer.data(), model.data() + request.offset,
                          request.buffer.size()) == 0);
    }
    for (std::size_t at = 0; at < request.buffer.size(); at += kDeviceBlockBytes) {
      busy[(request.offset + at) / kDeviceBlockBytes] = 0;
    }
    under_way.erase(found);
  };
  const std::uint64_t blocks = busy.size();
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t count = 1 + random() % 4;
    const std::uint64_t first = random() % (blocks - count);
    const bool is_free = std::all_of(busy.begin() + static_cast<std::ptrdiff_t>(first),
                                     busy.begin() + static_cast<std::ptrdiff_t>(first + count),
                                     [](int each) { return each == 0; });
    DeviceRequest request;
    request.tag = static_cast<std::uint64_t>(round);
    UnderWay kept;
    if (random() % 16 == 0) {
      request.operation = DeviceOperation::kFlush;
    } else if (is_free) {
      kept.buffer = BlockBuffer(count * kDeviceBlockBytes);
      kept.offset = first * kDeviceBlockBytes;
      kept.is_read = random() % 2 == 0;
      request.operation = kept.is_read        ? DeviceOperation::kRead
                          : random() % 4 == 0 ? DeviceOperation::kWriteThrough
                                              : DeviceOperation::kWrite;
      if (!kept.is_read) {
        for (std::byte& byte : kept.buffer.bytes()) byte = static_cast<std::byte>(random());
        std::memcpy(model.data() + kept.offset, kept.buffer.data(), kept.buffer.size());
      }
      request.offset = kept.offset;
      request.data = kept.buffer.data();
      request.bytes = static_cast<std::uint32_t>(kept.buffer.size());
    } else {
      queue.Wait(1'000);
      queue.Reap(done);
      continue;
    }
    const bool is_full = queue.in_flight() == queue.depth();
    REQUIRE(queue.Start(request) == !is_full);
    if (is_full) {
      // The next round on the model overwrites these bytes.
      if (request.operation == DeviceOperation::kWrite ||
          request.operation == DeviceOperation::kWriteThrough) {
        while (queue.in_flight() > 0) {
          queue.Wait(1'000);
          queue.Reap(done);
        }
        REQUIRE(WriteBlocks(&queue, kept.offset, kept.buffer.bytes()).ok());
      }
      continue;
    }
    for (std::size_t at = 0; at < kept.buffer.size(); at += kDeviceBlockBytes) {
      busy[(kept.offset + at) / kDeviceBlockBytes] = 1;
    }
    under_way.emplace(request.tag, std::move(kept));
    if (random() % 2 == 0) queue.Submit(1 + static_cast<unsigned>(random() % 4));
    if (random() % 4 == 0) queue.Reap(done);
  }
  while (queue.in_flight() > 0) {
    queue.Wait(1'000);
    queue.Reap(done);
  }
  CHECK(under_way.empty());
  CHECK(completed > static_cast<std::uint64_t>(rounds) / 4);
  BlockBuffer all(device.bytes());
  REQUIRE(ReadBlocks(&queue, 0, all.bytes()).ok());
  CHECK(std::memcmp(all.data(), model.data(), model.size()) == 0);
}

}  // namespace tidepool::storage::test
