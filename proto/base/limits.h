// The bounds that several parts must agree on, with the proofs that they fit together. A bound that
// one file alone depends on stands in that file.
//
// A limit that a user can meet is named in an error message; none is an option. What an option sets
// is in daemon/config/options.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tidepool::limits {

// Keys, values, names.
inline constexpr std::size_t kKeyBytesMax = 16'384;
// Of a durable namespace of kind ordered: the order of its keys is held in memory, where a record,
// with the rest of a longer key, need not be.
inline constexpr std::size_t kDurableOrderedKeyBytesMax = 400;
inline constexpr std::uint64_t kValueBytesMax = 1ull << 30;
inline constexpr std::size_t kNamespaceNameBytesMax = 200;
inline constexpr std::size_t kTypeNameBytesMax = 1'024;
inline constexpr std::uint32_t kPartitionsPerNamespaceMax = 4'096;
inline constexpr std::uint32_t kPartitionsPerCoreDefault = 4;
inline constexpr std::uint32_t kLanesMax = 64;  // Clients ask all of them where one has nothing.
// Where ranges of ordered namespaces begin, each and all of a namespace: every map carries them.
inline constexpr std::size_t kSplitKeyBytesMax = 1'024;
inline constexpr std::size_t kSplitKeysBytesMax = 512 * 1024;
inline constexpr std::uint32_t kNamespacesMax = (1u << 20) - 1;  // Ids ever given, not live ones.
inline constexpr std::uint32_t kTermMax = (1u << 20) - 1;
inline constexpr std::uint32_t kNodesMax = 1'024;
inline constexpr std::uint32_t kCoresPerNodeMax = 64;

// The widths that ids, locations and wire fields give to these (ids.h proves its own).
static_assert(kKeyBytesMax <= 0xffff && kValueBytesMax <= 0xffffffff);
static_assert(kNodesMax <= 0x10000 && kCoresPerNodeMax <= 0x10000);

// Frames. 60 KiB keeps a frame with UCX's own headers inside one 64 KiB TCP segment (TX_SEG_SIZE),
// so that it goes out eagerly in one piece.
inline constexpr std::size_t kFrameBytesMax = 60 * 1024;
inline constexpr std::size_t kFrameOperationsMax =
    1'024;  // The aggregator's bound; a client flushes far earlier.
inline constexpr std::size_t kFrameGroupsMax = kFrameOperationsMax;
// Asynchronous operations that are worth a frame before anybody waits for one of them. Through
// shared memory a frame costs little, and the daemon works on the first while the program makes the
// next: with 64 calls under way 2.3 to 3.5 M/s instead of 1.4 to 1.6. By TCP frames of 16 are a
// fifth to a half slower.
inline constexpr std::size_t kFlushOperations = 64;
inline constexpr std::size_t kRingFlushOperations = 16;
// A value above this travels as stream parts. Answers up to this are copied into the answer frame.
inline constexpr std::size_t kUnstreamedValueBytesMax = 32 * 1024;
inline constexpr std::size_t kStreamPartBytesMax = 56 * 1024;
inline constexpr std::size_t kStreamPartsPerPoll = 4;
// Parts of one value in flight before the receiver has confirmed some: 16 x 56 KiB fills a 10 GB/s
// link of 80 us round trip.
inline constexpr std::size_t kStreamWindowBytes = 16 * kStreamPartBytesMax;
inline constexpr std::size_t kFrameHeaderBytes = 72;
inline constexpr std::size_t kGroupHeaderBytes = 16;
inline constexpr std::size_t kOperationHeaderBytes = 8;
inline constexpr std::size_t kOperationArgumentsMax = 4;  // 8-byte words.
inline constexpr std::size_t kAnswerHeaderBytes = 8;
inline constexpr std::size_t kAnswerArgumentsMax = 2;

// A frame of one operation with the largest key and the largest unstreamed value fits.
static_assert(kFrameHeaderBytes + kGroupHeaderBytes + kOperationHeaderBytes +
                  8 * kOperationArgumentsMax + kKeyBytesMax + kUnstreamedValueBytesMax <=
              kFrameBytesMax);
static_assert(kFrameBytesMax <= 0xffff, "lengths inside a frame are 16 bits");
static_assert(kFlushOperations <= kFrameOperationsMax && kFrameOperationsMax <= 0xffff);
static_assert(kStreamPartBytesMax <= kStreamWindowBytes);
// So does an answer that carries the largest unstreamed value and the largest key (iteration).
static_assert(kFrameHeaderBytes + kAnswerHeaderBytes + 8 * kAnswerArgumentsMax + kKeyBytesMax +
                  kUnstreamedValueBytesMax <=
              kFrameBytesMax);

// Credits, both ways.
inline constexpr std::uint32_t kCreditOperationsMin = 8;
inline constexpr std::uint32_t kCreditOperationsMax = 1'024;
inline constexpr std::uint32_t kCreditBytesMin = 128 * 1024;
inline constexpr std::uint32_t kCreditBytesMax = 1024 * 1024;
inline constexpr std::uint32_t kCreditOperationsBudget =
    1u << 19;  // Per core, split over its sessions.
