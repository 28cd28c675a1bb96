// The handler of chains: several operations on keys of one partition, executed without
// interleaving.
//
//   daemon/core/dispatcher -> [chain_ops] -> Executor (the dispatcher) -> daemon/ops/hash_ops, once
//   per step
#pragma once

#include <span>

#include "daemon/ops/operation.h"

namespace tidepool::daemon {

std::span<const HandlerEntry> ChainHandlers();

}  // namespace tidepool::daemon
