/* Maps of kind hash: single calls, futures, batches, counters, waiting, iteration. */
#include "tests/client/c/check.h"

static void SingleCalls(tidepool_namespace* map) {
  char buffer[16];
  tidepool_value_info info;
  uint64_t version = 0, again = 0, number = 0;
  int present = -1;
  IS(TIDEPOOL_NOT_FOUND, tidepool_map_get(map, S("k"), buffer, sizeof buffer, NULL, &info));
  OK(tidepool_map_put(map, S("k"), S("value"), NULL, &version));
  CHECK(version != 0);
  OK(tidepool_map_get(map, S("k"), buffer, sizeof buffer, NULL, &info));
  CHECK(info.bytes == 5 && memcmp(buffer, "value", 5) == 0 && info.version == version);
  CHECK(info.kind == TIDEPOOL_VALUE_BYTES);
  OK(tidepool_map_contains(map, S("k"), NULL, &present));
  CHECK(present == 1);
  OK(tidepool_map_contains(map, S("none"), NULL, &present));
  CHECK(present == 0);

  tidepool_put_options put = TIDEPOOL_PUT_OPTIONS_INIT;
  put.condition = TIDEPOOL_PUT_IF_ABSENT;
  IS(TIDEPOOL_ALREADY_EXISTS, tidepool_map_put(map, S("k"), S("x"), &put, NULL));
  put.condition = TIDEPOOL_PUT_IF_VERSION;
  put.if_version = version;
  OK(tidepool_map_put(map, S("k"), S("new"), &put, &again));
  CHECK(again > version);
  IS(TIDEPOOL_FAILED_PRECONDITION, tidepool_map_put(map, S("k"), S("x"), &put, NULL));

  OK(tidepool_map_append(map, S("k"), S("er"), NULL, &number));
  CHECK(number == 5);
  IS(TIDEPOOL_FAILED_PRECONDITION,
     tidepool_map_compare_and_swap(map, S("k"), S("other"), S("x"), NULL, NULL));
  OK(tidepool_map_compare_and_swap(map, S("k"), S("newer"), S("newest"), NULL, &version));
  tidepool_value* value = NULL;
  OK(tidepool_map_apply(map, S("k"), "exchange", S("last"), NULL, &value));
  CheckValue(value, "newest");
  IS(TIDEPOOL_UNIMPLEMENTED, tidepool_map_apply(map, S("k"), "no-such", S(""), NULL, &value));
  CHECK(value == NULL);
  OK(tidepool_map_take(map, S("k"), NULL, &value));
  CheckValue(value, "last");
  IS(TIDEPOOL_NOT_FOUND, tidepool_map_take(map, S("k"), NULL, &value));
  IS(TIDEPOOL_NOT_FOUND, tidepool_map_delete(map, S("k"), NULL));
  /* Keys and values are any bytes, and may be empty. */
  OK(tidepool_map_put(map, "a\0b", 3, NULL, 0, NULL, NULL));
  OK(tidepool_map_get(map, "a\0b", 3, NULL, 0, NULL, &info));
  CHECK(info.bytes == 0);
  OK(tidepool_map_delete(map, "a\0b", 3, NULL));
}

