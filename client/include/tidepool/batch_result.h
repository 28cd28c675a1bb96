// The results of a batch: a status per key, and values as views.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "tidepool/future.h"
#include "tidepool/status.h"
#include "tidepool/value.h"

namespace tidepool {

// The results of MultiGet, MultiPut and MultiDelete, in the order of the keys. Owns the values:
// views returned by value() live as long as this object; moving it does not invalidate them.
// Reading is thread-safe.
//
// The operations of a batch are independent: some may succeed while others fail.
class TIDEPOOL_API BatchResult {
 public:
  // A batch without keys.
  BatchResult() = default;
  BatchResult(BatchResult&&) noexcept = default;
  BatchResult& operator=(BatchResult&&) noexcept = default;

  std::size_t size() const { return size_; }
  // Returns true if every code is kOk; an absent key is not kOk.
  bool AllOk() const { return ok_count() == size_; }
  std::size_t ok_count() const;
  // Returns kOk, or the first failure worse than kNotFound, with its text and the key's index.
  Status FirstFailure() const;

  // REQUIRES: 0 <= i < size(), otherwise the program ends.
  StatusCode code(std::size_t i) const;
  // Returns the code with its text.
  Status status(std::size_t i) const;
  // Returns the value of a MultiGet if the code is kOk; empty otherwise.
  std::string_view value(std::size_t i) const;
  ValueKind kind(std::size_t i) const;
  // Returns the record's version after the operation; 0: no record.
  Version version(std::size_t i) const;

 private:
  friend struct internal::Access;
  explicit BatchResult(internal::CallRef call);

  internal::CallRef call_;
  std::size_t size_ = 0;
};

}  // namespace tidepool
