#include "client/omitted_value.h"

#include <utility>

namespace tidepool::internal {

Status FetchOmitted(const BytesMap& map, std::chrono::milliseconds timeout, Record* record,
                    std::unique_ptr<Value>* room) {
  Result<Value> value = map.Get(record->key, {timeout});
  if (!value.ok()) return value.status();
  *room = std::make_unique<Value>(*std::move(value));
  record->value = (*room)->bytes;
  record->value_bytes = (*room)->bytes.size();
  record->value_omitted = false;
  record->kind = (*room)->kind;
  record->version = (*room)->version;
  return {};
}

}  // namespace tidepool::internal
