// Reads and writes of descriptors that other programs have made, and may have made non-blocking.
//
// standard input, a file -> [ReadSome, LineSource] -> commands -> output.h -> [WriteSome]
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proto/base/result.h"
#include "proto/cluster_file/file_io.h"

namespace tidepool::cli {

// Reads up to `bytes` bytes; 0 at the end. Waits for a descriptor that is non-blocking. `name`
// stands in the failure. Errors: as FileReadError.
Result<std::size_t> ReadSome(int fd, char* to, std::size_t bytes, const std::string& name);

// Writes a part of `bytes` and returns its size. Waits for a descriptor that is non-blocking.
// Returns -1, with errno, if the write fails.
std::ptrdiff_t WriteSome(int fd, std::string_view bytes);

// Lines of text of any bytes and length. A UTF-8 byte order mark at the beginning is left out. Not
// thread-safe; move-only.
class LineSource {
 public:
  // "-": standard input. Errors: kNotFound, kPermissionDenied, kInvalidArgument (a folder).
  static Result<LineSource> Open(const std::string& file);

  // Returns the next line without its newline, valid until the next call; nullopt at the end.
  // Errors: as ReadSome; kInvalidArgument (the text is UTF-16).
  Result<std::optional<std::string_view>> Next();

 private:
  // Appends to `buffer_`; false at the end.
  Result<bool> ReadMore();
  Status SkipMark();

  std::string name_;
  UniqueFd file_;
  int fd_ = -1;
  std::string buffer_;
  std::size_t begin_ = 0;  // Begin of the next line in `buffer_`.
  bool has_begun_ = false;
  bool is_at_end_ = false;
};

}  // namespace tidepool::cli
