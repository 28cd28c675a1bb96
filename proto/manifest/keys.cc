#include "proto/manifest/keys.h"

#include "proto/base/limits.h"

namespace tidepool::manifest {

std::string ManifestKey(std::string_view about) {
  std::string key(kManifestKeyPrefix);
  key.append(about);
  return key;
}

std::uint64_t RevisionOf(std::uint64_t size, std::int64_t mtime_ns) {
  std::byte bytes[16];
  StoreUnaligned(bytes, size);
  StoreUnaligned(bytes + 8, mtime_ns);
  return KeyHash(Bytes(bytes, sizeof bytes));
}

std::uint32_t PartCountOf(std::uint64_t size) {
  constexpr std::uint64_t kPartBytes = limits::kStagedFileWholeBytesMax;
  if (size <= kPartBytes) return 0;
  return static_cast<std::uint32_t>((size + kPartBytes - 1) / kPartBytes);
}

}  // namespace tidepool::manifest
