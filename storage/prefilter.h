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

// Options of a partition.
struct PrefilterOptions {
  PrefilterKind kind = PrefilterKind::kNone;
  std::uint64_t expected_keys = 0;  // Size of the first filter; 0: as small as possible.
  double false_positive_rate = limits::kFilterRateDefault;
};

// Kind and content of a prefilter.
struct PrefilterUsage {
  std::uint64_t bytes = 0;
  std::uint64_t bits_set = 0;
  double keys = 0;  // Estimated; keys that went and are not yet forgotten included.
  double false_positive_rate = 0;
  std::uint64_t generation = 0;  // How often another filter took its place.
};

// All keys of a partition: a key that it does not contain is surely absent. A filter cannot forget,
// so it is rebuilt from the keys when it errs more often than designed (with room for twice the
// present keys), or when more keys have gone than are left.
//
// The rebuild causes no pause: the next filter is filled bucket by bucket in background slices,
// while new keys enter both. Without memory for it the present filter stays, and errs more often.
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
  // For downloads. Bits are only ever set; a new filter has a new generation.
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
  // Begins a rebuild. True: it is due for a partition of `keys`, and there is memory for it.
  bool BeginRebuild(std::uint64_t keys);
  // Zeroes its memory ahead until `done()`: keys of a bucket would touch a block each, 10 us
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
  std::uint64_t bits_due_ = 0;        // Set bits at which the next filter is due.
  std::uint64_t removed_ = 0;         // Removed keys; at most as many are still contained.
  std::uint64_t removed_before_ = 0;  // Part of these that the next filter surely lacks.
  std::uint64_t walk_bucket_ = 0;
  std::uint32_t slices_to_wait_ = 0;
};

// Sighted keys: a key that is sighted for the first time need not be stored yet. Grows by filters
// of twice the size and half the errors. All filters are asked: the error rate is at most twice the
// design, and no sighting is forgotten.
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

  // In the background: adds a layer when the last layer is full, and zeroes its memory ahead until
  // `done()`. True: more to do.
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
  double rate_;  // Rate of the last layer.
  std::vector<std::unique_ptr<BlockFilter>> layers_;
  std::uint64_t bits_due_ = 0;  // Set bits of the last layer at which the next is due.
  std::uint32_t slices_to_wait_ = 0;
};

}  // namespace tidepool::storage
