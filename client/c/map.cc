// Maps: each function calls a function of BytesMap.
#include "tidepool/c/map.h"

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "client/c/handles.h"

namespace tidepool::c_api {
namespace {

// Makes a call on one key: `call(map, key, options)` returns its Status.
template <typename Options = CallOptions, typename COptions, typename Call>
Status OnKey(const tidepool_namespace* space, const void* key, std::size_t key_bytes,
             const COptions* options, Call call) {
  TP_RETURN_IF_ERROR(CheckMap(space));
  std::string_view text;
  TP_RETURN_IF_ERROR(View(key, key_bytes, "key", &text));
  const BytesMap& map = space->map;
  return Run<Options>(options, [&](const Options& loaded) { return call(map, text, loaded); });
}

// Makes a call on one key whose result becomes a handle of a value.
template <typename Call>
Status ValueOnKey(const tidepool_namespace* space, const void* key, std::size_t key_bytes,
                  const tidepool_call_options* options, tidepool_value** value, Call call) {
  TP_RETURN_IF_ERROR(Clear(value, "value"));
  return OnKey(space, key, key_bytes, options,
               [&](const BytesMap& map, std::string_view text, const CallOptions& loaded) {
                 Result<Value> result = call(map, text, loaded);
                 return result.ok() ? Give(*std::move(result), value) : result.status();
               });
}

// Makes a call on one key whose result is a number; `out` may be null.
template <typename Options = CallOptions, typename COptions, typename Number, typename Call>
Status NumberOnKey(const tidepool_namespace* space, const void* key, std::size_t key_bytes,
                   const COptions* options, Number* out, Call call) {
  return OnKey<Options>(space, key, key_bytes, options,
                        [&](const BytesMap& map, std::string_view text, const Options& loaded) {
                          const auto result = call(map, text, loaded);
                          if (result.ok() && out != nullptr) *out = static_cast<Number>(*result);
                          return result.status();
                        });
}

// Starts a call on one key: `start(map, key, options)` returns its Future<T>.
template <typename T, typename Options = CallOptions, typename COptions, typename Start>
Status BeginOnKey(const tidepool_namespace* space, const void* key, std::size_t key_bytes,
                  const COptions* options, tidepool_future** future, Start start) {
  TP_RETURN_IF_ERROR(Clear(future, "future"));
  TP_RETURN_IF_ERROR(CheckMap(space));
  std::string_view text;
  TP_RETURN_IF_ERROR(View(key, key_bytes, "key", &text));
  const BytesMap& map = space->map;
  return Begin<T, Options>(options, future,
                           [&](const Options& loaded) { return start(map, text, loaded); });
}

Status LoadKeys(const tidepool_bytes* keys, std::size_t count, const char* name,
                std::vector<std::string_view>* to) {
  if (keys == nullptr && count > 0) return BadArgument(name, "is NULL and has a size");
  to->resize(count);
  for (std::size_t i = 0; i < count; ++i) TP_RETURN_IF_ERROR(View(keys[i], name, &(*to)[i]));
  return {};
}

Status LoadRecords(const tidepool_bytes* keys, const tidepool_bytes* values, std::size_t count,
                   std::vector<KeyValue>* to) {
  if (keys == nullptr && count > 0) return BadArgument("keys", "is NULL and has a size");
  if (values == nullptr && count > 0) return BadArgument("values", "is NULL and has a size");
  to->resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    TP_RETURN_IF_ERROR(View(keys[i], "keys", &(*to)[i].key));
    TP_RETURN_IF_ERROR(View(values[i], "values", &(*to)[i].value));
  }
  return {};
}

// Finds the size of a value that did not fit. A chain returns the size of a large value without
// the value. A value that fits by now is copied.
Status GetSize(const BytesMap& map, std::string_view key, std::span<std::byte> buffer,
               const CallOptions& options, tidepool_value_info* value) {
  Chain chain;
  chain.Get(key);
  CallOptions asked = options;
  asked.receipt = nullptr;
  const Result<ChainResult> answer = map.Execute(chain, asked);
  TP_RETURN_IF_ERROR(answer.status());
  TP_RETURN_IF_ERROR((*answer)[0].status);
  const ChainResult::Step& step = (*answer)[0];
  *value = {step.omitted ? static_cast<std::size_t>(step.value_bytes) : step.value.bytes.size(),
            step.version, ToC(step.value.kind)};
  if (!step.omitted) return CopyOut(step.value.bytes, buffer.data(), buffer.size());
  return Status(StatusCode::kOutOfRange,
                "a buffer of " + std::to_string(buffer.size()) + " bytes is too small for " +
                    std::to_string(value->bytes),
                "call again with a larger buffer");
}

Status Get(const BytesMap& map, std::string_view key, std::span<std::byte> buffer,
           const CallOptions& options, tidepool_value_info* value) {
  const Result<ValueView> got = map.GetInto(key, buffer, options);
  if (got.ok()) {
    *value = {got->bytes.size(), got->version, ToC(got->kind)};
    return {};
  }
  if (got.code() != StatusCode::kOutOfRange) return got.status();
  return GetSize(map, key, buffer, options, value);
}

Status BadFetch() { return BadArgument("operation", "is none of tidepool_fetch"); }
Status NoFetchF64() {
  return Status(StatusCode::kUnimplemented, "floating-point counters have no such operation",
                "use TIDEPOOL_FETCH_ADD, _MIN or _MAX");
}

}  // namespace
}  // namespace tidepool::c_api

