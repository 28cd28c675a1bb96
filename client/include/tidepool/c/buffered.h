/* Buffered handles: changes that are collected per core of the cluster and travel by the hundreds.
 *
 *   tidepool_buffered* buffered;
 *   tidepool_buffered_open(map, NULL, &buffered);
 *   for (...) tidepool_buffered_put(buffered, key, key_bytes, value, value_bytes, 0, kind);
 *   code = tidepool_buffered_flush(buffered);              // The first failure of all.
 *   tidepool_buffered_free(buffered);
 */
#pragma once

#include "tidepool/c/client.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Used by one thread at a time; each thread opens its own. Operations of one handle on one key take
 * effect in the order of their calls. Their outcomes are known after tidepool_buffered_flush. */
typedef struct tidepool_buffered tidepool_buffered;

/* The place where operations are merged into messages between machines. */
typedef enum tidepool_aggregation {
  TIDEPOOL_AGGREGATE_AUTO = 0,
  TIDEPOOL_AGGREGATE_CLIENT = 1,
  TIDEPOOL_AGGREGATE_NODE = 2 /* A daemon of this machine, for all its clients. */
} tidepool_aggregation;

/* Values outside of a range count as its nearest end. */
typedef struct tidepool_buffered_options {
  size_t struct_bytes;
  uint64_t timeout_ms;     /* Per buffer, from its sending on. */
  uint64_t age_max_ms;     /* A buffer of this age is sent. 0: 100. TIDEPOOL_FOR_EVER: no matter. */
  uint32_t operations_max; /* A buffer is sent at this number. 0: 1,024, the most. */
  uint32_t bytes_max;      /* A buffer is sent at this size. 0: 57,344, the most. */
  uint32_t buffers_in_flight; /* Per core, at most 64. 0: 4. A full buffer waits. */
  tidepool_aggregation aggregation;
} tidepool_buffered_options;
#define TIDEPOOL_BUFFERED_OPTIONS_INIT TIDEPOOL_OPTIONS_INIT_(tidepool_buffered_options)

/* Opens a buffered handle of a namespace of any kind. */
TIDEPOOL_C_API tidepool_code tidepool_buffered_open(const tidepool_namespace* space,
                                                    const tidepool_buffered_options* options,
                                                    tidepool_buffered** buffered);
/* Frees the handle. Operations that it holds are flushed first, within their deadline. */
TIDEPOOL_C_API void tidepool_buffered_free(tidepool_buffered* buffered);

/* Add an operation. Return TIDEPOOL_OK when it was collected: tidepool_buffered_flush has the
 * outcome. They wait while too many buffers are under way. `ttl_ms`: 0: that of the namespace,
 * TIDEPOOL_FOR_EVER: none. Errors: TIDEPOOL_FAILED_PRECONDITION (another kind of namespace). */
/* Kinds hash and ordered. Counters need a value of 8 bytes. */
TIDEPOOL_C_API tidepool_code tidepool_buffered_put(tidepool_buffered* buffered, const void* key,
                                                   size_t key_bytes, const void* value,
                                                   size_t value_bytes, uint64_t ttl_ms,
                                                   tidepool_value_kind kind);
/* Puts if the key is absent; leaves a record that is there. */
TIDEPOOL_C_API tidepool_code tidepool_buffered_insert(tidepool_buffered* buffered, const void* key,
                                                      size_t key_bytes, const void* value,
                                                      size_t value_bytes, uint64_t ttl_ms,
                                                      tidepool_value_kind kind);
/* Adds to a counter; an absent key counts as 0 and is created. */
TIDEPOOL_C_API tidepool_code tidepool_buffered_add(tidepool_buffered* buffered, const void* key,
                                                   size_t key_bytes, int64_t by);
TIDEPOOL_C_API tidepool_code tidepool_buffered_add_f64(tidepool_buffered* buffered, const void* key,
                                                       size_t key_bytes, double by);
/* Adds to a counter that is there; an absent key is no failure. */
TIDEPOOL_C_API tidepool_code tidepool_buffered_add_if_present(tidepool_buffered* buffered,
                                                              const void* key, size_t key_bytes,
                                                              int64_t by);
/* Kind bloom. */
TIDEPOOL_C_API tidepool_code tidepool_buffered_insert_value(tidepool_buffered* buffered,
                                                            const void* value, size_t value_bytes);
/* Kinds queue (`priority` 0) and priority. A push into a full queue fails; it does not wait. */
TIDEPOOL_C_API tidepool_code tidepool_buffered_push(tidepool_buffered* buffered, uint64_t priority,
                                                    const void* value, size_t value_bytes,
                                                    uint64_t ttl_ms);

/* Sends the collected operations and waits until all of them have ended. Returns TIDEPOOL_OK if
 * every operation since the last flush took effect, else the first failure, with their number in
 * the text. */
TIDEPOOL_C_API tidepool_code tidepool_buffered_flush(tidepool_buffered* buffered);
/* Sends buffers that are too old and takes answers in. Does not wait. */
TIDEPOOL_C_API tidepool_code tidepool_buffered_progress(tidepool_buffered* buffered);

/* An operation that did not take effect, or perhaps did not (TIDEPOOL_UNKNOWN). */
typedef struct tidepool_buffered_failure {
  tidepool_bytes key; /* For a queue the item's value, up to 32 KiB. Valid until the next flush. */
  uint64_t item;      /* For a queue: the number of the push since the last flush, from 0. */
  tidepool_code code;
  int reserved;
} tidepool_buffered_failure;
/* Returns how many failures the last flush found, at most 65,536; 0 for a wrong handle. */
TIDEPOOL_C_API size_t tidepool_buffered_failures(const tidepool_buffered* buffered);
/* Stores a failure and returns its code, which tidepool_error_what then describes. Returns also:
 * TIDEPOOL_OUT_OF_RANGE with a key of NULL (`index` is beyond the failures). */
TIDEPOOL_C_API tidepool_code tidepool_buffered_get_failure(const tidepool_buffered* buffered,
                                                           size_t index,
                                                           tidepool_buffered_failure* failure);

/* Counts since the handle was opened. */
typedef struct tidepool_buffered_counts {
  uint64_t operations; /* Given to the handle. */
  uint64_t buffers;    /* Sent. */
  uint64_t forwarded;  /* Buffers that a daemon of this machine sent on. */
  uint64_t failed;     /* Operations. */
  uint64_t pending;    /* Operations that are not known to have ended. */
} tidepool_buffered_counts;
TIDEPOOL_C_API tidepool_code tidepool_buffered_get_counts(const tidepool_buffered* buffered,
                                                          tidepool_buffered_counts* counts);

#ifdef __cplusplus
}
#endif
