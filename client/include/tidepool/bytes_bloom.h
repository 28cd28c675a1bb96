// A Bloom filter of byte strings: a set that answers "new" or "known" in about a byte per value.
//
//   auto filter = client.OpenOrCreate<BytesBloom>("seen", {.expected_items = 1'000'000});
//   Result<bool> is_new = filter->Insert(value);
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

// Size and load of a filter, over all its partitions.
struct BloomEstimate {
  double items = 0;                // Distinct values inserted, within about 1 %.
  double false_positive_rate = 0;  // Share of absent values that Contains reports as known now.
  std::uint64_t bytes = 0;         // Memory in the cluster.
  std::uint64_t bits_set = 0;
};

// The answers of MultiInsert and MultiContains, in the order of the values. Reading is thread-safe.
class TIDEPOOL_API BloomBatch {
 public:
  // A batch without values.
  BloomBatch() = default;
  BloomBatch(BloomBatch&&) noexcept = default;
  BloomBatch& operator=(BloomBatch&&) noexcept = default;

  std::size_t size() const { return size_; }
  // Returns true if the value is new (MultiInsert) or known (MultiContains); false if it failed.
  // REQUIRES: 0 <= i < size(), otherwise the program ends.
  bool operator[](std::size_t i) const;
  // Returns the number of values for which operator[] is true.
  std::size_t count() const;
  // Returns kOk if value `i` was answered, or its failure.
  Status status(std::size_t i) const;
  // Returns kOk, or the first failure with the value's index.
  Status FirstFailure() const;

 private:
  friend struct internal::Access;
  explicit BloomBatch(internal::CallRef call);

  internal::CallRef call_;
  std::size_t size_ = 0;
};

// A local copy of a filter; answers without a message, as of the download. Immutable and
// thread-safe.
class TIDEPOOL_API BloomCopy {
 public:
  BloomCopy(BloomCopy&&) noexcept = default;
  BloomCopy& operator=(BloomCopy&&) noexcept = default;

  // Returns false if the value was surely not inserted before the download began.
  bool Contains(std::string_view value) const;
  std::size_t bytes() const;

 private:
  friend class BytesBloom;
  explicit BloomCopy(std::vector<std::vector<std::byte>> partitions)
      : partitions_(std::move(partitions)) {}
  std::vector<std::vector<std::byte>> partitions_;
};

// A namespace of kind bloom. NamespaceOptions::expected_items and false_positive_rate fix its size:
// after expected_items distinct values, Contains reports this share of absent values as known; with
// more values, a larger share. Inserted values are always known. Values cannot be removed or
// listed. All memory is allocated at creation, so an insert never fails for lack of memory.
//
// Insert is atomic: of all inserts of one value, at any time and from any client, at most one
// returns "new". Exactly one does unless the filter errs.
//
// Threads, lifetime, consistency, memory and errors: as BytesMap. An Insert that ends with kUnknown
// may have taken effect; then no later Insert of its value returns "new".
class TIDEPOOL_API BytesBloom {
 public:
  static constexpr NamespaceKind kKind = NamespaceKind::kBloom;

  explicit BytesBloom(Namespace space) : space_(std::move(space)) {}
  const Namespace& space() const { return space_; }

  // Returns true if the value is new. Values have at most 16,384 bytes.
  Result<bool> Insert(std::string_view value, const CallOptions& options = {}) const;
  Future<bool> InsertAsync(std::string_view value, const CallOptions& options = {}) const;
  // Returns false if the value was surely never inserted.
  Result<bool> Contains(std::string_view value, const CallOptions& options = {}) const;
  Future<bool> ContainsAsync(std::string_view value, const CallOptions& options = {}) const;

  // Cost far less per value than single calls. A value that occurs twice in a batch is new at most
  // once.
  BloomBatch MultiInsert(std::span<const std::string_view> values,
                         const CallOptions& options = {}) const;
  Future<BloomBatch> MultiInsertAsync(std::span<const std::string_view> values,
                                      const CallOptions& options = {}) const;
  BloomBatch MultiContains(std::span<const std::string_view> values,
                           const CallOptions& options = {}) const;
  Future<BloomBatch> MultiContainsAsync(std::span<const std::string_view> values,
                                        const CallOptions& options = {}) const;

  // Returns a handle that collects inserts and sends them by the hundreds (buffered.h). Such
  // inserts do not report whether their value is new.
  BufferedBytesBloom Buffered(const BufferedOptions& options = {}) const {
    return BufferedBytesBloom(space_, options);
  }

  // Adds all values of `other` to this filter. The daemons do it partition by partition without
  // moving the filters. The timeout is per piece of some 512 KiB. May be repeated, also after a
  // failure.
  // Returns: kOk; kFailedPrecondition (the filters have different options, or were created while
  // different nodes were up, so they lie on different cores); kInvalidArgument (`other` is of
  // another cluster).
  Status Union(const BytesBloom& other, const CallOptions& options = {}) const;

  // Estimates the number of distinct values and the error rate from the bits set.
  Result<BloomEstimate> Estimate(const CallOptions& options = {}) const;
  Future<BloomEstimate> EstimateAsync(const CallOptions& options = {}) const;

  // Downloads the whole filter, for programs with many lookups: expected_items bytes and more.
  // Values inserted meanwhile may be missing. The timeout is per piece.
  // Errors: kResourceExhausted (no memory for the copy).
  Result<BloomCopy> Download(const CallOptions& options = {}) const;

 private:
  Namespace space_;
};

}  // namespace tidepool
