#include "storage/filter_pieces.h"

#include <algorithm>

#include "proto/base/check.h"

namespace tidepool::storage {

FilterPieces::FilterPieces(std::uint64_t filter_bytes)
    : bytes_(std::min(kBytesMax, filter_bytes)),
      locations_(filter_bytes / bytes_),
      is_changed_((locations_.size() + 63) / 64) {}

void FilterPieces::Take() {
  taken_.insert(taken_.end(), changed_.begin(), changed_.end());
  changed_.clear();
}

std::optional<std::uint32_t> FilterPieces::NextTaken() const {
  return taken_.empty() ? std::nullopt : std::optional(taken_.back());
}

void FilterPieces::BeginSave(std::uint32_t piece) {
  TP_CHECK(!taken_.empty() && taken_.back() == piece);
  taken_.pop_back();
  is_changed_[piece / 64] &= ~(std::uint64_t{1} << piece % 64);
}

FilterPieces::Key FilterPieces::KeyOf(std::uint64_t piece) {
  Key key;
  StoreUnaligned(key.bytes, piece);
  return key;
}

std::optional<std::uint32_t> FilterPieces::PieceOf(Bytes key) const {
  if (key.size() != sizeof(Key)) return std::nullopt;
  const auto piece = LoadUnaligned<std::uint64_t>(key.data());
  if (piece >= locations_.size()) return std::nullopt;
  return static_cast<std::uint32_t>(piece);
}

}  // namespace tidepool::storage
