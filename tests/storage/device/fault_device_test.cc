#include "storage/device/fault_device.h"

#include <cerrno>
#include <set>

#include "tests/storage/device/device_model.h"

namespace tidepool::storage {
namespace {

constexpr std::uint64_t kBlocks = 16;
constexpr std::uint64_t kBytes = kBlocks * kDeviceBlockBytes;
constexpr std::size_t kSectorsPerBlock = kDeviceBlockBytes / kFaultSectorBytes;

std::unique_ptr<DeviceQueue> QueueOf(Device& device, unsigned depth) {
  auto queue = device.OpenQueue(depth);
  REQUIRE(queue.ok());
  return *std::move(queue);
}

BlockBuffer BlockOf(std::uint32_t version) {
  BlockBuffer block(kDeviceBlockBytes);
  for (std::size_t at = 0; at < block.size(); at += sizeof version) {
    StoreUnaligned(block.data() + at, version);
  }
  return block;
}

std::uint32_t VersionAt(const FaultDevice& device, std::uint64_t block, std::size_t sector) {
  return LoadUnaligned<std::uint32_t>(device.content().data() + block * kDeviceBlockBytes +
                                      sector * kFaultSectorBytes);
}

// The device's contract as bounds. Each write of a block has a growing number. A crash may leave
// any submitted number, but none below the durable number.
class Traffic {
 public:
  explicit Traffic(std::uint32_t seed) : random_(seed), device_(kBytes, seed) {}

  void Run(int rounds) {
    queue_ = QueueOf(device_, 8);
    for (int round = 0; round < rounds; ++round) {
      switch (random_() % 8) {
        case 0:
          StartFlush();
          break;
        case 1:
        case 2:
          queue_->Submit(1 + static_cast<unsigned>(random_() % 3));
          break;
        case 3:
          Reap();
          break;
        default:
          StartWrite();
      }
    }
  }

  // Counts the effects of the crash on blocks that were at risk.
  void CrashAndCheck(int* lost, int* kept, int* torn) {
    device_.Crash();
    queue_.reset();
    under_way_.clear();
    for (std::uint64_t block = 0; block < kBlocks; ++block) {
      Block& state = blocks_[block];
      std::set<std::uint32_t> seen;
      for (std::size_t sector = 0; sector < kSectorsPerBlock; ++sector) {
        const std::uint32_t version = VersionAt(device_, block, sector);
        REQUIRE(version >= state.durable);
        REQUIRE(version <= state.started);
        seen.insert(version);
      }
      if (state.started > state.durable) {
        *lost += *seen.begin() == state.durable ? 1 : 0;
        *kept += *seen.begin() == state.started ? 1 : 0;
        *torn += seen.size() > 1 ? 1 : 0;
      }
      // A single version again, so that the next life has a known floor.
      state.started = state.completed = state.durable = next_version_++;
      const auto queue = QueueOf(device_, 1);
      REQUIRE(
          WriteBlocksThrough(queue.get(), block * kDeviceBlockBytes, BlockOf(state.durable).bytes())
              .ok());
    }
  }

 private:
  struct Block {
    std::uint32_t started = 0;
    std::uint32_t completed = 0;  // Reaped.
    std::uint32_t durable = 0;
    bool busy = false;
  };
  struct UnderWay {
    BlockBuffer buffer;
    std::uint64_t block = 0;
    bool through = false;
    std::vector<std::uint32_t> covered;  // By a flush: of each block.
  };

  void StartWrite() {
    const std::uint64_t block = random_() % kBlocks;
    if (blocks_[block].busy || queue_->in_flight() == queue_->depth()) return;
    const std::uint64_t tag = next_tag_++;
    UnderWay& write = under_way_[tag];
    write.block = block;
    write.through = random_() % 5 == 0;
    write.buffer = BlockOf(next_version_);
    blocks_[block].started = next_version_++;
    blocks_[block].busy = true;
    REQUIRE(
        queue_->Start({write.through ? DeviceOperation::kWriteThrough : DeviceOperation::kWrite,
                       block * kDeviceBlockBytes, write.buffer.data(), kDeviceBlockBytes, tag}));
  }

  void StartFlush() {
    if (queue_->in_flight() == queue_->depth()) return;
    const std::uint64_t tag = next_tag_++;
    for (const Block& block : blocks_) under_way_[tag].covered.push_back(block.completed);
    REQUIRE(queue_->Start({DeviceOperation::kFlush, 0, nullptr, 0, tag}));
  }

