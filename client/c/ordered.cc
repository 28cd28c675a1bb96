// Iterators, and the ranges of ordered maps.
#include "tidepool/c/ordered.h"

#include <string>
#include <utility>
#include <variant>

#include "client/c/handles.h"

struct tidepool_iterator {
  static constexpr auto kTag = tidepool::c_api::Tag::kIterator;
  static constexpr const char* kName = "iterator";
  tidepool::c_api::Tagged tag{kTag};
  std::variant<tidepool::Iterator, tidepool::ScanIterator> walk;
  tidepool::Status failure;  // A failure of this API, which ends the walk.
};

namespace tidepool::c_api {
namespace {

void Store(const Record& from, tidepool_record* to) {
  *to = {ToC(from.key),      ToC(from.value), from.value_bytes,          from.version,
         from.expires_at_ms, ToC(from.kind),  from.value_omitted ? 1 : 0};
}

template <typename Find>
Status GiveEntry(const tidepool_namespace* map, const tidepool_range* range,
                 const tidepool_call_options* options, void* key_buffer,
                 std::size_t key_buffer_bytes, std::size_t* key_bytes, void* value_buffer,
                 std::size_t value_buffer_bytes, tidepool_value_info* value, Find find) {
  TP_RETURN_IF_ERROR(CheckKind(map, NamespaceKind::kOrdered));
  TP_RETURN_IF_ERROR(CheckOut(key_bytes, "key_bytes"));
  *key_bytes = 0;
  if (value != nullptr) *value = {};
  KeyRange in;
  TP_RETURN_IF_ERROR(Load(range, &in));
  return Run<CallOptions>(options, [&](const CallOptions& call) -> Status {
    const Result<Entry> found = find(in, call);
    TP_RETURN_IF_ERROR(found.status());
    *key_bytes = found->key.size();
    Describe(found->value, value);
    const Status copied = CopyOut(found->key, key_buffer, key_buffer_bytes);
    TP_RETURN_IF_ERROR(CopyOut(found->value.bytes, value_buffer, value_buffer_bytes));
    return copied;
  });
}

template <typename Count>
Status CountKeys(const tidepool_namespace* map, const tidepool_range* range,
                 const tidepool_call_options* options, std::uint64_t* keys, Count count) {
  TP_RETURN_IF_ERROR(CheckKind(map, NamespaceKind::kOrdered));
  KeyRange in;
  TP_RETURN_IF_ERROR(Load(range, &in));
  return Run<CallOptions>(options, [&](const CallOptions& call) -> Status {
    const Result<std::uint64_t> counted = count(in, call);
    TP_RETURN_IF_ERROR(counted.status());
    if (keys != nullptr) *keys = *counted;
    return {};
  });
}

}  // namespace
}  // namespace tidepool::c_api

using namespace tidepool;         // NOLINT: the functions stand outside of every namespace.
using namespace tidepool::c_api;  // NOLINT

extern "C" {

tidepool_code tidepool_map_iterate(const tidepool_namespace* map,
                                   const tidepool_iterate_options* options,
                                   tidepool_iterator** iterator) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(iterator, "iterator"));
    TP_RETURN_IF_ERROR(CheckMap(map));
    IterateOptions iterate;
    Cursor from;
    TP_RETURN_IF_ERROR(Load(options, &iterate, &from));
    *iterator = new tidepool_iterator{.walk = map->map.NewIterator(iterate, from), .failure = {}};
    return {};
  });
}

tidepool_code tidepool_ordered_scan(const tidepool_namespace* map, const tidepool_range* range,
                                    const tidepool_scan_options* options,
                                    tidepool_iterator** iterator) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(iterator, "iterator"));
    TP_RETURN_IF_ERROR(CheckKind(map, NamespaceKind::kOrdered));
    KeyRange in;
    ScanOptions scan;
    TP_RETURN_IF_ERROR(Load(range, &in));
    TP_RETURN_IF_ERROR(Load(options, &scan));
    *iterator = new tidepool_iterator{.walk = map->map.NewScan(in, scan), .failure = {}};
    return {};
  });
}

