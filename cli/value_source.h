// The VALUE argument: itself, standard input for `-`, or a file for `@FILE`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "proto/base/result.h"
#include "proto/cluster_file/file_io.h"

namespace tidepool::cli {

// Move-only; not thread-safe.
class ValueSource {
 public:
  // `literal`: the argument is the value whatever it begins with. Open reads two kinds of source to
  // their end, because the size must be known first: all but regular files, and files that yield
  // another number of bytes than their size, as in /proc. Errors: kNotFound, kPermissionDenied,
  // kInvalidArgument (a folder; more than 1 GiB), kInternal.
  static Result<ValueSource> Open(const std::string& argument, bool literal);

  std::uint64_t bytes() const { return bytes_; }

  // The next piece of the value, at most `bytes_max`; empty at the end. Valid until the next call.
  // Errors: kAborted (the file shrank or grew meanwhile), kInternal.
  Result<std::string_view> Next(std::size_t bytes_max);
  // All that is left.
  Result<std::string> Rest();

 private:
  Status CheckEnd() const;

  std::string name_;
  UniqueFd file_;  // Closed when the value is in memory_.
  std::string memory_;
  std::uint64_t bytes_ = 0;
  std::uint64_t done_ = 0;
  std::string piece_;
};

}  // namespace tidepool::cli
