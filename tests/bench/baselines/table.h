// BCL's hash table over a window: buckets of one size in the memory of all ranks, which clients
// claim, write and publish by themselves.
//
//   insert: compare-and-swap (free -> claimed), put, compare-and-swap (claimed -> ready)
//   find:   compare-and-swap (one more reader), get, fetch-and-add; where nobody writes, a get
//   alone
//
// A key goes to one rank by its hash, and there to the first bucket from its hash on that is free
// or has it. Buckets never move, and the table does not grow.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/bench/baselines/mix.h"
#include "tests/bench/baselines/place.h"
#include "tests/bench/baselines/ranks.h"

namespace tidepool::baselines {

// Which rank has a key.
enum class Spread {
  kAll,     // Any, by its hash.
  kOthers,  // Never the one that asks: as if its own machine had no part of the table.
};

struct TableOptions {
  std::size_t start = 0;    // Where in the window.
  std::size_t buckets = 0;  // Of each rank.
  std::size_t value_bytes = 8;
  Spread spread = Spread::kAll;
};

// Not thread-safe; keys are any numbers.
template <typename Window>
class Table {
 public:
  Table(const Ranks& ranks, Window* window, const TableOptions& options)
      : rank_(ranks.rank()),
        ranks_(static_cast<std::uint64_t>(ranks.size())),
        window_(*window),
        options_(options),
        bucket_bytes_(BucketBytes(options.value_bytes)),
        room_(bucket_bytes_) {}

  // A bucket is its state, its key and its value, on lines of its own where it is not longer than
  // one.
  static std::size_t BucketBytes(std::size_t value_bytes) {
    const std::size_t bytes = kHeaderBytes + (value_bytes + 7) / 8 * 8;
    if (bytes > kLineBytes) return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
    std::size_t power = 16;
    while (power < bytes) power *= 2;
    return power;
  }

  // Where a key's search begins.
  Place FirstPlaceOf(std::uint64_t key) const {
    return PlaceOf(RankOf(Mix(key)), SlotOf(Mix(key)));
  }
  std::size_t found_bytes() const { return kHeaderBytes + options_.value_bytes; }

  // Puts a value, in place of the one that is there. False: the rank's part is full.
  bool Insert(std::uint64_t key, const void* value) {
    const std::uint64_t hash = Mix(key);
    const int rank = RankOf(hash);
    std::size_t slot = SlotOf(hash);
    std::memcpy(room_.data() + 8, &key, 8);
    std::memcpy(room_.data() + kHeaderBytes, value, options_.value_bytes);
    for (std::size_t tried = 0; tried < options_.buckets;) {
      const Place place = PlaceOf(rank, slot);
      const std::uint64_t before = window_.CompareAndSwap(place, kFree, kClaimed);
      if (before == kFree) {
        window_.Put({rank, place.at + 8}, room_.data() + 8, 8 + options_.value_bytes);
        window_.CompareAndSwap(place, kClaimed, kReady);
        return true;
      }
      if (before == kClaimed) {  // Somebody is at it: whose key it becomes is not known yet.
        window_.Progress();
        continue;
      }
      if (KeyAt(place) != key) {
        ++tried;
        slot = slot + 1 == options_.buckets ? 0 : slot + 1;
        continue;
      }
      // Fails while there are readers.
      if (window_.CompareAndSwap(place, kReady, kClaimed) != kReady) continue;
      window_.Put({rank, place.at + kHeaderBytes}, room_.data() + kHeaderBytes,
                  options_.value_bytes);
      window_.CompareAndSwap(place, kClaimed, kReady);
      return true;
    }
    return false;
  }

  // Finds beside writers. `value` gets the value. False: the key is not there.
  bool Find(std::uint64_t key, void* value) {
    const std::uint64_t hash = Mix(key);
    const int rank = RankOf(hash);
    std::size_t slot = SlotOf(hash);
    std::uint64_t expected = kReady;  // Nobody else reads, most times.
    for (std::size_t tried = 0; tried < options_.buckets;) {
      const Place place = PlaceOf(rank, slot);
      const std::uint64_t before = window_.CompareAndSwap(place, expected, expected + kReader);
      if (before == kFree) return false;
      if (before != expected) {
        expected = before == kClaimed ? kReady : before;
        window_.Progress();
        continue;
      }
      window_.Get(place, room_.data(), found_bytes());
      window_.FetchAdd(place, ~kReader + 1);
      if (Matches(key, value)) return true;
      ++tried;
      expected = kReady;
      slot = slot + 1 == options_.buckets ? 0 : slot + 1;
    }
    return false;
  }