int tidepool_iterator_next(tidepool_iterator* iterator, tidepool_record* record) {
  bool found = false;
  Status failure;
  const tidepool_code code = Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(iterator));
    TP_RETURN_IF_ERROR(iterator->failure);
    iterator->failure = CheckOut(record, "record");
    TP_RETURN_IF_ERROR(iterator->failure);
    return std::visit(
        [&](auto& walk) -> Status {
          if (!walk.Next()) return walk.status();
          Store(walk.record(), record);
          found = true;
          return {};
        },
        iterator->walk);
  });
  // An exception ends the walk, too: its place is not known any more.
  if (code != TIDEPOOL_OK && Check(iterator).ok() && iterator->failure.ok() &&
      std::visit([](auto& walk) { return walk.status().ok(); }, iterator->walk)) {
    iterator->failure = Status(StatusCode::kResourceExhausted, "no memory in this process");
  }
  return found ? 1 : 0;
}

tidepool_code tidepool_iterator_status(const tidepool_iterator* iterator) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(iterator));
    TP_RETURN_IF_ERROR(iterator->failure);
    return std::visit([](const auto& walk) { return walk.status(); }, iterator->walk);
  });
}

uint64_t tidepool_iterator_unreadable(const tidepool_iterator* iterator) {
  if (!Check(iterator).ok()) return 0;
  return std::visit([](const auto& walk) { return walk.unreadable(); }, iterator->walk);
}

tidepool_code tidepool_iterator_cursor(const tidepool_iterator* iterator, void* buffer,
                                       size_t buffer_bytes, size_t* cursor_bytes) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(iterator));
    TP_RETURN_IF_ERROR(CheckOut(cursor_bytes, "cursor_bytes"));
    *cursor_bytes = 0;
    const auto* walk = std::get_if<Iterator>(&iterator->walk);
    if (walk == nullptr) {
      return Status(StatusCode::kUnimplemented, "a scan has no cursor",
                    "begin another one with after_begin behind the last key");
    }
    const std::string cursor = EncodeCursor(walk->cursor());
    *cursor_bytes = cursor.size();
    return CopyOut(cursor, buffer, buffer_bytes);
  });
}

void tidepool_iterator_free(tidepool_iterator* iterator) { Free(iterator); }

tidepool_code tidepool_ordered_first(const tidepool_namespace* map, const tidepool_range* range,
                                     const tidepool_call_options* options, void* key_buffer,
                                     size_t key_buffer_bytes, size_t* key_bytes, void* value_buffer,
                                     size_t value_buffer_bytes, tidepool_value_info* value) {
  return Guarded([&] {
    return GiveEntry(map, range, options, key_buffer, key_buffer_bytes, key_bytes, value_buffer,
                     value_buffer_bytes, value, [&](const KeyRange& in, const CallOptions& call) {
                       return map->map.First(in, call);
                     });
  });
}

tidepool_code tidepool_ordered_last(const tidepool_namespace* map, const tidepool_range* range,
                                    const tidepool_call_options* options, void* key_buffer,
                                    size_t key_buffer_bytes, size_t* key_bytes, void* value_buffer,
                                    size_t value_buffer_bytes, tidepool_value_info* value) {
  return Guarded([&] {
    return GiveEntry(map, range, options, key_buffer, key_buffer_bytes, key_bytes, value_buffer,
                     value_buffer_bytes, value, [&](const KeyRange& in, const CallOptions& call) {
                       return map->map.Last(in, call);
                     });
  });
}

tidepool_code tidepool_ordered_count(const tidepool_namespace* map, const tidepool_range* range,
                                     const tidepool_call_options* options, uint64_t* keys) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(CheckOut(keys, "keys"));
    return CountKeys(map, range, options, keys, [&](const KeyRange& in, const CallOptions& call) {
      return map->map.CountRange(in, call);
    });
  });
}

tidepool_code tidepool_ordered_erase(const tidepool_namespace* map, const tidepool_range* range,
                                     const tidepool_call_options* options, uint64_t* keys) {
  return Guarded([&]() -> Status {
    return CountKeys(map, range, options, keys, [&](const KeyRange& in, const CallOptions& call) {
      return map->map.EraseRange(in, call);
    });
  });
}

}  // extern "C"
