// The look-up of a key in the memory of another node. Says which bytes to read next, and examines
// the bytes that came.
//
//   [RemoteLookup] <-> RemoteReader -> transport/remote_memory
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "client/direct/direct_reader.h"
#include "client/direct/remote_reader.h"
#include "proto/base/bytes.h"
#include "proto/base/split_block.h"
#include "proto/transport/remote_memory.h"
#include "storage/layout.h"

namespace tidepool::internal {

// Between two calls of Step all that it wanted has been read.
class RemoteLookup {
 public:
  static constexpr std::size_t kBucketsMax = 4;   // Bound on buckets of a chain.
  static constexpr std::size_t kSegmentsMax = 8;  // Bound on segments of the examined records.
  // Bytes of a lookup's buffer but for the record.
  static constexpr std::size_t kFixedBytes = 2048;

  using Parts = std::vector<transport::MemoryImporter::Part>;

  // `buffer` is its part of the importer's. `is_sampled`: the owner is to be asked.
  RemoteLookup(RemoteReader::Item& item, const transport::MemoryImporter& importer,
               MutableBytes buffer);

  // Appends the next wanted bytes to `parts`. False: the look-up has ended, and the item has the
  // result.
  bool Step(Parts* parts);

 private:
  enum class Stage : std::uint8_t {
    kBegin,
    kRoot,      // Has the partition's root, and perhaps a guess at the bucket.
    kEntry,     // Has an entry of the partition's directory.
    kBucket,    // Has a bucket of the chain.
    kLanes,     // Has a block of the filter.
    kCoreRoot,  // Has the root of the core, for its table of segments.
    kCorePage,  // Has an entry of the core's directory.
    kSegment,   // Has an entry of the table.
    kRecord,    // Has the beginning of a record.
    kValue,     // Has the missing part of the record, or the record a second time.
    kBuckets,   // Has all buckets of a chain without the key once more.
    kCheck,     // Has the words again that must not have changed.
    kDone,
  };
  // The buffer's front.
  struct Fixed {
    storage::SharedRoot root;
    storage::Bucket buckets[kBucketsMax];
    storage::Bucket buckets_again[kBucketsMax];
    storage::SegmentEntry segments_again[kSegmentsMax];
    storage::SharedRoot core_root;
    storage::RecordHeader header_again;
    // Single words, each once more.
    std::uint64_t guard_again;
    std::uint64_t home_again;  // Header.
    std::uint64_t slot_again;
    std::uint64_t frame_again;
    std::uint64_t life;  // Life of the owner's thread.
    std::uint64_t entry;
    storage::SegmentEntry segment;
    std::uint64_t lanes[kSplitBlockBytes / sizeof(std::uint64_t)];
  };
  static_assert(sizeof(Fixed) <= kFixedBytes);
  // A segment as it was believed to be.
  struct Believed {
    std::uint64_t index = 0;
    std::uint64_t offset = 0;  // Offset of the entry.
    storage::SegmentEntry entry{};
  };

  // Step after a stage. kAgain: from the beginning, a bounded number of times.
  enum class Next : std::uint8_t { kWait, kAgain, kDone };

  Next Refuse(DirectRefusal refusal);
  Next Again(DirectRefusal why);
  bool Want(std::uint64_t offset, std::size_t bytes, void* to);
  bool WantSlot();
  Next Waiting(Stage stage) {
    stage_ = stage;
    return Next::kWait;
  }
  bool IsFilter() const { return partition_.view_.split_blocks != 0; }

  Next Begin();
  Next OnRoot();
  Next GoToBucket();
  Next OnEntry();
  Next OnBucket();
  Next OnLanes();
  Next GoToLanes(std::uint64_t begin);
  Next Scan();
  Next LookAt(std::uint64_t slot);
  Next FetchSegment(std::uint64_t index);
  Next OnCoreRoot();
  Next OnCorePage();
  Next GoToSegment(std::uint64_t page);
  Next OnSegment();
  Next OnRecord();
  Next OnValue();
  Next OnEnd();
  Next OnBuckets();
  Next Check(bool found);
  Next OnCheck();
  std::size_t RecordRoom() const { return record_room_; }

  RemoteReader::Item& item_;
  RemotePartition& partition_;
  const transport::MemoryImporter& importer_;
  Fixed& fixed_;
  std::byte* const record_;
  const std::size_t record_room_;
  const std::uint64_t hash_;
  Parts* parts_ = nullptr;

  Stage stage_ = Stage::kBegin;
  DirectRefusal again_ = DirectRefusal::kUnsettled;
  int attempts_ = 0;
  int refreshes_ = 0;  // Refreshes of believed facts, which count for no attempt.

  // Values of the present attempt.
  std::uint64_t guard_ = 0;
  std::uint64_t piece_ = 0;  // Piece of the directory.
  bool bucket_guessed_ = false;
  storage::growth::Home home_{};
  std::uint64_t tag_ = 0;
  std::size_t buckets_ = 0;
  std::array<std::uint64_t, kBucketsMax> bucket_offsets_{};
  unsigned left_ = 0;  // Slots of the last bucket that are still to be looked at.
  std::uint64_t slot_word_ = 0;
  int slot_ = 0;
  std::uint64_t wanted_segment_ = 0;
  std::size_t believed_count_ = 0;
  std::array<Believed, kSegmentsMax> believed_{};
  std::uint64_t record_offset_ = 0;  // Node offset.
  std::size_t record_bytes_ = 0;     // Bytes read so far.
  std::uint64_t record_max_ = 0;     // Bytes to the end of its segment.
  storage::RecordHeader header_{};
  bool changes_in_place_ = false;
  bool found_ = false;
  bool filter_has_ = false;
};

}  // namespace tidepool::internal
