// Which types may travel as their memory.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "tidepool/export.h"

namespace tidepool::internal {

// Numbers travel as they lie in memory, and counters are little-endian on the wire.
static_assert(std::endian::native == std::endian::little, "Tidepool needs a little-endian machine");

// Types that mean something inside their own process only.
template <typename T>
inline constexpr bool kIsAddress =
    std::is_pointer_v<T> || std::is_member_pointer_v<T> || std::is_null_pointer_v<T>;
template <typename Char, typename Traits>
inline constexpr bool kIsAddress<std::basic_string_view<Char, Traits>> = true;
template <typename T, std::size_t kExtent>
inline constexpr bool kIsAddress<std::span<T, kExtent>> = true;
template <typename T>
inline constexpr bool kIsAddress<std::reference_wrapper<T>> = true;

// Types whose codec asks for those of their parts: their memory is none, also where a part has
// none.
template <typename T>
inline constexpr bool kHasParts = false;
template <typename T>
inline constexpr bool kHasParts<std::optional<T>> = true;
template <typename T, std::size_t kCount>
inline constexpr bool kHasParts<std::array<T, kCount>> = true;
template <typename A, typename B>
inline constexpr bool kHasParts<std::pair<A, B>> = true;
template <typename... T>
inline constexpr bool kHasParts<std::tuple<T...>> = true;
template <typename... T>
inline constexpr bool kHasParts<std::variant<T...>> = true;

// Stand for members in a trial initialisation. Neither turns into an aggregate, so braces may be
// left out around those and the members of members come in one row.
struct AnyMember {
  template <typename T>
  requires(!std::is_aggregate_v<T> && !std::is_array_v<T>) operator T() const;
};
struct AddressMember {
  template <typename T>
  requires kIsAddress<T>
  operator T() const;
};

template <typename T, std::size_t... kBefore>
constexpr bool HasAddressBehind(std::index_sequence<kBefore...>) {
  return requires { T{(static_cast<void>(kBefore), AnyMember{})..., AddressMember{}}; };
}

// Of how many members one may be an address: each one costs the compiler a longer trial.
inline constexpr std::size_t kMembersLookedAt = 24;

// Whether one of the first members of an aggregate, or of aggregates inside it, is an address.
// False also where that cannot be seen: behind constructors, in unions, after the first 24.
template <typename T>
constexpr bool HoldsAddress() {
  if constexpr (std::is_class_v<T> && std::is_aggregate_v<T>) {
    return []<std::size_t... kAt>(std::index_sequence<kAt...>) {
      return (HasAddressBehind<T>(std::make_index_sequence<kAt>()) || ...);
    }
    (std::make_index_sequence<(sizeof(T) < kMembersLookedAt ? sizeof(T) : kMembersLookedAt)>());
  } else {
    return kIsAddress<T>;
  }
}

// References and `const` members make a type that cannot be assigned; `long double` has bytes that
// no operation sets.
template <typename T>
concept RawType = std::is_trivially_copyable_v<T> && std::is_object_v<T> && !std::is_array_v<T> &&
                  !std::is_const_v<T> && !std::is_volatile_v<T> && std::is_copy_assignable_v<T> &&
                  !std::is_same_v<T, long double> && !kHasParts<T> && !HoldsAddress<T>();

}  // namespace tidepool::internal
