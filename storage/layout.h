// Layout of the bytes that an owner core shares with readers: records, buckets, segments, guard and
// lease words.
//
// All of it lies in arenas (arena.h), which processes of the same user on the node may map
// read-only, and later on devices. Each structure therefore has an exact layout without pointers.
// This is the only header of the storage floor that the client may include.
//
// Writer's order, for readers that hold no lock: bytes of a record -> slot (release) -> answer. A
// published record changes only under its odd sequence, a slot changes its place or tag only under
// its home bucket's odd sequence, a segment's word is raised before its memory is used again.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "proto/base/bytes.h"
#include "proto/base/limits.h"

namespace tidepool::storage {

// ---- Records.

enum class RecordType : std::uint8_t {
  kEnd = 0,        // End of this segment's records (fresh memory is zero).
  kPad = 1,        // Skips `value_bytes`, to a 4 KiB boundary.
  kPut = 2,        // Key and value.
  kPutExtent = 3,  // Key, links to the extent's segments (ExtentLink), the value's remainder.
  kTombstone = 4,  // Key only; see TombstoneBelow.
  kDrop = 5,       // Partition: its records in segments with numbers below `lsn` are gone.
  kLease = 6,      // Key of an item that was delivered, and its LeaseNote.
};

enum RecordFlag : std::uint8_t {
  kRecordExpiry = 1 << 0,  // An 8-byte trailer: absolute wall time in ms.
  kRecordClient = 1 << 1,  // A 16-byte trailer: session and sequence.
  kRecordMore = 1 << 2,    // Not the last record of an atomic batch.
  kRecordI64 = 1 << 3,     // The value is a signed counter of 8 bytes.
  kRecordF64 = 1 << 4,     // The value is a floating-point counter of 8 bytes.
  kRecordCopy = 1 << 5,    // In the read cache: copy of a device record. Never on a device.
  kRecordKeyed = 1 << 6,   // Of a kind ordered by keys: footers have the key.
};
inline constexpr std::uint8_t kCounterFlags = kRecordI64 | kRecordF64;

// Followed by the key, the stored value, zero bytes up to a multiple of 8, then the trailers in the
// order of their flags. All of it is written before a slot refers to it. Later only `sequence`,
// `lsn`, `value_bytes`, `flags`, the value and the expiry change, under an odd `sequence`.
struct RecordHeader {
  std::uint32_t crc32c;  // Of all but itself and the sequence; made when the segment is frozen.
                         // Of a copy in the read cache this and `reserved` are its home's location.
  std::uint32_t sequence;     // Odd while the record is being changed in place; see kSequenceRead.
  std::uint64_t lsn;          // Version: Lsn::value().
  std::uint32_t value_bytes;  // Whole value, extents included; see TombstoneBelow.
  std::uint16_t key_bytes;
  RecordType type;
  std::uint8_t flags;
  std::uint32_t partition;  // PartitionId::value().
  std::uint32_t reserved;   // 0, but for copies and tombstones.
};
static_assert(sizeof(RecordHeader) == 32);
static_assert(alignof(RecordHeader) == 8);
static_assert(offsetof(RecordHeader, sequence) == 4);
static_assert(offsetof(RecordHeader, lsn) == 8);
static_assert(offsetof(RecordHeader, value_bytes) == 16);
static_assert(offsetof(RecordHeader, key_bytes) == 20);
static_assert(offsetof(RecordHeader, type) == 22);
static_assert(offsetof(RecordHeader, flags) == 23);
static_assert(offsetof(RecordHeader, partition) == 24);
static_assert(std::is_trivially_copyable_v<RecordHeader>);
static_assert(std::has_unique_object_representations_v<RecordHeader>);  // No padding.

// A bit of the sequence, which no checksum covers: the record was read since it came to its place.
// The owner sets it beside the other bits; a reader sees it as a further change.
inline constexpr std::uint32_t kSequenceRead = 1u << 31;

// A copy has no checksum of its own: there, and in `reserved`, stands the location of its home, the
// record that it is a copy of.
constexpr bool IsCopy(const RecordHeader& record) { return (record.flags & kRecordCopy) != 0; }
constexpr std::uint64_t HomeOf(const RecordHeader& copy) {
  return copy.crc32c | std::uint64_t{copy.reserved} << 32;
}
constexpr void SetHome(RecordHeader& copy, std::uint64_t home) {
  copy.crc32c = static_cast<std::uint32_t>(home);
  copy.reserved = static_cast<std::uint32_t>(home >> 32);
}

// A tombstone hides records in segments with numbers below this bound; without these segments it is
// useless. It stands in place of the value's size, and in `reserved`.
constexpr std::uint64_t TombstoneBelow(const RecordHeader& tombstone) {
  return tombstone.reserved | std::uint64_t{tombstone.value_bytes} << 32;
}
constexpr void SetTombstoneBelow(RecordHeader& tombstone, std::uint64_t number) {
  tombstone.reserved = static_cast<std::uint32_t>(number);
  tombstone.value_bytes = static_cast<std::uint32_t>(number >> 32);
}

// State of a queue item that was delivered under a lease.
struct LeaseNote {
  std::uint64_t deadline_ms = 0;    // By the owner's wall time; 0: it is ready again.
  std::uint64_t visibility_ms = 0;  // Duration of a lease again under a new owner.
  std::uint64_t consumer = 0;       // The caller's identifier of the consumer.
  std::uint64_t deliveries = 0;     // Including this delivery.
  std::uint64_t value_bytes = 0;    // Size of the item, whose record may not be in DRAM.
};
static_assert(sizeof(LeaseNote) == 40);
static_assert(std::has_unique_object_representations_v<LeaseNote>);

inline constexpr std::size_t kRecordAlign = 8;
inline constexpr std::size_t kExpiryTrailerBytes = 8;
inline constexpr std::size_t kClientTrailerBytes = 16;

constexpr std::size_t TrailerBytes(std::uint8_t flags) {
  return ((flags & kRecordExpiry) != 0 ? kExpiryTrailerBytes : 0) +
         ((flags & kRecordClient) != 0 ? kClientTrailerBytes : 0);
}

// Returns the bytes of a record in its segment. `stored_bytes`: value bytes in the record.
constexpr std::size_t RecordBytes(std::size_t key_bytes, std::size_t stored_bytes,
                                  std::uint8_t flags) {
  return AlignUp(sizeof(RecordHeader) + key_bytes + stored_bytes, kRecordAlign) +
         TrailerBytes(flags);
}

// ---- Segments.

// Returns whether the stream (segment.h) has segments that outlive their daemon on a device.
inline constexpr std::uint8_t kFirstDurableStream = 5;
inline constexpr std::uint8_t kLastDurableStream = 6;
constexpr bool IsDurableStream(std::uint8_t stream) {
  return stream >= kFirstDurableStream && stream <= kLastDurableStream;
}

enum class SegmentKind : std::uint8_t { kLog = 1, kExtent = 2 };

// The first 64 bytes of every segment. With it a device needs no stored segment table.
struct SegmentHeader {
  std::uint32_t magic;
  std::uint32_t crc32c;  // Made when the segment is frozen.
  std::uint64_t number;  // Given once: grows with each segment that the core begins.
  std::uint64_t incarnation;
  std::uint16_t core;
  std::uint8_t stream;
  SegmentKind kind;
  std::uint32_t index;  // Its index in the segment table: the high bits of its locations.
  std::uint64_t reserved[4];
};
static_assert(sizeof(SegmentHeader) == 64);
static_assert(std::has_unique_object_representations_v<SegmentHeader>);
inline constexpr std::uint32_t kSegmentMagic = 0x53505431;  // "1TPS"
// Extent segments keep a CRC per 64 KiB between the header and the value.
inline constexpr std::size_t kExtentHeaderBytes = 256;
inline constexpr std::size_t kExtentPieceBytes = 64 * 1024;

// A sealed segment of a durable stream ends with a footer (durable/footer.h): an entry for each
// record, then a trailer.
inline constexpr std::size_t kFooterEntryBytes = 32;
inline constexpr std::size_t kFooterTrailerBytes = 64;
// Returns the bytes of this entry, with the key and its size and the lease note, where present.
constexpr std::size_t FooterEntryBytes(RecordType type, std::uint8_t flags, std::size_t key_bytes) {
  if ((flags & kRecordKeyed) == 0) return kFooterEntryBytes;
  return kFooterEntryBytes + AlignUp(key_bytes + sizeof(std::uint16_t), kRecordAlign) +
         (type == RecordType::kLease ? sizeof(LeaseNote) : 0);
}
constexpr std::size_t FooterEntryBytes(const RecordHeader& record) {
  return FooterEntryBytes(record.type, record.flags, record.key_bytes);
}
inline constexpr std::size_t kFooterEntryBytesMax =
    FooterEntryBytes(RecordType::kPut, kRecordKeyed, limits::kDurableOrderedKeyBytesMax);

// Entry per segment, in pages of 4 KiB. `word` is [generation | resident]; `frame` is the node
// offset of the segment's memory while it is resident.
struct SegmentEntry {
  std::uint64_t word;
  std::uint64_t frame;
};
static_assert(sizeof(SegmentEntry) == 16);
inline constexpr std::uint32_t kSegmentEntriesPerPage = 4096 / sizeof(SegmentEntry);
inline constexpr std::uint64_t kSegmentResident = 1;
inline constexpr std::uint64_t kSegmentGenerationStep = 2;

// Packed link from a record to a segment of its extent. The number is included: if the index has
// another number, the record is older than the segment. For a recovered record only the number
// counts.
struct ExtentLink {
  std::uint64_t number;
  std::uint32_t index;
};
inline constexpr std::size_t kExtentLinkBytes = 12;
inline ExtentLink LoadExtentLink(const std::byte* at) {
  return {LoadUnaligned<std::uint64_t>(at), LoadUnaligned<std::uint32_t>(at + 8)};
}
inline void StoreExtentLink(std::byte* at, const ExtentLink& link) {
  StoreUnaligned(at, link.number);
  StoreUnaligned(at + 8, link.index);
}

// How a value above the extent threshold is spread over dedicated segments and its log record.
struct ExtentShape {
  std::uint64_t segments;         // Dedicated, all full but possibly the last.
  std::uint64_t remainder_bytes;  // In the log record, after the links.
  constexpr std::uint64_t link_bytes() const { return segments * kExtentLinkBytes; }
  // Bytes that the record itself stores.
  constexpr std::uint64_t stored_bytes() const { return link_bytes() + remainder_bytes; }
};

constexpr std::uint64_t ExtentThresholdBytes(std::uint64_t segment_bytes) {
  return segment_bytes / 2;
}
constexpr std::uint64_t ExtentSegmentCapacity(std::uint64_t segment_bytes) {
  return segment_bytes - kExtentHeaderBytes;
}
// A remainder above the threshold gets a segment of its own: it would not fit a log segment beside
// a large key.
constexpr ExtentShape ShapeOfExtent(std::uint64_t value_bytes, std::uint64_t segment_bytes) {
  const std::uint64_t capacity = ExtentSegmentCapacity(segment_bytes);
  const std::uint64_t rest = value_bytes % capacity;
  if (rest > ExtentThresholdBytes(segment_bytes)) return {value_bytes / capacity + 1, 0};
  return {value_bytes / capacity, rest};
}

// ---- Index.

// A slot is one word: [tag:24 | location:40]; 0 is empty. A location is [segment index | offset in
// 8-byte units], split at log2(segment bytes / 8); offset 0 is the segment's header, so no record
// has location 0.
inline constexpr int kLocationBits = 40;
inline constexpr int kTagBits = 24;
inline constexpr std::uint64_t kLocationMask = (1ull << kLocationBits) - 1;
inline constexpr std::uint64_t kTagMask = (1ull << kTagBits) - 1;
static_assert(kLocationBits + kTagBits == 64);

constexpr std::uint64_t SlotLocation(std::uint64_t slot) { return slot & kLocationMask; }
constexpr std::uint64_t SlotTag(std::uint64_t slot) { return slot >> kLocationBits; }
constexpr std::uint64_t MakeSlot(std::uint64_t tag, std::uint64_t location) {
  return tag << kLocationBits | location;
}
// Returns the tag of a key in a bucket whose header has `tag_shift`.
constexpr std::uint64_t TagOf(std::uint64_t hash, unsigned tag_shift) {
  return hash >> tag_shift & kTagMask;
}

inline constexpr int kSlotsPerBucket = 7;
// The header is [sequence:15 | depth:6 | tag shift:6 | overflow link:37]; the link is the node
// offset of the next bucket of the chain in units of 64 bytes, 0 is none. Only a home bucket's
// sequence, depth and tag shift count.
struct alignas(64) Bucket {
  std::uint64_t header;
  std::uint64_t slots[kSlotsPerBucket];
};
static_assert(sizeof(Bucket) == 64);

namespace bucket {
inline constexpr int kLinkBits = 37;
inline constexpr int kShiftBits = 6;
inline constexpr int kDepthBits = 6;
inline constexpr std::uint64_t kLinkMask = (1ull << kLinkBits) - 1;
inline constexpr int kSequencePosition = kLinkBits + kShiftBits + kDepthBits;
inline constexpr std::uint64_t kSequenceStep = 1ull << kSequencePosition;

constexpr std::uint64_t Link(std::uint64_t header) { return header & kLinkMask; }
constexpr unsigned TagShift(std::uint64_t header) {
  return static_cast<unsigned>(header >> kLinkBits) & ((1u << kShiftBits) - 1);
}
constexpr unsigned Depth(std::uint64_t header) {
  return static_cast<unsigned>(header >> (kLinkBits + kShiftBits)) & ((1u << kDepthBits) - 1);
}
constexpr bool InFlux(std::uint64_t header) { return (header & kSequenceStep) != 0; }
constexpr std::uint64_t WithLink(std::uint64_t header, std::uint64_t link) {
  return (header & ~kLinkMask) | link;
}
// Keeps the sequence of `header`.
constexpr std::uint64_t Make(std::uint64_t header, unsigned depth, unsigned tag_shift,
                             std::uint64_t link) {
  return (header >> kSequencePosition << kSequencePosition) |
         std::uint64_t{depth} << (kLinkBits + kShiftBits) | std::uint64_t{tag_shift} << kLinkBits |
         link;
}
}  // namespace bucket

// Home buckets of an index in pieces of 64, 64, 128, 256 ... up to a block, then in whole blocks: a
// small partition stays small and no bucket is ever copied.
struct BucketPlaces {
  static constexpr std::uint64_t kSmallUnit = 64;  // Buckets of the first piece: 4 KiB.

