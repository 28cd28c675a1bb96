#include "storage/spill/read_buffers.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "proto/base/check.h"
#include "storage/device/device.h"

namespace tidepool::storage {
namespace {

// A record of up to 4 KiB wherever it begins in its block.
constexpr std::size_t kBytesMin = 2 * kDeviceBlockBytes;

std::byte* Allocate(std::size_t bytes) {
  auto* buffer = static_cast<std::byte*>(std::aligned_alloc(kDeviceBlockBytes, bytes));
  TP_CHECK(buffer != nullptr);
  return buffer;
}

}  // namespace

ReadBuffers::Spare::~Spare() {
  for (const std::vector<std::byte*>& of_class : buffers) {
    for (std::byte* buffer : of_class) std::free(buffer);
  }
}

// The smallest go first: they cost least to be made again.
void ReadBuffers::Spare::Trim() {
  for (std::size_t size_class = 0; size_class < buffers.size(); ++size_class) {
    std::vector<std::byte*>& of_class = buffers[size_class];
    while (!of_class.empty() && held + bytes > kKeptBytesMax) {
      std::free(of_class.back());
      of_class.pop_back();
      bytes -= std::size_t{1} << size_class;
    }
  }
}

std::shared_ptr<std::byte> ReadBuffers::Take(std::size_t bytes) {
  const std::size_t rounded = std::bit_ceil(std::max(bytes, kBytesMin));
  const auto size_class = static_cast<unsigned>(std::countr_zero(rounded));
  std::vector<std::byte*>& of_class = spare_->buffers[size_class];
  std::byte* buffer = nullptr;
  if (of_class.empty()) {
    buffer = Allocate(rounded);
  } else {
    buffer = of_class.back();
    of_class.pop_back();
    spare_->bytes -= rounded;
  }
  spare_->held += rounded;
  if (spare_->held + spare_->bytes > kKeptBytesMax) spare_->Trim();
  return {buffer, [spare = spare_, size_class, rounded](std::byte* at) {
            spare->buffers[size_class].push_back(at);
            spare->held -= rounded;
            spare->bytes += rounded;
            if (spare->held + spare->bytes > kKeptBytesMax) spare->Trim();
          }};
}

}  // namespace tidepool::storage
