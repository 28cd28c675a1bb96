// Filters of split blocks that stand beside a partition's records, as an option of its namespace.
//
// daemon's handlers -> partition -> HashStore -> [AbsentFilter, AdmissionFilter] -> BlockFilter
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "proto/base/result.h"
#include "storage/block_filter.h"
#include "storage/core_memory.h"

namespace tidepool::storage {

enum class PrefilterKind : std::uint8_t { kNone, kAbsent, kAdmit };

// Of one partition.
struct PrefilterOptions {
  PrefilterKind kind = PrefilterKind::kNone;
  std::uint64_t expected_keys = 0;  // What the first filter is made for; 0: as small as can be.
  double false_positive_rate = limits::kFilterRateDefault;
};

// What a prefilter is and holds.
struct PrefilterUsage {
  std::uint64_t bytes = 0;
  std::uint64_t bits_set = 0;
  double keys = 0;  // Estimated; keys that went and are not yet forgotten included.
  double false_positive_rate = 0;
  std::uint64_t generation = 0;  // How often another filter took its place.
};

// All keys of a partition: what it does not contain is surely absent. A filter cannot forget, so it
// is made anew from the keys when it errs more often than it was made for (it then has room for
// twice the keys there are), or when more keys have gone than are left.
//
// That takes no pause: the next filter is filled bucket by bucket in background slices, while keys
// that come enter both. Without memory for it the present one stays, and errs more often.
//
// Owner core only. A key that is there is contained at every moment.
class AbsentFilter {
 public:
  // Made smaller than `expected_keys` asks for where memory does not allow it.
  // Returns: kResourceExhausted (not even the smallest).
  static Result<std::unique_ptr<AbsentFilter>> Create(const PrefilterOptions& options,
                                                      CoreMemory& memory);

  void Prefetch(std::uint64_t hash) const { filter_->Prefetch(hash); }
  // False: no key of this hash is there.
  bool MayContain(std::uint64_t hash) const { return filter_->Contains(hash); }
  // For downloads. Its bits are only ever set; another one has another generation.
  const BlockFilter& filter() const { return *filter_; }
  std::uint64_t generation() const { return generation_; }

  void NoteAdded(std::uint64_t hash) {
    filter_->InsertAndTell(hash);
    if (next_ != nullptr) next_->InsertAndTell(hash);
  }
  void NoteRemoved() { ++removed_; }

  // ---- Making the next filter: BeginRebuild, TouchNext, AddAgain for every key that is there,
  // FinishRebuild.
  bool rebuilding() const { return next_ != nullptr; }
  // True if it has begun: one is due for a partition of `keys`, and there is memory for it.
  bool BeginRebuild(std::uint64_t keys);
  // Zeroes its memory ahead until `done()`: keys of one bucket would touch a block each, 10 us
  // apiece. True: more to do.
  bool TouchNext(absl::FunctionRef<bool()> done) { return next_->TouchSlice(done); }
  void AddAgain(std::uint64_t hash) { next_->InsertAndTell(hash); }
  // The walk over the keys stands before this bucket.
  std::uint64_t* walk_bucket() { return &walk_bucket_; }
  void FinishRebuild();

  // Frees the filter that was replaced until `done()`. True: more to do.
  bool FreeReplaced(absl::FunctionRef<bool()> done);
  // Gives all memory back until `done()`, after which only this and the destructor may be called.
  // True: more to do.
  bool FreeSlice(absl::FunctionRef<bool()> done);

  std::uint64_t allocated_bytes() const;
  PrefilterUsage usage() const;
  void CheckInvariants() const;

 private:
  AbsentFilter(const PrefilterOptions& options, CoreMemory& memory)
      : options_(options), memory_(memory) {}
  void SetDue();

  const PrefilterOptions options_;
  CoreMemory& memory_;
  std::unique_ptr<BlockFilter> filter_;
  std::unique_ptr<BlockFilter> next_;      // While one is made.
  std::unique_ptr<BlockFilter> replaced_;  // While its memory is given back.
  std::uint64_t generation_ = 0;
  std::uint64_t bits_due_ = 0;        // Set bits at which the next one is due.
  std::uint64_t removed_ = 0;         // Keys, at most so many of which are still contained.
  std::uint64_t removed_before_ = 0;  // Of them, those that the next filter surely has not.
  std::uint64_t walk_bucket_ = 0;
  std::uint32_t slices_to_wait_ = 0;
};

// The keys that were sighted: a key whose first sighting it is need not be stored yet. Grows by
// filters of twice the size and half the errors, of which all are asked, so that it errs at most
// twice as often as it was made for, and forgets nothing.
//
// Owner core only.
class AdmissionFilter {
 public:
  // As AbsentFilter::Create.
  static Result<std::unique_ptr<AdmissionFilter>> Create(const PrefilterOptions& options,
                                                         CoreMemory& memory);

  void Prefetch(std::uint64_t hash) const { layers_.back()->Prefetch(hash); }
  // True: it was sighted before, or the filter errs. False: this was the first time.
  bool Sight(std::uint64_t hash);

  // In the background: makes another layer where the last one is full, and zeroes its memory ahead
  // until `done()`. True: more to do.
  bool GrowSlice(absl::FunctionRef<bool()> done);
  bool FreeSlice(absl::FunctionRef<bool()> done);

  std::uint64_t allocated_bytes() const;
  PrefilterUsage usage() const;
  void CheckInvariants() const;

 private:
  AdmissionFilter(const PrefilterOptions& options, CoreMemory& memory)
      : memory_(memory), rate_(options.false_positive_rate) {}
  void SetDue();
  void GrowIfDue();

  CoreMemory& memory_;
  double rate_;  // Of the last layer.
  std::vector<std::unique_ptr<BlockFilter>> layers_;
  std::uint64_t bits_due_ = 0;  // Set bits of the last layer at which another one is due.
  std::uint32_t slices_to_wait_ = 0;
};

}  // namespace tidepool::storage
