// A store and a direct reader of it in one process. A test may damage the memory between them.
#pragma once

#include <catch2/catch.hpp>

#include <array>
#include <atomic>
#include <string>
#include <string_view>

#include "client/direct/arena_map.h"
#include "client/direct/direct_reader.h"
#include "tests/storage/store_fixture.h"

namespace tidepool::internal {

inline constexpr std::uint64_t kLeaseNs = 1'000'000'000;

struct DirectFixture : storage::StoreFixture {
  explicit DirectFixture(const storage::StoreOptions& options = {})
      : StoreFixture(options),
        map(pool->base(), (pool->block_count_max() + 1) * pool->block_bytes(),
            std::countr_zero(pool->block_bytes())),
        reader(map, clock) {
    ShowLease();
    Open();
  }

  void ShowLease() {
    const std::uint64_t now_ns = clock.MonotonicNs();
    core->ShowLease(now_ns + kLeaseNs, now_ns, [](const storage::Partition&) { return true; });
  }
  // Maps the owner's present memory and views.
  void Open() {
    map.NoteMapped(pool->block_bytes(), pool->usage().mapped_bytes);
    const auto given = core->ViewOf(*partition);
    REQUIRE(given.has_value());
    view = *given;
    std::uint64_t missing = 0;
    REQUIRE(reader.Open(view, &opened, &missing) == DirectRefusal::kNone);
  }

  DirectRead Read(std::string_view key) {
    map.NoteMapped(pool->block_bytes(), pool->usage().mapped_bytes);
    return reader.Get(opened, AsBytes(key), Hash(key), room);
  }
  // Returns the value, or the reason for its absence in angle brackets.
  std::string Direct(std::string_view key) {
    const DirectRead read = Read(key);
    switch (read.outcome) {
      case DirectRead::Outcome::kFound:
        return std::string(AsText(Bytes(room).first(read.value_bytes)));
      case DirectRead::Outcome::kNotFound:
        return "<absent>";
      case DirectRead::Outcome::kAskOwner:
        break;
    }
    return std::string("<") + NameOf(read.refusal) + ">";
  }

  // ---- Content of the arenas, writable.
  template <typename T>
  T& Shared(std::uint64_t node_offset) {
    return *reinterpret_cast<T*>(pool->base() + node_offset);
  }
  storage::SharedRoot& core_root() { return Shared<storage::SharedRoot>(view.core_root); }
  storage::SharedRoot& root() { return Shared<storage::SharedRoot>(view.root); }
  storage::Bucket& HomeOf(std::string_view key) {
    const std::uint64_t state = root().growth;
    const unsigned level = storage::growth::Level(state);
    std::uint64_t number = Hash(key) & ((1ull << level) - 1);
    if (number < storage::growth::Split(state)) number = Hash(key) & ((2ull << level) - 1);
    const storage::BucketPlaces places(pool->block_bytes());
    const std::size_t piece = places.PieceOf(number);
    const auto begin =
        Shared<std::uint64_t>(storage::directory::EntryOffset(root().directory, piece));
    return Shared<storage::Bucket>(begin +
                                   (number - places.PieceBegin(piece)) * sizeof(storage::Bucket));
  }
  std::uint64_t LocationOf(std::string_view key) { return Get(key).location; }
  storage::SegmentEntry& SegmentOf(std::string_view key) {
    const std::uint64_t index = LocationOf(key) * 8 / pool->block_bytes();
    const auto page = Shared<std::uint64_t>(storage::directory::EntryOffset(
        core_root().directory, index / storage::kSegmentEntriesPerPage));
    return Shared<storage::SegmentEntry>(page + index % storage::kSegmentEntriesPerPage *
                                                    sizeof(storage::SegmentEntry));
  }
  storage::RecordHeader& RecordOf(std::string_view key) {
    return Shared<storage::RecordHeader>(SegmentOf(key).frame +
                                         LocationOf(key) * 8 % pool->block_bytes());
  }

  ArenaMap map;
  DirectReader reader;
  storage::DirectView view{};
  DirectPartition opened;
  std::array<std::byte, 8192> room{};
};

}  // namespace tidepool::internal