/* The size that a buffer needs is right for small values, large ones, and ones above a chain's. */
static void SmallBuffers(tidepool_namespace* map) {
  const size_t sizes[] = {9, 30 * 1024, 33 * 1024, 3 * 1024 * 1024};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
    char* content = malloc(sizes[i]);
    char* room = malloc(sizes[i]);
    CHECK(content != NULL && room != NULL);
    memset(content, 'a' + (int)i, sizes[i]);
    OK(tidepool_map_put(map, S("large"), content, sizes[i], NULL, NULL));
    tidepool_value_info info = {0, 0, TIDEPOOL_VALUE_BYTES};
    IS(TIDEPOOL_OUT_OF_RANGE, tidepool_map_get(map, S("large"), NULL, 0, NULL, &info));
    CHECK(info.bytes == sizes[i] && info.version != 0);
    info.bytes = 0;
    IS(TIDEPOOL_OUT_OF_RANGE, tidepool_map_get(map, S("large"), room, sizes[i] - 1, NULL, &info));
    CHECK(info.bytes == sizes[i]);
    OK(tidepool_map_get(map, S("large"), room, sizes[i], NULL, &info));
    CHECK(info.bytes == sizes[i] && memcmp(room, content, sizes[i]) == 0);

    tidepool_value* value = NULL;
    OK(tidepool_map_get_value(map, S("large"), NULL, &value));
    info.bytes = 0;
    IS(TIDEPOOL_OUT_OF_RANGE, tidepool_value_copy(value, room, sizes[i] - 1, &info));
    CHECK(info.bytes == sizes[i]);
    OK(tidepool_value_copy(value, room, sizes[i], NULL));
    tidepool_value_free(value);
    free(content);
    free(room);
  }
  OK(tidepool_map_delete(map, S("large"), NULL));
}

static void Counters(tidepool_namespace* map) {
  int64_t before = -1;
  double f64 = -1;
  IS(TIDEPOOL_NOT_FOUND,
     tidepool_map_fetch(map, TIDEPOOL_FETCH_ADD_IF_PRESENT, S("n"), 1, NULL, &before));
  OK(tidepool_map_fetch(map, TIDEPOOL_FETCH_ADD, S("n"), 12, NULL, &before));
  CHECK(before == 0);
  OK(tidepool_map_fetch(map, TIDEPOOL_FETCH_AND, S("n"), 10, NULL, &before));
  CHECK(before == 12);
  OK(tidepool_map_fetch(map, TIDEPOOL_FETCH_OR, S("n"), 1, NULL, &before));
  CHECK(before == 8);
  OK(tidepool_map_fetch(map, TIDEPOOL_FETCH_XOR, S("n"), 3, NULL, &before));
  CHECK(before == 9);
  OK(tidepool_map_fetch(map, TIDEPOOL_FETCH_MIN, S("n"), -4, NULL, &before));
  CHECK(before == 10);
  OK(tidepool_map_fetch(map, TIDEPOOL_FETCH_MAX, S("n"), 7, NULL, &before));
  CHECK(before == -4);
  OK(tidepool_map_fetch(map, TIDEPOOL_FETCH_ADD, S("n"), 0, NULL, &before));
  CHECK(before == 7);
  IS(TIDEPOOL_OUT_OF_RANGE,
     tidepool_map_fetch(map, TIDEPOOL_FETCH_ADD, S("n"), INT64_MAX, NULL, NULL));
  OK(tidepool_map_fetch_f64(map, TIDEPOOL_FETCH_ADD, S("f"), 1.5, NULL, &f64));
  OK(tidepool_map_fetch_f64(map, TIDEPOOL_FETCH_MAX, S("f"), 2.5, NULL, &f64));
  CHECK(f64 == 1.5);
  OK(tidepool_map_fetch_f64(map, TIDEPOOL_FETCH_MIN, S("f"), 0.5, NULL, &f64));
  CHECK(f64 == 2.5);
  IS(TIDEPOOL_UNIMPLEMENTED,
     tidepool_map_fetch_f64(map, TIDEPOOL_FETCH_XOR, S("f"), 1, NULL, &f64));
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_map_fetch(map, TIDEPOOL_FETCH_ADD, S("f"), 1, NULL, NULL));
  /* A value of 8 bytes may be made a counter. */
  int64_t number = 40;
  tidepool_put_options put = TIDEPOOL_PUT_OPTIONS_INIT;
  put.kind = TIDEPOOL_VALUE_I64;
  OK(tidepool_map_put(map, S("n"), &number, sizeof number, &put, NULL));
  OK(tidepool_map_fetch(map, TIDEPOOL_FETCH_ADD, S("n"), 2, NULL, &before));
  CHECK(before == 40);
}

