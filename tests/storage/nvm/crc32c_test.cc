#include "storage/nvm/crc32c.h"

#include <catch2/catch.hpp>
#include <cstddef>
#include <random>
#include <vector>

namespace tidepool::storage {
namespace {

// The definition, a bit at a time.
std::uint32_t BitByBit(Bytes bytes, std::uint32_t seed) {
  std::uint32_t crc = ~seed;
  for (const std::byte byte : bytes) {
    crc ^= static_cast<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
  }
  return ~crc;
}

// RFC 3720, appendix B.4, and the usual check value.
TEST_CASE("KnownVectorsOfCrc32c") {
  CHECK(Crc32c({}) == 0);
  CHECK(Crc32c(AsBytes("123456789")) == 0xe3069283u);
  std::vector<std::byte> block(32);
  CHECK(Crc32c(block) == 0x8a9136aau);
  std::fill(block.begin(), block.end(), std::byte{0xff});
  CHECK(Crc32c(block) == 0x62a8ab43u);
  for (std::size_t i = 0; i < block.size(); ++i) block[i] = static_cast<std::byte>(i);
  CHECK(Crc32c(block) == 0x46dd794eu);
  for (std::size_t i = 0; i < block.size(); ++i) block[i] = static_cast<std::byte>(31 - i);
  CHECK(Crc32c(block) == 0x113fdb5cu);
}

TEST_CASE("Crc32cIsItsDefinitionForAnyLengthSeedAndAlignment") {
  const std::uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(5000);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  for (int round = 0; round < 500; ++round) {
    const std::size_t at = random() % 64;
    const Bytes piece = Bytes(bytes).subspan(at, random() % (bytes.size() - at));
    const auto start = static_cast<std::uint32_t>(random());
    REQUIRE(Crc32c(piece, start) == BitByBit(piece, start));
  }
}

TEST_CASE("Crc32cGoesOnFromWhatCameBefore") {
  const Bytes text = AsBytes("what was written, and what was written behind it");
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    CHECK(Crc32c(text.subspan(cut), Crc32c(text.first(cut))) == Crc32c(text));
  }
}

}  // namespace
}  // namespace tidepool::storage
