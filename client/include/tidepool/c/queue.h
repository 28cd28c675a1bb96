/* Queues: namespaces of kind queue (first in, first out) and priority (least priority first).
 *
 * Each item is delivered by one pop. A pop without a lease removes the item: a program that ends
 * with it in its hands loses it. A pop with a lease hides the item from other pops for that time;
 * tidepool_queue_ack removes it. An item whose lease ends is delivered again.
 *
 * Operations have the errors of map.h. The asynchronous functions copy their arguments. */
#pragma once

#include "tidepool/c/client.h"
#include "tidepool/c/future.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tidepool_push_options {
  size_t struct_bytes;
  uint64_t ttl_ms;     /* Time to live. 0: the namespace's; TIDEPOOL_FOR_EVER: none. */
  uint64_t wait_ms;    /* How long to wait while the queue is at its capacity. */
  uint64_t timeout_ms; /* Per message. */
  uint32_t promises;
  uint32_t reserved; /* 0. */
  tidepool_receipt* receipt;
} tidepool_push_options;
#define TIDEPOOL_PUSH_OPTIONS_INIT TIDEPOOL_OPTIONS_INIT_(tidepool_push_options)

typedef struct tidepool_pop_options {
  size_t struct_bytes;
  uint64_t lease_ms;   /* 0: the items are removed. */
  uint64_t wait_ms;    /* How long to wait while there is no item. */
  uint64_t timeout_ms; /* Per message. */
  uint32_t promises;
  uint32_t reserved; /* 0. */
  tidepool_receipt* receipt;
} tidepool_pop_options;
#define TIDEPOOL_POP_OPTIONS_INIT TIDEPOOL_OPTIONS_INIT_(tidepool_pop_options)

/* Names a delivery of an item. Plain data: another process may ack it. */
typedef struct tidepool_lease {
  uint64_t id;
  uint64_t deliveries;
} tidepool_lease;

typedef struct tidepool_item {
  tidepool_bytes value; /* Valid until the items are freed. */
  uint64_t id;
  uint64_t priority;
  uint64_t deliveries; /* Under a lease, with this delivery; 0: never. */
} tidepool_item;

/* Items that a pop or peek delivered, in their order. */
typedef struct tidepool_items tidepool_items;
/* Returns 0 for a wrong handle. */
TIDEPOOL_C_API size_t tidepool_items_size(const tidepool_items* items);
/* Shows an item. Returns: TIDEPOOL_OUT_OF_RANGE (`index` is beyond the items). */
TIDEPOOL_C_API tidepool_code tidepool_items_get(const tidepool_items* items, size_t index,
                                                tidepool_item* item);
/* Copies the value of an item. Returns: TIDEPOOL_OUT_OF_RANGE (`index` is beyond the items, or the
 * buffer is too small: `value_bytes` then has the size that it needs, and the item stays here). */
TIDEPOOL_C_API tidepool_code tidepool_items_copy(const tidepool_items* items, size_t index,
                                                 void* buffer, size_t buffer_bytes,
                                                 size_t* value_bytes);
/* Returns TIDEPOOL_OK, or the error that ended a pop of several messages early. */
TIDEPOOL_C_API tidepool_code tidepool_items_status(const tidepool_items* items);
TIDEPOOL_C_API void tidepool_items_free(tidepool_items* items);

/* Pushes an item of up to 1 GiB. `priority` is 0 for kind queue. `id` may be NULL.
 * Returns: TIDEPOOL_RESOURCE_EXHAUSTED (at capacity, or no memory), TIDEPOOL_DEADLINE_EXCEEDED (at
 * capacity while it waited). Async: tidepool_future_u64, the id. */
TIDEPOOL_C_API tidepool_code tidepool_queue_push(const tidepool_namespace* queue, uint64_t priority,
                                                 const void* value, size_t value_bytes,
                                                 const tidepool_push_options* options,
                                                 uint64_t* id);
TIDEPOOL_C_API tidepool_code tidepool_queue_push_async(const tidepool_namespace* queue,
                                                       uint64_t priority, const void* value,
                                                       size_t value_bytes,
                                                       const tidepool_push_options* options,
                                                       tidepool_future** future);
/* Pushes many items, far cheaper per item. `priorities` is NULL for kind queue. `batch` may be
 * NULL. Returns the first failure. Async (waits for no room): tidepool_future_batch. */
TIDEPOOL_C_API tidepool_code tidepool_queue_multi_push(const tidepool_namespace* queue,
                                                       const uint64_t* priorities,
                                                       const tidepool_bytes* values, size_t count,
                                                       const tidepool_push_options* options,
                                                       tidepool_batch** batch);
