// A value, or the Status that explains its absence.
#pragma once

#include <cstdlib>
#include <optional>
#include <type_traits>
#include <utility>

#include "tidepool/base/status.h"

namespace tidepool {

// Thread-compatible like its T. Reading the value of a failed Result ends the program, because it
// is a programming error. (C++20 lacks std::expected.)
template <typename T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit, so that `return value` works.
  Result(Status status) : status_(std::move(status)) {  // NOLINT: implicit, as above.
    if (status_.ok()) status_ = Status(StatusCode::kInternal, "a Result was made of an OK status");
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  StatusCode code() const { return status_.code(); }

  T& value() & { return Checked(); }
  const T& value() const& { return const_cast<Result*>(this)->Checked(); }
  T&& value() && { return std::move(Checked()); }
  T& operator*() & { return Checked(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(Checked()); }
  T* operator->() { return &Checked(); }
  const T* operator->() const { return &const_cast<Result*>(this)->Checked(); }

  template <typename U>
  T value_or(U&& otherwise) const& {
    return ok() ? *value_ : static_cast<T>(std::forward<U>(otherwise));
  }

 private:
  T& Checked() {
    if (!value_.has_value()) std::abort();
    return *value_;
  }

  std::optional<T> value_;
  Status status_;
};

}  // namespace tidepool
