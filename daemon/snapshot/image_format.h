// The bytes of a partition's image in a file: storage/FORMAT.md has them one by one.
//
//   partition_source -> [AppendItem] -> file => [ImageDecoder] -> load_images
//
// A file is a preface and items in the order in which they happened. Who obeys them one after the
// other has, behind the last one, what the partition held at its end.
#pragma once

#include <cstdint>
#include <string>

#include "proto/base/bytes.h"
#include "proto/base/result.h"

namespace tidepool::daemon::snapshot {

inline constexpr std::uint32_t kImageFormat = 1;
// Of an item: larger values come in parts.
inline constexpr std::size_t kItemValueBytesMax = 2 * 1024 * 1024;

struct ImageItem {
  enum class Kind : std::uint8_t {
    kPut = 1,     // The key has this value.
    kDelete,      // The key is gone.
    kLargeBegin,  // The key will have a value of `number` bytes, whose parts follow.
    kLargePart,   // The next bytes of it, which belong at `number`.
    kLargeEnd,    // The key has it.
    kLargeDrop,   // It has changed meanwhile: the parts mean nothing.
    kEnd,         // Nothing follows; `number` items came before, `version` is that of the image.
    kBlock,       // Of a filter: the bits of its block `number` are also set.
    kInsert,      // Of a filter: the value whose hash is `number` was inserted.
  };
  Kind kind = Kind::kPut;
  std::uint8_t value_flags = 0;  // As storage::LogRecord has them.
  Bytes key;                     // Of a queue's item as storage::ItemKey has it.
  Bytes value;
  Bytes value_tail;  // Follows `value`; writing only.
  std::uint64_t version = 0;
  std::uint64_t expiry_ms = 0;  // Absolute wall time; 0 is never.
  std::uint64_t number = 0;

  std::size_t bytes() const;  // In the file.
};

// What a file begins with.
std::string ImagePreface();
void AppendItem(const ImageItem& item, std::string* to);

// Of one file, from its beginning. Total: any bytes give items or a failure, and no more memory
// than they have themselves.
class ImageDecoder {
 public:
  // Takes the next item off the front of `*rest`, which its views are of. False: more bytes are
  // needed to know it, at most kItemBytesMax. Errors: kDataLoss (no such file, or one that is
  // damaged), kUnimplemented (of a format that this version does not know).
  Result<bool> Next(Bytes* rest, ImageItem* item);
  // The end has come; nothing may follow.
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
