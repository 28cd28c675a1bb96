// Operations of an ordered partition: those of a hash partition, and runs of keys in order.
//
// daemon's handlers -> partition -> [OrderedStore] = HashStore + TreeIndex over the same locations.
// Single keys go through the tag index (a tree costs seven times as much), ranges through the tree.
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "storage/hash_store.h"
#include "storage/tree_index.h"

namespace tidepool::storage {

// Keys from `begin` up to but without `end`, as unsigned bytes in lexicographic order.
struct KeyRange {
  Bytes begin;
  bool after_begin = false;  // Without `begin` itself: to go on behind the last key seen.
  std::optional<Bytes> end;  // None: to the last key.
};

struct ScanOptions {
  KeyRange range;
  bool reverse = false;    // From the end of the range downwards.
  bool keys_only = false;  // Views hold nothing but the key: no record is read.
  std::uint64_t records_max = ~0ull;
};

// How far a call has come. The views are valid until the next call that changes this core's store,
// or BackgroundSlice.
struct RangeProgress {
  std::uint64_t records = 0;  // Accepted, counted or erased.
  // Scan: passed as well, but they are on a device and cannot be read.
  std::uint64_t unreadable = 0;
  bool done = false;  // The range is through.
  // The last key passed. To go on, upwards: begin = last with after_begin; downwards: end = last.
  // None: nothing was passed, ask for the same range again.
  std::optional<Bytes> last;
};

// Owner core only; inherits the rules of HashStore. Expired records are absent to all operations.
//
// Guarantees of a scan: each call sees the partition at one moment. Between calls keys may come, go
// and change. A key that is present from the first call to the last is seen exactly once, at its
// place in the order, however the tree grows or shrinks and records move. A key that comes or goes
// meanwhile is seen at most once.
//
// Every call is bounded: the next call continues, even when `records` is 0 (a run of expired
// records was passed). A call that meets a record which must be fetched ends there.
// Log::blocked() is true only if the call passed no record; the records ahead are then wanted
// too.
//
// Invariant: the tag index and the tree refer to the same records.
class OrderedStore final : public HashStore {
 public:
  // Visits up to `records_max` records (at most 4,096 per call, and as many expired records) until
  // the visitor refuses a record by returning false: that record is not passed. The visitor must
  // not call the store.
  RangeProgress Scan(const ScanOptions& asked, std::uint64_t now_ms,
                     absl::FunctionRef<bool(const RecordView&)> visitor);
  // The first or last key of a range is a scan of one record.

  // Counts upwards; at most about 1,024 leaves or records that may have expired per call, some
  // 100 us. Only records that can expire are read.
  RangeProgress CountRange(const KeyRange& range, std::uint64_t now_ms);

  // Erases upwards at most `records_max` records (4,096 per call), each as Delete does. Keys that
  // come behind `last` meanwhile stay. *code: kOk, or kResourceExhausted (namespaces with
  // tombstones only; `records` were erased).
  RangeProgress EraseRange(const KeyRange& range, std::uint64_t records_max, std::uint64_t now_ms,
                           StatusCode* code);

  // Returns a key to split the partition at, near the middle: as short as possible, above the lower
  // half and not above the upper half. Empty below two records.
  std::optional<std::vector<std::byte>> SplitKey() const;

  const TreeIndex& order() const { return tree_; }

  // Store
  bool valid() const override { return HashStore::valid() && tree_.valid(); }
  IndexUsage index_usage() const override;
  void Discard(std::uint64_t* slot, std::uint64_t location) override;
  bool FreeSlice(std::uint64_t* bucket, absl::FunctionRef<bool()> done) override;
  void CheckInvariants() const override;

 private:
  friend class Partition;

  class RecordKeys final : public TreeKeyReader {
   public:
    explicit RecordKeys(const Log& log) : locator_(log.segments().locator()) {}
    Bytes KeyAt(std::uint64_t location) const override {
      return Log::KeyOf(*locator_.At(location));
    }

   private:
    const SegmentTable::Locator locator_;
  };

  OrderedStore(Partition& partition, Log& log, CoreMemory& memory, const TagIndexOptions& options,
               const TreeIndexOptions& tree);

  TreeIndex::Place Begin(const KeyRange& range, TreeIndex::Ahead ahead) const {
    return range.after_begin ? tree_.UpperBound(range.begin, ahead)
                             : tree_.LowerBound(range.begin, ahead);
  }
  static constexpr std::size_t kRun = 128;
  struct Run;
  struct ScanState;
  void PrefetchHeader(std::uint64_t location) const;
  void PrefetchRest(std::uint64_t location) const;
  bool NeedsPlaces(const ScanOptions& options) const;
  void Collect(const ScanOptions& options, TreeIndex::Place* from, std::uint64_t records_max,
               Run* run) const;
  bool Show(const Run& run, bool keys_only, std::uint64_t now_ms,
            absl::FunctionRef<bool(const RecordView&)> visitor, ScanState* state);
  void ShowRecord(const RecordHeader& record, const TreeIndex::Entry& entry, RecordView* view);
  void WantRun(const Run& run, std::size_t first, bool keys_only);
  void WantFrom(TreeIndex::Place at, const KeyRange& range);

  const RecordKeys keys_;
  TreeIndex tree_;
  bool dropped_ = false;  // Records go without a change of the tree.
  std::vector<std::byte> erase_key_;
  std::vector<std::byte> erased_key_;  // Key erased before.
  TreeKeyBuffer last_key_;             // Target of RangeProgress::last.
  std::vector<std::byte> scan_begin_;
};

}  // namespace tidepool::storage
