// Buffered handles of all kinds.
#include "tidepool/c/buffered.h"

#include <string_view>
#include <variant>

#include "client/c/buffered_handle.h"
#include "client/c/handles.h"

namespace tidepool::c_api {
namespace {

// Finds the buffered handle of the kind that a function is for.
template <typename Handle>
Status Of(tidepool_buffered* buffered, const char* kinds, Handle** handle) {
  TP_RETURN_IF_ERROR(Check(buffered));
  *handle = std::get_if<Handle>(&buffered->handle);
  if (*handle != nullptr) return {};
  return Status(StatusCode::kFailedPrecondition,
                std::string("the buffered handle is of no namespace of kind ") + kinds,
                "use the functions of its kind");
}

// Adds an operation on one key of a map: `add(map, key)`.
template <typename AddTo>
Status AddToMap(tidepool_buffered* buffered, const void* key, std::size_t key_bytes, AddTo add) {
  BufferedBytesMap* map = nullptr;
  TP_RETURN_IF_ERROR(Of(buffered, "hash or ordered", &map));
  std::string_view text;
  TP_RETURN_IF_ERROR(View(key, key_bytes, "key", &text));
  add(map, text);
  return {};
}

// Adds an operation with a value: `add(map, key, value, options)`.
template <typename AddTo>
Status AddValueToMap(tidepool_buffered* buffered, const void* key, std::size_t key_bytes,
                     const void* value, std::size_t value_bytes, std::uint64_t ttl_ms,
                     tidepool_value_kind kind, AddTo add) {
  std::string_view content;
  BufferedPutOptions options;
  TP_RETURN_IF_ERROR(View(value, value_bytes, "value", &content));
  TP_RETURN_IF_ERROR(LoadBufferedPut(ttl_ms, kind, &options));
  return AddToMap(buffered, key, key_bytes, [&](BufferedBytesMap* map, std::string_view text) {
    add(map, text, content, options);
  });
}

const BufferedHandle& Base(const tidepool_buffered& buffered) {
  return std::visit([](const auto& handle) -> const BufferedHandle& { return handle; },
                    buffered.handle);
}

tidepool_buffered* Make(const tidepool_namespace& space, const BufferedOptions& options) {
  switch (space.kind) {
    case NamespaceKind::kQueue:
      return new tidepool_buffered{.handle = space.queue.Buffered(options)};
    case NamespaceKind::kPriority:
      return new tidepool_buffered{.handle = space.priority_queue.Buffered(options)};
    case NamespaceKind::kBloom:
      return new tidepool_buffered{.handle = space.bloom.Buffered(options)};
    default:
      return new tidepool_buffered{.handle = space.map.Buffered(options)};
  }
}

}  // namespace
}  // namespace tidepool::c_api

using namespace tidepool;         // NOLINT: the functions stand outside of every namespace.
using namespace tidepool::c_api;  // NOLINT
using std::string_view;

extern "C" {

tidepool_code tidepool_buffered_open(const tidepool_namespace* space,
                                     const tidepool_buffered_options* options,
                                     tidepool_buffered** buffered) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(buffered, "buffered"));
    TP_RETURN_IF_ERROR(Check(space));
    BufferedOptions loaded;
    TP_RETURN_IF_ERROR(Load(options, &loaded));
    *buffered = Make(*space, loaded);
    return {};
  });
}

void tidepool_buffered_free(tidepool_buffered* buffered) { Free(buffered); }

tidepool_code tidepool_buffered_put(tidepool_buffered* buffered, const void* key, size_t key_bytes,
                                    const void* value, size_t value_bytes, uint64_t ttl_ms,
                                    tidepool_value_kind kind) {
  return Guarded([&] {
    return AddValueToMap(
        buffered, key, key_bytes, value, value_bytes, ttl_ms, kind,
        [](BufferedBytesMap* map, string_view text, string_view content,
           const BufferedPutOptions& options) { map->Put(text, content, options); });
  });
}

tidepool_code tidepool_buffered_insert(tidepool_buffered* buffered, const void* key,
                                       size_t key_bytes, const void* value, size_t value_bytes,
                                       uint64_t ttl_ms, tidepool_value_kind kind) {
  return Guarded([&] {
    return AddValueToMap(
        buffered, key, key_bytes, value, value_bytes, ttl_ms, kind,
        [](BufferedBytesMap* map, string_view text, string_view content,
           const BufferedPutOptions& options) { map->Insert(text, content, options); });
  });
}

