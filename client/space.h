// What a Namespace handle points at.
#pragma once

#include <memory>
#include <utility>

#include "client/absent_copy.h"
#include "client/engine.h"
#include "client/partition_queue.h"

namespace tidepool::internal {

// Immutable (but for the copy of a prefilter); any thread. Keeps the client connected.
class Space {
 public:
  Space(std::shared_ptr<Engine> engine, SpaceState* state,
        std::shared_ptr<AbsentCopy> absent = nullptr)
      : engine_(std::move(engine)), state_(state), absent_(std::move(absent)) {}

  const std::shared_ptr<Engine>& engine() const { return engine_; }
  // Its name, id, kind, options and number of queues never change; the rest is guarded by the
  // client's lock.
  SpaceState* state() const { return state_; }
  // What answers look-ups of absent keys here; null: nothing.
  AbsentCopy* absent() const { return absent_.get(); }

 private:
  std::shared_ptr<Engine> engine_;
  SpaceState* state_;
  std::shared_ptr<AbsentCopy> absent_;
};

}  // namespace tidepool::internal