using namespace tidepool;         // NOLINT: the functions stand outside of every namespace.
using namespace tidepool::c_api;  // NOLINT
using std::string_view;

extern "C" {

tidepool_code tidepool_map_get(const tidepool_namespace* map, const void* key, size_t key_bytes,
                               void* buffer, size_t buffer_bytes,
                               const tidepool_call_options* options, tidepool_value_info* value) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(CheckOut(value, "value"));
    *value = {};
    if (buffer == nullptr && buffer_bytes > 0) {
      return BadArgument("buffer", "is NULL and has a size");
    }
    const std::span<std::byte> room(static_cast<std::byte*>(buffer), buffer_bytes);
    return OnKey(map, key, key_bytes, options,
                 [&](const BytesMap& bytes, string_view text, const CallOptions& loaded) {
                   return Get(bytes, text, room, loaded, value);
                 });
  });
}

tidepool_code tidepool_map_get_value(const tidepool_namespace* map, const void* key,
                                     size_t key_bytes, const tidepool_call_options* options,
                                     tidepool_value** value) {
  return Guarded([&] {
    return ValueOnKey(map, key, key_bytes, options, value,
                      [](const BytesMap& bytes, string_view text, const CallOptions& loaded) {
                        return bytes.Get(text, loaded);
                      });
  });
}

tidepool_code tidepool_map_get_async(const tidepool_namespace* map, const void* key,
                                     size_t key_bytes, const tidepool_call_options* options,
                                     tidepool_future** future) {
  return Guarded([&] {
    return BeginOnKey<Value>(
        map, key, key_bytes, options, future,
        [](const BytesMap& bytes, string_view text, const CallOptions& loaded) {
          return bytes.GetAsync(text, loaded);
        });
  });
}

tidepool_code tidepool_map_wait_for_key(const tidepool_namespace* map, const void* key,
                                        size_t key_bytes, const tidepool_call_options* options,
                                        tidepool_value** value) {
  return Guarded([&] {
    return ValueOnKey(map, key, key_bytes, options, value,
                      [](const BytesMap& bytes, string_view text, const CallOptions& loaded) {
                        return bytes.WaitForKey(text, loaded);
                      });
  });
}

tidepool_code tidepool_map_wait_for_key_async(const tidepool_namespace* map, const void* key,
                                              size_t key_bytes,
                                              const tidepool_call_options* options,
                                              tidepool_future** future) {
  return Guarded([&] {
    return BeginOnKey<Value>(
        map, key, key_bytes, options, future,
        [](const BytesMap& bytes, string_view text, const CallOptions& loaded) {
          return bytes.WaitForKeyAsync(text, loaded);
        });
  });
}

