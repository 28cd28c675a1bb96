// Bounds of one gRPC call's request and answer, so that no call occupies a core or fills the
// daemon's memory.
#pragma once

#include <cstddef>

namespace tidepool::daemon {

// Operations of one Execute; each takes about 50 bytes of the answer besides its value or text.
inline constexpr std::size_t kCallOperationsMax = 4'096;
// Size of one value; larger values are read with Bulk.ReadValue.
inline constexpr std::size_t kCallValueBytesMax = 1024 * 1024;
// All values and texts of one answer. protobuf adds at most a quarter, for lists of tiny items, so
// the answer stays below the 4 MiB that a gRPC client receives by default.
inline constexpr std::size_t kCallAnswerBytesMax = 3 * 1024 * 1024;
static_assert(kCallAnswerBytesMax * 5 / 4 + kCallOperationsMax * 60 <= 4 * 1024 * 1024);
// Records of one message of Bulk.Load, and the texts of its failures together.
inline constexpr std::size_t kLoadRecordsMax = 65'536;
inline constexpr std::size_t kLoadTextBytesMax = 1024 * 1024;
static_assert(kLoadTextBytesMax + kLoadRecordsMax * 24 <= 4 * 1024 * 1024);
// Operations of a call that a core runs in one go, some 200 us, before it serves its other clients.
inline constexpr std::size_t kSliceOperations = 256;
// Bytes of values put and copied in one go.
inline constexpr std::size_t kSliceBytes = 1024 * 1024;

}  // namespace tidepool::daemon