  void Reap() {
    queue_->Reap([this](const DeviceCompletion& completion) {
      REQUIRE(completion.error == 0);
      UnderWay& done = under_way_.at(completion.tag);
      for (std::size_t block = 0; block < done.covered.size(); ++block) {
        blocks_[block].durable = std::max(blocks_[block].durable, done.covered[block]);
      }
      if (done.covered.empty()) {
        Block& block = blocks_[done.block];
        block.completed = block.started;
        if (done.through) block.durable = block.started;
        block.busy = false;
      }
      under_way_.erase(completion.tag);
    });
  }

  std::mt19937_64 random_;
  FaultDevice device_;
  std::unique_ptr<DeviceQueue> queue_;
  std::vector<Block> blocks_ = std::vector<Block>(kBlocks);
  std::map<std::uint64_t, UnderWay> under_way_;
  std::uint32_t next_version_ = 1;
  std::uint64_t next_tag_ = 1;
};

TEST_CASE("ACrashKeepsWhatIsDurableAndDoesAnythingLegalToTheRest") {
  const std::uint32_t seed = std::random_device{}();
  INFO("seed " << seed);
  int lost = 0;
  int kept = 0;
  int torn = 0;
  for (std::uint32_t i = 0; i < 300; ++i) {
    Traffic traffic(seed + i);
    for (int life = 0; life < 4; ++life) {
      traffic.Run(60);
      traffic.CrashAndCheck(&lost, &kept, &torn);
    }
  }
  // An adversary without one of these faults finds no mistake of that kind.
  CHECK(lost > 100);
  CHECK(kept > 100);
  CHECK(torn > 100);
}

TEST_CASE("FaultDeviceWithoutFaultsHoldsWhatRandomTrafficWrote") {
  const std::uint32_t seed = std::random_device{}();
  FaultDevice device(1 << 20, seed);
  test::CheckAgainstModel(device, 1, 300, seed);
  test::CheckAgainstModel(device, 32, 2'000, seed + 1);
  CHECK(device.counters().reads > 100);
  CHECK(device.counters().write_throughs > 10);
}

TEST_CASE("TheSameSeedGivesTheSameOutcome") {
  const auto run = [](std::uint64_t seed) {
    FaultDevice device(kBytes, seed);
    const auto queue = QueueOf(device, 8);
    std::vector<BlockBuffer> buffers;
    std::vector<std::uint64_t> order;
    for (std::uint32_t i = 0; i < 8; ++i) {
      buffers.push_back(BlockOf(i + 1));
      REQUIRE(queue->Start({DeviceOperation::kWrite, i % 3 * kDeviceBlockBytes,
                            buffers.back().data(), kDeviceBlockBytes, i}));
    }
    for (int i = 0; i < 3; ++i) {
      queue->Wait(1);
      queue->Reap([&order](const DeviceCompletion& each) { order.push_back(each.tag); });
    }
    device.Crash();
    return std::pair(order, device.content());
  };
  std::set<std::vector<std::uint64_t>> orders;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const auto [order, content] = run(seed);
    CHECK(std::pair(order, content) == run(seed));
    orders.insert(order);
  }
  CHECK(orders.size() > 20);  // Different seeds give different orders.
}

TEST_CASE("AFlushCoversOnlyWritesThatWereReapedBefore") {
  int lost = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    FaultDevice device(kBytes, seed);
    const auto queue = QueueOf(device, 2);
    BlockBuffer block = BlockOf(7);
    // The mistake: write and flush started together.
    REQUIRE(queue->Start({DeviceOperation::kWrite, 0, block.data(), kDeviceBlockBytes, 1}));
    REQUIRE(queue->Start({DeviceOperation::kFlush, 0, nullptr, 0, 2}));
    while (queue->in_flight() > 0) {
      queue->Wait(1);
      queue->Reap([](const DeviceCompletion& each) { CHECK(each.error == 0); });
    }
    device.Crash();
    lost += VersionAt(device, 0, 0) == 0 ? 1 : 0;
  }
  CHECK(lost > 20);
}

TEST_CASE("WhatWasReapedBehindTheStartOfAFlushIsNotCoveredByIt") {
  int lost = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    FaultDevice device(kBytes, seed);
    const auto queue = QueueOf(device, 2);
    BlockBuffer block = BlockOf(7);
    REQUIRE(queue->Start({DeviceOperation::kWrite, 0, block.data(), kDeviceBlockBytes, 1}));
    REQUIRE(queue->Start({DeviceOperation::kFlush, 0, nullptr, 0, 2}));
    REQUIRE(queue->Submit(1));
    const auto done = [](const DeviceCompletion& each) { CHECK(each.error == 0); };
    while (queue->in_flight() == 2) queue->Reap(done);
    while (queue->in_flight() > 0) {  // The device sees the flush only now.
      queue->Wait(1);
      queue->Reap(done);
    }
    device.Crash();
    lost += VersionAt(device, 0, 0) == 0 ? 1 : 0;
  }
  CHECK(lost > 4);
}

