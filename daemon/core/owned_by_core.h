// Objects that gRPC threads share with a core and that only the core may touch or destroy.
#pragma once

#include <memory>
#include <utility>

#include "daemon/core/core_group.h"
#include "proto/base/ids.h"

namespace tidepool::daemon {

// Moves `value` into a pointer that destroys it on `core`, whichever thread releases it last. If
// the core is gone, its store is gone too, and with it everything that the value held.
template <typename T>
std::shared_ptr<T> OwnedByCore(CoreGroup& cores, CoreId core, T value) {
  return std::shared_ptr<T>(new T(std::move(value)), [&cores, core](T* held) {
    if (!cores.Post(core, [held](Core&) { delete held; })) ::operator delete(held);
  });
}

}  // namespace tidepool::daemon
