// The keys that staging keeps for itself beside the staged files' own (proto/convert/staged_keys.h
// has those, and tells all of them apart).
//
//   NUL "manifest" NUL PATH        what the file system knows of PATH: an Entry
//   NUL "manifest" NUL PART's key  the Entry of a part of a large file
//   NUL "manifest" NUL             the Mark: whether the manifest is complete
//
// A manifest key is placed by the key that it is about (PlacementTag), so that one task of one core
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
// What a manifest key is about; empty for the mark.
inline std::string_view AboutOf(std::string_view manifest_key) {
  return manifest_key.substr(kManifestKeyPrefix.size());
}

// The revision of a large file's content: the same size and mtime give the same parts, so that an
// interrupted stage-in goes on with those that are there.
std::uint64_t RevisionOf(std::uint64_t size, FileTime mtime);
// How many parts a file of this size has; 0: it is stored whole, under its path.
std::uint32_t PartCountOf(std::uint64_t size);

}  // namespace tidepool::manifest
