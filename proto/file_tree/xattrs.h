// Extended attributes of files and directories that belong to users: names that begin with
// "user.", and POSIX ACLs. Labels of security systems stay where they are.
//
//   staging with --xattrs -> [xattrs] -> file system
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/base/status.h"

namespace tidepool::file_tree {

// Name and value, sorted by name.
using Xattrs = std::vector<std::pair<std::string, std::string>>;

// Empty where the file system has no attributes. Errors: as StatusOfErrno.
Status ReadXattrs(int fd, std::string_view path, Xattrs* xattrs);
// Returns true if the file has an attribute that ReadXattrs reads.
bool HasXattrs(int fd);
// Replaces the attributes of the file: sets each attribute that differs and removes the rest.
// Errors: as StatusOfErrno; kUnimplemented (the file system keeps no attributes).
Status WriteXattrs(int fd, std::string_view path, const Xattrs& xattrs);

}  // namespace tidepool::file_tree
