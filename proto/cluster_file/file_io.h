// Small files that must never be seen half-written: the connection file, tokens, identities.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "proto/base/result.h"
#include "proto/base/unique_fd.h"

namespace tidepool::cluster_file {

// The Status of errno `error` on `path`, which was to be made or changed: "cannot <doing> '<path>':
// <reason>", with kNotFound, kPermissionDenied, kResourceExhausted (disk or quota), kAlreadyExists,
// kInvalidArgument (a folder in place of a file), else kInternal.
Status FileError(std::string_view doing, std::string_view path, int error);
// Returns the error for a file that should exist already and was to be read.
Status FileReadError(std::string_view doing, std::string_view path, int error);

// Returns the folder part of `path` ("." without a folder).
std::string FolderOf(std::string_view path);

// Returns kOk if the folder part of `path` exists; otherwise like FileError, "cannot <doing>
// '<path>': ...".
Status CheckFolderOf(const std::string& path, std::string_view doing);

// Returns the contents of a regular file of at most `bytes_max`.
// Errors: as FileError; kInvalidArgument (not a file, or too large).
Result<std::string> ReadSmallFile(const std::string& path, std::size_t bytes_max);
// Like ReadSmallFile, for a file that only its owner may read. Errors: also kPermissionDenied
// (other users may read it: it is no secret).
Result<std::string> ReadSecretFile(const std::string& path, std::size_t bytes_max);

// Writes a new file beside `path`, on disk when this returns, with a name of its own. The caller
// links or renames it to `path` (then calls SyncFolder) and unlinks it. Mode 0600.
struct TemporaryFile {
  std::string path;
  UniqueFd descriptor;
};
Result<TemporaryFile> WriteTemporary(const std::string& path, std::string_view content);

// Makes names in `folder` durable.
Status SyncFolder(const std::string& folder);

// Replaces `path` with `content`, durably: at each moment it has either its old or its new content.
// Mode 0600. After kUnknown it has the new content, but perhaps not for good; after other failures
// the old content.
Status ReplaceFile(const std::string& path, std::string_view content);

// Makes `path` and its missing parents, with mode 0700; an existing folder is left as it is.
Status MakeFolders(const std::string& path);

// Takes a lock that ends with the process, whatever ends it. Creates `path` if it is absent;
// the holder of the lock may remove it. Errors: kAborted (another process holds it), as
// FileError.
Result<UniqueFd> LockFile(const std::string& path);

}  // namespace tidepool::cluster_file
