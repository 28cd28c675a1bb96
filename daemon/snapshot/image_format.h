// The bytes of a partition's image in a file: storage/FORMAT.md describes each byte.
//
//   partition_source -> [AppendItem] -> file => [ImageDecoder] -> load_images
//
// A file is a preface and items in order of time. Applying all items in order gives the partition's
// content at the end of the image.
#pragma once

#include <cstdint>
#include <string>

#include "proto/base/bytes.h"
#include "proto/base/result.h"

namespace tidepool::daemon::snapshot {

inline constexpr std::uint32_t kImageFormat = 1;
// Maximum value of an item; larger values come in parts.
inline constexpr std::size_t kItemValueBytesMax = 2 * 1024 * 1024;

struct ImageItem {
  enum class Kind : std::uint8_t {
    kPut = 1,     // The key has this value.
    kDelete,      // The key is deleted.
    kLargeBegin,  // The key will have a value of `number` bytes; its parts follow.
    kLargePart,   // The bytes of that value from offset `number` on.
    kLargeEnd,    // The value is complete.
    kLargeDrop,   // The key has changed meanwhile: the parts are void.
    kEnd,         // End of the image: `number` items came before; `version` is the image's.
    kBlock,       // For a filter: also set the bits of block `number`.
    kInsert,      // For a filter: a value with hash `number` was inserted.
  };
  Kind kind = Kind::kPut;
  std::uint8_t value_flags = 0;  // Flags of storage::LogRecord.
  Bytes key;                     // For an item of a queue: storage::ItemKey.
  Bytes value;
  Bytes value_tail;  // Follows `value`; writing only.
  std::uint64_t version = 0;
  std::uint64_t expiry_ms = 0;  // Absolute wall time; 0: never.
  std::uint64_t number = 0;

  std::size_t bytes() const;  // Size in the file.
};

// Returns the first bytes of a file.
std::string ImagePreface();
void AppendItem(const ImageItem& item, std::string* to);

// Decodes one file from its beginning. Total: any bytes give items or a failure, and use no more
// memory than their own size.
class ImageDecoder {
 public:
  // Removes the next item from the front of `*rest`; its views refer to `*rest`. Returns false if
  // more bytes are needed, at most kItemBytesMax.
  // Errors: kDataLoss (not an image, or damaged), kUnimplemented (an unknown format).
  Result<bool> Next(Bytes* rest, ImageItem* item);
  // Returns true after the end item; nothing may follow.
  bool ended() const { return ended_; }
  std::uint64_t items() const { return items_; }

 private:
  Result<bool> Preface(Bytes* rest);
  Status CheckOrder(const ImageItem& item);

  bool begun_ = false;
  bool ended_ = false;
  bool in_large_ = false;
  std::uint64_t items_ = 0;
  std::uint64_t large_bytes_ = 0;
  std::uint64_t large_done_ = 0;
};

extern const std::size_t kItemBytesMax;

}  // namespace tidepool::daemon::snapshot
