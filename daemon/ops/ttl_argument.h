// How the wire's time to live becomes the store's.
#pragma once

#include <cstdint>

#include "proto/wire/group.h"
#include "storage/hash_store.h"

namespace tidepool::daemon {

// The wire's 0 is "for ever"; an absent argument is the namespace's default.
inline std::uint64_t TtlOf(const wire::Operation& operation) {
  if (!operation.has(wire::Argument::kTtlMs)) return storage::kTtlDefault;
  const std::uint64_t ttl_ms = operation.get(wire::Argument::kTtlMs);
  return ttl_ms == 0 ? storage::kTtlNone : ttl_ms;
}

}  // namespace tidepool::daemon
