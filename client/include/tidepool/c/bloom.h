/* Bloom filters: namespaces of kind bloom, sets that answer "new" or "known".
 *
 * A filter is made with expected_items and false_positive_rate. It may take a new value for a known
 * one, at that rate; it never errs the other way. Values have at most 16,384 bytes, and cannot be
 * removed or listed. Operations have the errors of map.h. */
#pragma once

#include "tidepool/c/client.h"
#include "tidepool/c/future.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Inserts a value and stores 1 if it is new, else 0; `is_new` may be NULL. A value is new to at
 * most one caller. Async: tidepool_future_bool. */
TIDEPOOL_C_API tidepool_code tidepool_bloom_insert(const tidepool_namespace* filter,
                                                   const void* value, size_t value_bytes,
                                                   const tidepool_call_options* options,
                                                   int* is_new);
TIDEPOOL_C_API tidepool_code tidepool_bloom_insert_async(const tidepool_namespace* filter,
                                                         const void* value, size_t value_bytes,
                                                         const tidepool_call_options* options,
                                                         tidepool_future** future);
/* Stores 0 if the value was surely never inserted, else 1. Async: tidepool_future_bool. */
TIDEPOOL_C_API tidepool_code tidepool_bloom_contains(const tidepool_namespace* filter,
                                                     const void* value, size_t value_bytes,
                                                     const tidepool_call_options* options,
                                                     int* known);
TIDEPOOL_C_API tidepool_code tidepool_bloom_contains_async(const tidepool_namespace* filter,
                                                           const void* value, size_t value_bytes,
                                                           const tidepool_call_options* options,
                                                           tidepool_future** future);
/* Forms for many values: tidepool_batch_number is 1 or 0. Return the first failure. `batch` may
 * be NULL for inserts. Async: tidepool_future_batch. */
TIDEPOOL_C_API tidepool_code tidepool_bloom_multi_insert(const tidepool_namespace* filter,
                                                         const tidepool_bytes* values, size_t count,
                                                         const tidepool_call_options* options,
                                                         tidepool_batch** batch);
TIDEPOOL_C_API tidepool_code tidepool_bloom_multi_insert_async(const tidepool_namespace* filter,
                                                               const tidepool_bytes* values,
                                                               size_t count,
                                                               const tidepool_call_options* options,
                                                               tidepool_future** future);
TIDEPOOL_C_API tidepool_code tidepool_bloom_multi_contains(const tidepool_namespace* filter,
                                                           const tidepool_bytes* values,
                                                           size_t count,
                                                           const tidepool_call_options* options,
                                                           tidepool_batch** batch);
TIDEPOOL_C_API tidepool_code tidepool_bloom_multi_contains_async(
    const tidepool_namespace* filter, const tidepool_bytes* values, size_t count,
    const tidepool_call_options* options, tidepool_future** future);

/* Takes over all values of `other`, inside of the daemons. May be repeated.
 * Returns: TIDEPOOL_FAILED_PRECONDITION (the two do not lie on the same cores),
 * TIDEPOOL_INVALID_ARGUMENT (`other` is of another cluster). */
TIDEPOOL_C_API tidepool_code tidepool_bloom_union(const tidepool_namespace* filter,
                                                  const tidepool_namespace* other,
                                                  const tidepool_call_options* options);

typedef struct tidepool_bloom_estimate {
  double items;               /* Distinct values inserted; good to about 1 %. */
  double false_positive_rate; /* The present rate. */
  uint64_t bytes;             /* Memory of the cluster. */
  uint64_t bits_set;
} tidepool_bloom_estimate;
/* Estimates the content of the filter from its bits. Async: tidepool_future_estimate. */
TIDEPOOL_C_API tidepool_code tidepool_bloom_get_estimate(const tidepool_namespace* filter,
                                                         const tidepool_call_options* options,
                                                         tidepool_bloom_estimate* estimate);
TIDEPOOL_C_API tidepool_code tidepool_bloom_get_estimate_async(const tidepool_namespace* filter,
                                                               const tidepool_call_options* options,
                                                               tidepool_future** future);
/* Takes the estimate of a future, see future.h. */
TIDEPOOL_C_API tidepool_code tidepool_future_estimate(tidepool_future* future,
                                                      tidepool_bloom_estimate* estimate);

/* All bits of a filter in this process, as of the download. Immutable; any number of threads. */
typedef struct tidepool_bloom_copy tidepool_bloom_copy;
/* Downloads the filter: expected_items bytes and more. The timeout is that of each piece.
 * Returns: TIDEPOOL_RESOURCE_EXHAUSTED (no memory for the copy). */
TIDEPOOL_C_API tidepool_code tidepool_bloom_download(const tidepool_namespace* filter,
                                                     const tidepool_call_options* options,
                                                     tidepool_bloom_copy** copy);
/* Stores 0 if the value was surely not inserted before the download began. Sends nothing. */
TIDEPOOL_C_API tidepool_code tidepool_bloom_copy_contains(const tidepool_bloom_copy* copy,
                                                          const void* value, size_t value_bytes,
                                                          int* known);
/* Returns 0 for a wrong handle. */
TIDEPOOL_C_API size_t tidepool_bloom_copy_bytes(const tidepool_bloom_copy* copy);
TIDEPOOL_C_API void tidepool_bloom_copy_free(tidepool_bloom_copy* copy);

#ifdef __cplusplus
}
#endif
