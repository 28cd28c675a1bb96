#include "proto/manifest/holes.h"

#include <catch2/catch.hpp>
#include <string>

#include "proto/base/limits.h"

namespace tidepool::manifest {
namespace {

Entry PartOf(std::uint64_t size, std::vector<Hole> holes) {
  Entry entry;
  entry.size = size;
  entry.holes = std::move(holes);
  return entry;
}

// The part as the walk gives it, with dots for zeros.
Result<std::string> Expand(const Entry& entry, std::string_view stored, std::size_t piece_bytes) {
  std::string part;
  HoleWalk walk(
      entry,
      [&](std::uint64_t at, Bytes data) {
        CHECK(at == part.size());
        part.append(AsText(data));
        return OkStatus();
      },
      [&](std::uint64_t at, std::uint64_t bytes) {
        CHECK(at == part.size());
        part.append(bytes, '.');
        return OkStatus();
      });
  for (; !stored.empty(); stored.remove_prefix(std::min(stored.size(), piece_bytes))) {
    TP_RETURN_IF_ERROR(walk.Add(AsBytes(stored.substr(0, piece_bytes))));
  }
  TP_RETURN_IF_ERROR(walk.Finish());
  return part;
}

TEST_CASE("BytesOfARecordGetTheirPlacesBack") {
  for (const std::size_t piece : {1u, 2u, 3u, 100u}) {
    CHECK(*Expand(PartOf(10, {{2, 3}, {7, 2}}), "abcde", piece) == "ab...cd..e");
    CHECK(*Expand(PartOf(6, {{0, 2}, {4, 2}}), "ab", piece) == "..ab..");
    CHECK(*Expand(PartOf(3, {}), "abc", piece) == "abc");
  }
  CHECK(*Expand(PartOf(4, {{0, 4}}), "", 1) == "....");
}

TEST_CASE("ARecordOfAnotherLengthIsRefused") {
  CHECK(Expand(PartOf(10, {{2, 3}}), "abcdef", 2).code() == StatusCode::kDataLoss);
  CHECK(Expand(PartOf(10, {{2, 3}}), "abcdefgh", 2).code() == StatusCode::kDataLoss);
}

TEST_CASE("TheHashOfZerosIsThatOfTheBytes") {
  CHECK(HashOfZeros(100'000) == HashOf(AsBytes(std::string(100'000, '\0'))));
  const std::string part(limits::kStagedFileWholeBytesMax, '\0');
  CHECK(HashOfZeros(part.size()) == HashOf(AsBytes(part)));
}

}  // namespace
}  // namespace tidepool::manifest
