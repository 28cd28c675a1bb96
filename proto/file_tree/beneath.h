// Opens files below a directory, never outside of it: no `..`, no absolute path, no symbolic link
// on the way, whatever other processes change meanwhile.
//
//   tree_walk, tree_writer, staging's readers -> [beneath] -> openat2
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "proto/base/result.h"
#include "proto/base/unique_fd.h"

namespace tidepool::file_tree {

// Prefix of staging's own names, which jobs remove at their end: probes, marks of running jobs,
// files under way. They are never staged, neither in nor out.
inline constexpr std::string_view kOwnNamePrefix = ".tidepool-stage-";

// Returns whether `path` may name a file below a directory: relative, of 1 to 4,095 bytes, without
// NUL, no component empty, `.`, `..`, above 255 bytes or one of our own names. Errors:
// kInvalidArgument.
Status CheckPath(std::string_view path);

// Returns the directory of a path ("" for a name alone) and its last component.
std::string_view ParentOf(std::string_view path);
std::string_view NameOf(std::string_view path);

// Returns a path, key or name for a message: bytes outside printable ASCII and UTF-8 as \xHH.
std::string Printable(std::string_view name);

// Converts errno about `path` to a Status with a fitting code and remedy.
Status StatusOfErrno(int error, std::string_view what, std::string_view path);

// openat() of a path that CheckPath accepts (our own names too), or of "." for the directory
// itself; O_CLOEXEC and O_NOFOLLOW are added. Errors: as StatusOfErrno; a symbolic link in the way
// is kFailedPrecondition.
Result<UniqueFd> OpenBeneath(int directory_fd, std::string_view path, int flags, mode_t mode = 0);

}  // namespace tidepool::file_tree
