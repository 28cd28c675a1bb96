#include "tests/history/recorder.h"

#include <cstring>
#include <utility>

#include "proto/base/clock.h"

namespace tidepool::history {
namespace {

std::string BytesOf(std::int64_t value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}
std::int64_t NumberIn(std::string_view bytes) {
  std::int64_t value = -1;
  if (bytes.size() == sizeof value) std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

bool IsRead(Call call) {
  return call == Call::kGet || call == Call::kScan || call == Call::kCountRange ||
         call == Call::kPeek || call == Call::kLength;
}

// Conditions that may fail as a result. Elsewhere kFailedPrecondition is an error of the test.
bool MayBeRefused(Call call) {
  return call == Call::kPutIfVersion || call == Call::kCompareAndSwap || call == Call::kAck ||
         call == Call::kNack;
}

KeyRange RangeOf(const std::string& object, std::uint32_t end) {
  KeyRange range;
  range.begin = KeyText(object, 0);
  range.end = KeyText(object, end);
  return range;
}

}  // namespace

Endings& Endings::operator+=(const Endings& other) {
  answered += other.answered;
  unknown += other.unknown;
  without_effect += other.without_effect;
  return *this;
}

Operation Recorder::Begin(std::string object, std::uint32_t key, Call call, std::int64_t a,
                          std::int64_t b) const {
  Operation operation;
  operation.client = client_;
  operation.object = std::move(object);
  operation.key = key;
  operation.call = call;
  operation.a = a;
  operation.b = b;
  operation.begin_ns = Clock::Real().MonotonicNs();
  return operation;
}

void Recorder::End(Operation operation, const Status& status) {
  operation.end_ns = Clock::Real().MonotonicNs();
  switch (status.code()) {
    case StatusCode::kOk:
      operation.outcome = Outcome::kOk;
      break;
    case StatusCode::kNotFound:
      operation.outcome = Outcome::kNotFound;
      break;
    case StatusCode::kAlreadyExists:
      operation.outcome = Outcome::kExists;
      break;
    case StatusCode::kUnknown: {
      ++endings_.unknown;
      if (IsRead(operation.call)) return;
      operation.outcome = Outcome::kUnknown;
      operation.end_ns = kNever;
      history_.push_back(std::move(operation));
      return;
    }
    case StatusCode::kUnavailable:
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kDataLoss:
    case StatusCode::kResourceExhausted:
      ++endings_.without_effect;
      return;
    case StatusCode::kFailedPrecondition:
      if (MayBeRefused(operation.call)) {
        operation.outcome = Outcome::kRefused;
        break;
      }
      [[fallthrough]];
    default:
      if (unexpected_.empty()) {
        unexpected_ = std::string(NameOf(operation.call)) + ": " + status.ToString();
      }
      return;
  }
  ++endings_.answered;
  history_.push_back(std::move(operation));
}

std::string KeyText(std::string_view object, std::uint32_t key) {
  return std::string(object.substr(object.find('/') + 1)) + "/" + std::to_string(key);
}

std::pair<std::int64_t, std::uint64_t> RecordedMap::Get(const std::string& object,
                                                        std::uint32_t key) {
  Operation operation = recorder_.Begin(object, key, Call::kGet);
  const auto got = map_.Get(KeyText(object, key), {recorder_.timeout()});
  std::pair<std::int64_t, std::uint64_t> result;
  if (got.ok()) {
    operation.value = NumberIn(got->bytes);
    operation.version = got->version;
    result = {operation.value, operation.version};
  }
  recorder_.End(std::move(operation), got.status());
  return result;
}

void RecordedMap::Put(const std::string& object, std::uint32_t key, Call call, Version version) {
  PutOptions options;
  options.kind = ValueKind::kI64;
  options.timeout = recorder_.timeout();
  if (call == Call::kPutIfAbsent) options.condition = PutCondition::kIfAbsent;
  if (call == Call::kPutIfPresent) options.condition = PutCondition::kIfPresent;
  if (call == Call::kPutIfVersion) {
    options.condition = PutCondition::kIfVersion;
    options.if_version = version;
  }
  const std::int64_t value = recorder_.NewValue();
  Operation operation =
      recorder_.Begin(object, key, call, value, static_cast<std::int64_t>(version));
  const auto put = map_.Put(KeyText(object, key), BytesOf(value), options);
  if (put.ok()) operation.version = *put;
  recorder_.End(std::move(operation), put.status());
}

void RecordedMap::Delete(const std::string& object, std::uint32_t key) {
  DeleteOptions options;
  options.timeout = recorder_.timeout();
  const Operation operation = recorder_.Begin(object, key, Call::kDelete);
  recorder_.End(operation, map_.Delete(KeyText(object, key), options));
}

void RecordedMap::Take(const std::string& object, std::uint32_t key) {
  Operation operation = recorder_.Begin(object, key, Call::kTake);
  const auto taken = map_.Take(KeyText(object, key), {recorder_.timeout()});
  if (taken.ok()) operation.value = NumberIn(taken->bytes);
  recorder_.End(std::move(operation), taken.status());
}

void RecordedMap::Add(const std::string& object, std::uint32_t key, std::int64_t by,
                      std::size_t count) {
  std::vector<std::pair<Operation, Future<std::int64_t>>> adds;
  for (std::size_t i = 0; i < count; ++i) {
    Operation operation = recorder_.Begin(object, key, Call::kFetchAdd, by);
    adds.emplace_back(std::move(operation),
                      map_.FetchAddAsync(KeyText(object, key), by, {recorder_.timeout()}));
  }
  for (auto& [operation, future] : adds) {
    const auto added = future.Wait();
    if (added.ok()) operation.value = *added;
    recorder_.End(std::move(operation), added.status());
  }
}

void RecordedMap::CompareAndSwap(const std::string& object, std::uint32_t key,
                                 std::int64_t expected) {
  const std::int64_t desired = recorder_.NewValue();
  Operation operation = recorder_.Begin(object, key, Call::kCompareAndSwap, expected, desired);
  const auto swapped = map_.CompareAndSwap(KeyText(object, key), BytesOf(expected),
                                           BytesOf(desired), {recorder_.timeout()});
  if (swapped.ok()) operation.version = *swapped;
  recorder_.End(std::move(operation), swapped.status());
}

void RecordedRanges::Scan(const std::string& object, std::uint32_t end) {
  ScanOptions options;
  options.timeout = recorder_.timeout();
  Operation operation = recorder_.Begin(object, 0, Call::kScan, end);
  const auto page = map_.Scan(RangeOf(object, end), options);
  if (page.ok()) {
    if (page->rest().has_value()) return;  // Two pages are of two moments.
    for (const Record& record : page->records()) {
      const std::string key(record.key.substr(record.key.rfind('/') + 1));
      operation.records.emplace_back(std::stoul(key), NumberIn(record.value));
    }
  }
  recorder_.End(std::move(operation), page.status());
}

void RecordedRanges::Count(const std::string& object, std::uint32_t end) {
  Operation operation = recorder_.Begin(object, 0, Call::kCountRange, end);
  const auto count = map_.CountRange(RangeOf(object, end), {recorder_.timeout()});
  if (count.ok()) operation.value = static_cast<std::int64_t>(*count);
  recorder_.End(std::move(operation), count.status());
}

void RecordedRanges::Erase(const std::string& object, std::uint32_t end) {
  Operation operation = recorder_.Begin(object, 0, Call::kEraseRange, end);
  const auto erased = map_.EraseRange(RangeOf(object, end), {recorder_.timeout()});
  if (erased.ok()) operation.value = static_cast<std::int64_t>(*erased);
  recorder_.End(std::move(operation), erased.status());
}

void RecordedQueue::Push(Priority priority) {
  PushOptions options;
  options.timeout = recorder_.timeout();
  const std::int64_t value = recorder_.NewValue();
  Operation operation =
      recorder_.Begin(object_, 0, Call::kPush, value, static_cast<std::int64_t>(priority));
  const auto id = push_(priority, BytesOf(value), options);
  if (id.ok()) operation.version = *id;
  recorder_.End(std::move(operation), id.status());
}

bool RecordedQueue::Pop(std::chrono::milliseconds lease, ItemLease* given) {
  PopOptions options;
  options.lease = lease;
  options.timeout = recorder_.timeout();
  const std::int64_t lease_ns = std::chrono::nanoseconds(lease).count();
  Operation operation =
      recorder_.Begin(object_, 0, lease_ns > 0 ? Call::kPopLease : Call::kPop, lease_ns);
  const auto item = items_.Pop(options);
  if (item.ok()) {
    operation.value = NumberIn(item->value);
    operation.version = item->id;
    operation.deliveries = static_cast<std::uint32_t>(item->deliveries);
    *given = item->lease();
  }
  recorder_.End(std::move(operation), item.status());
  return item.ok();
}

void RecordedQueue::Peek() {
  Operation operation = recorder_.Begin(object_, 0, Call::kPeek);
  const auto item = items_.Peek({recorder_.timeout()});
  if (item.ok()) {
    operation.value = NumberIn(item->value);
    operation.version = item->id;
    operation.deliveries = static_cast<std::uint32_t>(item->deliveries);
  }
  recorder_.End(std::move(operation), item.status());
}

void RecordedQueue::EndLease(Call call, const ItemLease& lease) {
  const Operation operation = recorder_.Begin(object_, 0, call, static_cast<std::int64_t>(lease.id),
                                              static_cast<std::int64_t>(lease.deliveries));
  const CallOptions options{recorder_.timeout()};
  recorder_.End(operation,
                call == Call::kAck ? items_.Ack(lease, options) : items_.Nack(lease, options));
}

std::uint64_t RecordedQueue::Length() {
  Operation operation = recorder_.Begin(object_, 0, Call::kLength);
  const auto length = items_.Length({recorder_.timeout()});
  const std::uint64_t items = length.ok() ? length->ready + length->leased : ~std::uint64_t{0};
  operation.value = static_cast<std::int64_t>(items);
  recorder_.End(std::move(operation), length.status());
  return items;
}

}  // namespace tidepool::history
