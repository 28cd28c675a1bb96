// Types that may travel as their memory.
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

// Types that have a meaning only inside their own process.
template <typename T>
inline constexpr bool kIsAddress =
    std::is_pointer_v<T> || std::is_member_pointer_v<T> || std::is_null_pointer_v<T>;
template <typename Char, typename Traits>
inline constexpr bool kIsAddress<std::basic_string_view<Char, Traits>> = true;
template <typename T, std::size_t kExtent>
inline constexpr bool kIsAddress<std::span<T, kExtent>> = true;
template <typename T>
inline constexpr bool kIsAddress<std::reference_wrapper<T>> = true;

// Types encoded through the codecs of their parts, never as memory.
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

// Stand for members in a trial initialisation. Neither converts to an aggregate, so the compiler
// lets braces of nested members be omitted and takes all members in one row.
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

// Number of members that are checked for addresses; each costs the compiler a longer trial.
inline constexpr std::size_t kMembersLookedAt = 24;

// Returns true if one of the first members of an aggregate, or of nested aggregates, is an address.
// Cannot see addresses behind constructors, in unions, or after the first 24 members.
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

// Excludes types with reference or `const` members, because they cannot be assigned. Excludes `long
// double`, because it has bytes that no operation sets.
template <typename T>
concept RawType = std::is_trivially_copyable_v<T> && std::is_object_v<T> && !std::is_array_v<T> &&
                  !std::is_const_v<T> && !std::is_volatile_v<T> && std::is_copy_assignable_v<T> &&
                  !std::is_same_v<T, long double> && !kHasParts<T> && !HoldsAddress<T>();

}  // namespace tidepool::internal
