// The range operations of BytesOrderedMap. Each method has its opcode, and its handler in the
// daemon.
#include "tidepool/bytes_ordered_map.h"

#include <utility>

#include "client/api/omitted_value.h"
#include "client/calls/calls.h"
#include "client/calls/durations.h"
#include "client/calls/range_calls.h"
#include "proto/wire/ordered_ops.h"
#include "proto/wire/record_list.h"

namespace tidepool {
namespace {

using internal::CallRef;
using internal::Mode;
using internal::Operation;
using wire::Opcode;

CallRef StartScan(const Namespace& space, const KeyRange& range, const ScanOptions& options,
                  Mode mode) {
  const std::uint64_t bits =
      (options.reverse ? wire::kScanReverse : 0) | (options.keys_only ? wire::kScanKeysOnly : 0);
  return internal::StartRange(*space.space(), Opcode::kScan, range, bits, options.limit, mode,
                              options.timeout);
}

Result<ScanPage> TakeScanPage(CallRef call) {
  const Status malformed(StatusCode::kInternal, "the daemon answered a malformed page");
  const Operation& operation = Only(call);
  if (operation.code != StatusCode::kOk) return call.get()->StatusOf(operation);
  const Bytes answer = AsBytes(operation.result);
  if (operation.number > answer.size()) return malformed;
  Bytes listed_bytes = answer.first(answer.size() - operation.number);
  std::vector<Record> records;
  std::uint64_t unreadable = 0;
  wire::ListedRecord listed;
  while (!listed_bytes.empty()) {
    TP_RETURN_IF_ERROR(wire::TakeRecord(&listed_bytes, &listed));
    unreadable += listed.unreadable;
    if (listed.unreadable > 0) continue;
    records.push_back({AsText(listed.key), AsText(listed.value), listed.value_bytes,
                       listed.value_omitted, static_cast<ValueKind>(listed.value_kind),
                       listed.version.value(), internal::FromWallMs(listed.expiry_ms)});
  }
  std::optional<std::string_view> last;
  if (!records.empty()) last = records.back().key;
  auto left = internal::RestOf(operation, answer.last(operation.number), last);
  if (!left.ok()) return left.status();
  return internal::Access::Make<ScanPage>(std::move(call), std::move(records), *std::move(left),
                                          unreadable);
}

Result<Entry> OneOf(const BytesOrderedMap& map, const KeyRange& range, bool reverse,
                    const CallOptions& options) {
  ScanIterator scan =
      map.NewScan(range, {.reverse = reverse, .limit = 1, .timeout = options.timeout});
  const bool any = scan.Next();
  if (scan.unreadable() > 0) {
    return internal::UnreadableStatus(scan.unreadable(), map.space().name());
  }
  if (!any) {
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
  // Returns the lowest string above all strings with this prefix: drops trailing 0xff bytes, then
  // raises the last byte.
  while (!prefix.empty() && prefix.back() == '\xff') prefix.remove_suffix(1);
  if (prefix.empty()) return range;
  range.end = std::string(prefix);
  range.end->back() = static_cast<char>(static_cast<unsigned char>(prefix.back()) + 1);
  return range;
}

Result<ScanPage> BytesOrderedMap::Scan(const KeyRange& range, const ScanOptions& options) const {
  return TakeScanPage(StartScan(space(), range, options, Mode::kSync));
}
Future<ScanPage> BytesOrderedMap::ScanAsync(const KeyRange& range,
                                            const ScanOptions& options) const {
  return internal::Access::FutureOf(StartScan(space(), range, options, Mode::kAsync),
                                    &TakeScanPage);
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
  return internal::SumOver(*space().space(), Opcode::kCountRange, range, 0, options.timeout);
}
Result<std::uint64_t> BytesOrderedMap::EraseRange(const KeyRange& range,
                                                  const CallOptions& options) const {
  const internal::Space& of = *space().space();
  of.ForgetReads();
  auto erased = internal::SumOver(of, Opcode::kEraseRange, range, 0, options.timeout);
  of.ForgetReads();
  return erased;
}

// Options of the next page, after `used` records of the limit.
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
    unreadable_ += page_.unreadable();
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
  if (status_.ok() && unreadable_ > 0) {
    status_ = internal::UnreadableStatus(unreadable_, map_.space().name());
  }
  return false;
}

}  // namespace tidepool
