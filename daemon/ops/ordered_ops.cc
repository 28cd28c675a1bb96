#include "daemon/ops/ordered_ops.h"

#include <string_view>

#include "daemon/ops/listed_record.h"
#include "proto/base/check.h"
#include "proto/wire/ordered_ops.h"
#include "storage/ordered_store.h"

namespace tidepool::daemon {
namespace {

using storage::OrderedStore;
using storage::RangeProgress;
using wire::Argument;
using wire::RangeRest;

constexpr std::string_view kOtherPartition = "the range does not begin in the addressed partition";

// Records of one erasing operation: about 300 us, which bounds the wait of the core's other
// clients.
constexpr std::uint64_t kEraseRecordsMax = 512;

// Returns false if there is no such range; the answer says why.
bool RangeOf(const wire::Operation& operation, std::uint64_t allowed, storage::KeyRange* range,
             Reply* reply) {
  const std::uint64_t options = operation.get(Argument::kOptions);
  const bool has_end = (options & wire::kRangeHasEnd) != 0;
  if ((options & ~allowed) != 0 || (!has_end && !operation.value.empty())) {
    Refuse(reply, StatusCode::kInvalidArgument, "unknown options of a range of keys");
    return false;
  }
  range->begin = operation.key;
  range->after_begin = (options & wire::kRangeAfterBegin) != 0;
  if (has_end) range->end = operation.value;
  return true;
}

// The part of an asked range that is this partition's, and where the rest of it begins.
struct RangePart {
  storage::KeyRange range;
  RangeRest beyond;  // kDone: nothing of it belongs to other partitions.
};

// False: the answer says that it was to be asked elsewhere.
bool ClipUpwards(const OperationContext& context, const storage::KeyRange& asked, RangePart* part,
                 Reply* reply) {
  const storage::KeyBounds& bounds = context.partition.bounds();
  if (!bounds.Holds(asked.begin)) {
    Refuse(reply, StatusCode::kInvalidArgument, kOtherPartition);
    return false;
  }
  *part = {asked, {}};
  if (!bounds.end.has_value()) return true;
  if (asked.end.has_value() && AsText(*asked.end) <= *bounds.end) return true;
  part->range.end = AsBytes(*bounds.end);
  part->beyond = {RangeRest::Kind::kFromKey, AsBytes(*bounds.end)};
  return true;
}

bool ClipDownwards(const OperationContext& context, const storage::KeyRange& asked, RangePart* part,
                   Reply* reply) {
  const storage::KeyBounds& bounds = context.partition.bounds();
  const bool is_lowest = bounds.begin.empty();
  const bool holds_last_keys =
      asked.end.has_value() ? (is_lowest || AsText(*asked.end) > bounds.begin) &&
                                  (!bounds.end.has_value() || AsText(*asked.end) <= *bounds.end)
                            : !bounds.end.has_value();
  if (!holds_last_keys) {
    Refuse(reply, StatusCode::kInvalidArgument, kOtherPartition);
    return false;
  }
  *part = {asked, {}};
  if (AsText(asked.begin) >= bounds.begin) return true;
  part->range.begin = AsBytes(bounds.begin);
  part->range.after_begin = false;
  part->beyond = {RangeRest::Kind::kBehindKey, AsBytes(bounds.begin)};
  return true;
}

// Fills an answer with records, and keeps a byte to say that there are more, and room to say how
// many cannot be read.
class Lister {
 public:
  Lister(MutableBytes room, bool keys_only)
      : begin_(room.data()),
        at_(room.data()),
        end_(room.data() + room.size() - std::min(room.size(), kRoomKept)),
        keys_only_(keys_only) {}

  // False: no room, and nothing changed.
  bool Add(const storage::RecordView& record) {
    wire::ListedRecord listed = ListedOf(record, keys_only_);
    if (at_ == begin_ && listed.bytes() > left()) listed.value_omitted = true;
    if (listed.bytes() > left()) return false;
    const std::size_t value_bytes = listed.value_omitted ? 0 : listed.value.size();
    at_ = wire::AppendRecord(listed, at_);
    lists_ = true;
    last_key_ = Bytes(at_ - value_bytes - listed.key.size(), listed.key.size());
    return true;
  }

  // The last entry of the list.
  void AddUnreadable(std::uint64_t count) {
    if (count == 0 || at_ + wire::kUnreadableEntryBytes > end_ + kRoomKept - 1) return;
    wire::ListedRecord unreadable;
    unreadable.unreadable = static_cast<std::uint32_t>(count);
    at_ = wire::AppendRecord(unreadable, at_);
  }

  // Appends the rest: the range behind `last`, or, if that does not fit, behind the last listed
  // key, which passes the same expired records again. Returns false if neither fits.
  bool AppendRest(Bytes last) {
    RangeRest rest{RangeRest::Kind::kBehindKey, last};
    if (lists_ && (AsText(last) == AsText(last_key_) || rest.bytes() > left() + 1)) {
      rest = {RangeRest::Kind::kBehindListed, {}};
    } else if (!lists_ && rest.bytes() > left()) {
      return false;
    }
    rest_bytes_ = rest.bytes();
    at_ = wire::StoreRangeRest(rest, at_);
    return true;
  }

  // This partition's part is complete: appends the beginning of the next part. If that does not
  // fit, continues behind the last listed key, which reaches the same end again. Returns false if
  // neither fits.
  bool AppendBeyond(RangeRest rest) {
    if (rest.kind == RangeRest::Kind::kDone) return true;
    if (rest.bytes() > left() + 1) {
      if (!lists_) return false;
      rest = {RangeRest::Kind::kBehindListed, {}};
    }
    rest_bytes_ = rest.bytes();
    at_ = wire::StoreRangeRest(rest, at_);
    return true;
  }