static void TimesToLive(tidepool_namespace* map) {
  tidepool_put_options put = TIDEPOOL_PUT_OPTIONS_INIT;
  uint64_t ttl_ms = 0;
  put.ttl_ms = 3600000;
  OK(tidepool_map_put(map, S("t"), S("x"), &put, NULL));
  OK(tidepool_map_ttl(map, S("t"), NULL, &ttl_ms));
  CHECK(ttl_ms > 0 && ttl_ms <= 3600000);
  OK(tidepool_map_expire(map, S("t"), TIDEPOOL_FOR_EVER, NULL));
  OK(tidepool_map_ttl(map, S("t"), NULL, &ttl_ms));
  CHECK(ttl_ms == TIDEPOOL_FOR_EVER);
  OK(tidepool_map_expire(map, S("t"), 7200000, NULL));
  tidepool_future* future = NULL;
  OK(tidepool_map_ttl_async(map, S("t"), NULL, &future));
  OK(tidepool_future_wait(future, TIDEPOOL_FOR_EVER));
  OK(tidepool_future_u64(future, &ttl_ms));
  CHECK(ttl_ms > 3600000 && ttl_ms <= 7200000);
  tidepool_future_free(future);
  OK(tidepool_map_delete(map, S("t"), NULL));
  IS(TIDEPOOL_NOT_FOUND, tidepool_map_expire(map, S("t"), 1, NULL));
}

static void OnEnd(void* argument, tidepool_future* future) {
  uint64_t version = 0;
  OK(tidepool_future_u64(future, &version));
  CHECK(version != 0);
  ++*(int*)argument;
  tidepool_future_free(future);
}

static void Futures(tidepool_client* client, tidepool_namespace* map) {
  tidepool_future *put = NULL, *get = NULL, *none = NULL, *wait = NULL;
  uint64_t version = 0;
  int ready = -1, truth = -1;
  tidepool_receipt receipt = {TIDEPOOL_RECEIPT_DEVICE, 7, 7};
  tidepool_put_options options = TIDEPOOL_PUT_OPTIONS_INIT;
  options.receipt = &receipt;
  OK(tidepool_map_put_async(map, S("f1"), S("later"), &options, &put));
  OK(tidepool_map_get_async(map, S("f1"), NULL, &get));
  OK(tidepool_map_get_async(map, S("absent"), NULL, &none));
  OK(tidepool_future_wait(put, TIDEPOOL_FOR_EVER));
  CHECK(receipt.level == TIDEPOOL_RECEIPT_MEMORY && receipt.durable_at_ms <= receipt.answered_at_ms);
  OK(tidepool_future_wait(put, 0)); /* It may be repeated. */
  OK(tidepool_future_ready(put, &ready));
  CHECK(ready == 1);
  OK(tidepool_future_u64(put, &version));
  OK(tidepool_future_u64(put, &version));
  CHECK(version != 0);
  tidepool_value* value = NULL;
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_future_value(put, &value));
  OK(tidepool_future_wait(get, UINT64_MAX - 1)); /* Saturates. */
  OK(tidepool_future_value(get, &value));
  CheckValue(value, "later");
  IS(TIDEPOOL_FAILED_PRECONDITION, tidepool_future_value(get, &value));
  IS(TIDEPOOL_NOT_FOUND, tidepool_future_wait(none, TIDEPOOL_FOR_EVER));
  IS(TIDEPOOL_NOT_FOUND, tidepool_future_value(none, &value));

  /* A wait for a key goes on after its future was waited for in vain. */
  tidepool_call_options long_wait = TIDEPOOL_CALL_OPTIONS_INIT;
  long_wait.timeout_ms = TIDEPOOL_FOR_EVER;
  OK(tidepool_map_wait_for_key_async(map, S("awaited"), &long_wait, &wait));
  IS(TIDEPOOL_DEADLINE_EXCEEDED, tidepool_future_wait(wait, 0));
  OK(tidepool_future_ready(wait, &ready));
  CHECK(ready == 0);
  IS(TIDEPOOL_FAILED_PRECONDITION, tidepool_future_value(wait, &value));
  OK(tidepool_map_put(map, S("awaited"), S("came"), NULL, &version));
  OK(tidepool_future_wait(wait, TIDEPOOL_FOR_EVER));
  OK(tidepool_future_value(wait, &value));
  CheckValue(value, "came");
  tidepool_call_options short_wait = TIDEPOOL_CALL_OPTIONS_INIT;
  short_wait.timeout_ms = 1;
  IS(TIDEPOOL_DEADLINE_EXCEEDED, tidepool_map_wait_for_key(map, S("never"), &short_wait, &value));
  OK(tidepool_map_wait_for_key(map, S("awaited"), &short_wait, &value));
  tidepool_value_free(value);
  OK(tidepool_map_put(map, S("awaited"), S("changed"), NULL, NULL));
  OK(tidepool_map_wait_for_change(map, S("awaited"), version, &long_wait, &value));
  CheckValue(value, "changed");

  int ended = 0;
  tidepool_future* then = NULL;
  OK(tidepool_map_put_async(map, S("f2"), S("x"), NULL, &then));
  OK(tidepool_future_then(then, OnEnd, &ended));
  OK(tidepool_client_wait_for_all(client, TIDEPOOL_FOR_EVER));
  CHECK(ended == 1);
  tidepool_future* contains = NULL;
  OK(tidepool_map_contains_async(map, S("f2"), NULL, &contains));
  OK(tidepool_future_wait(contains, TIDEPOOL_FOR_EVER));
  OK(tidepool_future_bool(contains, &truth));
  CHECK(truth == 1);
  tidepool_future_free(contains);
  tidepool_future_free(put);
  tidepool_future_free(get);
  tidepool_future_free(none);
  tidepool_future_free(wait);
}

