// Bloom filters.
#include "tidepool/c/bloom.h"

#include <string_view>
#include <utility>
#include <vector>

#include "client/c/handles.h"

struct tidepool_bloom_copy {
  static constexpr auto kTag = tidepool::c_api::Tag::kBloomCopy;
  static constexpr const char* kName = "copy of a filter";
  tidepool::c_api::Tagged tag{kTag};
  tidepool::BloomCopy copy;
};

namespace tidepool::c_api {
namespace {

using Values = std::vector<std::string_view>;

Status CheckBloom(const tidepool_namespace* filter) {
  return CheckKind(filter, NamespaceKind::kBloom);
}

Status LoadValues(const tidepool_namespace* filter, const tidepool_bytes* values, std::size_t count,
                  Values* to) {
  TP_RETURN_IF_ERROR(CheckBloom(filter));
  if (values == nullptr && count > 0) return BadArgument("values", "is NULL and has a size");
  to->resize(count);
  for (std::size_t i = 0; i < count; ++i) TP_RETURN_IF_ERROR(View(values[i], "values", &(*to)[i]));
  return {};
}

template <typename Ask>
Status AskOne(const tidepool_namespace* filter, const void* value, std::size_t value_bytes,
              const tidepool_call_options* options, int* truth, Ask ask) {
  TP_RETURN_IF_ERROR(CheckBloom(filter));
  std::string_view content;
  TP_RETURN_IF_ERROR(View(value, value_bytes, "value", &content));
  return Run<CallOptions>(options, [&](const CallOptions& loaded) -> Status {
    const Result<bool> answer = ask(filter->bloom, content, loaded);
    if (answer.ok() && truth != nullptr) *truth = *answer ? 1 : 0;
    return answer.status();
  });
}

template <typename Start>
Status BeginOne(const tidepool_namespace* filter, const void* value, std::size_t value_bytes,
                const tidepool_call_options* options, tidepool_future** future, Start start) {
  TP_RETURN_IF_ERROR(Clear(future, "future"));
  TP_RETURN_IF_ERROR(CheckBloom(filter));
  std::string_view content;
  TP_RETURN_IF_ERROR(View(value, value_bytes, "value", &content));
  return Begin<bool, CallOptions>(options, future, [&](const CallOptions& loaded) {
    return start(filter->bloom, content, loaded);
  });
}

template <typename Start>
Status BeginMany(const tidepool_namespace* filter, const tidepool_bytes* values, std::size_t count,
                 const tidepool_call_options* options, tidepool_future** future, Start start) {
  TP_RETURN_IF_ERROR(Clear(future, "future"));
  Values views;
  TP_RETURN_IF_ERROR(LoadValues(filter, values, count, &views));
  return Begin<BloomBatch, CallOptions>(options, future, [&](const CallOptions& loaded) {
    return start(filter->bloom, views, loaded);
  });
}

tidepool_bloom_estimate ToC(const BloomEstimate& from) {
  return {from.items, from.false_positive_rate, from.bytes, from.bits_set};
}

}  // namespace
}  // namespace tidepool::c_api

using namespace tidepool;         // NOLINT: the functions stand outside of every namespace.
using namespace tidepool::c_api;  // NOLINT

extern "C" {

tidepool_code tidepool_bloom_insert(const tidepool_namespace* filter, const void* value,
                                    size_t value_bytes, const tidepool_call_options* options,
                                    int* is_new) {
  return Guarded([&] {
    return AskOne(filter, value, value_bytes, options, is_new,
                  [](const BytesBloom& bloom, std::string_view content, const CallOptions& loaded) {
                    return bloom.Insert(content, loaded);
                  });
  });
}

tidepool_code tidepool_bloom_insert_async(const tidepool_namespace* filter, const void* value,
                                          size_t value_bytes, const tidepool_call_options* options,
                                          tidepool_future** future) {
  return Guarded([&] {
    return BeginOne(filter, value, value_bytes, options, future,
                    [](const BytesBloom& bloom, std::string_view content,
                       const CallOptions& loaded) { return bloom.InsertAsync(content, loaded); });
  });
}

tidepool_code tidepool_bloom_contains(const tidepool_namespace* filter, const void* value,
                                      size_t value_bytes, const tidepool_call_options* options,
                                      int* known) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(CheckOut(known, "known"));
    return AskOne(filter, value, value_bytes, options, known,
                  [](const BytesBloom& bloom, std::string_view content, const CallOptions& loaded) {
                    return bloom.Contains(content, loaded);
                  });
  });
}

tidepool_code tidepool_bloom_contains_async(const tidepool_namespace* filter, const void* value,
                                            size_t value_bytes,
                                            const tidepool_call_options* options,
                                            tidepool_future** future) {
  return Guarded([&] {
    return BeginOne(filter, value, value_bytes, options, future,
                    [](const BytesBloom& bloom, std::string_view content,
                       const CallOptions& loaded) { return bloom.ContainsAsync(content, loaded); });
  });
}

