/* Groups: barriers, broadcasts and reductions among a fixed number of processes, without MPI.
 *
 * All members make the same collective calls in the same order. Every collective call may end with
 *   TIDEPOOL_DEADLINE_EXCEEDED  not all came in time; the text names the absent members. The call
 *                               may be repeated.
 *   TIDEPOOL_ABORTED            a member left or was killed; the text names it. Join again.
 *   TIDEPOOL_INVALID_ARGUMENT   members made different calls. As TIDEPOOL_ABORTED.
 *   TIDEPOOL_RESOURCE_EXHAUSTED too many contributions wait on one core: make the call again.
 * and as operations of map.h. */
#pragma once

#include "tidepool/c/buffered.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A member's handle. Used by one thread at a time. Keeps its client connected. */
typedef struct tidepool_group tidepool_group;

typedef struct tidepool_join_options {
  size_t struct_bytes;
  uint64_t timeout_ms; /* Time to wait for the members. */
  const char* label;   /* For messages. NULL: the name of the client. */
  int choose_rank;     /* 1: `rank` counts. 0: the group gives a free rank. */
  uint32_t rank;
} tidepool_join_options;
#define TIDEPOOL_JOIN_OPTIONS_INIT TIDEPOOL_OPTIONS_INIT_(tidepool_join_options)

/* Waits until `size` members (1 to 65,536) have come. Returns: TIDEPOOL_INVALID_ARGUMENT,
 * TIDEPOOL_ALREADY_EXISTS (the rank is taken), TIDEPOOL_RESOURCE_EXHAUSTED,
 * TIDEPOOL_DEADLINE_EXCEEDED. */
TIDEPOOL_C_API tidepool_code tidepool_group_join(tidepool_client* client, const char* name,
                                                 uint32_t size,
                                                 const tidepool_join_options* options,
                                                 tidepool_group** group);
/* Leaves the group and frees the handle. May take a second if the node of the group does not
 * answer. */
TIDEPOOL_C_API void tidepool_group_free(tidepool_group* group);
/* Stores rank and size; each pointer may be NULL. */
TIDEPOOL_C_API tidepool_code tidepool_group_describe(const tidepool_group* group, uint32_t* rank,
                                                     uint32_t* size);

/* Returns when all members have called it. */
TIDEPOOL_C_API tidepool_code tidepool_group_barrier(tidepool_group* group,
                                                    const tidepool_call_options* options);
/* Flushes the buffered handles, waits for the operations of this client, then for a barrier. The
 * barrier is met also after a failure, which is returned. `buffered` may be NULL with count 0. */
TIDEPOOL_C_API tidepool_code tidepool_group_fence(tidepool_group* group,
                                                  tidepool_buffered* const* buffered, size_t count,
                                                  const tidepool_call_options* options);
/* Stores the value that `root` gave, at every member. The value of other members is not read.
 * At most 16 KiB. */
TIDEPOOL_C_API tidepool_code tidepool_group_broadcast(tidepool_group* group, uint32_t root,
                                                      const void* value, size_t value_bytes,
                                                      const tidepool_call_options* options,
                                                      tidepool_value** result);

typedef enum tidepool_number_type {
  TIDEPOOL_NUMBER_I64 = 0,
  TIDEPOOL_NUMBER_U64 = 1,
  TIDEPOOL_NUMBER_F64 = 2
} tidepool_number_type;
typedef enum tidepool_reduction {
  TIDEPOOL_SUM = 0, /* Integer sums wrap around. Sums of doubles are made in the order of ranks. */
  TIDEPOOL_MIN = 1,
  TIDEPOOL_MAX = 2
} tidepool_reduction;
#define TIDEPOOL_EVERYWHERE UINT32_MAX
/* Combines arrays of all members, element by element. `numbers` points at `count` (1 to 2,048)
 * elements of 8 bytes, and gets the result at member `root`, or at every member for
 * TIDEPOOL_EVERYWHERE. It stays as it is elsewhere, and after a failure. */
TIDEPOOL_C_API tidepool_code tidepool_group_reduce(tidepool_group* group, uint32_t root,
                                                   tidepool_number_type type,
                                                   tidepool_reduction reduction, void* numbers,
                                                   size_t count,
                                                   const tidepool_call_options* options);

#ifdef __cplusplus
}
#endif
