/* Queues of both kinds: pushes, pops, leases, waits, batches, draining. */
#include "tests/client/c/check.h"

static void FirstInFirstOut(tidepool_namespace* queue) {
  tidepool_items* items = NULL;
  tidepool_item item;
  uint64_t first = 99, second = 99, ready = 0, leased = 0;
  IS(TIDEPOOL_NOT_FOUND, tidepool_queue_pop(queue, NULL, &items));
  CHECK(items == NULL);
  IS(TIDEPOOL_NOT_FOUND, tidepool_queue_peek(queue, 1, NULL, &items));
  OK(tidepool_queue_push(queue, 0, S("one"), NULL, &first));
  OK(tidepool_queue_push(queue, 0, S("second"), NULL, &second));
  CHECK(second > first);
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_queue_push(queue, 3, S("x"), NULL, NULL));
  OK(tidepool_queue_peek(queue, 10, NULL, &items));
  CHECK(tidepool_items_size(items) == 2);
  OK(tidepool_items_get(items, 1, &item));
  CHECK(Equal(item.value, "second") && item.id == second && item.deliveries == 0);
  tidepool_items_free(items);

  OK(tidepool_queue_pop(queue, NULL, &items));
  CHECK(tidepool_items_size(items) == 1);
  OK(tidepool_items_get(items, 0, &item));
  CHECK(Equal(item.value, "one") && item.id == first);
  /* A popped item stays in its handle while a buffer is too small for it. */
  char buffer[4];
  size_t bytes = 0;
  IS(TIDEPOOL_OUT_OF_RANGE, tidepool_items_copy(items, 0, buffer, 2, &bytes));
  CHECK(bytes == 3);
  OK(tidepool_items_copy(items, 0, buffer, sizeof buffer, &bytes));
  CHECK(bytes == 3 && memcmp(buffer, "one", 3) == 0);
  IS(TIDEPOOL_OUT_OF_RANGE, tidepool_items_get(items, 1, &item));
  OK(tidepool_items_status(items));
  tidepool_items_free(items);

  tidepool_pop_options lease = TIDEPOOL_POP_OPTIONS_INIT;
  lease.lease_ms = 3600000;
  OK(tidepool_queue_pop(queue, &lease, &items));
  OK(tidepool_items_get(items, 0, &item));
  CHECK(item.deliveries == 1);
  tidepool_lease held = {item.id, item.deliveries};
  tidepool_items_free(items);
  OK(tidepool_queue_length(queue, NULL, &ready, &leased));
  CHECK(ready == 0 && leased == 1);
  OK(tidepool_queue_nack(queue, &held, NULL));
  IS(TIDEPOOL_FAILED_PRECONDITION, tidepool_queue_ack(queue, &held, NULL));
  OK(tidepool_queue_pop(queue, &lease, &items));
  OK(tidepool_items_get(items, 0, &item));
  CHECK(item.deliveries == 2);
  held.deliveries = item.deliveries;
  OK(tidepool_queue_ack(queue, &held, NULL));
  IS(TIDEPOOL_NOT_FOUND, tidepool_queue_ack(queue, &held, NULL));
  tidepool_items_free(items);
}

static void Batches(tidepool_namespace* queue) {
  const tidepool_bytes values[3] = {Bytes("a"), Bytes("b"), Bytes("c")};
  tidepool_batch* batch = NULL;
  tidepool_items* items = NULL;
  uint64_t id = 0;
  OK(tidepool_queue_multi_push(queue, NULL, values, 3, NULL, &batch));
  CHECK(tidepool_batch_size(batch) == 3 && tidepool_batch_ok_count(batch) == 3);
  OK(tidepool_batch_number(batch, 2, &id));
  tidepool_batch_free(batch);
  tidepool_pop_options lease = TIDEPOOL_POP_OPTIONS_INIT;
  lease.lease_ms = 3600000;
  OK(tidepool_queue_pop_many(queue, 10, &lease, &items));
  CHECK(tidepool_items_size(items) == 3);
  tidepool_lease leases[3];
  for (size_t i = 0; i < 3; ++i) {
    tidepool_item item;
    OK(tidepool_items_get(items, i, &item));
    CHECK(item.value.bytes == 1 && *(const char*)item.value.data == (char)('a' + (int)i));
    leases[i].id = item.id;
    leases[i].deliveries = item.deliveries;
  }
  CHECK(leases[2].id == id);
  leases[1].id = 1000000;
  IS(TIDEPOOL_NOT_FOUND, tidepool_queue_multi_ack(queue, leases, 3, NULL, &batch));
  CHECK(tidepool_batch_ok_count(batch) == 2);
  IS(TIDEPOOL_NOT_FOUND, tidepool_batch_code(batch, 1));
  tidepool_batch_free(batch);
  leases[1].id = id - 1;
  tidepool_future* ack = NULL;
  OK(tidepool_queue_ack_async(queue, &leases[1], NULL, &ack));
  OK(tidepool_future_wait(ack, TIDEPOOL_FOR_EVER));
  tidepool_future_free(ack);
  tidepool_items_free(items);
  OK(tidepool_queue_pop_many(queue, 10, NULL, &items));
  CHECK(tidepool_items_size(items) == 0);
  tidepool_items_free(items);
}

