#include "proto/convert/staged_keys.h"

#include <array>
#include <charconv>
#include <cstdio>

namespace tidepool::convert {
namespace {

constexpr std::string_view kFileEnding{"\0file", 5};
// NUL, 16 digits, NUL, 8 digits.
constexpr std::size_t kPartEndingBytes = 1 + 16 + 1 + 8;

bool IsHex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::uint64_t FromHex(std::string_view digits) {
  std::uint64_t number = 0;
  (void)std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  return number;
}

bool IsPartEnding(std::string_view ending) {
  return ending[0] == '\0' && IsHex(ending.substr(1, 16)) && ending[17] == '\0' &&
         IsHex(ending.substr(18));
}

}  // namespace

std::string StagedPartKey(std::string_view path, std::uint64_t revision, std::uint32_t part) {
  std::array<char, 32> digits;
  std::string key(path);
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(revision));
  key.append(1, '\0').append(digits.data());
  std::snprintf(digits.data(), digits.size(), "%08x", part);
  return key.append(1, '\0').append(digits.data());
}

std::string StagedFileKey(std::string_view path) { return std::string(path).append(kFileEnding); }

StagedKey ParseStagedKey(std::string_view key) {
  if (key.starts_with(kManifestPrefix)) return {StagedRole::kManifest, {}, 0, 0};
  if (key.size() > kFileEnding.size() && key.ends_with(kFileEnding)) {
    return {StagedRole::kFile, key.substr(0, key.size() - kFileEnding.size()), 0, 0};
  }
  if (key.size() > kPartEndingBytes && IsPartEnding(key.substr(key.size() - kPartEndingBytes))) {
    const std::string_view path = key.substr(0, key.size() - kPartEndingBytes);
    return {StagedRole::kPart, path, FromHex(key.substr(path.size() + 1, 16)),
            static_cast<std::uint32_t>(FromHex(key.substr(path.size() + 18)))};
  }
  return {};
}

}  // namespace tidepool::convert
