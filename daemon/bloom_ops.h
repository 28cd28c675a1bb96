// The operations of bloom namespaces: decoded request in, answer out, the filter between.
//
//   client/bytes_bloom => daemon/dispatcher -> [daemon/bloom_ops] -> storage/bloom_store
#pragma once

#include <span>

#include "daemon/operation.h"

namespace tidepool::daemon {

std::span<const HandlerEntry> BloomHandlers();

}  // namespace tidepool::daemon
