// Bytes that one core sends to another while a range moves: changes, and values in pieces.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/base/bytes.h"

namespace tidepool::daemon {

struct RangeItem {
  enum class Kind : std::uint8_t {
    kPut,         // The key has this value.
    kDelete,      // The key is gone.
    kLargeBegin,  // A value of `number` bytes begins; the key comes with its end.
    kLargePart,   // `value` belongs at `number`.
    kLargeEnd,    // The key has the value that has come.
    kLargeDrop,   // The key has changed meanwhile: the value is void.
    kEnd,         // Nothing follows.
  };
  Kind kind = Kind::kPut;
  std::uint8_t value_flags = 0;
  Bytes key;
  Bytes value;
  Bytes value_tail;  // Follows `value`; writing only.
  std::uint64_t version = 0;
  std::uint64_t expiry_ms = 0;
  std::uint64_t number = 0;
};

void AppendItem(const RangeItem& item, std::vector<std::byte>* to);
// REQUIRES: AppendItem has written an item at `*at`. Its views refer to `from`.
RangeItem TakeItem(const std::vector<std::byte>& from, std::size_t* at);

}  // namespace tidepool::daemon
