// A batch of puts that travels as packs, because the caller does not need each success
// (tidepool/promise.h).
//
//   bytes_map_batch -> [quiet_puts] -> engine -> partition queue -> core link =>
//   daemon/core/dispatcher
#pragma once

#include <span>

#include "client/calls/calls.h"
#include "tidepool/bytes_map.h"

namespace tidepool::internal {

// Puts records without a condition (PutCondition::kAlways). Each record has its own result, without
// a version. A value above 32 KiB travels alone, and its result has a version.
CallRef StartQuietPuts(const Space& space, std::span<const KeyValue> records, Mode mode,
                       const PutOptions& options);

}  // namespace tidepool::internal