static void Batches(tidepool_namespace* map) {
  tidepool_bytes keys[3] = {Bytes("b1"), Bytes("b2"), Bytes("b3")};
  const tidepool_bytes values[3] = {Bytes("one"), Bytes("two"), Bytes("")};
  tidepool_batch* batch = NULL;
  tidepool_bytes value;
  tidepool_value_info info;
  uint64_t number = 0;
  OK(tidepool_map_multi_put(map, keys, values, 3, NULL, &batch));
  CHECK(tidepool_batch_size(batch) == 3 && tidepool_batch_ok_count(batch) == 3);
  OK(tidepool_batch_number(batch, 1, &number));
  CHECK(number != 0);
  tidepool_batch_free(batch);

  keys[1] = Bytes("absent");
  OK(tidepool_map_multi_get(map, keys, 3, NULL, &batch)); /* An absent key is no failure. */
  CHECK(tidepool_batch_ok_count(batch) == 2);
  OK(tidepool_batch_value(batch, 0, &value, &info));
  CHECK(Equal(value, "one") && info.bytes == 3 && info.version != 0);
  IS(TIDEPOOL_NOT_FOUND, tidepool_batch_value(batch, 1, &value, &info));
  IS(TIDEPOOL_NOT_FOUND, tidepool_batch_code(batch, 1));
  OK(tidepool_batch_status(batch));
  IS(TIDEPOOL_OUT_OF_RANGE, tidepool_batch_code(batch, 3));
  tidepool_batch_free(batch);

  /* A put that fails is one, also with NOT_FOUND; the first failure is returned. */
  tidepool_put_options put = TIDEPOOL_PUT_OPTIONS_INIT;
  put.condition = TIDEPOOL_PUT_IF_PRESENT;
  IS(TIDEPOOL_NOT_FOUND, tidepool_map_multi_put(map, keys, values, 3, &put, &batch));
  CHECK(strstr(tidepool_error_what(), "key 1 of 3") != NULL);
  CHECK(tidepool_batch_ok_count(batch) == 2);
  tidepool_batch_free(batch);
  /* The first real failure of a read comes behind an absent key. */
  static char long_key[20000];
  memset(long_key, 'k', sizeof long_key);
  keys[2].data = long_key;
  keys[2].bytes = sizeof long_key;
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_map_multi_get(map, keys, 3, NULL, &batch));
  CHECK(strstr(tidepool_error_what(), "key 2 of 3") != NULL);
  tidepool_batch_free(batch);

  tidepool_future* future = NULL;
  keys[2] = Bytes("b3");
  OK(tidepool_map_multi_put_async(map, keys, values, 3, &put, &future));
  IS(TIDEPOOL_NOT_FOUND, tidepool_future_wait(future, TIDEPOOL_FOR_EVER));
  IS(TIDEPOOL_NOT_FOUND, tidepool_future_batch(future, &batch));
  CHECK(tidepool_batch_ok_count(batch) == 2);
  tidepool_batch_free(batch);
  tidepool_future_free(future);
  OK(tidepool_map_multi_get_async(map, keys, 3, NULL, &future));
  OK(tidepool_future_wait(future, TIDEPOOL_FOR_EVER));
  OK(tidepool_future_batch(future, &batch));
  CHECK(tidepool_batch_ok_count(batch) == 2);
  tidepool_batch_free(batch);
  tidepool_future_free(future);

  OK(tidepool_map_multi_delete(map, keys, 3, NULL, NULL));
  OK(tidepool_map_multi_get(map, NULL, 0, NULL, &batch)); /* An empty batch is fine. */
  CHECK(tidepool_batch_size(batch) == 0);
  tidepool_batch_free(batch);
}

