// Kind of a namespace's collection: the contents of its partitions, and the operations they accept.
#pragma once

#include <cstdint>
#include <string_view>

namespace tidepool {

// Numbers never change meaning: they are in the published .proto files and in the coordinator's
// file.
enum class Kind : std::uint8_t {
  kUnspecified = 0,
  kHash = 1,
  kOrdered = 2,
  kQueue = 3,
  kPriority = 4,
  kBloom = 5,
  kArray = 6,
};
inline constexpr int kKindCount = 7;

constexpr std::string_view KindName(Kind kind) {
  switch (kind) {
    case Kind::kUnspecified:
      break;
    case Kind::kHash:
      return "hash";
    case Kind::kOrdered:
      return "ordered";
    case Kind::kQueue:
      return "queue";
    case Kind::kPriority:
      return "priority";
    case Kind::kBloom:
      return "bloom";
    case Kind::kArray:
      return "array";
  }
  return "unspecified";
}

// Sets of kinds.
using KindMask = std::uint8_t;
constexpr KindMask MaskOf(Kind kind) {
  return static_cast<KindMask>(1u << static_cast<unsigned>(kind));
}
static_assert(kKindCount <= 8);

}  // namespace tidepool
