// Iteration: pages, and single records.
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/api/omitted_value.h"
#include "client/calls/calls.h"
#include "client/calls/durations.h"
#include "client/calls/range_calls.h"
#include "proto/wire/record_list.h"
#include "tidepool/bytes_map.h"

namespace tidepool {
namespace {

using internal::CallRef;
using internal::Mode;
using internal::Operation;

Status Malformed() { return Status(StatusCode::kInternal, "the daemon answered a malformed page"); }

// Ordered namespaces: the page begins at the key, or after it.
constexpr std::uint64_t kFromKey = 0;
constexpr std::uint64_t kBehindKey = 1;

// A page is a part of a scan. A walk by hashes would not survive the split of a range.
CallRef StartOrderedPage(const internal::Space& space, const Cursor& from,
                         const IterateOptions& options, Mode mode) {
  KeyRange range;
  range.begin = from.key;
  range.after_begin = from.position == kBehindKey;
  if (options.node.has_value()) {
    const auto here = space.engine()->NextRangeOn(
        *space.state(), AsBytes(from.key), NodeId(static_cast<std::uint16_t>(*options.node)));
    if (!here.has_value()) return internal::FailedCall(space, {});
    range.after_begin = range.after_begin && *here == from.key;
    range.begin = *here;
  }
  return internal::StartRange(space, wire::Opcode::kScan, range,
                              options.keys_only ? wire::kScanKeysOnly : 0, options.page_records_max,
                              mode, options.timeout);
}

// Where it goes on behind a page that ends with `last`.
Result<Cursor> AfterOrdered(const Operation& operation, std::optional<std::string_view> last) {
  const Bytes answer = AsBytes(operation.result);
  const auto rest = internal::RestOf(operation, answer.last(operation.number), last);
  if (!rest.ok()) return rest.status();
  Cursor next;
  next.at_end = !rest->has_value();
  if (!next.at_end) {
    next.key = (*rest)->begin;
    next.position = (*rest)->after_begin ? kBehindKey : kFromKey;
  }
  return next;
}

Cursor After(const Operation& operation) {
  Cursor next;
  next.partition = operation.queue->id.index();
  next.position = operation.number;
  if (next.position == 0) {
    ++next.partition;
    next.at_end = next.partition >= operation.queue->space->queues.size();
  }
  return next;
}

Result<Page> TakePage(CallRef call) {
  const Operation& operation = call.get()->operations()[0];
  if (operation.code != StatusCode::kOk) return call.get()->StatusOf(operation);
  if (operation.queue == nullptr) {  // Behind the end.
    return internal::Access::Make<Page>(CallRef(), std::vector<Record>(), Cursor{0, 0, true, {}});
  }
  std::vector<Record> records;
  Bytes rest = AsBytes(operation.result);
  const bool ordered = operation.opcode == wire::Opcode::kScan;
  if (ordered) {
    if (operation.number > rest.size()) return Malformed();
    rest = rest.first(rest.size() - operation.number);
  }
  std::uint64_t unreadable = 0;
  wire::ListedRecord listed;
  while (!rest.empty()) {
    TP_RETURN_IF_ERROR(wire::TakeRecord(&rest, &listed));
    unreadable += listed.unreadable;
    if (listed.unreadable > 0) continue;
    records.push_back({AsText(listed.key), AsText(listed.value), listed.value_bytes,
                       listed.value_omitted, static_cast<ValueKind>(listed.value_kind),
                       listed.version.value(), internal::FromWallMs(listed.expiry_ms)});
  }
  if (ordered) {
    std::optional<std::string_view> last;
    if (!records.empty()) last = records.back().key;
    auto next = AfterOrdered(operation, last);
    if (!next.ok()) return next.status();
    return internal::Access::Make<Page>(std::move(call), std::move(records), *std::move(next),
                                        unreadable);
  }
  const Cursor next = After(operation);
  return internal::Access::Make<Page>(std::move(call), std::move(records), next, unreadable);
}

CallRef StartPage(const Namespace& handle, const Cursor& from, const IterateOptions& options,
                  Mode mode) {
  const internal::Space& space = *handle.space();
  auto& queues = space.state()->queues;
  if (from.at_end) return internal::FailedCall(space, {});
  if (space.state()->kind == placement::Kind::kOrdered) {
    return StartOrderedPage(space, from, options, mode);
  }
  std::uint32_t partition = from.partition;
  if (options.node.has_value() && from.position == 0 && partition < queues.size()) {
    partition = space.engine()->NextPartitionOn(*space.state(), partition,
                                                NodeId(static_cast<std::uint16_t>(*options.node)));
    if (partition == queues.size()) return internal::FailedCall(space, {});
  }
  if (partition >= queues.size()) {
    return internal::FailedCall(
        space, Status(StatusCode::kInvalidArgument, "the cursor is not of this namespace"));
  }
  internal::Call* call = internal::Call::Make(1, 0);
  Operation& operation = call->operations()[0];
  operation.queue = &queues[partition];
  operation.opcode = wire::Opcode::kIterate;
  operation.AddArgument(wire::Argument::kOperand, options.page_records_max);
  operation.AddArgument(wire::Argument::kCursor, from.position);
  operation.AddArgument(wire::Argument::kOptions, options.keys_only ? wire::kIterateKeysOnly : 0);
  return internal::StartCall(space, call, mode, options.timeout, 0);
}

}  // namespace

namespace internal {

Status UnreadableStatus(std::uint64_t unreadable, std::string_view space) {
  return Status(StatusCode::kDataLoss,
                std::to_string(unreadable) + (unreadable == 1 ? " record" : " records") +
                    " of namespace '" + std::string(space) + "' cannot be read from the device",
                "put or delete the keys that you miss");
}

}  // namespace internal

Result<Page> BytesMap::Iterate(const Cursor& from, const IterateOptions& options) const {
  return TakePage(StartPage(space_, from, options, Mode::kSync));
}

Future<Page> BytesMap::IterateAsync(const Cursor& from, const IterateOptions& options) const {
  return internal::Access::FutureOf(StartPage(space_, from, options, Mode::kAsync), &TakePage);
}

Iterator BytesMap::NewIterator(const IterateOptions& options, const Cursor& from) const {
  return Iterator(*this, options, from);
}

Iterator::Iterator(const BytesMap& map, const IterateOptions& options, const Cursor& from)
    : map_(map), options_(options), page_({}, {}, from), page_start_(from) {}

bool Iterator::NextPage() {
  while (index_ >= page_.records().size()) {
    if (page_.next().at_end) {
      if (unreadable_ > 0) {
        status_ = internal::UnreadableStatus(unreadable_, map_.space().name());
      }
      return false;
    }
    page_start_ = page_.next();
    Result<Page> page = ahead_.valid() ? ahead_.Wait() : map_.Iterate(page_start_, options_);
    if (!page.ok()) {
      status_ = page.status();
      return false;
    }
    page_ = *std::move(page);
    unreadable_ += page_.unreadable();
    index_ = 0;
    if (!page_.next().at_end) ahead_ = map_.IterateAsync(page_.next(), options_);
  }
  return true;
}

bool Iterator::Next() {
  while (status_.ok() && NextPage()) {
    record_ = page_.records()[index_++];
    if (!record_.value_omitted || options_.keys_only) return true;
    const Status fetched = internal::FetchOmitted(map_, options_.timeout, &record_, &fetched_);
    if (fetched.ok()) return true;
    // Deleted between the page and now: as if it had gone before.
    if (fetched.code() != StatusCode::kNotFound) status_ = fetched;
  }
  return false;
}

}  // namespace tidepool