TEST_CASE("ARuleFailsTheRequestsThatItNames") {
  FaultDevice device(kBytes, 1);
  const auto queue = QueueOf(device, 1);
  device.AddRule({DeviceOperation::kRead, 4096, 8192, /*skip=*/1, /*times=*/2, EIO});
  BlockBuffer block(kDeviceBlockBytes);
  CHECK(ReadBlocks(queue.get(), 0, block.bytes()).ok());     // Beside it.
  CHECK(ReadBlocks(queue.get(), 4096, block.bytes()).ok());  // Skipped.
  for (int i = 0; i < 2; ++i) {
    const Status failed = ReadBlocks(queue.get(), 4096, block.bytes());
    CHECK(failed.code() == StatusCode::kDeviceError);
    CHECK(failed.ToString().find("Input/output error") != std::string::npos);
  }
  CHECK(ReadBlocks(queue.get(), 4096, block.bytes()).ok());
  CHECK(device.counters().faults == 2);
}

TEST_CASE("AWriteWithoutSpaceWritesNothing") {
  FaultDevice device(kBytes, 1);
  const auto queue = QueueOf(device, 1);
  device.AddRule({DeviceOperation::kWrite, 0, UINT64_MAX, 0, 1, ENOSPC});
  const BlockBuffer block = BlockOf(7);
  CHECK_FALSE(WriteBlocks(queue.get(), 0, block.bytes()).ok());
  CHECK(device.sectors_at_risk() == 0);
  CHECK(VersionAt(device, 0, 0) == 0);
  CHECK(WriteBlocks(queue.get(), 0, block.bytes()).ok());
  CHECK(VersionAt(device, 0, 0) == 7);
}

TEST_CASE("WhatAFailedFlushLeftOutNoLaterOneMakesDurable") {
  int lost = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    FaultDevice device(kBytes, seed);
    const auto queue = QueueOf(device, 1);
    REQUIRE(WriteBlocks(queue.get(), 0, BlockOf(7).bytes()).ok());
    device.AddRule({DeviceOperation::kFlush, 0, UINT64_MAX, 0, 1, EIO});
    CHECK_FALSE(FlushDevice(queue.get()).ok());
    CHECK(FlushDevice(queue.get()).ok());  // Like Linux: it has no dirty page any more.
    device.Crash();
    lost += VersionAt(device, 0, 0) == 0 ? 1 : 0;
  }
  CHECK(lost > 4);
}

TEST_CASE("FlippedBitsComeOnceByRuleAndForGoodByFlipBit") {
  FaultDevice device(kBytes, 1);
  const auto queue = QueueOf(device, 1);
  const BlockBuffer zeros(kDeviceBlockBytes);
  const auto bits_read = [&queue] {
    BlockBuffer block(kDeviceBlockBytes);
    REQUIRE(ReadBlocks(queue.get(), 0, block.bytes()).ok());
    int bits = 0;
    for (const std::byte byte : block.bytes()) {
      bits += __builtin_popcount(static_cast<unsigned>(byte));
    }
    return bits;
  };
  device.AddRule({std::nullopt, 0, UINT64_MAX, 0, 1, /*error=*/0});
  CHECK(bits_read() == 1);
  CHECK(bits_read() == 0);
  device.FlipBit(100, 3);
  CHECK(bits_read() == 1);
  CHECK(bits_read() == 1);
  device.Crash();
  CHECK(device.content()[100] == std::byte{8});
}

TEST_CASE("AfterThePowerIsGoneNothingIsWritten") {
  FaultDevice device(kBytes, 1);
  auto queue = QueueOf(device, 1);
  device.PowerOffAfterWrites(1);
  CHECK(WriteBlocksThrough(queue.get(), 0, BlockOf(1).bytes()).ok());
  CHECK_FALSE(device.powered_off());
  CHECK_FALSE(WriteBlocksThrough(queue.get(), 4096, BlockOf(2).bytes()).ok());
  CHECK(device.powered_off());
  CHECK_FALSE(WriteBlocksThrough(queue.get(), 8192, BlockOf(3).bytes()).ok());
  CHECK_FALSE(FlushDevice(queue.get()).ok());
  BlockBuffer block(kDeviceBlockBytes);
  CHECK_FALSE(ReadBlocks(queue.get(), 0, block.bytes()).ok());
  device.Crash();
  CHECK_FALSE(device.powered_off());
  queue = QueueOf(device, 1);
  CHECK(ReadBlocks(queue.get(), 0, block.bytes()).ok());
  CHECK(VersionAt(device, 0, 0) == 1);
  CHECK(VersionAt(device, 2, 0) == 0);
}

}  // namespace
}  // namespace tidepool::storage
