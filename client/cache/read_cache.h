// Reads made under the promise that no process writes (tidepool/promise.h).
//
//   calls -> [ReadCache]
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "proto/base/ids.h"
#include "proto/wire/group.h"

namespace tidepool::internal {

// Thread-safety: any number of threads.
//
// Holds at most `bytes_max`. Each stripe has two generations, and drops the older generation when
// the younger generation fills half of the stripe's share. A hit moves its record to the younger
// generation.
class ReadCache {
 public:
  // Result of the read of a key.
  struct Read {
    bool found = false;  // False: the key is absent.
    wire::ValueKind kind = wire::ValueKind::kBytes;
    Lsn version;
    std::string bytes;
  };
  using ReadPtr = std::shared_ptr<const Read>;

  explicit ReadCache(std::size_t bytes_max) : stripe_bytes_max_(bytes_max / kStripes) {}
  ReadCache(const ReadCache&) = delete;
  ReadCache& operator=(const ReadCache&) = delete;

  // Null: it was not read in this round.
  ReadPtr Find(std::string_view key);

  // Returns the number of writes so far. A read is kept only if the number did not change during
  // it, so a program finds its own writes.
  std::uint64_t writes() const { return writes_.load(std::memory_order_acquire); }
  void Insert(std::string_view key, std::uint64_t writes_before, Read read);

  // Before a write of the program itself is started, and again after that.
  void NoteWrite(std::string_view key);
  void Clear();

 private:
  static constexpr std::size_t kStripes = 16;
  // Overhead of an entry: node, bucket, two strings, the counted object.
  static constexpr std::size_t kEntryBytes = 192;

  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  using Generation = std::unordered_map<std::string, ReadPtr, TextHash, std::equal_to<>>;
  struct Stripe {
    std::mutex mutex;
    Generation young;
    Generation old;
    std::size_t young_bytes = 0;
  };

  Stripe& StripeOf(std::string_view key) { return stripes_[TextHash()(key) / 64 % kStripes]; }
  void Keep(Stripe* stripe, std::string key, ReadPtr read);

  const std::size_t stripe_bytes_max_;
  std::atomic<std::uint64_t> writes_{0};
  std::array<Stripe, kStripes> stripes_;
};

}  // namespace tidepool::internal
