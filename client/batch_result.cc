#include "tidepool/batch_result.h"

#include <algorithm>
#include <string>
#include <utility>

#include "client/call.h"
#include "proto/base/check.h"

namespace tidepool {
namespace {

const internal::Operation& At(const internal::CallRef& call, std::size_t i, std::size_t size) {
  TP_CHECK(i < size);
  return call.get()->operations()[i];
}

}  // namespace

BatchResult::BatchResult(internal::CallRef call)
    : call_(std::move(call)), size_(call_.get()->operations().size()) {}

std::size_t BatchResult::ok_count() const {
  if (size_ == 0) return 0;
  const auto operations = call_.get()->operations();
  return static_cast<std::size_t>(
      std::count_if(operations.begin(), operations.end(),
                    [](const auto& operation) { return operation.code == StatusCode::kOk; }));
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

StatusCode BatchResult::code(std::size_t i) const { return At(call_, i, size_).code; }

Status BatchResult::status(std::size_t i) const {
  return call_.get()->StatusOf(At(call_, i, size_));
}

std::string_view BatchResult::value(std::size_t i) const { return At(call_, i, size_).result; }

ValueKind BatchResult::kind(std::size_t i) const {
  return static_cast<ValueKind>(At(call_, i, size_).result_kind);
}

Version BatchResult::version(std::size_t i) const { return At(call_, i, size_).version.value(); }

}  // namespace tidepool
