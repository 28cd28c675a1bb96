// Pieces of a durable filter in the log, and the pieces changed since.
//
//   bloom_store -> [FilterPieces]
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "proto/base/bytes.h"

namespace tidepool::storage {

// A filter lies outside of the log and is changed in place. For a checkpoint each changed piece is
// copied into the log. The record's key is the number of the piece; the newest record of a piece
// counts. Pieces have 4 KiB: for few scattered values, pieces of a whole block would write 16 times
// as much per value.
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
  // Marks all present changes for saving; earlier marks that are not yet saved stay.
  void Take();
  std::optional<std::uint32_t> NextTaken() const;
  // The record of the piece is being written: later changes count anew.
  void BeginSave(std::uint32_t piece);

  // ---- Records.
  struct Key {
    std::byte bytes[sizeof(std::uint64_t)];
    Bytes view() const { return bytes; }
  };
  static Key KeyOf(std::uint64_t piece);
  // None: it is no key of a piece of this filter.
  std::optional<std::uint32_t> PieceOf(Bytes key) const;
  // Location of its record; 0: no record.
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
