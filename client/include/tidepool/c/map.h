/* Maps: namespaces of kind hash and ordered, from bytes to bytes.
 *
 * Operations on one key are linearizable; operations of one thread on one key take effect in the
 * order of their calls. Operations on different keys are not ordered, not even in a batch.
 *
 * Errors of every operation, in addition to its comment:
 *   TIDEPOOL_INVALID_ARGUMENT     a key above 16,384 bytes or a value above 1 GiB
 *   TIDEPOOL_DEADLINE_EXCEEDED    the deadline passed; no effect
 *   TIDEPOOL_UNKNOWN              a change was under way; it took effect once or not at all
 *   TIDEPOOL_UNAVAILABLE          the node that owns the key is down; no effect
 *   TIDEPOOL_DATA_LOSS            the owner came back without its data
 *   TIDEPOOL_NOT_FOUND            also: the namespace was dropped
 *   TIDEPOOL_FAILED_PRECONDITION  also: another kind of namespace, or this process is a fork
 *   TIDEPOOL_RESOURCE_EXHAUSTED   no memory: at the owner for a change, else in this process
 *
 * The functions ..._async start the same operation and return at once. The comment of each names
 * the function of future.h that takes its result. */
#pragma once

#include "tidepool/c/client.h"
#include "tidepool/c/future.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tidepool_put_condition {
  TIDEPOOL_PUT_ALWAYS = 0,
  TIDEPOOL_PUT_IF_ABSENT = 1,
  TIDEPOOL_PUT_IF_PRESENT = 2,
  TIDEPOOL_PUT_IF_VERSION = 3
} tidepool_put_condition;

typedef struct tidepool_put_options {
  size_t struct_bytes;
  uint64_t timeout_ms; /* See tidepool_call_options. */
  uint64_t ttl_ms;     /* Time to live. 0: the namespace's; TIDEPOOL_FOR_EVER: none. */
  uint64_t if_version; /* For TIDEPOOL_PUT_IF_VERSION. */
  tidepool_put_condition condition;
  tidepool_value_kind kind; /* Counters need a value of 8 bytes. */
  uint32_t promises;
  uint32_t reserved; /* 0. */
  tidepool_receipt* receipt;
} tidepool_put_options;
#define TIDEPOOL_PUT_OPTIONS_INIT TIDEPOOL_OPTIONS_INIT_(tidepool_put_options)

typedef struct tidepool_delete_options {
  size_t struct_bytes;
  uint64_t timeout_ms;
  uint64_t if_version; /* 0: whatever the version is. */
  tidepool_receipt* receipt;
} tidepool_delete_options;
#define TIDEPOOL_DELETE_OPTIONS_INIT TIDEPOOL_OPTIONS_INIT_(tidepool_delete_options)

/* Gets a value into a buffer of the caller. `value` describes it; its size is right also when
 * the buffer is too small. `buffer` may be NULL with buffer_bytes 0, to learn the size. Returns:
 * TIDEPOOL_NOT_FOUND; TIDEPOOL_OUT_OF_RANGE (the buffer is too small). The buffer may have been
 * written to whatever the outcome. */
TIDEPOOL_C_API tidepool_code tidepool_map_get(const tidepool_namespace* map, const void* key,
                                              size_t key_bytes, void* buffer, size_t buffer_bytes,
                                              const tidepool_call_options* options,
                                              tidepool_value_info* value);
/* Gets a value of any size into memory of the library. Async: tidepool_future_value. */
TIDEPOOL_C_API tidepool_code tidepool_map_get_value(const tidepool_namespace* map, const void* key,
                                                    size_t key_bytes,
                                                    const tidepool_call_options* options,
                                                    tidepool_value** value);
TIDEPOOL_C_API tidepool_code tidepool_map_get_async(const tidepool_namespace* map, const void* key,
                                                    size_t key_bytes,
                                                    const tidepool_call_options* options,
                                                    tidepool_future** future);

