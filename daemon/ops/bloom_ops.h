// Handlers of operations on bloom namespaces: decoded request in, answer out.
//
//   client/api/bytes_bloom => daemon/core/dispatcher -> [daemon/ops/bloom_ops] ->
//   storage/bloom_store
#pragma once

#include <span>

#include "daemon/ops/operation.h"

namespace tidepool::daemon {

std::span<const HandlerEntry> BloomHandlers();

}  // namespace tidepool::daemon