static void Futures(tidepool_namespace* queue) {
  const tidepool_bytes values[2] = {Bytes("x"), Bytes("y")};
  tidepool_future *pop = NULL, *push = NULL, *many = NULL;
  tidepool_items* items = NULL;
  tidepool_item item;
  tidepool_pop_options wait = TIDEPOOL_POP_OPTIONS_INIT;
  wait.wait_ms = TIDEPOOL_FOR_EVER; /* Saturates. */
  OK(tidepool_queue_pop_async(queue, &wait, &pop));
  IS(TIDEPOOL_DEADLINE_EXCEEDED, tidepool_future_wait(pop, 0));
  OK(tidepool_queue_push_async(queue, 0, S("awaited"), NULL, &push));
  OK(tidepool_future_wait(push, TIDEPOOL_FOR_EVER));
  OK(tidepool_future_wait(pop, TIDEPOOL_FOR_EVER));
  OK(tidepool_future_items(pop, &items));
  OK(tidepool_items_get(items, 0, &item));
  CHECK(Equal(item.value, "awaited"));
  tidepool_items_free(items);
  IS(TIDEPOOL_FAILED_PRECONDITION, tidepool_future_items(pop, &items));
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_future_items(push, &items));
  tidepool_future_free(pop);
  tidepool_future_free(push);

  tidepool_batch* batch = NULL;
  OK(tidepool_queue_multi_push_async(queue, NULL, values, 2, NULL, &push));
  OK(tidepool_future_wait(push, TIDEPOOL_FOR_EVER));
  OK(tidepool_future_batch(push, &batch));
  CHECK(tidepool_batch_ok_count(batch) == 2);
  tidepool_batch_free(batch);
  tidepool_future_free(push);
  OK(tidepool_queue_pop_many_async(queue, 5, NULL, &many));
  OK(tidepool_future_wait(many, TIDEPOOL_FOR_EVER));
  OK(tidepool_future_items(many, &items));
  CHECK(tidepool_items_size(items) == 2);
  tidepool_items_free(items);
  tidepool_future_free(many);
  tidepool_pop_options brief = TIDEPOOL_POP_OPTIONS_INIT;
  brief.wait_ms = 1;
  IS(TIDEPOOL_DEADLINE_EXCEEDED, tidepool_queue_pop(queue, &brief, &items));
}

static void Priorities(tidepool_client* client) {
  tidepool_namespace* queue = Open(client, "priorities", TIDEPOOL_PRIORITY, NULL);
  const tidepool_bytes values[2] = {Bytes("low"), Bytes("high")};
  const uint64_t priorities[2] = {9, 1};
  tidepool_items* items = NULL;
  tidepool_item item;
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_queue_multi_push(queue, NULL, values, 2, NULL, NULL));
  OK(tidepool_queue_multi_push(queue, priorities, values, 2, NULL, NULL));
  OK(tidepool_queue_push(queue, 5, S("middle"), NULL, NULL));
  const char* expected[3] = {"high", "middle", "low"};
  OK(tidepool_queue_pop_many(queue, 3, NULL, &items));
  for (size_t i = 0; i < 3; ++i) {
    OK(tidepool_items_get(items, i, &item));
    CHECK(Equal(item.value, expected[i]));
  }
  CHECK(item.priority == 9);
  tidepool_items_free(items);
  tidepool_namespace_free(queue);
}

static void Capacity(tidepool_client* client) {
  tidepool_namespace_options options = TIDEPOOL_NAMESPACE_OPTIONS_INIT;
  options.capacity = 1;
  tidepool_namespace* queue = Open(client, "bounded", TIDEPOOL_QUEUE, &options);
  const tidepool_bytes values[2] = {Bytes("a"), Bytes("b")};
  tidepool_batch* batch = NULL;
  IS(TIDEPOOL_RESOURCE_EXHAUSTED, tidepool_queue_multi_push(queue, NULL, values, 2, NULL, &batch));
  CHECK(tidepool_batch_ok_count(batch) == 1);
  tidepool_batch_free(batch);
  tidepool_push_options wait = TIDEPOOL_PUSH_OPTIONS_INIT;
  wait.wait_ms = 1;
  IS(TIDEPOOL_DEADLINE_EXCEEDED, tidepool_queue_push(queue, 0, S("c"), &wait, NULL));
  tidepool_namespace_free(queue);
}

static int Take(void* argument, const tidepool_item* item) {
  int* left = argument;
  CHECK(item->value.bytes == 1);
  return (*left)-- > 0;
}

static void Draining(tidepool_client* client) {
  tidepool_namespace* queue = Open(client, "drained", TIDEPOOL_QUEUE, NULL);
  const tidepool_bytes values[4] = {Bytes("1"), Bytes("2"), Bytes("3"), Bytes("4")};
  uint64_t taken = 0, ready = 0;
  OK(tidepool_queue_multi_push(queue, NULL, values, 4, NULL, NULL));
  int left = 2;
  OK(tidepool_queue_drain_local(queue, Take, &left, NULL, &taken));
  CHECK(taken == 2); /* The third stays. */
  tidepool_drain_options one = TIDEPOOL_DRAIN_OPTIONS_INIT;
  one.items_max = 1;
  left = 9;
  OK(tidepool_queue_drain_local(queue, Take, &left, &one, &taken));
  CHECK(taken == 1);
  OK(tidepool_queue_length(queue, NULL, &ready, NULL));
  CHECK(ready == 1);
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_queue_drain_local(queue, NULL, NULL, NULL, &taken));
  tidepool_namespace_free(queue);
}

int main(void) {
  tidepool_client* client = Connect();
  tidepool_namespace* queue = Open(client, "queue", TIDEPOOL_QUEUE, NULL);
  FirstInFirstOut(queue);
  Batches(queue);
  Futures(queue);
  Priorities(client);
  Capacity(client);
  Draining(client);
  char buffer[4];
  tidepool_value_info info;
  IS(TIDEPOOL_FAILED_PRECONDITION, tidepool_map_get(queue, S("k"), buffer, 4, NULL, &info));
  tidepool_namespace_free(queue);
  tidepool_client_free(client);
  return 0;
}
