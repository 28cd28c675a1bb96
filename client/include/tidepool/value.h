// Values with their version and kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "tidepool/export.h"

namespace tidepool {

// Grows with each change of a record, also across its deletion; 0: no version. Comparable only
// between versions of the same key.
using Version = std::uint64_t;

// Counters are 8 bytes, little-endian. Tools print them as numbers; Fetch... works on counters
// only.
enum class ValueKind : std::uint8_t { kBytes = 0, kI64 = 1, kF64 = 2 };

struct Value {
  std::string bytes;
  ValueKind kind = ValueKind::kBytes;
  Version version = 0;

  // Returns the counter's number; 0 if the value is not a counter of this kind.
  std::int64_t AsI64() const { return As<std::int64_t>(ValueKind::kI64); }
  double AsF64() const { return As<double>(ValueKind::kF64); }

 private:
  template <typename Number>
  Number As(ValueKind wanted) const {
    Number number = 0;
    if (kind == wanted && bytes.size() == sizeof number) {
      std::memcpy(&number, bytes.data(), sizeof number);
    }
    return number;
  }
};

// A value in the caller's memory.
struct ValueView {
  std::span<std::byte> bytes;
  ValueKind kind = ValueKind::kBytes;
  Version version = 0;
};

}  // namespace tidepool
