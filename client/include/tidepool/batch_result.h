// The results of a batch: a status for each key, and values as views.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "tidepool/future.h"
#include "tidepool/status.h"
#include "tidepool/value.h"

namespace tidepool {

// What MultiGet, MultiPut and MultiDelete return: one result for each key, in the order of the
// keys. Owns the values: the views that value() returns live as long as this object (moving it
// moves nothing in memory). Reading is thread-safe.
//
// Nothing holds the operations of a batch together: some may succeed while others fail.
class TIDEPOOL_API BatchResult {
 public:
  // Of no key.
  BatchResult() = default;
  BatchResult(BatchResult&&) noexcept = default;
  BatchResult& operator=(BatchResult&&) noexcept = default;

  std::size_t size() const { return size_; }
  // True if every code is kOk. (A key that is absent is not.)
  bool AllOk() const { return ok_count() == size_; }
  std::size_t ok_count() const;
  // kOk, or the first failure that is worse than kNotFound: with its text and the key's number.
  Status FirstFailure() const;

  // 0 <= i < size(), else the program ends.
  StatusCode code(std::size_t i) const;
  // The code with its text.
  Status status(std::size_t i) const;
  // Of a MultiGet and for kOk; empty otherwise.
  std::string_view value(std::size_t i) const;
  ValueKind kind(std::size_t i) const;
  // The record's version after the operation; 0 if there is none.
  Version version(std::size_t i) const;

 private:
  friend struct internal::Access;
  explicit BatchResult(internal::CallRef call);

  internal::CallRef call_;
  std::size_t size_ = 0;
};

}  // namespace tidepool
