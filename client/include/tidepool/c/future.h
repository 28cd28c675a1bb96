/* Futures, the results of asynchronous calls, and batches, the results of calls on many keys.
 *
 *   tidepool_future* future;
 *   tidepool_map_get_async(map, "p7", 2, NULL, &future);
 *   ...                                                   // Other work.
 *   code = tidepool_future_wait(future, TIDEPOOL_FOR_EVER);
 *   if (code == TIDEPOOL_OK) code = tidepool_future_value(future, &value);
 *   tidepool_future_free(future);
 */
#pragma once

#include "tidepool/c/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The caller's end of one asynchronous call.
 *
 * Progress: the library has no hidden thread. Operations travel while a thread waits in any call of
 * the same client. background_progress of tidepool_connect_options adds a thread for that. Every
 * call has a deadline of its own, so a future ends by itself. */
typedef struct tidepool_future tidepool_future;

/* Stores 1 if tidepool_future_wait would return at once, else 0. Makes no progress by itself. */
TIDEPOOL_C_API tidepool_code tidepool_future_ready(const tidepool_future* future, int* ready);
/* Waits until the call has ended and returns its outcome. May be repeated. After `timeout_ms` (0:
 * not at all; TIDEPOOL_FOR_EVER: without end) it returns TIDEPOOL_DEADLINE_EXCEEDED; if
 * tidepool_future_ready then stores 0, the call goes on and may be waited for again. */
TIDEPOOL_C_API tidepool_code tidepool_future_wait(tidepool_future* future, uint64_t timeout_ms);
/* Calls `next(argument, future)` once the call has ended, on the thread that makes progress then;
 * at once if it has ended. The future belongs to `next` from now on, which must free it. `next` may
 * make other calls of the library. It must not throw or longjmp. */
TIDEPOOL_C_API tidepool_code tidepool_future_then(
    tidepool_future* future, void (*next)(void* argument, tidepool_future* future), void* argument);
/* Frees the handle. A call under way goes on; its result is dropped. */
TIDEPOOL_C_API void tidepool_future_free(tidepool_future* future);

/* Take the result of a call that has ended well. All of them return TIDEPOOL_FAILED_PRECONDITION
 * while the call is under way and if its result was taken, TIDEPOOL_INVALID_ARGUMENT if the call
 * has a result of another type, and else the outcome of the call. The comment of each asynchronous
 * function says which of them fits. Numbers may be taken again; handles are given once. */
TIDEPOOL_C_API tidepool_code tidepool_future_value(tidepool_future* future, tidepool_value** value);
TIDEPOOL_C_API tidepool_code tidepool_future_u64(tidepool_future* future, uint64_t* number);
TIDEPOOL_C_API tidepool_code tidepool_future_i64(tidepool_future* future, int64_t* number);
TIDEPOOL_C_API tidepool_code tidepool_future_f64(tidepool_future* future, double* number);
TIDEPOOL_C_API tidepool_code tidepool_future_bool(tidepool_future* future, int* truth);

/* The outcomes of the keys or items of a call, in their order. Each may succeed or fail.
 */
typedef struct tidepool_batch tidepool_batch;
/* Stores the batch whenever the call has ended, also if operations in it failed. */
TIDEPOOL_C_API tidepool_code tidepool_future_batch(tidepool_future* future, tidepool_batch** batch);
/* Return 0 for a wrong handle. */
TIDEPOOL_C_API size_t tidepool_batch_size(const tidepool_batch* batch);
TIDEPOOL_C_API size_t tidepool_batch_ok_count(const tidepool_batch* batch);
/* Returns the status of the call: the first failure, with the number of its key in the text. Reads
 * and deletes pass over TIDEPOOL_NOT_FOUND, an expected outcome of a key. */
TIDEPOOL_C_API tidepool_code tidepool_batch_status(const tidepool_batch* batch);
/* Returns the outcome of a key. TIDEPOOL_OUT_OF_RANGE also: `index` is beyond the batch. */
TIDEPOOL_C_API tidepool_code tidepool_batch_code(const tidepool_batch* batch, size_t index);
/* Shows a value of tidepool_map_multi_get until tidepool_batch_free. Returns as
 * tidepool_batch_code. `info` may be NULL. */
TIDEPOOL_C_API tidepool_code tidepool_batch_value(const tidepool_batch* batch, size_t index,
                                                  tidepool_bytes* value, tidepool_value_info* info);
/* Stores the number of an operation: the version of a put or delete, the id of a pushed item, 1 or
 * 0 of tidepool_bloom_multi_*. Returns as tidepool_batch_code. */
TIDEPOOL_C_API tidepool_code tidepool_batch_number(const tidepool_batch* batch, size_t index,
                                                   uint64_t* number);
TIDEPOOL_C_API void tidepool_batch_free(tidepool_batch* batch);

#ifdef __cplusplus
}
#endif
