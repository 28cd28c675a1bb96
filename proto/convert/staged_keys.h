// Keys of a namespace that belong to staged files, and their names.
//
//   staging (writes them) -> namespace -> kvctl get|keys, client.ReadFile (show files, hide parts)
//
// A file up to limits::kStagedFileWholeBytesMax is a record under its relative path, nothing else.
// A larger file is parts under path NUL revision NUL part, and a record under path NUL "file" that
// holds its v1.StageEntry (size, revision, parts). That record is written behind the parts, so its
// reader finds all of them. Staging's own records stand under keys that begin with kManifestPrefix.
// All of these but paths contain a NUL, which no path can.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tidepool::convert {

inline constexpr std::string_view kManifestPrefix{"\0manifest\0", 10};

// Revision as 16 and part as 8 hexadecimal digits.
std::string StagedPartKey(std::string_view path, std::uint64_t revision, std::uint32_t part);
std::string StagedFileKey(std::string_view path);

enum class StagedRole : std::uint8_t {
  kPlain,     // Any other key: a whole file, or a record unknown to staging.
  kFile,      // Head of a file in parts.
  kPart,      // A part of such a file.
  kManifest,  // Staging's own.
};

struct StagedKey {
  StagedRole role = StagedRole::kPlain;
  std::string_view path;       // Path of the file, for kFile and kPart; a view of the key.
  std::uint64_t revision = 0;  // Set for kPart, like `part`.
  std::uint32_t part = 0;
};

// Total: any bytes have a role.
StagedKey ParseStagedKey(std::string_view key);

}  // namespace tidepool::convert
