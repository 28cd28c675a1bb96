#include "tests/fuzz/nvm_checks.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "proto/base/check.h"
#include "storage/nvm/catalog.h"
#include "storage/nvm/crc32c.h"
#include "storage/nvm/superblock.h"

namespace tidepool::fuzz {
namespace {

constexpr std::size_t kCrcAt = 12;

bool Same(Bytes a, Bytes b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

}  // namespace

bool CheckRawSuperblock(Bytes input) {
  const auto decoded = storage::DecodeSuperblock(input);
  if (!decoded.ok()) {
    TP_CHECK(decoded.code() == StatusCode::kNotFound || decoded.code() == StatusCode::kDataLoss ||
             decoded.code() == StatusCode::kFailedPrecondition);
    return false;
  }
  TP_CHECK(storage::IsSound(decoded->layout));
  std::array<std::byte, storage::kDeviceBlockBytes> again;
  storage::EncodeSuperblock(*decoded, again);
  TP_CHECK(Same(again, input));
  return true;
}

bool CheckSuperblock(Bytes input) {
  std::array<std::byte, storage::kDeviceBlockBytes> block{};
  std::memcpy(block.data(), input.data(), std::min(input.size(), block.size()));
  StoreUnaligned(block.data() + kCrcAt, std::uint32_t{0});
  StoreUnaligned(block.data() + kCrcAt, storage::Crc32c(block));
  return CheckRawSuperblock(block);
}

bool CheckCatalog(Bytes input) {
  const auto decoded = storage::DecodeCatalog(input);
  if (!decoded.ok()) {
    TP_CHECK(decoded.code() == StatusCode::kDataLoss);
    return false;
  }
  TP_CHECK(Same(storage::EncodeCatalog(*decoded), input));
  return true;
}

}  // namespace tidepool::fuzz
