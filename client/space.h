// What a Namespace handle points at.
#pragma once

#include <memory>
#include <utility>

#include "client/engine.h"
#include "client/partition_queue.h"

namespace tidepool::internal {

// Immutable; any thread. Keeps the client connected.
class Space {
 public:
  Space(std::shared_ptr<Engine> engine, SpaceState* state)
      : engine_(std::move(engine)), state_(state) {}

  const std::shared_ptr<Engine>& engine() const { return engine_; }
  // Its name, id, kind, options and number of queues never change; the rest is guarded by the
  // client's lock.
  SpaceState* state() const { return state_; }

 private:
  std::shared_ptr<Engine> engine_;
  SpaceState* state_;
};

}  // namespace tidepool::internal
