// Converts the wire's time to live to the store's.
#pragma once

#include <cstdint>

#include "proto/wire/group.h"
#include "storage/hash_store.h"

namespace tidepool::daemon {

// Returns the store's value: the wire's 0 means for ever; an absent argument means the namespace's
// default.
inline std::uint64_t TtlOf(const wire::Operation& operation) {
  if (!operation.has(wire::Argument::kTtlMs)) return storage::kTtlDefault;
  const std::uint64_t ttl_ms = operation.get(wire::Argument::kTtlMs);
  return ttl_ms == 0 ? storage::kTtlNone : ttl_ms;
}

}  // namespace tidepool::daemon
