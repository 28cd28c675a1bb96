// A file that only grows: changes of the cluster's state behind its last whole copy.
//
//   membership/embedded_store -> [state_journal]
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "proto/base/result.h"
#include "proto/cluster_file/file_io.h"

namespace tidepool::daemon {

// Not thread-safe.
//
// Invariant: the file holds what was appended, whole and in order, and perhaps a part of an append
// that failed or was cut off by a crash.
class StateJournal {
 public:
  explicit StateJournal(std::string path) : path_(std::move(path)) {}

  // All bytes; empty without a file. Errors: those of ReadSmallFile.
  Result<std::string> Read() const;
  // The first `bytes` are whole: the next append begins behind them.
  void SetEnd(std::uint64_t bytes) { end_ = bytes; }
  std::uint64_t bytes() const { return end_; }

  // Durable when it returns kOk. Errors: as FileError; then the file is as before, or broken() says
  // that nothing may be appended until Clear.
  Status Append(std::string_view change);
  bool broken() const { return broken_; }
  // Removes the file: a whole state has all that it held. Errors: as FileError.
  Status Clear();

 private:
  Status OpenFile();
  Status TakeBack(int error);

  const std::string path_;
  UniqueFd file_;
  std::uint64_t end_ = 0;
  bool broken_ = false;
};

}  // namespace tidepool::daemon
