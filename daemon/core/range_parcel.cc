#include "daemon/core/range_parcel.h"

#include <cstring>

#include "proto/base/check.h"

namespace tidepool::daemon {
namespace {

struct Header {
  std::uint64_t version;
  std::uint64_t expiry_ms;
  std::uint64_t number;
  std::uint32_t value_bytes;
  std::uint16_t key_bytes;
  std::uint8_t kind;
  std::uint8_t value_flags;
};
static_assert(sizeof(Header) == 32);

}  // namespace

void AppendItem(const RangeItem& item, std::vector<std::byte>* to) {
  const Header header{item.version,
                      item.expiry_ms,
                      item.number,
                      static_cast<std::uint32_t>(item.value.size() + item.value_tail.size()),
                      static_cast<std::uint16_t>(item.key.size()),
                      static_cast<std::uint8_t>(item.kind),
                      item.value_flags};
  const std::size_t at = to->size();
  to->resize(at + sizeof header);
  StoreUnaligned(to->data() + at, header);
  to->insert(to->end(), item.key.begin(), item.key.end());
  to->insert(to->end(), item.value.begin(), item.value.end());
  to->insert(to->end(), item.value_tail.begin(), item.value_tail.end());
}

RangeItem TakeItem(const std::vector<std::byte>& from, std::size_t* at) {
  const Bytes bytes(from);
  TP_CHECK(bytes.size() - *at >= sizeof(Header));
  const auto header = LoadUnaligned<Header>(bytes.data() + *at);
  *at += sizeof header;
  TP_CHECK(bytes.size() - *at >= header.key_bytes + std::size_t{header.value_bytes});
  RangeItem item;
  item.kind = static_cast<RangeItem::Kind>(header.kind);
  item.value_flags = header.value_flags;
  item.key = bytes.subspan(*at, header.key_bytes);
  item.value = bytes.subspan(*at + header.key_bytes, header.value_bytes);
  item.version = header.version;
  item.expiry_ms = header.expiry_ms;
  item.number = header.number;
  *at += header.key_bytes + std::size_t{header.value_bytes};
  return item;
}

}  // namespace tidepool::daemon
