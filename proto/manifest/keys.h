// Staging's own keys beside the keys of the staged files (proto/convert/staged_keys.h has the
// latter, and distinguishes all of them).
//
//   NUL "manifest" NUL PATH        the attributes of PATH in the file system: an Entry
//   NUL "manifest" NUL PART's key  the Entry of a part of a large file
//   NUL "manifest" NUL             the Mark: whether the manifest is complete
//
// The subject of a manifest key decides its placement (PlacementTag), so a single task of a core
// stores both.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "proto/base/file_time.h"
#include "proto/base/key_hash.h"

namespace tidepool::manifest {

// The path of the tree's root among the entries.
inline constexpr std::string_view kRootPath = ".";

inline bool IsManifestKey(std::string_view key) { return key.starts_with(kManifestKeyPrefix); }
// `about`: a path or a part's key.
std::string ManifestKey(std::string_view about);
inline std::string MarkKey() { return std::string(kManifestKeyPrefix); }
// Returns the subject of a manifest key; empty for the mark.
inline std::string_view AboutOf(std::string_view manifest_key) {
  return manifest_key.substr(kManifestKeyPrefix.size());
}

// Returns the revision of a large file's content. Equal size and mtime give equal parts, so an
// interrupted stage-in continues with the existing parts.
std::uint64_t RevisionOf(std::uint64_t size, FileTime mtime);
// Returns the number of parts of a file of this size; 0: stored whole, under its path.
std::uint32_t PartCountOf(std::uint64_t size);

}  // namespace tidepool::manifest
