// Placement of keys chosen by the program, so that related keys live together.
//
//   HashMap<K, V, P> -> [P::Tag] -> "{tag}key" -> the partition that the tag hashes to
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tidepool/codec.h"
#include "tidepool/export.h"
#include "tidepool/status.h"

namespace tidepool {

// Places a key by its encoding. If the encoding has a {tag}, the text between the first '{' and the
// next '}' decides, unless it is empty; otherwise the whole encoding decides.
struct PlacedByKey {};

// A placement defined by the program: keys with one tag share a partition. The tag is stored in
// front of the key, so all programs must use the same placement; its name is part of the key's
// type.
//
//   struct ByCell {
//     static constexpr std::string_view kName = "cell";
//     // A number or a short text; a pure function of the key.
//     static std::uint64_t Tag(const ParticleId& key) { return key.cell; }
//   };
//   HashMap<ParticleId, Particle, ByCell>
//
// With few tags, few partitions do all the work.
template <typename P, typename K>
concept KeyPlacement = std::same_as<P, PlacedByKey> || requires(ArgumentOf<K> key) {
  std::string(P::kName);
  requires std::integral<decltype(P::Tag(key))> ||
      std::convertible_to<decltype(P::Tag(key)), std::string_view>;
};

namespace internal {

// Appends "{tag}". Bytes that cannot stand in a tag are written as %7D and %25.
TIDEPOOL_API void AppendTag(std::string_view tag, std::string* out);
TIDEPOOL_API void AppendTag(std::uint64_t tag, std::string* out);
// Removes a tag from the front; returns false if there is no tag.
TIDEPOOL_API bool SkipTag(std::string_view* key);

// Encodes the keys of a handle.
template <typename K, typename Placement>
struct PlacedCodec {
  static constexpr bool kInPlace = false;

  static std::string Name() {
    return "placed<" + std::string(Placement::kName) + "," + Codec<K>::Name() + ">";
  }
  static std::string_view Encode(ArgumentOf<K> key, std::string* room) {
    std::string inner;
    room->clear();
    if constexpr (std::integral<decltype(Placement::Tag(key))>) {
      AppendTag(static_cast<std::uint64_t>(Placement::Tag(key)), room);
    } else {
      AppendTag(std::string_view(Placement::Tag(key)), room);
    }
    room->append(Codec<K>::Encode(key, &inner));
    return *room;
  }
  static Result<K> Decode(std::string_view bytes) {
    std::string_view rest = bytes;
    if (!SkipTag(&rest)) return NotA(Name(), bytes.size());
    return Codec<K>::Decode(rest);
  }
};

template <typename K>
struct PlacedCodec<K, PlacedByKey> : Codec<K> {
  static constexpr bool kInPlace = kIsInPlace<K>;
};

}  // namespace internal
}  // namespace tidepool
