// What of a directory stays the same while files come and go in it, so that processes on several
// machines can tell whether they see the same one.
//
//   kvctl stage in, daemon/staging/cluster_view -> [directory_identity] -> file system
#pragma once

#include <string>
#include <string_view>

namespace tidepool::file_tree {

// The directory's time of birth, and on network file systems its file handle, which its server
// gives to every client. Without the inode's number. Empty: the file system has neither.
std::string DirectoryIdentity(int directory_fd);

// True if both identities have a piece of one kind and it is the same.
bool IsSameIdentity(std::string_view a, std::string_view b);

}  // namespace tidepool::file_tree
