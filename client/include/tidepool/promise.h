// Promises of a program about a round of its own work, which save messages.
//
//   BytesMap table = WithPromise(map, Promise::kReadOnly);   // No writes in this round.
//   ... table.Get(key) ...                                   // Each key is fetched once.
//   table.space().EndRound();                                // Other clients wrote: fetch again.
//
// Follows BCL's concurrency promises (B. Brock, A. Buluc, K. Yelick: BCL: A Cross-Platform
// Distributed Data Structures Library, ICPP 2019). A promise is an optimisation only: a broken
// promise may return old values and never harms stored data.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tidepool {

// Promises about other clients; combine with |. A handle and its copies always read what was
// written through them.
//
// Set promises on a handle (WithPromise) or on one call (CallOptions, PutOptions, PushOptions,
// PopOptions). They affect only the operations listed below. Scan, Iterate and Delete, for example,
// ignore promises and ask for each page.
enum class Promise : std::uint8_t {
  kNone = 0,
  // No client writes. Get, MultiGet and Contains answer repeated reads from this process, also for
  // absent keys: some 0.2 us instead of a message. Expired records are still found until EndRound.
  kReadOnly = 1,
  // Writers insert only new keys (kInsertOnly), or each writer has its own keys (kDisjointWrites).
  // MultiPut then travels like the operations of a Buffered handle: 8 bytes less per record, and
  // one answer for all records. The versions of the records are reported as 0. Single operations
  // gain nothing; use a Buffered handle to aggregate them.
  kInsertOnly = 2,
  kDisjointWrites = 4,
  // No client pops. Has no effect yet.
  kPushOnly = 8,
  // No client pushes. After a pop or peek has found no item, later pops and peeks end with
  // kNotFound at once, without a message or a wait, until EndRound or a push or nack through this
  // handle. For a queue with lanes, only the wait is skipped.
  kPopOnly = 16,
  // The program uses keys of its own node only. Has no effect yet.
  kLocal = 32,
};

constexpr Promise operator|(Promise a, Promise b) {
  return static_cast<Promise>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
// Returns true if `promised` contains one of `wanted`.
constexpr bool Has(Promise promised, Promise wanted) {
  return (static_cast<unsigned>(promised) & static_cast<unsigned>(wanted)) != 0;
}

struct PromiseUse {
  // Memory for records read under kReadOnly. When it is full, the least recently read records are
  // dropped.
  std::size_t cache_bytes_max = std::size_t{64} << 20;
};

}  // namespace tidepool