/* Gets the value as soon as the key is there; the timeout is how long it waits.
 * Returns: TIDEPOOL_DEADLINE_EXCEEDED. Async: tidepool_future_value. */
TIDEPOOL_C_API tidepool_code tidepool_map_wait_for_key(const tidepool_namespace* map,
                                                       const void* key, size_t key_bytes,
                                                       const tidepool_call_options* options,
                                                       tidepool_value** value);
TIDEPOOL_C_API tidepool_code tidepool_map_wait_for_key_async(const tidepool_namespace* map,
                                                             const void* key, size_t key_bytes,
                                                             const tidepool_call_options* options,
                                                             tidepool_future** future);
/* Gets the value as soon as its version is another than `known` (0: no record).
 * Returns: TIDEPOOL_NOT_FOUND (the key is gone), TIDEPOOL_DEADLINE_EXCEEDED.
 * Async: tidepool_future_value. */
TIDEPOOL_C_API tidepool_code tidepool_map_wait_for_change(const tidepool_namespace* map,
                                                          const void* key, size_t key_bytes,
                                                          uint64_t known,
                                                          const tidepool_call_options* options,
                                                          tidepool_value** value);
TIDEPOOL_C_API tidepool_code tidepool_map_wait_for_change_async(
    const tidepool_namespace* map, const void* key, size_t key_bytes, uint64_t known,
    const tidepool_call_options* options, tidepool_future** future);

/* Gets and deletes in one step. Returns: TIDEPOOL_NOT_FOUND. Async: tidepool_future_value. */
TIDEPOOL_C_API tidepool_code tidepool_map_take(const tidepool_namespace* map, const void* key,
                                               size_t key_bytes,
                                               const tidepool_call_options* options,
                                               tidepool_value** value);
TIDEPOOL_C_API tidepool_code tidepool_map_take_async(const tidepool_namespace* map, const void* key,
                                                     size_t key_bytes,
                                                     const tidepool_call_options* options,
                                                     tidepool_future** future);

/* Stores a value. `version` may be NULL. Returns: TIDEPOOL_ALREADY_EXISTS (IF_ABSENT),
 * TIDEPOOL_NOT_FOUND (IF_PRESENT, IF_VERSION), TIDEPOOL_FAILED_PRECONDITION (IF_VERSION),
 * TIDEPOOL_INVALID_ARGUMENT (a counter without 8 bytes). Async: tidepool_future_u64, the version.
 */
TIDEPOOL_C_API tidepool_code tidepool_map_put(const tidepool_namespace* map, const void* key,
                                              size_t key_bytes, const void* value,
                                              size_t value_bytes,
                                              const tidepool_put_options* options,
                                              uint64_t* version);
TIDEPOOL_C_API tidepool_code tidepool_map_put_async(const tidepool_namespace* map, const void* key,
                                                    size_t key_bytes, const void* value,
                                                    size_t value_bytes,
                                                    const tidepool_put_options* options,
                                                    tidepool_future** future);

/* Deletes a record. Returns: TIDEPOOL_NOT_FOUND, TIDEPOOL_FAILED_PRECONDITION (another version).
 * Async: tidepool_future_wait has the outcome. */
TIDEPOOL_C_API tidepool_code tidepool_map_delete(const tidepool_namespace* map, const void* key,
                                                 size_t key_bytes,
                                                 const tidepool_delete_options* options);
TIDEPOOL_C_API tidepool_code tidepool_map_delete_async(const tidepool_namespace* map,
                                                       const void* key, size_t key_bytes,
                                                       const tidepool_delete_options* options,
                                                       tidepool_future** future);

/* Stores 1 if the key is there, else 0. Async: tidepool_future_bool. */
TIDEPOOL_C_API tidepool_code tidepool_map_contains(const tidepool_namespace* map, const void* key,
                                                   size_t key_bytes,
                                                   const tidepool_call_options* options,
                                                   int* present);
TIDEPOOL_C_API tidepool_code tidepool_map_contains_async(const tidepool_namespace* map,
                                                         const void* key, size_t key_bytes,
                                                         const tidepool_call_options* options,
                                                         tidepool_future** future);