static void Iteration(tidepool_namespace* map) {
  enum { kRecords = 300 };
  char key[16];
  int seen[kRecords] = {0};
  for (int i = 0; i < kRecords; ++i) {
    snprintf(key, sizeof key, "i%d", i);
    OK(tidepool_map_put(map, S(key), &i, sizeof i, NULL, NULL));
  }
  tidepool_iterate_options options = TIDEPOOL_ITERATE_OPTIONS_INIT;
  options.page_records_max = 7;
  tidepool_iterator* iterator = NULL;
  tidepool_record record;
  /* Half of the records by one iterator, the rest by another one from its cursor. */
  static char cursor[16397];
  size_t cursor_bytes = 0;
  OK(tidepool_map_iterate(map, &options, &iterator));
  for (int i = 0; i < kRecords / 2; ++i) {
    CHECK(tidepool_iterator_next(iterator, &record) == 1);
    CHECK(record.value.bytes == sizeof(int));
    int number = 0;
    memcpy(&number, record.value.data, sizeof number);
    seen[number] = 1;
  }
  IS(TIDEPOOL_OUT_OF_RANGE, tidepool_iterator_cursor(iterator, cursor, 1, &cursor_bytes));
  CHECK(cursor_bytes > 1);
  OK(tidepool_iterator_cursor(iterator, cursor, sizeof cursor, &cursor_bytes));
  tidepool_iterator_free(iterator);
  options.cursor.data = cursor;
  options.cursor.bytes = cursor_bytes;
  OK(tidepool_map_iterate(map, &options, &iterator));
  while (tidepool_iterator_next(iterator, &record)) {
    int number = 0;
    memcpy(&number, record.value.data, sizeof number);
    seen[number] = 1;
  }
  OK(tidepool_iterator_status(iterator));
  CHECK(tidepool_iterator_unreadable(iterator) == 0);
  CHECK(tidepool_iterator_next(iterator, &record) == 0);
  tidepool_iterator_free(iterator);
  for (int i = 0; i < kRecords; ++i) CHECK(seen[i]);

  tidepool_iterate_options keys_only = TIDEPOOL_ITERATE_OPTIONS_INIT;
  keys_only.keys_only = 1;
  int count = 0;
  OK(tidepool_map_iterate(map, &keys_only, &iterator));
  while (tidepool_iterator_next(iterator, &record)) {
    ++count;
    CHECK(record.value_omitted && record.value.bytes == 0 && record.value_bytes == sizeof(int));
  }
  CHECK(count == kRecords);
  tidepool_iterator_free(iterator);
  uint64_t length = 0;
  OK(tidepool_map_length(map, NULL, &length));
  CHECK(length == kRecords);
}