TIDEPOOL_C_API tidepool_code tidepool_queue_multi_push_async(
    const tidepool_namespace* queue, const uint64_t* priorities, const tidepool_bytes* values,
    size_t count, const tidepool_push_options* options, tidepool_future** future);

/* Pops the next item. Returns: TIDEPOOL_NOT_FOUND (no item), TIDEPOOL_DEADLINE_EXCEEDED (no item
 * came while it waited), TIDEPOOL_RESOURCE_EXHAUSTED (65,536 items wait for an ack).
 * Async (not with lanes): tidepool_future_items. */
TIDEPOOL_C_API tidepool_code tidepool_queue_pop(const tidepool_namespace* queue,
                                                const tidepool_pop_options* options,
                                                tidepool_items** items);
TIDEPOOL_C_API tidepool_code tidepool_queue_pop_async(const tidepool_namespace* queue,
                                                      const tidepool_pop_options* options,
                                                      tidepool_future** future);
/* Pops up to `items_max` items; with a wait, it waits for the first item. Without items the handle
 * is empty. Async (one message of 60 KiB, not with lanes): tidepool_future_items. */
TIDEPOOL_C_API tidepool_code tidepool_queue_pop_many(const tidepool_namespace* queue,
                                                     size_t items_max,
                                                     const tidepool_pop_options* options,
                                                     tidepool_items** items);
TIDEPOOL_C_API tidepool_code tidepool_queue_pop_many_async(const tidepool_namespace* queue,
                                                           size_t items_max,
                                                           const tidepool_pop_options* options,
                                                           tidepool_future** future);
/* Takes the items of a future, see future.h. */
TIDEPOOL_C_API tidepool_code tidepool_future_items(tidepool_future* future, tidepool_items** items);
/* Shows up to `items_max` items that a pop would deliver next, of one message of 60 KiB; they stay.
 * Returns: TIDEPOOL_NOT_FOUND (no item). */
TIDEPOOL_C_API tidepool_code tidepool_queue_peek(const tidepool_namespace* queue, size_t items_max,
                                                 const tidepool_call_options* options,
                                                 tidepool_items** items);

/* Removes a leased item. Returns: TIDEPOOL_NOT_FOUND (gone, or never leased),
 * TIDEPOOL_FAILED_PRECONDITION (this lease has ended). Async: tidepool_future_wait has the
 * outcome. */
TIDEPOOL_C_API tidepool_code tidepool_queue_ack(const tidepool_namespace* queue,
                                                const tidepool_lease* lease,
                                                const tidepool_call_options* options);
TIDEPOOL_C_API tidepool_code tidepool_queue_ack_async(const tidepool_namespace* queue,
                                                      const tidepool_lease* lease,
                                                      const tidepool_call_options* options,
                                                      tidepool_future** future);
/* Gives a leased item back, ready at once at its old place. Returns as tidepool_queue_ack. */
TIDEPOOL_C_API tidepool_code tidepool_queue_nack(const tidepool_namespace* queue,
                                                 const tidepool_lease* lease,
                                                 const tidepool_call_options* options);
/* Removes many leased items. Returns the first failure. `batch` may be NULL. */
TIDEPOOL_C_API tidepool_code tidepool_queue_multi_ack(const tidepool_namespace* queue,
                                                      const tidepool_lease* leases, size_t count,
                                                      const tidepool_call_options* options,
                                                      tidepool_batch** batch);
/* Counts the items; each pointer may be NULL. */
TIDEPOOL_C_API tidepool_code tidepool_queue_length(const tidepool_namespace* queue,
                                                   const tidepool_call_options* options,
                                                   uint64_t* ready, uint64_t* leased);

typedef struct tidepool_drain_options {
  size_t struct_bytes;
  uint64_t items_max;  /* 0: until the queue is empty. */
  uint64_t lease_ms;   /* 0: 60,000. Longer than taking the items of one message lasts. */
  uint64_t timeout_ms; /* Per message. */
} tidepool_drain_options;
#define TIDEPOOL_DRAIN_OPTIONS_INIT TIDEPOOL_OPTIONS_INIT_(tidepool_drain_options)
/* Takes items in bulk on the machine of the node that owns the queue. Calls `take` for each; the
 * item leaves the queue after `take` returned 1. It stays, and the call ends, when `take` returned
 * 0. The item's value is valid during `take` only. `take` must not throw or longjmp. Stores how
 * many were taken, which may be NULL. Returns: TIDEPOOL_FAILED_PRECONDITION (the queue is on
 * another machine), and as tidepool_queue_pop if nothing was taken yet. */
TIDEPOOL_C_API tidepool_code tidepool_queue_drain_local(
    const tidepool_namespace* queue, int (*take)(void* argument, const tidepool_item* item),
    void* argument, const tidepool_drain_options* options, uint64_t* taken);

#ifdef __cplusplus
}
#endif
