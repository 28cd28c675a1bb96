// What a program knows about a round of its own work, so that less is asked and told.
//
//   BytesMap table = WithPromise(map, Promise::kReadOnly);   // Nobody writes in this round.
//   ... table.Get(key) ...                                   // Each key is asked for once.
//   table.space().EndRound();                                // Others have written: ask again.
//
// From BCL's concurrency promises (B. Brock, A. Buluc, K. Yelick: BCL: A Cross-Platform Distributed
// Data Structures Library, ICPP 2019). A promise is an optimisation only: one that is broken may
// give values that are not the newest, and never harms what is stored.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tidepool {

// May be combined by |. Promises are about what *others* do: what is written through a handle is
// read through it and its copies, whatever was promised.
//
// They are given to a handle (WithPromise), or to one call (CallOptions, PutOptions, PushOptions,
// PopOptions), and change what is said below. Nothing else: in Scan, Iterate and Delete, for
// instance, a promise has no effect, so a page of records is asked for each time.
enum class Promise : std::uint8_t {
  kNone = 0,
  // Nobody writes. Get, MultiGet and Contains answer from this process what it has read before,
  // also that a key is absent: some 0.2 us instead of a message. A record that expires meanwhile is
  // still found, until EndRound.
  kReadOnly = 1,
  // Whoever writes, inserts new keys; or everybody writes keys of their own. MultiPut then travels
  // as a Buffered handle's operations do: 8 bytes less for each record there, and one answer
  // instead of one for each record back. It cannot tell the records' versions: 0. No gain for
  // single operations; a Buffered handle aggregates those.
  kInsertOnly = 2,
  kDisjointWrites = 4,
  // Nobody pops. Has no effect yet.
  kPushOnly = 8,
  // Nobody pushes. Once a pop or peek has found no item, others end with kNotFound at once, without
  // a message and without waiting, until EndRound or a push or nack through this handle. Of a queue
  // with lanes only the waiting is left out.
  kPopOnly = 16,
  // Only keys of this program's own node are used. Has no effect yet.
  kLocal = 32,
};

constexpr Promise operator|(Promise a, Promise b) {
  return static_cast<Promise>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
// Whether `promised` has one of `wanted`.
constexpr bool Has(Promise promised, Promise wanted) {
  return (static_cast<unsigned>(promised) & static_cast<unsigned>(wanted)) != 0;
}

struct PromiseUse {
  // Memory for what kReadOnly has read. When it is full, the records that were read longest ago go.
  std::size_t cache_bytes_max = std::size_t{64} << 20;
};

}  // namespace tidepool