tidepool_code tidepool_map_wait_for_change(const tidepool_namespace* map, const void* key,
                                           size_t key_bytes, uint64_t known,
                                           const tidepool_call_options* options,
                                           tidepool_value** value) {
  return Guarded([&] {
    return ValueOnKey(map, key, key_bytes, options, value,
                      [&](const BytesMap& bytes, string_view text, const CallOptions& loaded) {
                        return bytes.WaitForChange(text, known, loaded);
                      });
  });
}

tidepool_code tidepool_map_wait_for_change_async(const tidepool_namespace* map, const void* key,
                                                 size_t key_bytes, uint64_t known,
                                                 const tidepool_call_options* options,
                                                 tidepool_future** future) {
  return Guarded([&] {
    return BeginOnKey<Value>(
        map, key, key_bytes, options, future,
        [&](const BytesMap& bytes, string_view text, const CallOptions& loaded) {
          return bytes.WaitForChangeAsync(text, known, loaded);
        });
  });
}

tidepool_code tidepool_map_take(const tidepool_namespace* map, const void* key, size_t key_bytes,
                                const tidepool_call_options* options, tidepool_value** value) {
  return Guarded([&] {
    return ValueOnKey(map, key, key_bytes, options, value,
                      [](const BytesMap& bytes, string_view text, const CallOptions& loaded) {
                        return bytes.Take(text, loaded);
                      });
  });
}

tidepool_code tidepool_map_take_async(const tidepool_namespace* map, const void* key,
                                      size_t key_bytes, const tidepool_call_options* options,
                                      tidepool_future** future) {
  return Guarded([&] {
    return BeginOnKey<Value>(
        map, key, key_bytes, options, future,
        [](const BytesMap& bytes, string_view text, const CallOptions& loaded) {
          return bytes.TakeAsync(text, loaded);
        });
  });
}

tidepool_code tidepool_map_put(const tidepool_namespace* map, const void* key, size_t key_bytes,
                               const void* value, size_t value_bytes,
                               const tidepool_put_options* options, uint64_t* version) {
  return Guarded([&]() -> Status {
    string_view content;
    TP_RETURN_IF_ERROR(View(value, value_bytes, "value", &content));
    return NumberOnKey<PutOptions>(
        map, key, key_bytes, options, version,
        [&](const BytesMap& bytes, string_view text, const PutOptions& loaded) {
          return bytes.Put(text, content, loaded);
        });
  });
}

tidepool_code tidepool_map_put_async(const tidepool_namespace* map, const void* key,
                                     size_t key_bytes, const void* value, size_t value_bytes,
                                     const tidepool_put_options* options,
                                     tidepool_future** future) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(future, "future"));
    string_view content;
    TP_RETURN_IF_ERROR(View(value, value_bytes, "value", &content));
    return BeginOnKey<Version, PutOptions>(
        map, key, key_bytes, options, future,
        [&](const BytesMap& bytes, string_view text, const PutOptions& loaded) {
          return bytes.PutAsync(text, content, loaded);
        });
  });
}

tidepool_code tidepool_map_delete(const tidepool_namespace* map, const void* key, size_t key_bytes,
                                  const tidepool_delete_options* options) {
  return Guarded([&] {
    return OnKey<DeleteOptions>(
        map, key, key_bytes, options,
        [](const BytesMap& bytes, string_view text, const DeleteOptions& loaded) {
          return bytes.Delete(text, loaded);
        });
  });
}

tidepool_code tidepool_map_delete_async(const tidepool_namespace* map, const void* key,
                                        size_t key_bytes, const tidepool_delete_options* options,
                                        tidepool_future** future) {
  return Guarded([&] {
    return BeginOnKey<Version, DeleteOptions>(
        map, key, key_bytes, options, future,
        [](const BytesMap& bytes, string_view text, const DeleteOptions& loaded) {
          return bytes.DeleteAsync(text, loaded);
        });
  });
}