tidepool_code tidepool_bloom_multi_insert(const tidepool_namespace* filter,
                                          const tidepool_bytes* values, size_t count,
                                          const tidepool_call_options* options,
                                          tidepool_batch** batch) {
  return Guarded([&]() -> Status {
    if (batch != nullptr) *batch = nullptr;
    Values views;
    TP_RETURN_IF_ERROR(LoadValues(filter, values, count, &views));
    return Run<CallOptions>(options, [&](const CallOptions& loaded) {
      return Give(filter->bloom.MultiInsert(views, loaded), true, batch);
    });
  });
}

tidepool_code tidepool_bloom_multi_insert_async(const tidepool_namespace* filter,
                                                const tidepool_bytes* values, size_t count,
                                                const tidepool_call_options* options,
                                                tidepool_future** future) {
  return Guarded([&] {
    return BeginMany(filter, values, count, options, future,
                     [](const BytesBloom& bloom, const Values& views, const CallOptions& loaded) {
                       return bloom.MultiInsertAsync(views, loaded);
                     });
  });
}

tidepool_code tidepool_bloom_multi_contains(const tidepool_namespace* filter,
                                            const tidepool_bytes* values, size_t count,
                                            const tidepool_call_options* options,
                                            tidepool_batch** batch) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(batch, "batch"));
    Values views;
    TP_RETURN_IF_ERROR(LoadValues(filter, values, count, &views));
    return Run<CallOptions>(options, [&](const CallOptions& loaded) {
      return Give(filter->bloom.MultiContains(views, loaded), true, batch);
    });
  });
}

tidepool_code tidepool_bloom_multi_contains_async(const tidepool_namespace* filter,
                                                  const tidepool_bytes* values, size_t count,
                                                  const tidepool_call_options* options,
                                                  tidepool_future** future) {
  return Guarded([&] {
    return BeginMany(filter, values, count, options, future,
                     [](const BytesBloom& bloom, const Values& views, const CallOptions& loaded) {
                       return bloom.MultiContainsAsync(views, loaded);
                     });
  });
}

tidepool_code tidepool_bloom_union(const tidepool_namespace* filter,
                                   const tidepool_namespace* other,
                                   const tidepool_call_options* options) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(CheckBloom(filter));
    TP_RETURN_IF_ERROR(CheckBloom(other));
    return Run<CallOptions>(options, [&](const CallOptions& loaded) {
      return filter->bloom.Union(other->bloom, loaded);
    });
  });
}

tidepool_code tidepool_bloom_get_estimate(const tidepool_namespace* filter,
                                          const tidepool_call_options* options,
                                          tidepool_bloom_estimate* estimate) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(CheckOut(estimate, "estimate"));
    TP_RETURN_IF_ERROR(CheckBloom(filter));
    return Run<CallOptions>(options, [&](const CallOptions& loaded) -> Status {
      const Result<BloomEstimate> found = filter->bloom.Estimate(loaded);
      TP_RETURN_IF_ERROR(found.status());
      *estimate = ToC(*found);
      return {};
    });
  });
}

tidepool_code tidepool_bloom_get_estimate_async(const tidepool_namespace* filter,
                                                const tidepool_call_options* options,
                                                tidepool_future** future) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(future, "future"));
    TP_RETURN_IF_ERROR(CheckBloom(filter));
    return Begin<BloomEstimate, CallOptions>(options, future, [&](const CallOptions& loaded) {
      return filter->bloom.EstimateAsync(loaded);
    });
  });
}

tidepool_code tidepool_future_estimate(tidepool_future* future, tidepool_bloom_estimate* estimate) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(CheckOut(estimate, "estimate"));
    FutureOf<BloomEstimate>* call = nullptr;
    TP_RETURN_IF_ERROR(Ended(future, &call));
    TP_RETURN_IF_ERROR(call->result().status());
    *estimate = ToC(*call->result());
    return {};
  });
}

tidepool_code tidepool_bloom_download(const tidepool_namespace* filter,
                                      const tidepool_call_options* options,
                                      tidepool_bloom_copy** copy) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(copy, "copy"));
    TP_RETURN_IF_ERROR(CheckBloom(filter));
    return Run<CallOptions>(options, [&](const CallOptions& loaded) -> Status {
      Result<BloomCopy> got = filter->bloom.Download(loaded);
      TP_RETURN_IF_ERROR(got.status());
      *copy = new tidepool_bloom_copy{.copy = *std::move(got)};
      return {};
    });
  });
}

tidepool_code tidepool_bloom_copy_contains(const tidepool_bloom_copy* copy, const void* value,
                                           size_t value_bytes, int* known) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(copy));
    TP_RETURN_IF_ERROR(CheckOut(known, "known"));
    std::string_view content;
    TP_RETURN_IF_ERROR(View(value, value_bytes, "value", &content));
    *known = copy->copy.Contains(content) ? 1 : 0;
    return {};
  });
}

size_t tidepool_bloom_copy_bytes(const tidepool_bloom_copy* copy) {
  return Check(copy).ok() ? copy->copy.bytes() : 0;
}

void tidepool_bloom_copy_free(tidepool_bloom_copy* copy) { Free(copy); }

}  // extern "C"
