// The disk itself in the spill bench: random reads of 4 KiB, so many at a time, by the store's own
// device code.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "storage/nvm/directory.h"
#include "tests/bench/spill/workload.h"

namespace tidepool::bench {
namespace {

[[noreturn]] void Fail(const char* what, const Status& status) {
  std::fprintf(stderr, "spill_bench: device: %s: %s\n", what, status.ToString().c_str());
  std::exit(1);
}

class RawDevice final : public Contender {
 public:
  explicit RawDevice(const SpillSetup& setup)
      : bytes_(setup.records * kSpillUserBytes / kChunkBytes * kChunkBytes + kChunkBytes) {
    auto directory = storage::NvmDirectory::Open(setup.folder);
    if (!directory.ok()) Fail("open", directory.status());
    directory_ = *std::move(directory);
    auto device = directory_->MakeFile(bytes_);
    if (!device.ok()) Fail("make", device.status());
    device_ = *std::move(device);
  }

  SpillResult Do(const SpillOrder& order) override {
    return order.task == SpillTask::kLoad ? Fill() : Read(order);
  }

 private:
  static constexpr std::uint64_t kChunkBytes = 2ull << 20;

  std::unique_ptr<storage::DeviceQueue> Open(unsigned depth) {
    auto queue = device_->OpenQueue(depth);
    if (!queue.ok()) Fail("queue", queue.status());
    return *std::move(queue);
  }

  // What was reserved and never written would be read without the disk.
  SpillResult Fill() {
    const auto queue = Open(4);
    auto* data =
        static_cast<std::byte*>(std::aligned_alloc(storage::kDeviceBlockBytes, kChunkBytes));
    std::memset(data, 1, kChunkBytes);
    const SpillMeter meter;
    for (std::uint64_t at = 0; at < bytes_; at += kChunkBytes) {
      while (!queue->Start({storage::DeviceOperation::kWrite, at, data,
                            static_cast<std::uint32_t>(kChunkBytes), 0})) {
        queue->Wait(1'000);
        queue->Reap(Check);
      }
      (void)queue->Submit(4);
    }
    while (queue->in_flight() > 0) {
      queue->Wait(1'000);
      queue->Reap(Check);
    }
    std::free(data);
    SpillResult result;
    meter.End(static_cast<double>(bytes_), &result);
    return result;
  }

  SpillResult Read(const SpillOrder& order) {
    const auto queue = Open(order.clients);
    auto* data = static_cast<std::byte*>(
        std::aligned_alloc(storage::kDeviceBlockBytes, order.clients * storage::kDeviceBlockBytes));
    SpillIds ids(1, false, ++runs_);
    const SpillMeter meter;
    const double end = NowSeconds() + order.seconds;
    double reads = 0;
    const auto start = [&](std::uint64_t which) {
      (void)queue->Start(
          {storage::DeviceOperation::kRead,
           ids.Below(bytes_ / storage::kDeviceBlockBytes) * storage::kDeviceBlockBytes,
           data + which * storage::kDeviceBlockBytes, storage::kDeviceBlockBytes, which});
    };
    for (std::uint64_t which = 0; which < order.clients; ++which) start(which);
    while (queue->in_flight() > 0) {
      queue->Wait(1'000);
      const bool over = NowSeconds() >= end;
      queue->Reap([&](const storage::DeviceCompletion& completion) {
        Check(completion);
        ++reads;
        if (!over) start(completion.tag);
      });
    }
    std::free(data);
    SpillResult result;
    meter.End(reads, &result);
    return result;
  }

  static void Check(const storage::DeviceCompletion& completion) {
    if (completion.error != 0) Fail("request", Status(StatusCode::kDeviceError, "failed"));
  }

  const std::uint64_t bytes_;
  std::unique_ptr<storage::NvmDirectory> directory_;
  std::unique_ptr<storage::Device> device_;
  std::uint64_t runs_ = 0;
};

}  // namespace

std::unique_ptr<Contender> MakeDevice(const SpillSetup& setup) {
  return std::make_unique<RawDevice>(setup);
}

}  // namespace tidepool::bench
