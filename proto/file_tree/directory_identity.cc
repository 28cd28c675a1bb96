#include "proto/file_tree/directory_identity.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tidepool::file_tree {
namespace {

// Handles of local file systems prove nothing: the roots of all ext4 volumes have equal handles.
constexpr std::array<std::uint32_t, 6> kNetworkFileSystems = {
    0x6969,      // NFS
    0x0BD00BD3,  // Lustre
    0x00C36400,  // Ceph
    0x47504653,  // GPFS
    0x19830326,  // BeeGFS
    0xFE534D42,  // SMB 2
};

std::string BirthTime(int fd) {
  struct statx info {};
  if (statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &info) != 0) return {};
  if ((info.stx_mask & STATX_BTIME) == 0 || info.stx_btime.tv_sec == 0) return {};
  return "b" + std::to_string(info.stx_btime.tv_sec) + "." +
         std::to_string(info.stx_btime.tv_nsec) + ";";
}

std::string Handle(int fd) {
  struct statfs system {};
  if (fstatfs(fd, &system) != 0) return {};
  const auto type = static_cast<std::uint32_t>(system.f_type);
  if (std::find(kNetworkFileSystems.begin(), kNetworkFileSystems.end(), type) ==
      kNetworkFileSystems.end()) {
    return {};
  }
  alignas(file_handle) std::array<std::byte, sizeof(file_handle) + MAX_HANDLE_SZ> space{};
  auto* handle = reinterpret_cast<file_handle*>(space.data());
  handle->handle_bytes = MAX_HANDLE_SZ;
  int mount = 0;
  if (name_to_handle_at(fd, "", handle, &mount, AT_EMPTY_PATH) != 0) return {};
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "h" + std::to_string(handle->handle_type) + ":";
  // The handle's own bytes lie behind its header.
  for (unsigned i = 0; i < handle->handle_bytes; ++i) {
    const auto byte = std::to_integer<unsigned>(space[sizeof(file_handle) + i]);
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 15]);
  }
  return text + ";";
}

std::string_view PieceOf(std::string_view identity, char kind) {
  while (!identity.empty()) {
    const std::string_view piece = identity.substr(0, identity.find(';'));
    if (!piece.empty() && piece.front() == kind) return piece;
    identity.remove_prefix(std::min(identity.size(), piece.size() + 1));
  }
  return {};
}

}  // namespace

std::string DirectoryIdentity(int directory_fd) {
  return BirthTime(directory_fd) + Handle(directory_fd);
}

bool IsSameIdentity(std::string_view a, std::string_view b) {
  const auto same = [&](char kind) {
    const std::string_view piece = PieceOf(a, kind);
    return !piece.empty() && piece == PieceOf(b, kind);
  };
  return same('b') || same('h');
}

}  // namespace tidepool::file_tree