inline constexpr std::uint64_t kCreditBytesBudget = 256ull << 20;
// A client has at most this many request frames at or above its ack_watermark: one slow operation
// may not make the daemon keep the answers of ever more frames behind it.
inline constexpr std::uint64_t kFramesUnfinishedMax = 1'024;
// Operations of one session and core that wait for an item, for room or for a change. More are
// answered at once, as if they had not been allowed to wait.
inline constexpr std::uint32_t kEventWaitersPerSessionMax = 1'024;
// Values of answers to changes (Take) that a core keeps for one session because an older frame of
// it is not finished. A client stops sending at half of it, so that what is under way still fits.
inline constexpr std::uint64_t kCachedReplyBytesMax = 8ull << 20;
// What a failed operation of a quiet group counts for in this, beside its text.
inline constexpr std::uint32_t kCachedFailureBytes = 128;
// What a client sets aside of its answer credit for each operation of a quiet group. This bounds
// how many of them are under way, and may all fail.
inline constexpr std::uint32_t kQuietReplyBytes = 32;
static_assert(std::uint64_t{kCreditBytesMax} / kQuietReplyBytes * kCachedFailureBytes <=
              kCachedReplyBytesMax / 2);
static_assert(kFrameOperationsMax * kQuietReplyBytes <= kCreditBytesMin,
              "a session can always have a full quiet frame in flight");
static_assert(kCachedReplyBytesMax / 2 >= 2 * kCreditBytesMax);
static_assert(kCreditBytesMin >= 2 * kFrameBytesMax, "a session can always have a frame in flight");
static_assert(kStreamWindowBytes <= kCreditBytesMax);
static_assert(kCreditOperationsMin > 0 && kCreditOperationsMin <= kCreditOperationsMax);
static_assert(kCreditBytesMin <= kCreditBytesMax && kCreditBytesMax <= kCreditBytesBudget);
// Every operation in credit may travel in a frame of its own and still be below this bound.
static_assert(kFramesUnfinishedMax >= kCreditOperationsMax);

// Storage.
inline constexpr std::size_t kSegmentBytes = 2 * 1024 * 1024;
inline constexpr std::size_t kArenaBytes = 256 * 1024 * 1024;
inline constexpr std::size_t kArenaFirstBytes = 16 * 1024 * 1024;  // An idle daemon stays small.
inline constexpr std::size_t kExtentValueBytes = 1024 * 1024;      // Above: an extent of segments.
inline constexpr std::size_t kInPlaceValueBytesMax = 256;
inline constexpr std::size_t kMemoryBytesMin = 64ull << 20;
static_assert(kArenaBytes % kSegmentBytes == 0);
static_assert(kArenaFirstBytes % kSegmentBytes == 0);
static_assert(kArenaFirstBytes <= kArenaBytes && kArenaBytes / kSegmentBytes > 1);
// A record that is no extent fits a segment beside its 32-byte header, its trailers (expiry,
// client) and the segment's own header and end mark, for which 4 KiB is plenty.
static_assert(kKeyBytesMax + kExtentValueBytes + 4 * 1024 <= kSegmentBytes);
static_assert(kInPlaceValueBytesMax <= kUnstreamedValueBytesMax);

// Functions (function.h): the values that they take and make, and what they answer, which is kept
// for each operation until the client has heard it.
inline constexpr std::size_t kFunctionValueBytesMax = kUnstreamedValueBytesMax;
inline constexpr std::size_t kFunctionResultBytesMax = 4'096;
static_assert(kUnstreamedValueBytesMax <= kExtentValueBytes && kExtentValueBytes < kValueBytesMax);

// Bloom filters. A block is what is zeroed, downloaded and made durable at a time; a small filter
// is one shorter block. Below the least rate a filter would take more than 64 bits per value.
inline constexpr std::size_t kFilterBlockBytes = 64 * 1024;
inline constexpr std::size_t kFilterBytesMin = 4 * 1024;
inline constexpr std::uint64_t kFilterBytesMax = 64ull << 30;  // Of one partition.
inline constexpr double kFilterRateMin = 1e-6;
inline constexpr double kFilterRateMax = 0.5;
inline constexpr double kFilterRateDefault = 0.01;
static_assert(kSegmentBytes % kFilterBlockBytes == 0);
static_assert(kFilterBlockBytes % kFilterBytesMin == 0);
static_assert(kFilterBytesMax % kFilterBlockBytes == 0);
static_assert(kFilterBlockBytes % kUnstreamedValueBytesMax == 0, "a block is downloaded in pages");

// Sessions.
inline constexpr std::uint32_t kSessionsPerCoreMax = 10'000;
static_assert(std::uint64_t{kSessionsPerCoreMax} * kCreditOperationsMin <= kCreditOperationsBudget,
              "the least credit of every session fits the budget");
inline constexpr std::uint32_t kSessionUnconnectedSeconds = 60;
// Values of answers to changes in one frame, to which the memory stays with the session for the
// next.
inline constexpr std::size_t kReplyCacheWarmBytes = 1'024;

// Deadlines.
inline constexpr std::uint32_t kCallTimeoutMs = 10'000;
// What a job without a deadline waits for room in a node's memory, for each of its steps.
inline constexpr std::uint32_t kRoomTimeoutMs = 60'000;
inline constexpr std::uint64_t kTimeoutBytesPerSecond = 50'000'000;  // +1 s for each 50 MB moved.

// Staging.
inline constexpr std::uint64_t kStagedFileWholeBytesMax = 64ull << 20;  // Above: parts.

}  // namespace tidepool::limits
