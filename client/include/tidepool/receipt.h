// What a change that has succeeded outlives.
#pragma once

#include <cstdint>
#include <string_view>

#include "tidepool/export.h"

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
  // By the clock of the owner, in ms since 1970: when it answered, and its last checkpoint then; 0:
  // there was none. A change of kNextCheckpoint is on the device once the owner's last checkpoint
  // is later than answered_at_ms: by a later receipt, or by `kvctl namespace describe`;
  // Client::Persist brings it there at once. Where a call has changed keys of several owners, those
  // of the one whose mark was oldest.
  std::uint64_t answered_at_ms = 0;
  std::uint64_t durable_at_ms = 0;
};

// "none", "memory", "next-checkpoint", "device".
TIDEPOOL_API std::string_view LevelName(Receipt::Level level);

}  // namespace tidepool
