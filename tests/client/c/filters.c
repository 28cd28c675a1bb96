/* Bloom filters, and buffered handles of all kinds. */
#include "tests/client/c/check.h"

static void Filter(tidepool_client* client) {
  tidepool_namespace_options options = TIDEPOOL_NAMESPACE_OPTIONS_INIT;
  options.expected_items = 10000;
  options.false_positive_rate = 1e-6;
  tidepool_namespace* filter = Open(client, "seen", TIDEPOOL_BLOOM, &options);
  tidepool_namespace* other = Open(client, "seen-too", TIDEPOOL_BLOOM, &options);
  int truth = -1;
  OK(tidepool_bloom_contains(filter, S("a"), NULL, &truth));
  CHECK(truth == 0);
  OK(tidepool_bloom_insert(filter, S("a"), NULL, &truth));
  CHECK(truth == 1);
  OK(tidepool_bloom_insert(filter, S("a"), NULL, &truth));
  CHECK(truth == 0);
  OK(tidepool_bloom_insert(filter, S("a"), NULL, NULL));
  OK(tidepool_bloom_contains(filter, S("a"), NULL, &truth));
  CHECK(truth == 1);

  const tidepool_bytes values[3] = {Bytes("a"), Bytes("b"), Bytes("c")};
  tidepool_batch* batch = NULL;
  uint64_t number = 9;
  OK(tidepool_bloom_multi_insert(filter, values, 3, NULL, &batch));
  CHECK(tidepool_batch_ok_count(batch) == 3);
  OK(tidepool_batch_number(batch, 0, &number));
  CHECK(number == 0);
  OK(tidepool_batch_number(batch, 2, &number));
  CHECK(number == 1);
  tidepool_bytes none;
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_batch_value(batch, 0, &none, NULL));
  tidepool_batch_free(batch);
  tidepool_future* future = NULL;
  OK(tidepool_bloom_multi_contains_async(filter, values, 3, NULL, &future));
  OK(tidepool_future_wait(future, TIDEPOOL_FOR_EVER));
  OK(tidepool_future_batch(future, &batch));
  OK(tidepool_batch_number(batch, 2, &number));
  CHECK(number == 1);
  tidepool_batch_free(batch);
  tidepool_future_free(future);
  OK(tidepool_bloom_insert_async(filter, S("d"), NULL, &future));
  OK(tidepool_future_wait(future, TIDEPOOL_FOR_EVER));
  OK(tidepool_future_bool(future, &truth));
  CHECK(truth == 1);
  tidepool_future_free(future);

  tidepool_bloom_estimate estimate;
  OK(tidepool_bloom_get_estimate(filter, NULL, &estimate));
  CHECK(estimate.items > 3 && estimate.items < 5 && estimate.bytes > 0 && estimate.bits_set > 0);
  OK(tidepool_bloom_get_estimate_async(filter, NULL, &future));
  OK(tidepool_future_wait(future, TIDEPOOL_FOR_EVER));
  estimate.items = 0;
  OK(tidepool_future_estimate(future, &estimate));
  CHECK(estimate.items > 3);
  tidepool_future_free(future);

  OK(tidepool_bloom_union(other, filter, NULL));
  tidepool_bloom_copy* copy = NULL;
  OK(tidepool_bloom_download(other, NULL, &copy));
  CHECK(tidepool_bloom_copy_bytes(copy) > 0);
  OK(tidepool_bloom_copy_contains(copy, S("c"), &truth));
  CHECK(truth == 1);
  OK(tidepool_bloom_copy_contains(copy, S("e"), &truth));
  CHECK(truth == 0);
  tidepool_bloom_copy_free(copy);

  tidepool_buffered* buffered = NULL;
  OK(tidepool_buffered_open(filter, NULL, &buffered));
  OK(tidepool_buffered_insert_value(buffered, S("buffered")));
  IS(TIDEPOOL_FAILED_PRECONDITION, tidepool_buffered_add(buffered, S("k"), 1));
  IS(TIDEPOOL_FAILED_PRECONDITION, tidepool_buffered_push(buffered, 0, S("k"), 0));
  OK(tidepool_buffered_flush(buffered));
  tidepool_buffered_free(buffered);
  OK(tidepool_bloom_contains(filter, S("buffered"), NULL, &truth));
  CHECK(truth == 1);
  tidepool_namespace_free(filter);
  tidepool_namespace_free(other);
}

