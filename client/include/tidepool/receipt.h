// Durability of a successful change.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tidepool/export.h"
#include "tidepool/time.h"

namespace tidepool {

// Reports how durable a change is. Put its address into the options of a changing call. A
// synchronous call writes it before it returns; an asynchronous call when its result is taken or
// its continuation begins. It must live until then. It costs no message.
//
//   Receipt receipt;
//   map.Put("key", "value", {.receipt = &receipt});
//   if (receipt.level != Receipt::Level::kDevice) ...
struct Receipt {
  enum class Level : std::uint8_t {
    kNone = 0,            // No change has succeeded.
    kMemory = 1,          // The change ends with its daemon: the namespace is volatile.
    kNextCheckpoint = 2,  // Lost if the daemon dies before its next checkpoint: durability async.
    kDevice = 3,  // The change survives the daemon and a crash of its node: durability sync.
  };

  // The least durable level of all successful changes of the call.
  Level level = Level::kNone;
  // Times by the owner's clock: its answer, and its last checkpoint before the answer (unset:
  // none). A change of kNextCheckpoint is on the device once the owner's last checkpoint is later
  // than answered_at. A later receipt or `kvctl namespace describe` shows that checkpoint;
  // Client::Persist forces it. If a call changed keys of several owners, the times are of the owner
  // with the oldest checkpoint.
  std::optional<WallTime> answered_at;
  std::optional<WallTime> durable_at;
};

// "none", "memory", "next-checkpoint", "device".
TIDEPOOL_API std::string_view LevelName(Receipt::Level level);

}  // namespace tidepool
