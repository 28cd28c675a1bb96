// Adds up repeated words before they are sent: a look into the processor's cache replaces an
// operation of the daemon.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace support {

// A table without chains: a key that meets another in its place drives it out. Not thread-safe.
template <typename Word>
class Combiner {
 public:
  // 2^17 places are 2 MiB of counts and keys of 8 bytes, which a core's own cache holds.
  static constexpr int kBits = 17;

  Combiner() : places_(std::size_t{1} << kBits) {}

  // Counts a word. `add(word, count)` is called for an evicted word.
  template <typename Add>
  void Count(Word word, Add&& add) {
    Place& place = places_[PlaceOf(word)];
    if (place.word == word && place.count > 0) {
      ++place.count;
      return;
    }
    if (place.count > 0) add(place.word, place.count);
    place = {word, 1};
  }
  // Drives everything out.
  template <typename Add>
  void Drain(Add&& add) {
    for (Place& place : places_) {
      if (place.count > 0) add(place.word, place.count);
      place.count = 0;
    }
  }

 private:
  struct Place {
    Word word = 0;
    std::uint64_t count = 0;
  };
  static std::size_t PlaceOf(Word word) {
    std::uint64_t folded = static_cast<std::uint64_t>(word);
    if constexpr (sizeof(Word) > 8) folded ^= static_cast<std::uint64_t>(word >> 64) * 31;
    return static_cast<std::size_t>(folded * 0x9e3779b97f4a7c15ull >> (64 - kBits));
  }

  std::vector<Place> places_;
};

}  // namespace support
