// Buffers that records are read into from devices, aligned to their blocks.
//
//   spiller -> [ReadBuffers]; FetchedRecords and values that are being sent hold the buffers
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace tidepool::storage {

// Owner core only; the buffers may outlive it. A buffer for a small record is used again: malloc of
// aligned memory was a tenth of the CPU that a read costs.
class ReadBuffers {
 public:
  // Of at least `bytes`; contents are arbitrary.
  std::shared_ptr<std::byte> Take(std::size_t bytes);

 private:
  struct Spare {
    ~Spare();
    std::vector<std::byte*> buffers;  // Of kSmallBytes each.
  };
  std::shared_ptr<Spare> spare_ = std::make_shared<Spare>();
};

}  // namespace tidepool::storage
