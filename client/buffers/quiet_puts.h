// A batch of puts whose successes need not be told one by one (tidepool/promise.h): as packs.
//
//   bytes_map_batch -> [quiet_puts] -> engine -> partition queue -> core link =>
//   daemon/core/dispatcher
#pragma once

#include <span>

#include "client/calls/calls.h"
#include "tidepool/bytes_map.h"

namespace tidepool::internal {

// Of records that are put whatever is there (PutCondition::kAlways). Each keeps a result of its
// own, without a version. A value above 32 KiB goes by itself, and its version is told.
CallRef StartQuietPuts(const Space& space, std::span<const KeyValue> records, Mode mode,
                       const PutOptions& options);

}  // namespace tidepool::internal
