// What one core sends another of a range on its way: changes, and values in pieces, as bytes.
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
    kLargeDrop,   // It has changed meanwhile: the value means nothing.
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
// REQUIRES: `*at` is where AppendItem has written one. Its views are those of `from`.
RangeItem TakeItem(const std::vector<std::byte>& from, std::size_t* at);

}  // namespace tidepool::daemon