tidepool_code tidepool_buffered_add(tidepool_buffered* buffered, const void* key, size_t key_bytes,
                                    int64_t by) {
  return Guarded([&] {
    return AddToMap(buffered, key, key_bytes,
                    [&](BufferedBytesMap* map, string_view text) { map->Add(text, by); });
  });
}

tidepool_code tidepool_buffered_add_f64(tidepool_buffered* buffered, const void* key,
                                        size_t key_bytes, double by) {
  return Guarded([&] {
    return AddToMap(buffered, key, key_bytes,
                    [&](BufferedBytesMap* map, string_view text) { map->AddF64(text, by); });
  });
}

tidepool_code tidepool_buffered_add_if_present(tidepool_buffered* buffered, const void* key,
                                               size_t key_bytes, int64_t by) {
  return Guarded([&] {
    return AddToMap(buffered, key, key_bytes,
                    [&](BufferedBytesMap* map, string_view text) { map->AddIfPresent(text, by); });
  });
}

tidepool_code tidepool_buffered_insert_value(tidepool_buffered* buffered, const void* value,
                                             size_t value_bytes) {
  return Guarded([&]() -> Status {
    BufferedBytesBloom* bloom = nullptr;
    TP_RETURN_IF_ERROR(Of(buffered, "bloom", &bloom));
    string_view content;
    TP_RETURN_IF_ERROR(View(value, value_bytes, "value", &content));
    bloom->Insert(content);
    return {};
  });
}

tidepool_code tidepool_buffered_push(tidepool_buffered* buffered, uint64_t priority,
                                     const void* value, size_t value_bytes, uint64_t ttl_ms) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(buffered));
    string_view content;
    BufferedPushOptions options;
    TP_RETURN_IF_ERROR(View(value, value_bytes, "value", &content));
    TP_RETURN_IF_ERROR(LoadBufferedPush(ttl_ms, &options));
    if (auto* by_priority = std::get_if<BufferedBytesPriorityQueue>(&buffered->handle)) {
      by_priority->Push(priority, content, options);
      return {};
    }
    BufferedBytesQueue* queue = nullptr;
    TP_RETURN_IF_ERROR(Of(buffered, "queue or priority", &queue));
    if (priority != 0) {
      return BadArgument("priority", "is not 0, and the namespace is of kind queue");
    }
    queue->Push(content, options);
    return {};
  });
}

tidepool_code tidepool_buffered_flush(tidepool_buffered* buffered) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(buffered));
    return std::visit([](auto& handle) { return handle.Flush(); }, buffered->handle);
  });
}

tidepool_code tidepool_buffered_progress(tidepool_buffered* buffered) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(buffered));
    std::visit([](auto& handle) { handle.Progress(); }, buffered->handle);
    return {};
  });
}

size_t tidepool_buffered_failures(const tidepool_buffered* buffered) {
  return Check(buffered).ok() ? Base(*buffered).failures().size() : 0;
}

tidepool_code tidepool_buffered_get_failure(const tidepool_buffered* buffered, size_t index,
                                            tidepool_buffered_failure* failure) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(CheckOut(failure, "failure"));
    *failure = {};
    TP_RETURN_IF_ERROR(Check(buffered));
    TP_RETURN_IF_ERROR(CheckIndex(index, Base(*buffered).failures().size()));
    const BufferedFailure& from = Base(*buffered).failures()[index];
    *failure = {{from.key.c_str(), from.key.size()}, from.item, ToC(from.status.code()), 0};
    return from.status;
  });
}

tidepool_code tidepool_buffered_get_counts(const tidepool_buffered* buffered,
                                           tidepool_buffered_counts* counts) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(CheckOut(counts, "counts"));
    TP_RETURN_IF_ERROR(Check(buffered));
    const BufferedCounts from = Base(*buffered).counts();
    *counts = {from.operations, from.buffers, from.forwarded, from.failed,
               Base(*buffered).pending()};
    return {};
  });
}

}  // extern "C"
