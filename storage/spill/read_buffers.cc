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

// Makes room by what is smallest: that costs least to be made again.
void ReadBuffers::Spare::Keep(std::byte* buffer, unsigned size_class) {
  const std::size_t more = std::size_t{1} << size_class;
  for (unsigned smaller = 0; smaller < size_class; ++smaller) {
    std::vector<std::byte*>& of_class = buffers[smaller];
    while (bytes + more > kSpareBytesMax && !of_class.empty()) {
      std::free(of_class.back());
      of_class.pop_back();
      bytes -= std::size_t{1} << smaller;
    }
  }
  if (bytes + more > kSpareBytesMax) return std::free(buffer);
  buffers[size_class].push_back(buffer);
  bytes += more;
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
  return {buffer, [spare = spare_, size_class](std::byte* at) { spare->Keep(at, size_class); }};
}

}  // namespace tidepool::storage