/* Counts the records; the partitions are not asked at one moment. Async: tidepool_future_u64. */
TIDEPOOL_C_API tidepool_code tidepool_map_length(const tidepool_namespace* map,
                                                 const tidepool_call_options* options,
                                                 uint64_t* records);
TIDEPOOL_C_API tidepool_code tidepool_map_length_async(const tidepool_namespace* map,
                                                       const tidepool_call_options* options,
                                                       tidepool_future** future);

/* Change of a counter by tidepool_map_fetch. Floating-point counters have ADD, MIN and MAX. */
typedef enum tidepool_fetch {
  TIDEPOOL_FETCH_ADD = 0,
  TIDEPOOL_FETCH_ADD_IF_PRESENT = 1, /* Creates nothing: TIDEPOOL_NOT_FOUND. */
  TIDEPOOL_FETCH_AND = 2,
  TIDEPOOL_FETCH_OR = 3,
  TIDEPOOL_FETCH_XOR = 4,
  TIDEPOOL_FETCH_MIN = 5,
  TIDEPOOL_FETCH_MAX = 6
} tidepool_fetch;
/* Changes a counter and stores its number before; an absent key counts as 0 and is created.
 * `before` may be NULL. Returns: TIDEPOOL_INVALID_ARGUMENT (no counter of this kind),
 * TIDEPOOL_OUT_OF_RANGE (the sum does not fit 64 bits; no effect), TIDEPOOL_UNIMPLEMENTED (a
 * floating-point counter lacks this operation). Async: tidepool_future_i64, tidepool_future_f64.
 */
TIDEPOOL_C_API tidepool_code tidepool_map_fetch(const tidepool_namespace* map,
                                                tidepool_fetch operation, const void* key,
                                                size_t key_bytes, int64_t operand,
                                                const tidepool_call_options* options,
                                                int64_t* before);
TIDEPOOL_C_API tidepool_code tidepool_map_fetch_async(const tidepool_namespace* map,
                                                      tidepool_fetch operation, const void* key,
                                                      size_t key_bytes, int64_t operand,
                                                      const tidepool_call_options* options,
                                                      tidepool_future** future);
TIDEPOOL_C_API tidepool_code tidepool_map_fetch_f64(const tidepool_namespace* map,
                                                    tidepool_fetch operation, const void* key,
                                                    size_t key_bytes, double operand,
                                                    const tidepool_call_options* options,
                                                    double* before);
TIDEPOOL_C_API tidepool_code tidepool_map_fetch_f64_async(const tidepool_namespace* map,
                                                          tidepool_fetch operation, const void* key,
                                                          size_t key_bytes, double operand,
                                                          const tidepool_call_options* options,
                                                          tidepool_future** future);

/* Replaces the value by `desired` if it equals `expected`; keeps the time to live. Both together
 * have at most 32 KiB. `version` may be NULL. Returns: TIDEPOOL_NOT_FOUND,
 * TIDEPOOL_FAILED_PRECONDITION (another value). Async: tidepool_future_u64, the version. */
TIDEPOOL_C_API tidepool_code tidepool_map_compare_and_swap(
    const tidepool_namespace* map, const void* key, size_t key_bytes, const void* expected,
    size_t expected_bytes, const void* desired, size_t desired_bytes,
    const tidepool_call_options* options, uint64_t* version);
TIDEPOOL_C_API tidepool_code tidepool_map_compare_and_swap_async(
    const tidepool_namespace* map, const void* key, size_t key_bytes, const void* expected,
    size_t expected_bytes, const void* desired, size_t desired_bytes,
    const tidepool_call_options* options, tidepool_future** future);