  // Finds while nobody writes (BCL's promise "find").
  bool FindOnly(std::uint64_t key, void* value) {
    Place where;
    return Locate(key, value, &where);
  }
  // The same; `where` gets the value's place.
  bool Locate(std::uint64_t key, void* value, Place* where) {
    const std::uint64_t hash = Mix(key);
    const int rank = RankOf(hash);
    std::size_t slot = SlotOf(hash);
    for (std::size_t tried = 0; tried < options_.buckets; ++tried) {
      const Place place = PlaceOf(rank, slot);
      window_.Get(place, room_.data(), found_bytes());
      std::uint64_t state = 0;
      std::memcpy(&state, room_.data(), 8);
      if (state == kFree) return false;
      *where = {rank, place.at + kHeaderBytes};
      if (Matches(key, value)) return true;
      slot = slot + 1 == options_.buckets ? 0 : slot + 1;
    }
    return false;
  }

  // As Insert, of a key of this rank and while nobody else is at its part: plain memory. `merge`
  // gets the value that is there, which is zero for a new key. Without `create` new keys are left
  // out.
  template <typename Merge>
  bool MergeOwn(std::uint64_t key, bool create, Merge&& merge) {
    std::size_t slot = SlotOf(Mix(key));
    for (std::size_t tried = 0; tried < options_.buckets; ++tried) {
      char* const bucket = window_.local() + PlaceOf(rank_, slot).at;
      auto* const header = reinterpret_cast<std::uint64_t*>(bucket);
      if (header[0] == kFree) {
        if (!create) return true;
        header[0] = kReady;
        header[1] = key;
      }
      if (header[1] == key) {
        merge(bucket + kHeaderBytes);
        return true;
      }
      slot = slot + 1 == options_.buckets ? 0 : slot + 1;
    }
    return false;
  }

  // Calls use(key, value) for each of this rank's part.
  template <typename Use>
  void ForOwn(Use&& use) {
    for (std::size_t slot = 0; slot < options_.buckets; ++slot) {
      char* const bucket = window_.local() + PlaceOf(rank_, slot).at;
      const auto* const header = reinterpret_cast<const std::uint64_t*>(bucket);
      if (header[0] != kFree) use(header[1], bucket + kHeaderBytes);
    }
  }

  // Makes this rank's part empty; between barriers.
  void Clear() {
    std::memset(window_.local() + options_.start, 0, options_.buckets * bucket_bytes_);
  }

  int RankOf(std::uint64_t hash) const {
    if (options_.spread == Spread::kAll || ranks_ == 1)
      return static_cast<int>((hash >> 40) % ranks_);
    return static_cast<int>((static_cast<std::uint64_t>(rank_) + 1 + (hash >> 40) % (ranks_ - 1)) %
                            ranks_);
  }

 private:
  static constexpr std::size_t kHeaderBytes = 16;  // State and key.
  static constexpr std::size_t kLineBytes = 64;
  static constexpr std::uint64_t kFree = 0;
  static constexpr std::uint64_t kClaimed = 1;
  static constexpr std::uint64_t kReady = 2;
  static constexpr std::uint64_t kReader = 4;  // Above the state: how many read.

  std::size_t SlotOf(std::uint64_t hash) const {
    return static_cast<std::size_t>((hash & 0xffff'ffff) * options_.buckets >> 32);
  }
  Place PlaceOf(int rank, std::size_t slot) const {
    return {rank, options_.start + slot * bucket_bytes_};
  }
  std::uint64_t KeyAt(Place place) {
    std::uint64_t key = 0;
    window_.Get({place.rank, place.at + 8}, &key, 8);
    return key;
  }
  // What was read is this key's.
  bool Matches(std::uint64_t key, void* value) const {
    std::uint64_t found = 0;
    std::memcpy(&found, room_.data() + 8, 8);
    if (found != key) return false;
    std::memcpy(value, room_.data() + kHeaderBytes, options_.value_bytes);
    return true;
  }

  const int rank_;
  const std::uint64_t ranks_;
  Window& window_;
  const TableOptions options_;
  const std::size_t bucket_bytes_;
  std::vector<char> room_;  // A bucket on its way.
};

}  // namespace tidepool::baselines
