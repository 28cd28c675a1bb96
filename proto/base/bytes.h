// Views on bytes, and unaligned little-endian loads and stores for the wire.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace tidepool {

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

// All formats are the memory of a little-endian machine; a port to another must convert here.
static_assert(std::endian::native == std::endian::little);

inline Bytes AsBytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

inline std::string_view AsText(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <typename T>
requires std::is_trivially_copyable_v<T> T LoadUnaligned(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <typename T>
requires std::is_trivially_copyable_v<T>
void StoreUnaligned(std::byte* to, const T& value) { std::memcpy(to, &value, sizeof value); }

// Returns `value` rounded up to a multiple of `to`, a power of two.
constexpr std::uint64_t AlignUp(std::uint64_t value, std::uint64_t to) {
  return (value + to - 1) & ~(to - 1);
}

}  // namespace tidepool
