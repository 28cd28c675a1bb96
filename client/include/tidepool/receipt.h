// What a change that has succeeded outlives.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "tidepool/export.h"
#include "tidepool/time.h"

namespace tidepool {

// Told on request: give the options of a call that changes something the address of one. It is
// written when the call returns, of an asynchronous one when its result is taken or its
// continuation begins, and must live until then. Nothing travels for it.
//
//   Receipt receipt;
//   map.Put("key", "value", {.receipt = &receipt});
//   if (receipt.level != Receipt::Level::kDevice) ...
struct Receipt {
  enum class Level : std::uint8_t {
    kNone = 0,    // No change has succeeded.
    kMemory = 1,  // It goes with its daemon: the namespace is volatile.
    kNextCheckpoint =
        2,        // It is lost if the daemon dies before its next checkpoint: durability async.
    kDevice = 3,  // It outlives the daemon and its node's crash: durability sync.
  };

  // The least of all changes of the call that have succeeded.
  Level level = Level::kNone;
  // By the clock of the owner: when it answered, and its last checkpoint then; nothing: there was
  // none. A change of kNextCheckpoint is on the device once the owner's last checkpoint is later
  // than answered_at: by a later receipt, or by `kvctl namespace describe`; Client::Persist brings
  // it there at once. Where a call has changed keys of several owners, those of the one whose
  // checkpoint was oldest.
  std::optional<WallTime> answered_at;
  std::optional<WallTime> durable_at;
};

// "none", "memory", "next-checkpoint", "device".
TIDEPOOL_API std::string_view LevelName(Receipt::Level level);

}  // namespace tidepool