  constexpr explicit BucketPlaces(std::uint64_t block_bytes)
      : block_buckets(block_bytes / sizeof(Bucket)),
        block_shift(std::countr_zero(block_buckets)),
        small_pieces(
            static_cast<std::uint64_t>(std::bit_width((block_buckets - 1) / kSmallUnit) + 1)) {}

  // Chosen without a branch: in an index of some blocks the processor could not foresee it, which
  // cost a quarter of the rate of batches.
  constexpr std::size_t PieceOf(std::uint64_t bucket) const {
    const std::uint64_t block = bucket >> block_shift;
    const auto small = static_cast<std::uint64_t>(
        63 - __builtin_clzll(bucket / kSmallUnit << 1 | 1));  // bit_width(bucket / 64)
    const std::uint64_t in_block = 0 - static_cast<std::uint64_t>(block != 0);
    return (in_block & (block + small_pieces - 1)) | (~in_block & small);
  }
  constexpr std::uint64_t PieceBegin(std::size_t piece) const {
    if (piece >= small_pieces) return (piece - small_pieces + 1) << block_shift;
    return piece == 0 ? 0 : kSmallUnit << (piece - 1);
  }
  constexpr std::uint64_t PieceBytes(std::size_t piece) const {
    if (piece >= small_pieces) return block_buckets * sizeof(Bucket);
    return (piece == 0 ? kSmallUnit : kSmallUnit << (piece - 1)) * sizeof(Bucket);
  }