tidepool_code tidepool_map_contains(const tidepool_namespace* map, const void* key,
                                    size_t key_bytes, const tidepool_call_options* options,
                                    int* present) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(CheckOut(present, "present"));
    return NumberOnKey(map, key, key_bytes, options, present,
                       [](const BytesMap& bytes, string_view text, const CallOptions& loaded) {
                         return bytes.Contains(text, loaded);
                       });
  });
}

tidepool_code tidepool_map_contains_async(const tidepool_namespace* map, const void* key,
                                          size_t key_bytes, const tidepool_call_options* options,
                                          tidepool_future** future) {
  return Guarded([&] {
    return BeginOnKey<bool>(map, key, key_bytes, options, future,
                            [](const BytesMap& bytes, string_view text, const CallOptions& loaded) {
                              return bytes.ContainsAsync(text, loaded);
                            });
  });
}

tidepool_code tidepool_map_length(const tidepool_namespace* map,
                                  const tidepool_call_options* options, uint64_t* records) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(CheckOut(records, "records"));
    return NumberOnKey(map, nullptr, 0, options, records,
                       [](const BytesMap& bytes, string_view /*none*/, const CallOptions& loaded) {
                         return bytes.Length(loaded);
                       });
  });
}

tidepool_code tidepool_map_length_async(const tidepool_namespace* map,
                                        const tidepool_call_options* options,
                                        tidepool_future** future) {
  return Guarded([&] {
    return BeginOnKey<std::uint64_t>(
        map, nullptr, 0, options, future,
        [](const BytesMap& bytes, string_view /*none*/, const CallOptions& loaded) {
          return bytes.LengthAsync(loaded);
        });
  });
}

tidepool_code tidepool_map_fetch(const tidepool_namespace* map, tidepool_fetch operation,
                                 const void* key, size_t key_bytes, int64_t operand,
                                 const tidepool_call_options* options, int64_t* before) {
  return Guarded([&] {
    return NumberOnKey(map, key, key_bytes, options, before,
                       [&](const BytesMap& bytes, string_view text,
                           const CallOptions& loaded) -> Result<std::int64_t> {
                         switch (operation) {
                           case TIDEPOOL_FETCH_ADD:
                             return bytes.FetchAdd(text, operand, loaded);
                           case TIDEPOOL_FETCH_ADD_IF_PRESENT:
                             return bytes.FetchAddIfPresent(text, operand, loaded);
                           case TIDEPOOL_FETCH_AND:
                             return bytes.FetchAnd(text, operand, loaded);
                           case TIDEPOOL_FETCH_OR:
                             return bytes.FetchOr(text, operand, loaded);
                           case TIDEPOOL_FETCH_XOR:
                             return bytes.FetchXor(text, operand, loaded);
                           case TIDEPOOL_FETCH_MIN:
                             return bytes.FetchMin(text, operand, loaded);
                           case TIDEPOOL_FETCH_MAX:
                             return bytes.FetchMax(text, operand, loaded);
                         }
                         return BadFetch();
                       });
  });
}

tidepool_code tidepool_map_fetch_async(const tidepool_namespace* map, tidepool_fetch operation,
                                       const void* key, size_t key_bytes, int64_t operand,
                                       const tidepool_call_options* options,
                                       tidepool_future** future) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(future, "future"));
    if (static_cast<unsigned>(operation) > TIDEPOOL_FETCH_MAX) return BadFetch();
    return BeginOnKey<std::int64_t>(
        map, key, key_bytes, options, future,
        [&](const BytesMap& bytes, string_view text, const CallOptions& loaded) {
          switch (operation) {
            case TIDEPOOL_FETCH_ADD_IF_PRESENT:
              return bytes.FetchAddIfPresentAsync(text, operand, loaded);
            case TIDEPOOL_FETCH_AND:
              return bytes.FetchAndAsync(text, operand, loaded);
            case TIDEPOOL_FETCH_OR:
              return bytes.FetchOrAsync(text, operand, loaded);
            case TIDEPOOL_FETCH_XOR:
              return bytes.FetchXorAsync(text, operand, loaded);
            case TIDEPOOL_FETCH_MIN:
              return bytes.FetchMinAsync(text, operand, loaded);
            case TIDEPOOL_FETCH_MAX:
              return bytes.FetchMaxAsync(text, operand, loaded);
            default:
              return bytes.FetchAddAsync(text, operand, loaded);
          }
        });
  });
}

