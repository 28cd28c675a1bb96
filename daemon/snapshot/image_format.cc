#include "daemon/snapshot/image_format.h"

#include <cstring>

#include "proto/base/limits.h"
#include "storage/layout.h"

namespace tidepool::daemon::snapshot {
namespace {

constexpr char kMagic[8] = {'T', 'P', 'I', 'M', 'A', 'G', 'E', '\n'};

struct FilePreface {
  char magic[8];
  std::uint32_t format;
  std::uint32_t zero;
};
static_assert(sizeof(FilePreface) == 16);

struct ItemHeader {
  std::uint64_t version;
  std::uint64_t expiry_ms;
  std::uint64_t number;
  std::uint32_t value_bytes;
  std::uint16_t key_bytes;
  std::uint8_t kind;
  std::uint8_t value_flags;
};
static_assert(sizeof(ItemHeader) == 32);
static_assert(limits::kKeyBytesMax <= UINT16_MAX);

Status Damaged(std::string what) { return Status(StatusCode::kDataLoss, std::move(what)); }

void AppendBytes(Bytes bytes, std::string* to) { to->append(AsText(bytes)); }

}  // namespace

const std::size_t kItemBytesMax = sizeof(ItemHeader) + limits::kKeyBytesMax + kItemValueBytesMax;

std::size_t ImageItem::bytes() const {
  return sizeof(ItemHeader) + key.size() + value.size() + value_tail.size();
}

std::string ImagePreface() {
  FilePreface preface{};
  std::memcpy(preface.magic, kMagic, sizeof kMagic);
  preface.format = kImageFormat;
  return std::string(reinterpret_cast<const char*>(&preface), sizeof preface);
}

void AppendItem(const ImageItem& item, std::string* to) {
  const ItemHeader header{item.version,
                          item.expiry_ms,
                          item.number,
                          static_cast<std::uint32_t>(item.value.size() + item.value_tail.size()),
                          static_cast<std::uint16_t>(item.key.size()),
                          static_cast<std::uint8_t>(item.kind),
                          item.value_flags};
  to->append(reinterpret_cast<const char*>(&header), sizeof header);
  AppendBytes(item.key, to);
  AppendBytes(item.value, to);
  AppendBytes(item.value_tail, to);
}

Result<bool> ImageDecoder::Preface(Bytes* rest) {
  if (rest->size() < sizeof(FilePreface)) return false;
  const auto preface = LoadUnaligned<FilePreface>(rest->data());
  if (std::memcmp(preface.magic, kMagic, sizeof kMagic) != 0) {
    return Damaged("this is no image of a partition");
  }
  if (preface.format != kImageFormat) {
    return Status(StatusCode::kUnimplemented,
                  "it is of format " + std::to_string(preface.format) +
                      ", and this version reads " + std::to_string(kImageFormat),
                  "restore it with the version of Tidepool that wrote it");
  }
  if (preface.zero != 0) return Damaged("its preface is damaged");
  *rest = rest->subspan(sizeof preface);
  begun_ = true;
  return true;
}

Result<bool> ImageDecoder::Next(Bytes* rest, ImageItem* item) {
  if (!begun_) {
    const Result<bool> begun = Preface(rest);
    if (!begun.ok() || !*begun) return begun;
  }
  if (rest->empty()) return false;
  if (ended_) return Damaged("something follows its end");
  if (rest->size() < sizeof(ItemHeader)) return false;
  const auto header = LoadUnaligned<ItemHeader>(rest->data());
  if (header.kind < static_cast<std::uint8_t>(ImageItem::Kind::kPut) ||
      header.kind > static_cast<std::uint8_t>(ImageItem::Kind::kInsert) ||
      header.key_bytes > limits::kKeyBytesMax || header.value_bytes > kItemValueBytesMax) {
    return Damaged("item " + std::to_string(items_) + " is damaged");
  }
  const std::size_t bytes = sizeof header + header.key_bytes + std::size_t{header.value_bytes};
  if (rest->size() < bytes) return false;
  ImageItem next;
  next.kind = static_cast<ImageItem::Kind>(header.kind);
  next.value_flags = header.value_flags;
  next.key = rest->subspan(sizeof header, header.key_bytes);
  next.value = rest->subspan(sizeof header + header.key_bytes, header.value_bytes);
  next.version = header.version;
  next.expiry_ms = header.expiry_ms;
  next.number = header.number;
  TP_RETURN_IF_ERROR(CheckOrder(next));
  *rest = rest->subspan(bytes);
  *item = next;
  if (!ended_) ++items_;
  return true;
}

// Also checks the item against its kind.
Status ImageDecoder::CheckOrder(const ImageItem& item) {
  using Kind = ImageItem::Kind;
  const Status damaged = Damaged("item " + std::to_string(items_) + " is out of order or bounds");
  const bool is_counter =
      item.value_flags == storage::kRecordI64 || item.value_flags == storage::kRecordF64;
  if (item.value_flags != 0 && !(is_counter && item.kind == Kind::kPut && item.value.size() == 8)) {
    return damaged;
  }
  const bool is_part = item.kind == Kind::kLargePart || item.kind == Kind::kLargeEnd ||
                       item.kind == Kind::kLargeDrop;
  if (is_part != in_large_ &&
      (is_part || item.kind == Kind::kLargeBegin || item.kind == Kind::kEnd)) {
    return damaged;
  }
  const bool has_value =
      item.kind == Kind::kPut || item.kind == Kind::kLargePart || item.kind == Kind::kBlock;
  if (!item.value.empty() && !has_value) return damaged;
  switch (item.kind) {
    case Kind::kPut:
    case Kind::kDelete:
      break;
    case Kind::kLargeBegin:
      if (item.number > limits::kValueBytesMax) return damaged;
      in_large_ = true;
      large_bytes_ = item.number;
      large_done_ = 0;
      break;
    case Kind::kLargePart:
      if (item.number != large_done_ || item.value.empty() ||
          item.value.size() > large_bytes_ - large_done_) {
        return damaged;
      }
      large_done_ += item.value.size();
      break;
    case Kind::kLargeEnd:
      if (large_done_ != large_bytes_) return damaged;
      in_large_ = false;
      break;
    case Kind::kLargeDrop:
      in_large_ = false;
      break;
    case Kind::kBlock:
      if (!item.key.empty() || item.value.empty() ||
          item.value.size() > limits::kFilterBlockBytes) {
        return damaged;
      }
      break;
    case Kind::kInsert:
      if (!item.key.empty()) return damaged;
      break;
    case Kind::kEnd:
      if (item.number != items_) return damaged;
      ended_ = true;
      break;
  }
  return OkStatus();
}

}  // namespace tidepool::daemon::snapshot
