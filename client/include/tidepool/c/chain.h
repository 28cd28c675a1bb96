/* Chains: several operations on keys of one partition, atomic for every reader.
 *
 *   tidepool_chain* chain;
 *   int taken;
 *   tidepool_chain_new(&chain);
 *   tidepool_chain_take(chain, "{a}old", 6, &taken);
 *   tidepool_chain_put_from(chain, "{a}new", 6, taken, NULL, NULL);
 *   code = tidepool_map_execute(map, chain, NULL, &result);
 *
 * A chain has 1 to 64 steps. Its keys, values and conditions have together some 30 KiB. All keys
 * lie in one partition, as keys with the same {tag} do; in an ordered namespace in one range. It
 * ends at the first step that fails; earlier steps stay done. It is done once or not at all. */
#pragma once

#include "tidepool/c/map.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Put together by one thread; any number may then execute it, again and again. */
typedef struct tidepool_chain tidepool_chain;
TIDEPOOL_C_API tidepool_code tidepool_chain_new(tidepool_chain** chain);
TIDEPOOL_C_API void tidepool_chain_free(tidepool_chain* chain);

/* Append a step, as the operation of map.h. `step` gets its number, for conditions, for ..._from
 * and for the result; it may be NULL. Return: TIDEPOOL_INVALID_ARGUMENT,
 * TIDEPOOL_RESOURCE_EXHAUSTED (65 steps). timeout_ms, promises and receipt of the options have no
 * effect here. */
TIDEPOOL_C_API tidepool_code tidepool_chain_get(tidepool_chain* chain, const void* key,
                                                size_t key_bytes, int* step);
TIDEPOOL_C_API tidepool_code tidepool_chain_take(tidepool_chain* chain, const void* key,
                                                 size_t key_bytes, int* step);
TIDEPOOL_C_API tidepool_code tidepool_chain_contains(tidepool_chain* chain, const void* key,
                                                     size_t key_bytes, int* step);
TIDEPOOL_C_API tidepool_code tidepool_chain_put(tidepool_chain* chain, const void* key,
                                                size_t key_bytes, const void* value,
                                                size_t value_bytes,
                                                const tidepool_put_options* options, int* step);
/* Puts the value that step `from` returns. */
TIDEPOOL_C_API tidepool_code tidepool_chain_put_from(tidepool_chain* chain, const void* key,
                                                     size_t key_bytes, int from,
                                                     const tidepool_put_options* options,
                                                     int* step);
TIDEPOOL_C_API tidepool_code tidepool_chain_delete(tidepool_chain* chain, const void* key,
                                                   size_t key_bytes,
                                                   const tidepool_delete_options* options,
                                                   int* step);
TIDEPOOL_C_API tidepool_code tidepool_chain_append(tidepool_chain* chain, const void* key,
                                                   size_t key_bytes, const void* suffix,
                                                   size_t suffix_bytes, int* step);
TIDEPOOL_C_API tidepool_code tidepool_chain_append_from(tidepool_chain* chain, const void* key,
                                                        size_t key_bytes, int from, int* step);
TIDEPOOL_C_API tidepool_code tidepool_chain_compare_and_swap(tidepool_chain* chain, const void* key,
                                                             size_t key_bytes, const void* expected,
                                                             size_t expected_bytes,
                                                             const void* desired,
                                                             size_t desired_bytes, int* step);
/* TIDEPOOL_FETCH_ADD_IF_PRESENT is no step: TIDEPOOL_UNIMPLEMENTED. */
TIDEPOOL_C_API tidepool_code tidepool_chain_fetch(tidepool_chain* chain, tidepool_fetch operation,
                                                  const void* key, size_t key_bytes,
                                                  int64_t operand, int* step);
TIDEPOOL_C_API tidepool_code tidepool_chain_fetch_from(tidepool_chain* chain,
                                                       tidepool_fetch operation, const void* key,
                                                       size_t key_bytes, int from, int* step);
TIDEPOOL_C_API tidepool_code tidepool_chain_fetch_f64(tidepool_chain* chain,
                                                      tidepool_fetch operation, const void* key,
                                                      size_t key_bytes, double operand, int* step);