tidepool_code tidepool_map_fetch_f64(const tidepool_namespace* map, tidepool_fetch operation,
                                     const void* key, size_t key_bytes, double operand,
                                     const tidepool_call_options* options, double* before) {
  return Guarded([&] {
    return NumberOnKey(
        map, key, key_bytes, options, before,
        [&](const BytesMap& bytes, string_view text, const CallOptions& loaded) -> Result<double> {
          switch (operation) {
            case TIDEPOOL_FETCH_ADD:
              return bytes.FetchAddF64(text, operand, loaded);
            case TIDEPOOL_FETCH_MIN:
              return bytes.FetchMinF64(text, operand, loaded);
            case TIDEPOOL_FETCH_MAX:
              return bytes.FetchMaxF64(text, operand, loaded);
            default:
              return NoFetchF64();
          }
        });
  });
}

tidepool_code tidepool_map_fetch_f64_async(const tidepool_namespace* map, tidepool_fetch operation,
                                           const void* key, size_t key_bytes, double operand,
                                           const tidepool_call_options* options,
                                           tidepool_future** future) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(future, "future"));
    if (operation != TIDEPOOL_FETCH_ADD && operation != TIDEPOOL_FETCH_MIN &&
        operation != TIDEPOOL_FETCH_MAX) {
      return NoFetchF64();
    }
    return BeginOnKey<double>(
        map, key, key_bytes, options, future,
        [&](const BytesMap& bytes, string_view text, const CallOptions& loaded) {
          if (operation == TIDEPOOL_FETCH_MIN) return bytes.FetchMinF64Async(text, operand, loaded);
          if (operation == TIDEPOOL_FETCH_MAX) return bytes.FetchMaxF64Async(text, operand, loaded);
          return bytes.FetchAddF64Async(text, operand, loaded);
        });
  });
}

tidepool_code tidepool_map_compare_and_swap(const tidepool_namespace* map, const void* key,
                                            size_t key_bytes, const void* expected,
                                            size_t expected_bytes, const void* desired,
                                            size_t desired_bytes,
                                            const tidepool_call_options* options,
                                            uint64_t* version) {
  return Guarded([&]() -> Status {
    string_view from, to;
    TP_RETURN_IF_ERROR(View(expected, expected_bytes, "expected", &from));
    TP_RETURN_IF_ERROR(View(desired, desired_bytes, "desired", &to));
    return NumberOnKey(map, key, key_bytes, options, version,
                       [&](const BytesMap& bytes, string_view text, const CallOptions& loaded) {
                         return bytes.CompareAndSwap(text, from, to, loaded);
                       });
  });
}

tidepool_code tidepool_map_compare_and_swap_async(const tidepool_namespace* map, const void* key,
                                                  size_t key_bytes, const void* expected,
                                                  size_t expected_bytes, const void* desired,
                                                  size_t desired_bytes,
                                                  const tidepool_call_options* options,
                                                  tidepool_future** future) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(future, "future"));
    string_view from, to;
    TP_RETURN_IF_ERROR(View(expected, expected_bytes, "expected", &from));
    TP_RETURN_IF_ERROR(View(desired, desired_bytes, "desired", &to));
    return BeginOnKey<Version>(
        map, key, key_bytes, options, future,
        [&](const BytesMap& bytes, string_view text, const CallOptions& loaded) {
          return bytes.CompareAndSwapAsync(text, from, to, loaded);
        });
  });
}