static void Describing(tidepool_client* client) {
  tidepool_stats stats = TIDEPOOL_STATS_INIT;
  OK(tidepool_client_stats(client, &stats));
  CHECK(stats.operations > 0 && stats.attaches > 0);
  tidepool_nodes* nodes = NULL;
  OK(tidepool_client_ping(client, &nodes));
  CHECK(tidepool_nodes_size(nodes) == 1 && strlen(tidepool_nodes_cluster_uuid(nodes)) > 0);
  CHECK(strlen(tidepool_nodes_cluster_file(nodes)) > 0 && tidepool_nodes_epoch(nodes) > 0);
  tidepool_node node;
  OK(tidepool_nodes_get(nodes, 0, &node));
  CHECK(node.local == 1 && node.attached == 1 && node.ping == TIDEPOOL_OK);
  CHECK(node.round_trip_ns > 0 && strcmp(node.state, "up") == 0 && strlen(node.data_path) > 0);
  IS(TIDEPOOL_OUT_OF_RANGE, tidepool_nodes_get(nodes, 1, &node));
  tidepool_nodes_free(nodes);
}

static void Namespaces(tidepool_client* client) {
  tidepool_namespace_options options = TIDEPOOL_NAMESPACE_OPTIONS_INIT;
  options.ttl_ms = UINT64_C(40) * 365 * 86400 * 1000; /* Longer than any wait. */
  options.on_loss = TIDEPOOL_ON_LOSS_EMPTY;
  options.prefilter = TIDEPOOL_PREFILTER_ABSENT;
  options.expected_items = 1000;
  options.partitions = 3;
  tidepool_namespace *space = NULL, *with = NULL;
  OK(tidepool_namespace_open(client, "listed", TIDEPOOL_HASH, TIDEPOOL_CREATE, &options, &space));
  tidepool_namespace* again = NULL;
  IS(TIDEPOOL_ALREADY_EXISTS,
     tidepool_namespace_open(client, "listed", TIDEPOOL_HASH, TIDEPOOL_CREATE, &options, &again));
  CHECK(again == NULL);
  IS(TIDEPOOL_NOT_FOUND,
     tidepool_namespace_open(client, "nowhere", TIDEPOOL_HASH, TIDEPOOL_OPEN, NULL, &again));
  IS(TIDEPOOL_FAILED_PRECONDITION,
     tidepool_namespace_open(client, "listed", TIDEPOOL_QUEUE, TIDEPOOL_OPEN, NULL, &again));
  tidepool_namespace_kind kind = TIDEPOOL_BLOOM;
  uint32_t partitions = 0, owner = 99;
  OK(tidepool_namespace_describe(space, &kind, &partitions));
  CHECK(kind == TIDEPOOL_HASH && partitions == 3);
  OK(tidepool_namespace_owner_of(space, S("k"), &owner));
  CHECK(owner == 0);
  tidepool_namespace_list* list = NULL;
  OK(tidepool_client_list(client, &list));
  int found = 0;
  for (size_t i = 0; i < tidepool_namespace_list_size(list); ++i) {
    tidepool_namespace_info info;
    OK(tidepool_namespace_list_get(list, i, &info));
    if (strcmp(info.name, "listed") != 0) continue;
    found = 1;
    CHECK(info.kind == TIDEPOOL_HASH && info.options.partitions == 3 && info.partitions_down == 0);
    CHECK(info.options.ttl_ms == options.ttl_ms);
    CHECK(info.options.on_loss == TIDEPOOL_ON_LOSS_EMPTY);
    CHECK(info.options.prefilter == TIDEPOOL_PREFILTER_ABSENT);
    CHECK(info.options.durability == TIDEPOOL_VOLATILE);
  }
  CHECK(found);
  tidepool_namespace_list_free(list);

  /* A prefilter answers for absent keys, and promises keep what was read. */
  tidepool_prefilter_stats stats;
  tidepool_value_info info;
  char buffer[8];
  OK(tidepool_map_put(space, S("k"), S("v"), NULL, NULL));
  OK(tidepool_namespace_with_prefilter(space, 0, 0, &with));
  IS(TIDEPOOL_NOT_FOUND, tidepool_map_get(with, S("none"), buffer, sizeof buffer, NULL, &info));
  OK(tidepool_namespace_prefilter_stats(with, &stats));
  CHECK(stats.bytes > 0 && stats.answered == 1 && stats.downloads == 1);
  OK(tidepool_namespace_refresh_prefilter(with));
  IS(TIDEPOOL_FAILED_PRECONDITION, tidepool_namespace_refresh_prefilter(space));
  tidepool_namespace_free(with);
  OK(tidepool_namespace_with_promises(space, TIDEPOOL_PROMISE_READ_ONLY, 0, &with));
  OK(tidepool_map_get(with, S("k"), buffer, sizeof buffer, NULL, &info));
  OK(tidepool_map_put(space, S("k"), S("w"), NULL, NULL));
  OK(tidepool_map_get(with, S("k"), buffer, sizeof buffer, NULL, &info));
  CHECK(buffer[0] == 'v');
  OK(tidepool_namespace_end_round(with));
  OK(tidepool_map_get(with, S("k"), buffer, sizeof buffer, NULL, &info));
  CHECK(buffer[0] == 'w');
  tidepool_namespace_free(with);

  IS(TIDEPOOL_FAILED_PRECONDITION, tidepool_client_persist(client, "listed"));
  OK(tidepool_client_drop(client, "listed"));
  IS(TIDEPOOL_NOT_FOUND, tidepool_client_drop(client, "listed"));
  IS(TIDEPOOL_NOT_FOUND, tidepool_map_put(space, S("k"), S("v"), NULL, NULL));
  /* All puts of a batch fail with NOT_FOUND there, which is no success. */
  const tidepool_bytes key = Bytes("k");
  IS(TIDEPOOL_NOT_FOUND, tidepool_map_multi_put(space, &key, &key, 1, NULL, NULL));
  tidepool_namespace_free(space);
}

int main(void) {
  tidepool_client* client = Connect();
  tidepool_namespace* map = Open(client, "maps", TIDEPOOL_HASH, NULL);
  CHECK(strcmp(tidepool_namespace_name(map), "maps") == 0);
  SingleCalls(map);
  SmallBuffers(map);
  Counters(map);
  TimesToLive(map);
  Futures(client, map);
  Batches(map);
  tidepool_namespace_free(map);
  map = Open(client, "walked", TIDEPOOL_HASH, NULL);
  Iteration(map);
  Describing(client);
  Namespaces(client);
  /* A namespace keeps its client connected. */
  tidepool_client_free(client);
  OK(tidepool_map_put(map, S("k"), S("v"), NULL, NULL));
  tidepool_namespace_free(map);
  /* A closed client ends calls. */
  client = Connect();
  map = Open(client, "maps", TIDEPOOL_HASH, NULL);
  OK(tidepool_client_close(client));
  IS(TIDEPOOL_CANCELLED, tidepool_map_put(map, S("k"), S("v"), NULL, NULL));
  tidepool_namespace_free(map);
  tidepool_client_free(client);
  return 0;
}
