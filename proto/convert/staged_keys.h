// Which keys of a namespace belong to staged files, and what they are called.
//
//   staging (writes them) -> namespace -> kvctl get|keys, client.ReadFile (show files, hide parts)
//
// A file up to limits::kStagedFileWholeBytesMax is one record under its relative path, nothing
// else. A larger one is parts under path NUL revision NUL part, and one record under path NUL
// "file" that holds its v1.StageEntry (size, revision, parts); it is written behind the parts, so
// who finds it finds all of them. What staging itself needs to remember stands under keys that
// begin with kManifestPrefix. All of these but paths contain a NUL, which no path can.
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
  kPlain,     // Any other key: a whole file, or a record that staging knows nothing of.
  kFile,      // Of a file in parts.
  kPart,      // One of its parts.
  kManifest,  // Staging's own.
};

struct StagedKey {
  StagedRole role = StagedRole::kPlain;
  std::string_view path;       // Of the file, for kFile and kPart; a view of the key.
  std::uint64_t revision = 0;  // Of kPart, as is `part`.
  std::uint32_t part = 0;
};

// Total: any bytes have a role.
StagedKey ParseStagedKey(std::string_view key);

}  // namespace tidepool::convert