tidepool_code tidepool_map_apply(const tidepool_namespace* map, const void* key, size_t key_bytes,
                                 const char* function, const void* argument, size_t argument_bytes,
                                 const tidepool_call_options* options, tidepool_value** result) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(result, "result"));
    string_view name, given;
    TP_RETURN_IF_ERROR(Text(function, "function", &name));
    TP_RETURN_IF_ERROR(View(argument, argument_bytes, "argument", &given));
    return ValueOnKey(map, key, key_bytes, options, result,
                      [&](const BytesMap& bytes, string_view text, const CallOptions& loaded) {
                        return bytes.Apply(text, name, given, loaded);
                      });
  });
}

tidepool_code tidepool_map_apply_async(const tidepool_namespace* map, const void* key,
                                       size_t key_bytes, const char* function, const void* argument,
                                       size_t argument_bytes, const tidepool_call_options* options,
                                       tidepool_future** future) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(future, "future"));
    string_view name, given;
    TP_RETURN_IF_ERROR(Text(function, "function", &name));
    TP_RETURN_IF_ERROR(View(argument, argument_bytes, "argument", &given));
    return BeginOnKey<Value>(
        map, key, key_bytes, options, future,
        [&](const BytesMap& bytes, string_view text, const CallOptions& loaded) {
          return bytes.ApplyAsync(text, name, given, loaded);
        });
  });
}

tidepool_code tidepool_map_append(const tidepool_namespace* map, const void* key, size_t key_bytes,
                                  const void* suffix, size_t suffix_bytes,
                                  const tidepool_call_options* options, uint64_t* value_bytes) {
  return Guarded([&]() -> Status {
    string_view content;
    TP_RETURN_IF_ERROR(View(suffix, suffix_bytes, "suffix", &content));
    return NumberOnKey(map, key, key_bytes, options, value_bytes,
                       [&](const BytesMap& bytes, string_view text, const CallOptions& loaded) {
                         return bytes.Append(text, content, loaded);
                       });
  });
}

tidepool_code tidepool_map_append_async(const tidepool_namespace* map, const void* key,
                                        size_t key_bytes, const void* suffix, size_t suffix_bytes,
                                        const tidepool_call_options* options,
                                        tidepool_future** future) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(future, "future"));
    string_view content;
    TP_RETURN_IF_ERROR(View(suffix, suffix_bytes, "suffix", &content));
    return BeginOnKey<std::uint64_t>(
        map, key, key_bytes, options, future,
        [&](const BytesMap& bytes, string_view text, const CallOptions& loaded) {
          return bytes.AppendAsync(text, content, loaded);
        });
  });
}

tidepool_code tidepool_map_expire(const tidepool_namespace* map, const void* key, size_t key_bytes,
                                  uint64_t ttl_ms, const tidepool_call_options* options) {
  return Guarded([&] {
    return OnKey(map, key, key_bytes, options,
                 [&](const BytesMap& bytes, string_view text, const CallOptions& loaded) {
                   return bytes.Expire(text, LoadTtl(ttl_ms), loaded);
                 });
  });
}

tidepool_code tidepool_map_expire_async(const tidepool_namespace* map, const void* key,
                                        size_t key_bytes, uint64_t ttl_ms,
                                        const tidepool_call_options* options,
                                        tidepool_future** future) {
  return Guarded([&] {
    return BeginOnKey<Version>(
        map, key, key_bytes, options, future,
        [&](const BytesMap& bytes, string_view text, const CallOptions& loaded) {
          return bytes.ExpireAsync(text, LoadTtl(ttl_ms), loaded);
        });
  });
}

tidepool_code tidepool_map_ttl(const tidepool_namespace* map, const void* key, size_t key_bytes,
                               const tidepool_call_options* options, uint64_t* ttl_ms) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(CheckOut(ttl_ms, "ttl_ms"));
    return OnKey(map, key, key_bytes, options,
                 [&](const BytesMap& bytes, string_view text, const CallOptions& loaded) {
                   const auto left = bytes.Ttl(text, loaded);
                   if (left.ok()) *ttl_ms = StoreTtl(*left);
                   return left.status();
                 });
  });
}

