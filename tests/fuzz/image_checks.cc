#include "tests/fuzz/image_checks.h"

#include <string>

#include "daemon/snapshot/image_format.h"
#include "proto/base/check.h"
#include "proto/base/limits.h"

namespace tidepool::fuzz {
namespace {

using daemon::snapshot::AppendItem;
using daemon::snapshot::ImageDecoder;
using daemon::snapshot::ImageItem;
using daemon::snapshot::ImagePreface;

bool Inside(Bytes view, Bytes whole) {
  return view.empty() ||
         (view.data() >= whole.data() && view.data() + view.size() <= whole.data() + whole.size());
}

// Everything that a reader relies on.
void CheckItem(const ImageItem& item) {
  using Kind = ImageItem::Kind;
  TP_CHECK(item.key.size() <= limits::kKeyBytesMax);
  TP_CHECK(item.value.size() <= daemon::snapshot::kItemValueBytesMax);
  TP_CHECK(item.value_flags == 0 || item.value.size() == 8);
  if (item.kind == Kind::kLargeBegin) TP_CHECK(item.number <= limits::kValueBytesMax);
  if (item.kind == Kind::kBlock) {
    TP_CHECK(!item.value.empty());
    TP_CHECK(item.value.size() <= limits::kFilterBlockBytes);
  }
  if (item.kind == Kind::kBlock || item.kind == Kind::kInsert) TP_CHECK(item.key.empty());
}

}  // namespace

bool CheckImage(Bytes input) {
  ImageDecoder decoder;
  Bytes rest = input;
  std::uint64_t items = 0;
  std::string again = ImagePreface();
  for (;;) {
    ImageItem item;
    const std::size_t before = rest.size();
    const auto taken = decoder.Next(&rest, &item);
    if (!taken.ok()) {
      TP_CHECK(taken.code() == StatusCode::kDataLoss || taken.code() == StatusCode::kUnimplemented);
      return false;
    }
    if (!*taken) break;
    TP_CHECK(rest.size() < before);
    TP_CHECK(Inside(item.key, input));
    TP_CHECK(Inside(item.value, input));
    CheckItem(item);
    AppendItem(item, &again);
    if (!decoder.ended()) ++items;
  }
  TP_CHECK(decoder.items() == items);
  if (!decoder.ended() || !rest.empty()) return false;
  TP_CHECK(again == AsText(input));
  return true;
}

}  // namespace tidepool::fuzz