TIDEPOOL_C_API tidepool_code tidepool_chain_fetch_f64_from(tidepool_chain* chain,
                                                           tidepool_fetch operation,
                                                           const void* key, size_t key_bytes,
                                                           int from, int* step);
TIDEPOOL_C_API tidepool_code tidepool_chain_expire(tidepool_chain* chain, const void* key,
                                                   size_t key_bytes, uint64_t ttl_ms, int* step);
TIDEPOOL_C_API tidepool_code tidepool_chain_ttl(tidepool_chain* chain, const void* key,
                                                size_t key_bytes, int* step);

/* Condition on an earlier step. A step that was left out meets no condition. */
typedef enum tidepool_chain_test {
  TIDEPOOL_CHAIN_OK = 1,
  TIDEPOOL_CHAIN_NOT_FOUND = 2,
  TIDEPOOL_CHAIN_EQUALS = 3 /* The step returned `expected`. */
} tidepool_chain_test;
/* Leaves `step` out unless the condition on step `tested` holds; the chain goes on. `expected`
 * counts for TIDEPOOL_CHAIN_EQUALS only. A step has one condition; a later call replaces it. */
TIDEPOOL_C_API tidepool_code tidepool_chain_if(tidepool_chain* chain, int step, int tested,
                                               tidepool_chain_test test, const void* expected,
                                               size_t expected_bytes);
/* Ends the chain at `step` with TIDEPOOL_FAILED_PRECONDITION unless the condition holds. */
TIDEPOOL_C_API tidepool_code tidepool_chain_require(tidepool_chain* chain, int step, int tested,
                                                    tidepool_chain_test test, const void* expected,
                                                    size_t expected_bytes);
/* Lets the chain go on if `step` fails. */
TIDEPOOL_C_API tidepool_code tidepool_chain_may_fail(tidepool_chain* chain, int step);

/* Outcomes of the steps. */
typedef struct tidepool_chain_result tidepool_chain_result;
typedef struct tidepool_chain_outcome {
  tidepool_code code;   /* TIDEPOOL_CANCELLED: left out, or the chain had ended. */
  int omitted;          /* 1: the value of a get had no room in the answer of 32 KiB. */
  tidepool_bytes value; /* For get and take; valid until the result is freed. */
  uint64_t value_bytes; /* Size of the whole value. */
  uint64_t version;
  tidepool_value_kind kind;
  int reserved;
  int64_t number;    /* For fetch: the number before. */
  double number_f64; /* For fetch_f64: the number before. */
  uint64_t ttl_ms;   /* For ttl; TIDEPOOL_FOR_EVER without an end. */
} tidepool_chain_outcome;
/* Runs the steps as one operation. Returns the status of the step that ended the chain, or
 * TIDEPOOL_INVALID_ARGUMENT (no step, too long, keys of several partitions),
 * TIDEPOOL_FAILED_PRECONDITION (also: keys of several ranges). Stores a result whenever the chain
 * was run, else NULL. `result` may be NULL. Async: tidepool_future_chain_result. */
TIDEPOOL_C_API tidepool_code tidepool_map_execute(const tidepool_namespace* map,
                                                  const tidepool_chain* chain,
                                                  const tidepool_call_options* options,
                                                  tidepool_chain_result** result);
TIDEPOOL_C_API tidepool_code tidepool_map_execute_async(const tidepool_namespace* map,
                                                        const tidepool_chain* chain,
                                                        const tidepool_call_options* options,
                                                        tidepool_future** future);
/* Takes the result of a future whenever the chain was run, see future.h. */
TIDEPOOL_C_API tidepool_code tidepool_future_chain_result(tidepool_future* future,
                                                          tidepool_chain_result** result);
/* Returns 0 for a wrong handle. */
TIDEPOOL_C_API size_t tidepool_chain_result_size(const tidepool_chain_result* result);
/* Shows the outcome of a step. Returns: TIDEPOOL_OUT_OF_RANGE (no step of this number). */
TIDEPOOL_C_API tidepool_code tidepool_chain_result_get(const tidepool_chain_result* result,
                                                       int step, tidepool_chain_outcome* outcome);
TIDEPOOL_C_API void tidepool_chain_result_free(tidepool_chain_result* result);

#ifdef __cplusplus
}
#endif