/* Lets a function of the daemons change the value where it is: "exchange", "greater", "lesser",
 * "or-bytes", "add-i64s", "add-f64s", "append-last", or a function of the site
 * (<tidepool/function.h>). Stores the function's result, with the version of the record.
 * Returns: TIDEPOOL_UNIMPLEMENTED (no function of this name), TIDEPOOL_INVALID_ARGUMENT (the
 * function refuses), TIDEPOOL_OUT_OF_RANGE, TIDEPOOL_FAILED_PRECONDITION, TIDEPOOL_INTERNAL (a
 * fault of the function). Async: tidepool_future_value. */
TIDEPOOL_C_API tidepool_code tidepool_map_apply(const tidepool_namespace* map, const void* key,
                                                size_t key_bytes, const char* function,
                                                const void* argument, size_t argument_bytes,
                                                const tidepool_call_options* options,
                                                tidepool_value** result);
TIDEPOOL_C_API tidepool_code tidepool_map_apply_async(const tidepool_namespace* map,
                                                      const void* key, size_t key_bytes,
                                                      const char* function, const void* argument,
                                                      size_t argument_bytes,
                                                      const tidepool_call_options* options,
                                                      tidepool_future** future);

/* Appends at most 32 KiB to a value; an absent key is created. Stores the new size in bytes, which
 * may be NULL. Returns: TIDEPOOL_OUT_OF_RANGE (above 1 GiB). Async: tidepool_future_u64. */
TIDEPOOL_C_API tidepool_code tidepool_map_append(const tidepool_namespace* map, const void* key,
                                                 size_t key_bytes, const void* suffix,
                                                 size_t suffix_bytes,
                                                 const tidepool_call_options* options,
                                                 uint64_t* value_bytes);
TIDEPOOL_C_API tidepool_code tidepool_map_append_async(const tidepool_namespace* map,
                                                       const void* key, size_t key_bytes,
                                                       const void* suffix, size_t suffix_bytes,
                                                       const tidepool_call_options* options,
                                                       tidepool_future** future);

/* Lets a record expire `ttl_ms` from now; TIDEPOOL_FOR_EVER or 0: never.
 * Returns: TIDEPOOL_NOT_FOUND. Async: tidepool_future_wait has the outcome. */
TIDEPOOL_C_API tidepool_code tidepool_map_expire(const tidepool_namespace* map, const void* key,
                                                 size_t key_bytes, uint64_t ttl_ms,
                                                 const tidepool_call_options* options);
TIDEPOOL_C_API tidepool_code tidepool_map_expire_async(const tidepool_namespace* map,
                                                       const void* key, size_t key_bytes,
                                                       uint64_t ttl_ms,
                                                       const tidepool_call_options* options,
                                                       tidepool_future** future);
/* Stores the time that a record still has, TIDEPOOL_FOR_EVER if it does not expire.
 * Returns: TIDEPOOL_NOT_FOUND. Async: tidepool_future_u64. */
TIDEPOOL_C_API tidepool_code tidepool_map_ttl(const tidepool_namespace* map, const void* key,
                                              size_t key_bytes,
                                              const tidepool_call_options* options,
                                              uint64_t* ttl_ms);
TIDEPOOL_C_API tidepool_code tidepool_map_ttl_async(const tidepool_namespace* map, const void* key,
                                                    size_t key_bytes,
                                                    const tidepool_call_options* options,
                                                    tidepool_future** future);

/* Work on many keys, far cheaper per key than single calls. Return the first failure, see
 * tidepool_batch_status, and store the batch also then. `batch` may be NULL for puts and deletes.
 * Async: tidepool_future_batch. */
TIDEPOOL_C_API tidepool_code tidepool_map_multi_get(const tidepool_namespace* map,
                                                    const tidepool_bytes* keys, size_t count,
                                                    const tidepool_call_options* options,
                                                    tidepool_batch** batch);
TIDEPOOL_C_API tidepool_code tidepool_map_multi_get_async(const tidepool_namespace* map,
                                                          const tidepool_bytes* keys, size_t count,
                                                          const tidepool_call_options* options,
                                                          tidepool_future** future);
