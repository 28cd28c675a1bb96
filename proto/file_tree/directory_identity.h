// The properties of a directory that stay the same while files come and go in it. Processes on
// several machines compare them to find out if they see the same directory.
//
//   kvctl stage in, daemon/staging/cluster_view -> [directory_identity] -> file system
#pragma once

#include <string>
#include <string_view>

namespace tidepool::file_tree {

// The directory's time of birth, and on network file systems its file handle, which its server
// gives to every client. Without the inode's number. Empty: the file system has neither.
std::string DirectoryIdentity(int directory_fd);

// Returns true if a piece of the same kind is equal in both identities.
bool IsSameIdentity(std::string_view a, std::string_view b);

}  // namespace tidepool::file_tree
