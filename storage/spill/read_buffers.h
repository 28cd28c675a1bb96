// Buffers that records are read into from devices, aligned to their blocks.
//
//   spiller -> [ReadBuffers]; FetchedRecords and values that are being sent hold the buffers
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

namespace tidepool::storage {

// Owner core only; the buffers may outlive it. Buffers are reused: malloc of aligned memory was a
// tenth of the CPU that a small read costs. For a large buffer, malloc returns the pages to the
// kernel, which then faults them in anew (0.1 to 15 us for each 4 KiB, by the machine).
class ReadBuffers {
 public:
  // Spare buffers are kept while spare and held buffers together are within this bound. Spare
  // buffers thus add nothing to the greatest need.
  static constexpr std::size_t kKeptBytesMax = 16 << 20;

  // Returns a buffer of at least `bytes`; contents are arbitrary.
  std::shared_ptr<std::byte> Take(std::size_t bytes);
  std::size_t kept_bytes() const { return spare_->bytes; }

 private:
  struct Spare {
    ~Spare();
    void Trim();

    std::array<std::vector<std::byte*>, 64> buffers;  // Of 2^i bytes each.
    std::size_t bytes = 0;                            // In spare buffers.
    std::size_t held = 0;                             // In buffers that were taken.
  };
  std::shared_ptr<Spare> spare_ = std::make_shared<Spare>();
};

}  // namespace tidepool::storage
