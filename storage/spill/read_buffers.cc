#include "storage/spill/read_buffers.h"

#include <cstdlib>

#include "proto/base/check.h"
#include "storage/device/device.h"

namespace tidepool::storage {
namespace {

// A record of up to 4 KiB wherever it begins in its block.
constexpr std::size_t kSmallBytes = 2 * kDeviceBlockBytes;
constexpr std::size_t kSparesMax = 64;

std::byte* Allocate(std::size_t bytes) {
  auto* buffer = static_cast<std::byte*>(std::aligned_alloc(kDeviceBlockBytes, bytes));
  TP_CHECK(buffer != nullptr);
  return buffer;
}

}  // namespace

ReadBuffers::Spare::~Spare() {
  for (std::byte* buffer : buffers) std::free(buffer);
}

std::shared_ptr<std::byte> ReadBuffers::Take(std::size_t bytes) {
  if (bytes > kSmallBytes) return {Allocate(bytes), [](std::byte* at) { std::free(at); }};
  std::byte* buffer = nullptr;
  if (spare_->buffers.empty()) {
    buffer = Allocate(kSmallBytes);
  } else {
    buffer = spare_->buffers.back();
    spare_->buffers.pop_back();
  }
  return {buffer, [spare = spare_](std::byte* at) {
            if (spare->buffers.size() < kSparesMax) {
              spare->buffers.push_back(at);
            } else {
              std::free(at);
            }
          }};
}

}  // namespace tidepool::storage
