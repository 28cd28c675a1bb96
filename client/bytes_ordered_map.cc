// The operations of BytesOrderedMap on ranges: one opcode each, as the daemon's ordered operations
// on the other side.
#include "tidepool/bytes_ordered_map.h"

#include <utility>

#include "client/calls.h"
#include "client/omitted_value.h"
#include "proto/wire/ordered_ops.h"
#include "proto/wire/record_list.h"

namespace tidepool {
namespace {

using internal::Call;
using internal::CallRef;
using internal::Mode;
using internal::Operation;
using wire::Argument;
using wire::Opcode;
using wire::RangeRest;

std::uint64_t OptionBits(const KeyRange& range) {
  return (range.after_begin ? wire::kRangeAfterBegin : 0) |
         (range.end.has_value() ? wire::kRangeHasEnd : 0);
}

// Bounds are copied also for those that wait: the page is made from them when the answer is there.
CallRef StartRange(const Namespace& handle, Opcode opcode, const KeyRange& range,
                   std::uint64_t option_bits, std::uint64_t limit, Mode mode,
                   std::chrono::milliseconds timeout) {
  const internal::Space& space = *handle.space();
  const std::string_view end = range.end.has_value() ? *range.end : std::string_view();
  for (const std::string_view bound : {std::string_view(range.begin), end}) {
    const Status status = internal::CheckSizes(bound, 0, true);
    if (!status.ok()) return internal::FailedCall(space, status);
  }
  Call* call = Call::Make(1, range.begin.size() + end.size());
  Operation& operation = call->operations()[0];
  operation.queue = internal::QueueOf(space.state(), range.begin);
  operation.opcode = opcode;
  operation.key = call->Copy(range.begin);
  operation.key_bytes = static_cast<std::uint32_t>(range.begin.size());
  operation.value = call->Copy(end);
  operation.value_bytes = static_cast<std::uint32_t>(end.size());
  if (opcode == Opcode::kScan) operation.AddArgument(Argument::kOperand, limit);
  operation.AddArgument(Argument::kOptions, option_bits | OptionBits(range));
  return internal::StartCall(space, call, mode, timeout, 0);
}

CallRef StartScan(const Namespace& space, const KeyRange& range, const ScanOptions& options,
                  Mode mode) {
  const std::uint64_t bits =
      (options.reverse ? wire::kScanReverse : 0) | (options.keys_only ? wire::kScanKeysOnly : 0);
  return StartRange(space, Opcode::kScan, range, bits, options.limit, mode, options.timeout);
}

// What is left of the range that `operation` asked for, once `last` was passed.
KeyRange Behind(const Operation& operation, std::string_view last) {
  const std::uint64_t bits = operation.words[1];
  KeyRange rest;
  if ((bits & wire::kScanReverse) != 0) {
    rest.begin = AsText(operation.key_view());
    rest.after_begin = (bits & wire::kRangeAfterBegin) != 0;
    rest.end = std::string(last);
    return rest;
  }
  rest.begin = std::string(last);
  rest.after_begin = true;
  if ((bits & wire::kRangeHasEnd) != 0) {
    rest.end = std::string(AsText(Bytes(operation.value, operation.value_bytes)));
  }
  return rest;
}

Result<ScanPage> TakePage(CallRef call) {
  const Status malformed(StatusCode::kInternal, "the daemon answered a malformed page");
  const Operation& operation = Only(call);
  if (operation.code != StatusCode::kOk) return call.get()->StatusOf(operation);
  const Bytes answer = AsBytes(operation.result);
  if (operation.number > answer.size()) return malformed;
  Bytes listed_bytes = answer.first(answer.size() - operation.number);
  const auto rest = wire::LoadRangeRest(answer.last(operation.number));
  if (!rest.ok()) return rest.status();
  std::vector<Record> records;
  wire::ListedRecord listed;
  while (!listed_bytes.empty()) {
    TP_RETURN_IF_ERROR(wire::TakeRecord(&listed_bytes, &listed));
    records.push_back({AsText(listed.key), AsText(listed.value), listed.value_bytes,
                       listed.value_omitted, static_cast<ValueKind>(listed.value_kind),
                       listed.version.value(), listed.expiry_ms});
  }
  std::optional<KeyRange> left;
  if (rest->kind == RangeRest::Kind::kBehindKey) {
    left = Behind(operation, AsText(rest->key));
  } else if (rest->kind == RangeRest::Kind::kBehindListed) {
    // Nothing passed and more to come would be asked for again for ever.
    if (records.empty()) return malformed;
    left = Behind(operation, records.back().key);
  }
  return ScanPage(std::move(call), std::move(records), std::move(left));
}

// Counts or erases piece by piece.
Result<std::uint64_t> SumOver(const Namespace& space, Opcode opcode, KeyRange range,
                              const CallOptions& options) {
  std::uint64_t sum = 0;
  for (;;) {
    const CallRef call = StartRange(space, opcode, range, 0, 0, Mode::kSync, options.timeout);
    const Operation& operation = Only(call);
    if (operation.code != StatusCode::kOk) return call.get()->StatusOf(operation);
    sum += operation.number;
    const auto rest = wire::LoadRangeRest(AsBytes(operation.result));
    if (!rest.ok()) return rest.status();
    if (rest->kind == RangeRest::Kind::kDone) return sum;
    // A piece never ends before it began, so this comes to an end whatever is answered.
    if (rest->kind != RangeRest::Kind::kBehindKey || AsText(rest->key) < range.begin ||
        (range.after_begin && AsText(rest->key) == range.begin)) {
      return Status(StatusCode::kInternal, "the daemon goes back in the range");
    }
    range.begin = AsText(rest->key);
    range.after_begin = true;
  }
}

Result<Entry> OneOf(const BytesOrderedMap& map, const KeyRange& range, bool reverse,
                    const CallOptions& options) {
  ScanIterator scan =
      map.NewScan(range, {.reverse = reverse, .limit = 1, .timeout = options.timeout});
  if (!scan.Next()) {
    if (!scan.status().ok()) return scan.status();
    return Status(StatusCode::kNotFound,
                  "no key in this range of namespace '" + map.space().name() + "'");
  }
  const Record& record = scan.record();
  Entry entry;
  entry.key = record.key;
  entry.value.bytes = record.value;
  entry.value.kind = record.kind;
  entry.value.version = record.version;
  return entry;
}

}  // namespace

KeyRange KeyRange::Prefix(std::string_view prefix) {
  KeyRange range;
  range.begin = prefix;
  // The lowest string above all that begin so: the last byte that can be raised is, and those
  // behind it go.
  while (!prefix.empty() && prefix.back() == '\xff') prefix.remove_suffix(1);
  if (prefix.empty()) return range;
  range.end = std::string(prefix);
  range.end->back() = static_cast<char>(static_cast<unsigned char>(prefix.back()) + 1);
  return range;
}

Result<ScanPage> BytesOrderedMap::Scan(const KeyRange& range, const ScanOptions& options) const {
  return TakePage(StartScan(space(), range, options, Mode::kSync));
}
Future<ScanPage> BytesOrderedMap::ScanAsync(const KeyRange& range,
                                            const ScanOptions& options) const {
  return {StartScan(space(), range, options, Mode::kAsync), &TakePage};
}
ScanIterator BytesOrderedMap::NewScan(const KeyRange& range, const ScanOptions& options) const {
  return ScanIterator(*this, range, options);
}

Result<Entry> BytesOrderedMap::First(const KeyRange& range, const CallOptions& options) const {
  return OneOf(*this, range, false, options);
}
Result<Entry> BytesOrderedMap::Last(const KeyRange& range, const CallOptions& options) const {
  return OneOf(*this, range, true, options);
}

Result<std::uint64_t> BytesOrderedMap::CountRange(const KeyRange& range,
                                                  const CallOptions& options) const {
  return SumOver(space(), Opcode::kCountRange, range, options);
}
Result<std::uint64_t> BytesOrderedMap::EraseRange(const KeyRange& range,
                                                  const CallOptions& options) const {
  return SumOver(space(), Opcode::kEraseRange, range, options);
}

// What to ask for when `used` records of the limit are there.
ScanOptions ScanIterator::Left(std::uint64_t used) const {
  ScanOptions options = options_;
  if (options.limit != 0) options.limit -= used;
  return options;
}

bool ScanIterator::NextPage() {
  while (index_ >= page_.records().size()) {
    if (!page_.rest().has_value()) return false;
    Result<ScanPage> page = ahead_.valid() ? ahead_.Wait() : map_.Scan(*page_.rest(), Left(given_));
    if (!page.ok()) {
      status_ = page.status();
      return false;
    }
    page_ = *std::move(page);
    index_ = 0;
    const std::uint64_t used = given_ + page_.records().size();
    if (page_.rest().has_value() && (options_.limit == 0 || used < options_.limit)) {
      ahead_ = map_.ScanAsync(*page_.rest(), Left(used));
    }
  }
  return true;
}

bool ScanIterator::Next() {
  while (status_.ok() && (options_.limit == 0 || given_ < options_.limit) && NextPage()) {
    record_ = page_.records()[index_++];
    ++given_;
    if (!record_.value_omitted || options_.keys_only) return true;
    const Status fetched = internal::FetchOmitted(map_, options_.timeout, &record_, &fetched_);
    if (fetched.ok()) return true;
    --given_;
    // Deleted between the page and now: as if it had gone before.
    if (fetched.code() != StatusCode::kNotFound) status_ = fetched;
  }
  return false;
}

}  // namespace tidepool
