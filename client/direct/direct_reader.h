// Reads of records and filters in the memory of a node's cores, without their help.
//
//   calls -> [DirectReader] -> ArenaMap => arenas, which the owner cores write (storage/layout.h)
//
// The steps and their proof are in client/direct/README.md.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "client/direct/arena_map.h"
#include "proto/base/bytes.h"
#include "proto/base/clock.h"
#include "storage/layout.h"

namespace tidepool::internal {

// Why the owner has to be asked.
enum class DirectRefusal : std::uint8_t {
  kNone = 0,
  kBadView,      // This version reads no partition in it.
  kNotMapped,    // DirectRead::missing lies in an arena that is not mapped here.
  kNoLease,      // The owner may not serve at the moment, or is being stopped.
  kClosed,       // The view is out of date: moved, dropped, or opened again. Request another view.
  kBusy,         // In the middle of an atomic batch.
  kUnsettled,    // Something changed in each attempt, or does not fit together.
  kLongChain,    // The bucket has more overflow buckets than are followed.
  kNotResident,  // On a device.
  kExpired,      // The owner is to remove it.
  kLargeValue,   // The value is in its own segments, which the record alone does not show.
  kNoRoom,       // The caller's buffer is smaller than the value: DirectRead::value_bytes.
  kSampled,      // One in kSampleEvery reads goes to the owner, which keeps read records in DRAM.
};
inline constexpr std::size_t kDirectRefusals = 13;
const char* NameOf(DirectRefusal refusal);

struct DirectRead {
  enum class Outcome : std::uint8_t { kFound, kNotFound, kAskOwner };

  Outcome outcome = Outcome::kAskOwner;
  DirectRefusal refusal = DirectRefusal::kNone;  // Reason of kAskOwner.
  std::uint8_t value_flags = 0;                  // kCounterFlags.
  std::uint32_t value_bytes = 0;                 // Size of a refused value, if known.
  std::uint64_t version = 0;
  std::uint64_t missing = 0;  // A node offset, for kNotMapped.
  std::uint64_t at_ns = 0;    // When it ended, monotonic; not of reads by RDMA.
};

// A partition as it was given out, with its addresses. A value: copy it, keep it as long as the
// map. Good until a read says kClosed.
class DirectPartition {
 public:
  DirectPartition() : places_(1ull << 12) {}
  bool usable() const { return root_ != nullptr; }

 private:
  friend class DirectReader;
  const storage::SharedRoot* core_ = nullptr;
  const storage::SharedRoot* root_ = nullptr;
  storage::DirectView view_{};
  storage::BucketPlaces places_;
};

// Thread-safety: one thread at a time; each thread has its own reader, and readers share the map.
// Allocates nothing, takes no lock, and reads the clock without a system call. Never writes to the
// arenas, and survives any content: each number is checked before its use. Bounded: 8 attempts of
// at most 32 buckets each.
//
// Results are as linearizable as the owner's answers, on one condition. The caller has no
// unanswered operation on the key, read or write; otherwise the read must be sent after it
// (UnansweredKeys).
class DirectReader {
 public:
  static constexpr int kAttempts = 8;
  static constexpr int kChainMax = 32;       // Buckets.
  static constexpr std::size_t kStage = 16;  // Keys of MultiGet with overlapping cache misses.
  // Direct reads per read by the owner, where records may leave DRAM. Only the owner can note that
  // a record is in use.
  static constexpr std::uint32_t kSampleEvery = 64;

  // Both must outlive it. `clock` must be the machine's (or the owner's, in tests).
  DirectReader(const ArenaMap& map, const Clock& clock) : map_(map), clock_(clock) {}

  // kNone, and `partition` can be used; kBadView; kNotMapped with `missing`.
  DirectRefusal Open(const storage::DirectView& view, DirectPartition* partition,
                     std::uint64_t* missing) const;

  // `hash` is KeyHash(key). The value goes to the front of `to`, which may have been written to
  // whatever the outcome.
  DirectRead Get(const DirectPartition& partition, Bytes key, std::uint64_t hash, MutableBytes to);
  // Looks up like Get, without the value. A filter takes no key: kFound means probably inserted, as
  // its owner would say, and kNotFound means surely not inserted.
  DirectRead Contains(const DirectPartition& partition, Bytes key, std::uint64_t hash);

  struct Item {
    const DirectPartition* partition = nullptr;
    Bytes key;
    std::uint64_t hash = 0;
    MutableBytes to;
    bool value_wanted = true;  // False: like Contains.
    DirectRead read;
  };
  // Reads the items in stages. Per key it is 2.5 times as fast as Get if each key is a cache miss,
  // and a fifth slower if all keys are in the cache. Each read takes effect at its own time.
  void MultiGet(std::span<Item> items);

  // Returns the number of reads per refusal; kNone counts the answered reads.
  const std::array<std::uint64_t, kDirectRefusals>& counts() const { return counts_; }

 private:
  enum class Progress : std::uint8_t { kDone, kAgain, kPass };
  struct Attempt;
  struct FilterPlace;

  Progress Refuse(DirectRefusal refusal, Attempt& attempt) const;
  Progress Miss(std::uint64_t node_offset, Attempt& attempt) const;
  DirectRead Run(const DirectPartition& partition, Bytes key, std::uint64_t hash, MutableBytes* to,
                 std::uint64_t* lease_ns);
  Progress Try(Attempt& attempt) const;
  Progress TryFilter(Attempt& attempt) const;
  Progress Begin(Attempt& attempt) const;
  Progress Look(Attempt& attempt) const;
  Progress Read(std::uint64_t slot_word, const std::uint64_t& slot, Attempt& attempt) const;
  std::uint64_t NowMs(const storage::SharedRoot& core) const;
  Progress CopyExtent(const std::byte* stored, std::uint64_t slot_word, const std::uint64_t& slot,
                      MutableBytes to, Attempt& attempt) const;
  const storage::Bucket* HomeOf(const DirectPartition& partition, std::uint64_t hash,
                                unsigned* depth, std::uint64_t* missing) const;
  // Return null with `missing` set if bytes are not mapped. Return null with `missing` unchanged if
  // the read data do not fit together.
  const std::byte* MappedAt(std::uint64_t node_offset, std::uint64_t bytes,
                            std::uint64_t* missing) const;
  const std::uint64_t* EntryOf(std::uint64_t directory, std::uint64_t entry,
                               std::uint64_t* missing) const;
  const storage::SegmentEntry* SegmentOf(const DirectPartition& partition, std::uint64_t location,
                                         std::uint64_t* missing) const;
  const storage::SegmentEntry* SegmentAt(const DirectPartition& partition, std::uint64_t index,
                                         std::uint64_t* missing) const;
  const std::byte* FilterLanes(const DirectPartition& partition, std::uint64_t hash,
                               FilterPlace* place) const;
  void PrefetchLanes(const DirectPartition& partition, std::uint64_t hash) const;
  const storage::Bucket* PrefetchBucket(const Item& item) const;
  void PrefetchRecord(const Item& item, const storage::Bucket* home) const;
  DirectRead Finish(const DirectPartition& partition, DirectRead read, std::uint64_t lease_ns,
                    std::uint64_t now_ns);

  const ArenaMap& map_;
  const Clock& clock_;
  std::uint32_t until_sample_ = kSampleEvery;
  std::array<std::uint64_t, kDirectRefusals> counts_{};
};

}  // namespace tidepool::internal
