// What one call over gRPC may ask for and carry back, so that no call holds a core or fills the
// daemon's memory, whatever it asks.
#pragma once

#include <cstddef>

namespace tidepool::daemon {

// Operations of one Execute; each takes about 50 bytes of the answer beside its value or text.
inline constexpr std::size_t kCallOperationsMax = 4'096;
// One value; larger ones are read with Bulk.ReadValue.
inline constexpr std::size_t kCallValueBytesMax = 1024 * 1024;
// All values and texts of one answer. With what protobuf adds, at most a quarter to lists of tiny
// items, it stays below the 4 MiB that a gRPC client receives if nobody tells it otherwise.
inline constexpr std::size_t kCallAnswerBytesMax = 3 * 1024 * 1024;
static_assert(kCallAnswerBytesMax * 5 / 4 + kCallOperationsMax * 60 <= 4 * 1024 * 1024);
// Records of one message of Bulk.Load, and what the texts of its failures may take together.
inline constexpr std::size_t kLoadRecordsMax = 65'536;
inline constexpr std::size_t kLoadTextBytesMax = 1024 * 1024;
static_assert(kLoadTextBytesMax + kLoadRecordsMax * 24 <= 4 * 1024 * 1024);
// A part of a call that a core runs in one go, then it turns to its other clients: some 200 us.
inline constexpr std::size_t kSliceOperations = 256;
inline constexpr std::size_t kSliceBytes = 1024 * 1024;  // Of values put and values copied.

}  // namespace tidepool::daemon