  Bytes bytes() const { return Bytes(begin_, at_); }
  std::size_t rest_bytes() const { return rest_bytes_; }

 private:
  static constexpr std::size_t kRoomKept = 1 + wire::kUnreadableEntryBytes;

  std::size_t left() const { return at_ < end_ ? static_cast<std::size_t>(end_ - at_) : 0; }

  std::byte* const begin_;
  std::byte* at_;
  std::byte* const end_;
  const bool keys_only_;
  bool lists_ = false;
  Bytes last_key_;
  std::size_t rest_bytes_ = 0;
};

void HandleScan(const OperationContext& context, Reply* reply) {
  const wire::Operation& operation = context.operation;
  storage::KeyRange asked;
  if (!RangeOf(operation, wire::kRangeOptionsScan, &asked, reply)) return;
  storage::ScanOptions options;
  options.reverse = (operation.get(Argument::kOptions) & wire::kScanReverse) != 0;
  options.keys_only = (operation.get(Argument::kOptions) & wire::kScanKeysOnly) != 0;
  const std::uint64_t records_max = operation.get(Argument::kOperand);
  if (records_max != 0) options.records_max = records_max;
  RangePart part;
  const bool ours = options.reverse ? ClipDownwards(context, asked, &part, reply)
                                    : ClipUpwards(context, asked, &part, reply);
  if (!ours) return;
  options.range = part.range;
  Lister lister(context.scratch, options.keys_only);
  const RangeProgress progress = context.partition.ordered().Scan(
      options, context.now_ms,
      [&lister](const storage::RecordView& record) { return lister.Add(record); });
  if (context.store.blocked()) return;
  lister.AddUnreadable(progress.unreadable);
  const bool told = progress.done ? lister.AppendBeyond(part.beyond)
                                  : progress.last.has_value() && lister.AppendRest(*progress.last);
  if (!told) {
    return Refuse(reply, StatusCode::kInvalidArgument,
                  "no room for one record in the answer; allow 60 KiB");
  }
  reply->answer.value = lister.bytes();
  reply->answer.has_number = true;
  reply->answer.number = lister.rest_bytes();
}

// Checks both before any change: an answer without room for the rest would hide which keys were
// erased.
bool HasRoomForRest(const OperationContext& context, Reply* reply) {
  if (context.scratch.size() >= wire::kRangeRestBytesMax) return true;
  Refuse(reply, StatusCode::kInvalidArgument, "no room for a key in the answer; allow 60 KiB");
  return false;
}

void ConcludeRange(const OperationContext& context, const RangeProgress& progress,
                   const RangeRest& beyond, Reply* reply) {
  reply->answer.has_number = true;
  reply->answer.number = progress.records;
  RangeRest rest = beyond;
  if (!progress.done) {
    // Otherwise the client would repeat the same request for ever.
    TP_CHECK(progress.last.has_value());
    rest = {RangeRest::Kind::kBehindKey, *progress.last};
  }
  std::byte* const end = wire::StoreRangeRest(rest, context.scratch.data());
  reply->answer.value = Bytes(context.scratch.data(), end);
}

// Returns true if the range covers the whole partition.
bool IsWhole(const storage::KeyRange& range, const storage::Partition& partition) {
  const storage::KeyBounds& bounds = partition.bounds();
  return AsText(range.begin) == bounds.begin && !range.after_begin &&
         range.end.has_value() == bounds.end.has_value() &&
         (!range.end.has_value() || AsText(*range.end) == *bounds.end);
}

void HandleCountRange(const OperationContext& context, Reply* reply) {
  storage::KeyRange asked;
  if (!RangeOf(context.operation, wire::kRangeOptionsCount, &asked, reply)) return;
  RangePart part;
  if (!HasRoomForRest(context, reply) || !ClipUpwards(context, asked, &part, reply)) return;
  storage::OrderedStore& store = context.partition.ordered();
  const bool stored = (context.operation.get(Argument::kOptions) & wire::kCountStored) != 0;
  RangeProgress progress;
  const bool counted = !context.partition.has_moved_out();
  if (stored && counted && IsWhole(part.range, context.partition)) {
    progress.records = store.size();
    progress.done = true;
  } else {
    progress = store.CountRange(part.range, context.now_ms);
    if (context.store.blocked()) return;
  }
  ConcludeRange(context, progress, part.beyond, reply);
}

void HandleEraseRange(const OperationContext& context, Reply* reply) {
  storage::KeyRange asked;
  if (!RangeOf(context.operation, wire::kRangeOptionsErase, &asked, reply)) return;
  RangePart part;
  if (!HasRoomForRest(context, reply) || !ClipUpwards(context, asked, &part, reply)) return;
  StatusCode code = StatusCode::kOk;
  RangeProgress progress =
      context.partition.ordered().EraseRange(part.range, kEraseRecordsMax, context.now_ms, &code);
  if (context.store.blocked()) return;
  // Reports the erased records; the next operation meets the lack of memory first.
  if (code != StatusCode::kOk && !progress.last.has_value()) {
    return Refuse(reply, code, "no memory to erase with; delete something by its key first");
  }
  ConcludeRange(context, progress, part.beyond, reply);
}

constexpr HandlerEntry kOrderedHandlers[] = {
    {wire::Opcode::kScan, HandleScan},
    {wire::Opcode::kCountRange, HandleCountRange},
    {wire::Opcode::kEraseRange, HandleEraseRange},
};

}  // namespace

std::span<const HandlerEntry> OrderedHandlers() { return kOrderedHandlers; }

}  // namespace tidepool::daemon
