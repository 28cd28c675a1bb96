// What the log has of a durable filter, and what has changed since.
//
//   bloom_store -> [FilterPieces]
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "proto/base/bytes.h"

namespace tidepool::storage {

// A filter lies outside of the log and is changed in place. For a checkpoint each piece that has
// changed is copied into the log, as a record whose key is the number of the piece; of these the
// newest counts. Pieces of 4 KiB: where values are few and anywhere, pieces of a whole block would
// write 16 times as much for each.
//
// Owner core only. Memory beside --memory: 8 bytes for each piece, 12 once it has changed, 0.3 % of
// the filter.
class FilterPieces {
 public:
  static constexpr std::uint64_t kBytesMax = 4096;

  explicit FilterPieces(std::uint64_t filter_bytes);

  std::uint64_t bytes() const { return bytes_; }  // Of each.
  std::uint64_t count() const { return locations_.size(); }

  // ---- Changes. `at`: of the filter's bytes.
  void NoteChanged(std::uint64_t at) {
    const std::uint64_t piece = at / bytes_;
    std::uint64_t& word = is_changed_[piece / 64];
    const std::uint64_t bit = std::uint64_t{1} << piece % 64;
    if ((word & bit) != 0) [[likely]]
      return;
    word |= bit;
    changed_.push_back(static_cast<std::uint32_t>(piece));
  }
  bool has_changed() const { return !changed_.empty() || !taken_.empty(); }
  // What has changed so far is to be saved; what was taken before and is not saved stays.
  void Take();
  std::optional<std::uint32_t> NextTaken() const;
  // Its record is being written: what changes from now on counts anew.
  void BeginSave(std::uint32_t piece);

  // ---- Records.
  struct Key {
    std::byte bytes[sizeof(std::uint64_t)];
    Bytes view() const { return bytes; }
  };
  static Key KeyOf(std::uint64_t piece);
  // None: it is no key of a piece of this filter.
  std::optional<std::uint32_t> PieceOf(Bytes key) const;
  // Of its record; 0: it has none.
  std::uint64_t& location(std::uint32_t piece) { return locations_[piece]; }
  const std::vector<std::uint64_t>& locations() const { return locations_; }

 private:
  const std::uint64_t bytes_;
  std::vector<std::uint64_t> locations_;
  std::vector<std::uint64_t> is_changed_;  // A bit each, until BeginSave.
  std::vector<std::uint32_t> changed_;
  std::vector<std::uint32_t> taken_;
};

}  // namespace tidepool::storage
