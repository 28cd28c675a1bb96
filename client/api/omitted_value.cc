#include "client/api/omitted_value.h"

#include <utility>

#include "client/engine/space.h"

namespace tidepool::internal {

Status FetchOmitted(const BytesMap& map, std::chrono::milliseconds timeout, Record* record,
                    std::unique_ptr<Value>* room) {
  // The page says that the key exists. The cache of this process may be older, so read without it.
  const BytesMap plain(Namespace(map.space().space()->Plain()));
  Result<Value> value = plain.Get(record->key, {.timeout = timeout});
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
