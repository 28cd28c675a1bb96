#include "tidepool/batch_result.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "client/calls/calls.h"
#include "proto/base/check.h"

namespace tidepool {
namespace {

using internal::Call;

// The operation that record `i` is, or is a part of.
const internal::Operation& At(const internal::CallRef& call, std::size_t i, std::size_t size) {
  TP_CHECK(i < size);
  const std::vector<Call::Item>& items = call.get()->items;
  return call.get()->operations()[items.empty() ? i : items[i].operation];
}

// Why record `i` failed, which travelled in a pack; null: it did not.
const Status* PackFailureOf(const Call& call, std::size_t i) {
  const Call::Item& item = call.items[i];
  const std::vector<Call::PackFailure>& failures = call.pack_failures();
  // The last entry that begins at the item or before it.
  const auto behind = std::upper_bound(
      failures.begin(), failures.end(), item, [](const Call::Item& at, const auto& failure) {
        return std::pair(at.operation, at.at) < std::pair(failure.pack, failure.first);
      });
  if (behind == failures.begin()) return nullptr;
  const Call::PackFailure& failure = *std::prev(behind);
  const bool holds = failure.pack == item.operation && item.at - failure.first < failure.count;
  return holds ? &failure.why : nullptr;
}

}  // namespace

BatchResult::BatchResult(internal::CallRef call)
    : call_(std::move(call)),
      size_(call_.get()->items.empty() ? call_.get()->operations().size()
                                       : call_.get()->items.size()) {
  call_.get()->SortPackFailures();
  internal::RememberReads(call_.get());
}

std::size_t BatchResult::ok_count() const {
  std::size_t count = 0;
  for (std::size_t i = 0; i < size_; ++i) count += code(i) == StatusCode::kOk ? 1 : 0;
  return count;
}

Status BatchResult::FirstFailure() const {
  for (std::size_t i = 0; i < size_; ++i) {
    const StatusCode code = this->code(i);
    if (code == StatusCode::kOk || code == StatusCode::kNotFound) continue;
    const Status failure = status(i);
    return Status(code,
                  "key " + std::to_string(i) + " of " + std::to_string(size_) + ": " +
                      std::string(failure.what()),
                  std::string(failure.remedy()));
  }
  return {};
}

StatusCode BatchResult::code(std::size_t i) const {
  const internal::Operation& operation = At(call_, i, size_);
  if (!operation.is_pack()) return operation.code;
  const Status* failure = PackFailureOf(*call_.get(), i);
  return failure == nullptr ? StatusCode::kOk : failure->code();
}

Status BatchResult::status(std::size_t i) const {
  const internal::Operation& operation = At(call_, i, size_);
  if (!operation.is_pack()) return call_.get()->StatusOf(operation);
  const Status* failure = PackFailureOf(*call_.get(), i);
  return failure == nullptr ? OkStatus() : *failure;
}

std::string_view BatchResult::value(std::size_t i) const { return At(call_, i, size_).result; }

ValueKind BatchResult::kind(std::size_t i) const {
  return static_cast<ValueKind>(At(call_, i, size_).result_kind);
}

Version BatchResult::version(std::size_t i) const { return At(call_, i, size_).version.value(); }

}  // namespace tidepool
