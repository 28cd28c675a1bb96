// The record of a part of a sparse file leaves out the part's holes. Here its bytes get back their
// places.
//
//   stage-out, readers of a large file -> [holes] -> entry.h
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "proto/base/bytes.h"
#include "proto/base/result.h"
#include "proto/manifest/content_hash.h"
#include "proto/manifest/entry.h"

namespace tidepool::manifest {

inline std::uint64_t HoleBytes(const Entry& entry) {
  std::uint64_t bytes = 0;
  for (const Hole& hole : entry.holes) bytes += hole.bytes;
  return bytes;
}

// Adds `bytes` zeros to a hash.
void AddZeros(std::uint64_t bytes, ContentHash* hash);
// Returns the hash of `bytes` zeros; for a whole part it is computed once.
Hash128 HashOfZeros(std::uint64_t bytes);

// Walks over a part's data and holes in order. `data(offset, Bytes)` and `zeros(offset, bytes)`
// return a Status; the first failure ends the walk. Single-threaded; the entry must outlive it.
template <typename Data, typename Zeros>
class HoleWalk {
 public:
  HoleWalk(const Entry& entry, Data data, Zeros zeros)
      : entry_(entry), data_(std::move(data)), zeros_(std::move(zeros)) {}

  // The next bytes of the record. Errors: kDataLoss (more than the entry has room for).
  Status Add(Bytes piece) {
    while (!piece.empty()) {
      TP_RETURN_IF_ERROR(PassHoles());
      const std::uint64_t end =
          next_ < entry_.holes.size() ? entry_.holes[next_].offset : entry_.size;
      const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), end - at_));
      if (bytes == 0) return Unfit();
      TP_RETURN_IF_ERROR(data_(at_, piece.first(bytes)));
      piece = piece.subspan(bytes);
      at_ += bytes;
    }
    return OkStatus();
  }
  // After the last byte. Errors: kDataLoss (there should be more).
  Status Finish() {
    TP_RETURN_IF_ERROR(PassHoles());
    return at_ == entry_.size ? OkStatus() : Unfit();
  }

 private:
  Status PassHoles() {
    for (; next_ < entry_.holes.size() && entry_.holes[next_].offset == at_; ++next_) {
      TP_RETURN_IF_ERROR(zeros_(at_, entry_.holes[next_].bytes));
      at_ += entry_.holes[next_].bytes;
    }
    return OkStatus();
  }
  static Status Unfit() {
    return Status(StatusCode::kDataLoss, "a part has another size than its entry says",
                  "stage it in again");
  }

  const Entry& entry_;
  Data data_;
  Zeros zeros_;
  std::uint64_t at_ = 0;
  std::size_t next_ = 0;
};

// Appends the content of a part to `content`: its record and its holes. Errors: kDataLoss (the
// record has another size than the entry says).
Status AppendPart(const Entry& part, Bytes record, std::string* content);

}  // namespace tidepool::manifest
