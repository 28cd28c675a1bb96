// A Bloom filter of byte strings: a set that says "new" or "known", in one byte or so per value.
//
// client.OpenOrCreate<BytesBloom>("seen", {.expected_items = 1'000'000}) -> [BytesBloom]
//   => the core that owns the value's partition
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "tidepool/buffered.h"
#include "tidepool/bytes_map.h"
#include "tidepool/export.h"
#include "tidepool/future.h"
#include "tidepool/namespace.h"
#include "tidepool/status.h"

namespace tidepool {

// What a filter is and holds, over all of its partitions.
struct BloomEstimate {
  double items = 0;                // Distinct values inserted; good to about 1 %.
  double false_positive_rate = 0;  // Share of other values that Contains takes for known now.
  std::uint64_t bytes = 0;         // Of the cluster's memory.
  std::uint64_t bits_set = 0;
};

// The answers of MultiInsert and MultiContains: one for each value, in their order. Reading is
// thread-safe.
class TIDEPOOL_API BloomBatch {
 public:
  // Of no value.
  BloomBatch() = default;
  BloomBatch(BloomBatch&&) noexcept = default;
  BloomBatch& operator=(BloomBatch&&) noexcept = default;

  std::size_t size() const { return size_; }
  // MultiInsert: the value is new. MultiContains: it is there. False also for one that failed.
  // 0 <= i < size(), else the program ends.
  bool operator[](std::size_t i) const;
  // For how many of them it is true.
  std::size_t count() const;
  // kOk if value `i` was answered, else why it was not.
  Status status(std::size_t i) const;
  // kOk, or the first of those that are not, with the value's number.
  Status FirstFailure() const;

 private:
  friend struct internal::Access;
  explicit BloomBatch(internal::CallRef call);

  internal::CallRef call_;
  std::size_t size_ = 0;
};

// All bits of a filter in this process: answers without asking anybody, as of the time of the
// download. Immutable; any number of threads.
class TIDEPOOL_API BloomCopy {
 public:
  BloomCopy(BloomCopy&&) noexcept = default;
  BloomCopy& operator=(BloomCopy&&) noexcept = default;

  // False: the value was surely not inserted before the download began.
  bool Contains(std::string_view value) const;
  std::size_t bytes() const;

 private:
  friend class BytesBloom;
  explicit BloomCopy(std::vector<std::vector<std::byte>> partitions)
      : partitions_(std::move(partitions)) {}
  std::vector<std::vector<std::byte>> partitions_;
};

// A namespace of kind bloom, made with NamespaceOptions::expected_items and false_positive_rate:
// after so many distinct values it errs for this share of the others, and for more of them after
// more values. It never errs the other way: what was inserted is known for ever. Values cannot be
// removed or listed. All memory is taken at creation, so an insert never fails for lack of it.
//
// Insert is atomic: of all who insert a value, at any time and from anywhere, at most one is told
// that it is new, and one is unless the filter errs.
//
// Threads, consistency, memory and how operations may end: as BytesMap. A kUnknown Insert may or
// may not have taken effect, and if it has, nobody is told "new" for its value any more.
class TIDEPOOL_API BytesBloom {
 public:
  static constexpr NamespaceKind kKind = NamespaceKind::kBloom;

  explicit BytesBloom(Namespace space) : space_(std::move(space)) {}
  const Namespace& space() const { return space_; }

  // Values have at most 16,384 bytes. Returns: whether the value is new.
  Result<bool> Insert(std::string_view value, const CallOptions& options = {}) const;
  Future<bool> InsertAsync(std::string_view value, const CallOptions& options = {}) const;
  // Returns: false if the value was surely never inserted.
  Result<bool> Contains(std::string_view value, const CallOptions& options = {}) const;
  Future<bool> ContainsAsync(std::string_view value, const CallOptions& options = {}) const;

  // Far cheaper per value than single calls. A value that stands twice in a batch is new at most
  // once.
  BloomBatch MultiInsert(std::span<const std::string_view> values,
                         const CallOptions& options = {}) const;
  Future<BloomBatch> MultiInsertAsync(std::span<const std::string_view> values,
                                      const CallOptions& options = {}) const;
  BloomBatch MultiContains(std::span<const std::string_view> values,
                           const CallOptions& options = {}) const;
  Future<BloomBatch> MultiContainsAsync(std::span<const std::string_view> values,
                                        const CallOptions& options = {}) const;

  // Inserts that travel by the hundreds and do not tell whether their value is new: see buffered.h.
  BufferedBytesBloom Buffered(const BufferedOptions& options = {}) const {
    return BufferedBytesBloom(space_, options);
  }

  // Takes over all that `other` holds at this time: every value that it knows is known here, too.
  // Done by the daemons, partition by partition, without moving the filters. The deadline is that
  // of each piece of some 512 KiB. May be repeated, also after a failure on the way.
  // Returns: kOk; kFailedPrecondition (made with other options, or while other nodes were up, so
  // that the two do not lie on the same cores), kInvalidArgument (`other` is of another cluster).
  Status Union(const BytesBloom& other, const CallOptions& options = {}) const;

  // How many distinct values it holds and how often it errs, from the number of bits set.
  Result<BloomEstimate> Estimate(const CallOptions& options = {}) const;
  Future<BloomEstimate> EstimateAsync(const CallOptions& options = {}) const;

  // The whole filter, for programs that look many values up: expected_items bytes and more. Values
  // inserted meanwhile may or may not be in it. The deadline is that of each piece.
  // kResourceExhausted: no memory for the copy.
  Result<BloomCopy> Download(const CallOptions& options = {}) const;

 private:
  Namespace space_;
};

}  // namespace tidepool