tidepool_code tidepool_map_ttl_async(const tidepool_namespace* map, const void* key,
                                     size_t key_bytes, const tidepool_call_options* options,
                                     tidepool_future** future) {
  return Guarded([&] {
    return BeginOnKey<TtlResult>(
        map, key, key_bytes, options, future,
        [](const BytesMap& bytes, string_view text, const CallOptions& loaded) {
          return bytes.TtlAsync(text, loaded);
        });
  });
}

tidepool_code tidepool_map_multi_get(const tidepool_namespace* map, const tidepool_bytes* keys,
                                     size_t count, const tidepool_call_options* options,
                                     tidepool_batch** batch) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(batch, "batch"));
    TP_RETURN_IF_ERROR(CheckMap(map));
    std::vector<string_view> views;
    TP_RETURN_IF_ERROR(LoadKeys(keys, count, "keys", &views));
    return Run<CallOptions>(options, [&](const CallOptions& loaded) {
      return Give(map->map.MultiGet(views, loaded), false, batch);
    });
  });
}

tidepool_code tidepool_map_multi_get_async(const tidepool_namespace* map,
                                           const tidepool_bytes* keys, size_t count,
                                           const tidepool_call_options* options,
                                           tidepool_future** future) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(future, "future"));
    TP_RETURN_IF_ERROR(CheckMap(map));
    std::vector<string_view> views;
    TP_RETURN_IF_ERROR(LoadKeys(keys, count, "keys", &views));
    return Begin<BatchResult, CallOptions>(options, future, [&](const CallOptions& loaded) {
      return map->map.MultiGetAsync(views, loaded);
    });
  });
}

tidepool_code tidepool_map_multi_put(const tidepool_namespace* map, const tidepool_bytes* keys,
                                     const tidepool_bytes* values, size_t count,
                                     const tidepool_put_options* options, tidepool_batch** batch) {
  return Guarded([&]() -> Status {
    if (batch != nullptr) *batch = nullptr;
    TP_RETURN_IF_ERROR(CheckMap(map));
    std::vector<KeyValue> records;
    TP_RETURN_IF_ERROR(LoadRecords(keys, values, count, &records));
    return Run<PutOptions>(options, [&](const PutOptions& loaded) {
      return Give(map->map.MultiPut(records, loaded), true, batch);
    });
  });
}

tidepool_code tidepool_map_multi_put_async(const tidepool_namespace* map,
                                           const tidepool_bytes* keys, const tidepool_bytes* values,
                                           size_t count, const tidepool_put_options* options,
                                           tidepool_future** future) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(future, "future"));
    TP_RETURN_IF_ERROR(CheckMap(map));
    std::vector<KeyValue> records;
    TP_RETURN_IF_ERROR(LoadRecords(keys, values, count, &records));
    return Begin<BatchResult, PutOptions>(
        options, future,
        [&](const PutOptions& loaded) { return map->map.MultiPutAsync(records, loaded); }, true);
  });
}

tidepool_code tidepool_map_multi_delete(const tidepool_namespace* map, const tidepool_bytes* keys,
                                        size_t count, const tidepool_call_options* options,
                                        tidepool_batch** batch) {
  return Guarded([&]() -> Status {
    if (batch != nullptr) *batch = nullptr;
    TP_RETURN_IF_ERROR(CheckMap(map));
    std::vector<string_view> views;
    TP_RETURN_IF_ERROR(LoadKeys(keys, count, "keys", &views));
    return Run<CallOptions>(options, [&](const CallOptions& loaded) {
      return Give(map->map.MultiDelete(views, loaded), false, batch);
    });
  });
}

tidepool_code tidepool_map_multi_delete_async(const tidepool_namespace* map,
                                              const tidepool_bytes* keys, size_t count,
                                              const tidepool_call_options* options,
                                              tidepool_future** future) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(future, "future"));
    TP_RETURN_IF_ERROR(CheckMap(map));
    std::vector<string_view> views;
    TP_RETURN_IF_ERROR(LoadKeys(keys, count, "keys", &views));
    return Begin<BatchResult, CallOptions>(options, future, [&](const CallOptions& loaded) {
      return map->map.MultiDeleteAsync(views, loaded);
    });
  });
}

}  // extern "C"
