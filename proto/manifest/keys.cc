#include "proto/manifest/keys.h"

#include "proto/base/limits.h"

namespace tidepool::manifest {

std::string ManifestKey(std::string_view about) {
  std::string key(kManifestKeyPrefix);
  key.append(about);
  return key;
}

std::uint64_t RevisionOf(std::uint64_t size, FileTime mtime) {
  std::byte bytes[20];
  StoreUnaligned(bytes, size);
  if (const auto ns = mtime.Ns(); ns.has_value()) {
    StoreUnaligned(bytes + 8, *ns);
    return KeyHash(Bytes(bytes, 16));
  }
  StoreUnaligned(bytes + 8, mtime.seconds);
  StoreUnaligned(bytes + 16, mtime.nanoseconds);
  return KeyHash(Bytes(bytes, sizeof bytes));
}

std::uint32_t PartCountOf(std::uint64_t size) {
  constexpr std::uint64_t kPartBytes = limits::kStagedFileWholeBytesMax;
  if (size <= kPartBytes) return 0;
  return static_cast<std::uint32_t>((size + kPartBytes - 1) / kPartBytes);
}

}  // namespace tidepool::manifest
