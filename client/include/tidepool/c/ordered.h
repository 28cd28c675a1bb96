/* Ordered maps: namespaces of kind ordered, whose keys can be walked in their order.
 *
 * All of map.h works on them. Keys are compared as unsigned bytes, the shorter of two that agree
 * first. A scan sees each page at one moment; between pages keys may come, go and change. */
#pragma once

#include "tidepool/c/map.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The keys from `begin` up to but without `end`; all zero: every key. */
typedef struct tidepool_range {
  tidepool_bytes begin;
  tidepool_bytes end; /* Counts with has_end only. */
  int has_end;
  int after_begin;       /* 1: without the key `begin` itself. */
  tidepool_bytes prefix; /* Not empty: the keys that begin with it; all other fields must be 0. */
} tidepool_range;

typedef struct tidepool_scan_options {
  size_t struct_bytes;
  uint64_t timeout_ms; /* Per message. */
  uint64_t limit;      /* Most records to return. 0: all. */
  int reverse;         /* 1: from the end of the range downwards. */
  int keys_only;       /* 1: the other fields of the records are 0. */
} tidepool_scan_options;
#define TIDEPOOL_SCAN_OPTIONS_INIT TIDEPOOL_OPTIONS_INIT_(tidepool_scan_options)

/* Begins a walk over a range in the order of its keys. `range` NULL: every key. Sends no message
 * yet. Use the functions tidepool_iterator_* of map.h. */
TIDEPOOL_C_API tidepool_code tidepool_ordered_scan(const tidepool_namespace* map,
                                                   const tidepool_range* range,
                                                   const tidepool_scan_options* options,
                                                   tidepool_iterator** iterator);

/* Get the lowest and the highest key of a range with its value. The sizes are right also when a
 * buffer is too small; a buffer may be NULL with size 0. `value` may be NULL.
 * Returns: TIDEPOOL_NOT_FOUND (the range is empty), TIDEPOOL_OUT_OF_RANGE (a buffer is too small),
 * TIDEPOOL_DATA_LOSS (there may be another key before it). */
TIDEPOOL_C_API tidepool_code tidepool_ordered_first(
    const tidepool_namespace* map, const tidepool_range* range,
    const tidepool_call_options* options, void* key_buffer, size_t key_buffer_bytes,
    size_t* key_bytes, void* value_buffer, size_t value_buffer_bytes, tidepool_value_info* value);
TIDEPOOL_C_API tidepool_code tidepool_ordered_last(
    const tidepool_namespace* map, const tidepool_range* range,
    const tidepool_call_options* options, void* key_buffer, size_t key_buffer_bytes,
    size_t* key_bytes, void* value_buffer, size_t value_buffer_bytes, tidepool_value_info* value);

/* Counts the keys of a range, some 100,000 per message. The timeout is that of each message. */
TIDEPOOL_C_API tidepool_code tidepool_ordered_count(const tidepool_namespace* map,
                                                    const tidepool_range* range,
                                                    const tidepool_call_options* options,
                                                    uint64_t* keys);
/* Deletes the keys of a range upwards, some 500 per message, and stores how many there were.
 * After a failure a part of them is gone: repeat the call. `keys` may be NULL. */
TIDEPOOL_C_API tidepool_code tidepool_ordered_erase(const tidepool_namespace* map,
                                                    const tidepool_range* range,
                                                    const tidepool_call_options* options,
                                                    uint64_t* keys);

#ifdef __cplusplus
}
#endif