  std::uint64_t block_buckets;
  int block_shift;
  std::uint64_t small_pieces;
};

// ---- Start of direct reads (client/direct/README.md).

// A list of node offsets, published by a word: [capacity in entries:24 | its node offset / 8:40].
// An entry of 0 is empty; an entry that is set never changes. A list that outgrows its room is
// copied and the word changed; the old copy stays as it is until the list is gone.
namespace directory {
inline constexpr int kOffsetBits = 40;
inline constexpr std::uint64_t kEntriesMax = (1ull << 24) - 1;
constexpr std::uint64_t Make(std::uint64_t node_offset, std::uint64_t room) {
  return room << kOffsetBits | node_offset / sizeof(std::uint64_t);
}
constexpr std::uint64_t Room(std::uint64_t word) { return word >> kOffsetBits; }
constexpr std::uint64_t EntryOffset(std::uint64_t word, std::uint64_t entry) {
  return ((word & ((1ull << kOffsetBits) - 1)) + entry) * sizeof(std::uint64_t);
}
}  // namespace directory

// How far an index has grown: [buckets split of this level:58 | level:6].
namespace growth {
inline constexpr int kLevelBits = 6;
inline constexpr unsigned kLevelMax = 58;
constexpr std::uint64_t Make(unsigned level, std::uint64_t split) {
  return split << kLevelBits | level;
}
constexpr unsigned Level(std::uint64_t word) {
  return static_cast<unsigned>(word) & ((1u << kLevelBits) - 1);
}
constexpr std::uint64_t Split(std::uint64_t word) { return word >> kLevelBits; }

struct Home {
  std::uint64_t bucket;  // Its number.
  unsigned depth;        // That its header says, unless it is just being split.
};
// REQUIRES: a level of at most kLevelMax.
constexpr Home HomeOf(std::uint64_t word, std::uint64_t hash) {
  const unsigned level = Level(word);
  const std::uint64_t low = hash & ((1ull << level) - 1);
  const std::uint64_t was_split = low < Split(word) ? 1 : 0;
  return {low | (hash & (was_split << level)), level + static_cast<unsigned>(was_split)};
}
}  // namespace growth

// Root of a core or a partition, in an arena. A partition's root may serve another partition later.
struct alignas(64) SharedRoot {
  static constexpr std::size_t kEntries = 23;