TIDEPOOL_C_API tidepool_code tidepool_map_multi_put(const tidepool_namespace* map,
                                                    const tidepool_bytes* keys,
                                                    const tidepool_bytes* values, size_t count,
                                                    const tidepool_put_options* options,
                                                    tidepool_batch** batch);
TIDEPOOL_C_API tidepool_code tidepool_map_multi_put_async(
    const tidepool_namespace* map, const tidepool_bytes* keys, const tidepool_bytes* values,
    size_t count, const tidepool_put_options* options, tidepool_future** future);
TIDEPOOL_C_API tidepool_code tidepool_map_multi_delete(const tidepool_namespace* map,
                                                       const tidepool_bytes* keys, size_t count,
                                                       const tidepool_call_options* options,
                                                       tidepool_batch** batch);
TIDEPOOL_C_API tidepool_code tidepool_map_multi_delete_async(const tidepool_namespace* map,
                                                             const tidepool_bytes* keys,
                                                             size_t count,
                                                             const tidepool_call_options* options,
                                                             tidepool_future** future);

/* ------------------------------------------------------------------------------------- Iteration
 */

/* A record of an iteration. Keys and values are valid until the next tidepool_iterator_next. */
typedef struct tidepool_record {
  tidepool_bytes key;
  tidepool_bytes value;   /* Empty if it was left out. */
  uint64_t value_bytes;   /* Size of the whole value, also when it was left out. */
  uint64_t version;       /* 0 in a scan of keys only. */
  uint64_t expires_at_ms; /* Since 1970; 0: never. */
  tidepool_value_kind kind;
  int value_omitted; /* 1: keys_only. */
} tidepool_record;

typedef struct tidepool_iterate_options {
  size_t struct_bytes;
  uint64_t timeout_ms;       /* Per page. */
  uint32_t page_records_max; /* 0: as many as fit a message of 60 KiB. */
  uint32_t node;             /* With on_node: only records that this node owns. */
  int on_node;
  int keys_only;
  tidepool_bytes cursor; /* From tidepool_iterator_cursor. Empty: from the beginning. */
} tidepool_iterate_options;
#define TIDEPOOL_ITERATE_OPTIONS_INIT TIDEPOOL_OPTIONS_INIT_(tidepool_iterate_options)

/* Walks over records; fetches the next page while the caller reads this one. */
typedef struct tidepool_iterator tidepool_iterator;
/* Begins a walk over all records: in no order for kind hash, by key for kind ordered. A key that is
 * there during the whole walk is seen exactly once. Sends no message yet. */
TIDEPOOL_C_API tidepool_code tidepool_map_iterate(const tidepool_namespace* map,
                                                  const tidepool_iterate_options* options,
                                                  tidepool_iterator** iterator);
/* Returns 1 and stores the next record; 0 at the end and after a failure, for
 * which tidepool_iterator_status has the reason. */
TIDEPOOL_C_API int tidepool_iterator_next(tidepool_iterator* iterator, tidepool_record* record);
/* Returns TIDEPOOL_OK while the walk goes well and at its end, else why it stopped.
 * TIDEPOOL_DATA_LOSS at the end: there were records that cannot be read. */
TIDEPOOL_C_API tidepool_code tidepool_iterator_status(const tidepool_iterator* iterator);
/* Returns how many records could not be read so far. */
TIDEPOOL_C_API uint64_t tidepool_iterator_unreadable(const tidepool_iterator* iterator);
/* Copies the place where the page of the present record began, for the options of a later walk, in
 * any process. Stores its size, at most 16,397 bytes. Returns: TIDEPOOL_OUT_OF_RANGE (the buffer is
 * too small), TIDEPOOL_UNIMPLEMENTED (a scan: begin behind its last key instead). */
TIDEPOOL_C_API tidepool_code tidepool_iterator_cursor(const tidepool_iterator* iterator,
                                                      void* buffer, size_t buffer_bytes,
                                                      size_t* cursor_bytes);
TIDEPOOL_C_API void tidepool_iterator_free(tidepool_iterator* iterator);

#ifdef __cplusplus
}
#endif
