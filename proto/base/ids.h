// Strong ids: an id of one kind cannot be passed where another is meant.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

#include "proto/base/limits.h"

namespace tidepool {

template <typename Tag, typename Rep>
class Id {
 public:
  using rep = Rep;
  constexpr Id() = default;
  explicit constexpr Id(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }
  friend constexpr auto operator<=>(const Id&, const Id&) = default;

 private:
  Rep value_ = 0;
};

// A daemon's place in the cluster: 0 is the first node (the embedded coordinator), then nodes in
// the order of joining. Stable for a node's UUID across restarts.
using NodeId = Id<struct NodeTag, std::uint16_t>;
// A core's number within its node.
using CoreId = Id<struct CoreTag, std::uint16_t>;
// Never reused, not even after a drop. 0 is no namespace. Below 2^20, see PartitionId.
using NamespaceId = Id<struct NamespaceTag, std::uint32_t>;
// Version of the placement map, monotone; information only, ownership decides by term.
using Epoch = Id<struct EpochTag, std::uint64_t>;
// Raised by the coordinator at each grant of a partition. 20 bits (it is part of an LSN).
using Term = Id<struct TermTag, std::uint32_t>;
// 64 random bits, handed out by Attach: a bearer secret on the cluster network.
using SessionId = Id<struct SessionTag, std::uint64_t>;

// {namespace:20, index:12}: unique in the cluster's life because namespace ids are never reused.
class PartitionId {
 public:
  static constexpr int kIndexBits = 12;
  constexpr PartitionId() = default;
  explicit constexpr PartitionId(std::uint32_t value) : value_(value) {}
  constexpr PartitionId(NamespaceId space, std::uint32_t index)
      : value_(space.value() << kIndexBits | index) {}
  constexpr std::uint32_t value() const { return value_; }
  constexpr NamespaceId space() const { return NamespaceId(value_ >> kIndexBits); }
  constexpr std::uint32_t index() const { return value_ & ((1u << kIndexBits) - 1); }
  friend constexpr auto operator<=>(const PartitionId&, const PartitionId&) = default;

 private:
  std::uint32_t value_ = 0;
};

// {term:20, counter:44}: the version of a record is the LSN of its last change. Terms grow at each
// grant, so versions grow across delete, crash, move and split. 0: no version.
class Lsn {
 public:
  static constexpr int kCounterBits = 44;
  constexpr Lsn() = default;
  explicit constexpr Lsn(std::uint64_t value) : value_(value) {}
  constexpr Lsn(Term term, std::uint64_t counter)
      : value_(std::uint64_t{term.value()} << kCounterBits | counter) {}
  constexpr std::uint64_t value() const { return value_; }
  constexpr Term term() const { return Term(static_cast<std::uint32_t>(value_ >> kCounterBits)); }
  constexpr std::uint64_t counter() const { return value_ & ((1ull << kCounterBits) - 1); }
  friend constexpr auto operator<=>(const Lsn&, const Lsn&) = default;

 private:
  std::uint64_t value_ = 0;
};

static_assert(limits::kPartitionsPerNamespaceMax <= 1u << PartitionId::kIndexBits);
static_assert(limits::kNamespacesMax < 1u << (32 - PartitionId::kIndexBits));
static_assert(limits::kTermMax < 1u << (64 - Lsn::kCounterBits));

}  // namespace tidepool

template <typename Tag, typename Rep>
struct std::hash<tidepool::Id<Tag, Rep>> {
  std::size_t operator()(const tidepool::Id<Tag, Rep>& id) const noexcept {
    return std::hash<Rep>{}(id.value());
  }
};

template <>
struct std::hash<tidepool::PartitionId> {
  std::size_t operator()(const tidepool::PartitionId& id) const noexcept {
    return std::hash<std::uint32_t>{}(id.value());
  }
};