  std::uint64_t word;       // Core: lease, monotonic ns, 0: no lease. Partition: guard.
  std::uint64_t growth;     // Growth of an index; see namespace growth.
  std::uint64_t directory;  // Of a core: pages of its segment table. Of a partition: pieces of its
                            // index, or blocks of its filter. 0: not shown.
  std::uint64_t entries[kEntries];  // Place of the directory while it is no larger.
  // Core: a robust mutex that its thread holds for life. The kernel sets kOwnerDied in its first
  // word when the thread ends without release, before the process's file locks go: that is, before
  // another owner can take its place. Otherwise readers of a killed process's memory would continue
  // until its lease ends. 0: not held.
  std::uint64_t life[5];
  // Core: its time of expiry minus the monotonic clock, in ns as two's complement, for readers that
  // compare expiry times like the owner. 0: not shown; the machine's clock is the time.
  std::uint64_t wall_offset_ns;
};
static_assert(sizeof(SharedRoot) == 256);
inline constexpr std::uint64_t kOwnerDied = 0x4000'0000;  // FUTEX_OWNER_DIED.

// ---- Guard words: each partition has a word [serving_epoch:40 | batches:23 | busy:1]. Changed for
// good before a move, drop or close. A serving_epoch is a number that a guard gets when it begins
// to serve under a term, unique in the process. A reader with a root that serves another partition
// by now, or the same partition again, therefore sees a change. The batch count distinguishes two
// states of rest with a batch between them.
inline constexpr std::uint64_t kGuardBusy = 1;
inline constexpr std::uint64_t kGuardGone = ~0ull;
inline constexpr int kGuardBatchBits = 24;  // With busy.
inline constexpr std::uint64_t kServingEpochMax = (1ull << (64 - kGuardBatchBits)) - 2;
constexpr std::uint64_t MakeGuard(std::uint64_t serving_epoch) {
  return serving_epoch << kGuardBatchBits;
}
constexpr std::uint64_t ServingEpochOf(std::uint64_t guard) { return guard >> kGuardBatchBits; }

// Parameters for a reader of a partition, from its owner: valid until the guard has another
// serving_epoch.
struct DirectView {
  static constexpr std::uint8_t kMayLeave = 1;  // Its records may leave DRAM: see DirectReader.
  static constexpr std::uint8_t kInPlace = 2;   // Small values are overwritten where they are.

  std::uint64_t core_root;  // Node offsets.
  std::uint64_t root;
  std::uint64_t serving_epoch;
  std::uint64_t split_blocks;  // Blocks of a filter; 0: it has records.
  std::uint64_t hash_mask;     // Bits of a hash that its index uses: all but in tests.
  std::uint64_t term;          // Of the serving epoch. It tells which range of keys the view has.
  std::uint32_t partition;
  std::uint8_t block_shift;  // log2 of the bytes of a block or segment.
  std::uint8_t flags;
  std::uint16_t reserved;
};
static_assert(sizeof(DirectView) == 56);
static_assert(std::has_unique_object_representations_v<DirectView>);

}  // namespace tidepool::storage