static void BufferedMap(tidepool_client* client) {
  enum { kOperations = 5000 };
  tidepool_namespace* map = Open(client, "buffered", TIDEPOOL_HASH, NULL);
  tidepool_buffered_options options = TIDEPOOL_BUFFERED_OPTIONS_INIT;
  options.aggregation = TIDEPOOL_AGGREGATE_CLIENT;
  options.age_max_ms = TIDEPOOL_FOR_EVER;
  options.operations_max = 100;
  tidepool_buffered* buffered = NULL;
  OK(tidepool_buffered_open(map, &options, &buffered));
  char key[16];
  for (int i = 0; i < kOperations; ++i) {
    snprintf(key, sizeof key, "k%d", i);
    OK(tidepool_buffered_put(buffered, S(key), S(key), 0, TIDEPOOL_VALUE_BYTES));
    OK(tidepool_buffered_add(buffered, S("sum"), i));
  }
  OK(tidepool_buffered_add_f64(buffered, S("f64"), 0.5));
  OK(tidepool_buffered_add_if_present(buffered, S("none"), 1));
  OK(tidepool_buffered_insert(buffered, S("k1"), S("other"), 0, TIDEPOOL_VALUE_BYTES));
  OK(tidepool_buffered_progress(buffered));
  OK(tidepool_buffered_flush(buffered));
  CHECK(tidepool_buffered_failures(buffered) == 0);
  tidepool_buffered_counts counts;
  OK(tidepool_buffered_get_counts(buffered, &counts));
  CHECK(counts.operations == 2 * kOperations + 3 && counts.pending == 0 && counts.failed == 0);
  CHECK(counts.buffers >= 2 * kOperations / 100);

  int64_t sum = 0;
  OK(tidepool_map_fetch(map, TIDEPOOL_FETCH_ADD, S("sum"), 0, NULL, &sum));
  CHECK(sum == (int64_t)kOperations * (kOperations - 1) / 2);
  char value[16];
  tidepool_value_info info;
  OK(tidepool_map_get(map, S("k1"), value, sizeof value, NULL, &info));
  CHECK(info.bytes == 2);

  /* An operation that fails is found by the flush. */
  OK(tidepool_buffered_add(buffered, S("k1"), 1));
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_buffered_flush(buffered));
  CHECK(tidepool_buffered_failures(buffered) == 1);
  tidepool_buffered_failure failure;
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_buffered_get_failure(buffered, 0, &failure));
  CHECK(Equal(failure.key, "k1") && failure.code == TIDEPOOL_INVALID_ARGUMENT);
  IS(TIDEPOOL_OUT_OF_RANGE, tidepool_buffered_get_failure(buffered, 1, &failure));
  CHECK(failure.key.data == NULL);
  OK(tidepool_buffered_flush(buffered));

  /* What a handle holds is flushed when it is freed. */
  OK(tidepool_buffered_put(buffered, S("last"), S("x"), TIDEPOOL_FOR_EVER, TIDEPOOL_VALUE_BYTES));
  tidepool_buffered_free(buffered);
  OK(tidepool_map_get(map, S("last"), value, sizeof value, NULL, &info));
  tidepool_namespace_free(map);
}

static void BufferedQueue(tidepool_client* client) {
  tidepool_namespace_options bounded = TIDEPOOL_NAMESPACE_OPTIONS_INIT;
  bounded.capacity = 2;
  tidepool_namespace* queue = Open(client, "buffered-queue", TIDEPOOL_QUEUE, &bounded);
  tidepool_buffered* buffered = NULL;
  OK(tidepool_buffered_open(queue, NULL, &buffered));
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_buffered_push(buffered, 1, S("a"), 0));
  OK(tidepool_buffered_push(buffered, 0, S("a"), 0));
  OK(tidepool_buffered_push(buffered, 0, S("b"), 3600000));
  OK(tidepool_buffered_push(buffered, 0, S("full"), 0));
  IS(TIDEPOOL_RESOURCE_EXHAUSTED, tidepool_buffered_flush(buffered));
  tidepool_buffered_failure failure;
  IS(TIDEPOOL_RESOURCE_EXHAUSTED, tidepool_buffered_get_failure(buffered, 0, &failure));
  CHECK(Equal(failure.key, "full") && failure.item == 2);
  tidepool_buffered_free(buffered);
  tidepool_namespace_free(queue);

  queue = Open(client, "buffered-priority", TIDEPOOL_PRIORITY, NULL);
  OK(tidepool_buffered_open(queue, NULL, &buffered));
  OK(tidepool_buffered_push(buffered, 7, S("late"), 0));
  OK(tidepool_buffered_push(buffered, 3, S("early"), 0));
  OK(tidepool_buffered_flush(buffered));
  tidepool_items* items = NULL;
  tidepool_item item;
  OK(tidepool_queue_pop(queue, NULL, &items));
  OK(tidepool_items_get(items, 0, &item));
  CHECK(Equal(item.value, "early") && item.priority == 3);
  tidepool_items_free(items);
  tidepool_buffered_free(buffered);
  tidepool_namespace_free(queue);
}

int main(void) {
  tidepool_client* client = Connect();
  Filter(client);
  BufferedMap(client);
  BufferedQueue(client);
  tidepool_client_free(client);
  return 0;
}
