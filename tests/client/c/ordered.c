/* Ordered maps: scans both ways, prefixes, first and last, counts and erasures. */
#include "tests/client/c/check.h"

static tidepool_namespace* Filled(tidepool_client* client) {
  tidepool_bytes splits[2] = {Bytes("run2/"), Bytes("run3/")};
  tidepool_namespace_options options = TIDEPOOL_NAMESPACE_OPTIONS_INIT;
  options.split = TIDEPOOL_SPLIT_MANUAL;
  options.split_keys = splits;
  options.split_key_count = 2;
  tidepool_namespace* map = Open(client, "ordered", TIDEPOOL_ORDERED, &options);
  for (int run = 1; run <= 3; ++run) {
    for (int step = 0; step < 10; ++step) {
      char key[32];
      snprintf(key, sizeof key, "run%d/%d", run, step);
      OK(tidepool_map_put(map, S(key), S(key), NULL, NULL));
    }
  }
  return map;
}

/* The keys of a scan, each with a blank behind it. */
static const char* Keys(tidepool_namespace* map, const tidepool_range* range,
                        const tidepool_scan_options* options) {
  static char keys[1024];
  size_t used = 0;
  tidepool_iterator* iterator = NULL;
  tidepool_record record;
  OK(tidepool_ordered_scan(map, range, options, &iterator));
  while (tidepool_iterator_next(iterator, &record)) {
    CHECK(used + record.key.bytes + 2 < sizeof keys);
    if (options == NULL || !options->keys_only) {
      CHECK(record.value.bytes == record.key.bytes);
      CHECK(memcmp(record.value.data, record.key.data, record.key.bytes) == 0);
    }
    memcpy(keys + used, record.key.data, record.key.bytes);
    used += record.key.bytes;
    keys[used++] = ' ';
  }
  OK(tidepool_iterator_status(iterator));
  size_t bytes = 0;
  IS(TIDEPOOL_UNIMPLEMENTED, tidepool_iterator_cursor(iterator, NULL, 0, &bytes));
  tidepool_iterator_free(iterator);
  keys[used] = '\0';
  return keys;
}

int main(void) {
  tidepool_client* client = Connect();
  tidepool_namespace* map = Filled(client);
  tidepool_scan_options options = TIDEPOOL_SCAN_OPTIONS_INIT;
  tidepool_range range = {0};

  range.begin = Bytes("run1/8");
  range.end = Bytes("run2/2");
  range.has_end = 1;
  CHECK(strcmp(Keys(map, &range, NULL), "run1/8 run1/9 run2/0 run2/1 ") == 0);
  range.after_begin = 1;
  options.reverse = 1;
  options.limit = 2;
  options.keys_only = 1;
  CHECK(strcmp(Keys(map, &range, &options), "run2/1 run2/0 ") == 0);
  tidepool_range prefix = {0};
  prefix.prefix = Bytes("run3/");
  tidepool_scan_options three = TIDEPOOL_SCAN_OPTIONS_INIT;
  three.limit = 3;
  CHECK(strcmp(Keys(map, &prefix, &three), "run3/0 run3/1 run3/2 ") == 0);

  char key[6], value[6];
  size_t key_bytes = 0;
  tidepool_value_info info;
  OK(tidepool_ordered_first(map, &prefix, NULL, key, sizeof key, &key_bytes, value, sizeof value,
                            &info));
  CHECK(key_bytes == 6 && memcmp(key, "run3/0", 6) == 0);
  CHECK(info.bytes == 6 && memcmp(value, "run3/0", 6) == 0 && info.version != 0);
  OK(tidepool_ordered_last(map, NULL, NULL, key, sizeof key, &key_bytes, value, sizeof value,
                           NULL));
  CHECK(memcmp(key, "run3/9", 6) == 0);
  IS(TIDEPOOL_OUT_OF_RANGE,
     tidepool_ordered_last(map, NULL, NULL, NULL, 0, &key_bytes, value, sizeof value, &info));
  CHECK(key_bytes == 6 && info.bytes == 6);
  IS(TIDEPOOL_OUT_OF_RANGE,
     tidepool_ordered_last(map, NULL, NULL, key, sizeof key, &key_bytes, value, 5, &info));
  CHECK(key_bytes == 6 && info.bytes == 6);
  tidepool_range empty = {0};
  empty.begin = Bytes("x");
  IS(TIDEPOOL_NOT_FOUND, tidepool_ordered_first(map, &empty, NULL, key, sizeof key, &key_bytes,
                                                value, sizeof value, NULL));

  uint64_t keys = 0;
  OK(tidepool_ordered_count(map, NULL, NULL, &keys));
  CHECK(keys == 30);
  OK(tidepool_ordered_erase(map, &prefix, NULL, &keys));
  CHECK(keys == 10);
  OK(tidepool_ordered_erase(map, &prefix, NULL, NULL));
  OK(tidepool_ordered_count(map, NULL, NULL, &keys));
  CHECK(keys == 20);

  /* A walk over all keys of an ordered map is in their order, and has a cursor. */
  tidepool_iterator* iterator = NULL;
  tidepool_record record;
  OK(tidepool_map_iterate(map, NULL, &iterator));
  CHECK(tidepool_iterator_next(iterator, &record) == 1 && Equal(record.key, "run1/0"));
  char cursor[64];
  size_t cursor_bytes = 0;
  OK(tidepool_iterator_cursor(iterator, cursor, sizeof cursor, &cursor_bytes));
  tidepool_iterator_free(iterator);

  /* Prefix and bounds exclude each other; so do other kinds. */
  prefix.begin = Bytes("a");
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_ordered_count(map, &prefix, NULL, &keys));
  tidepool_range no_flag = {0};
  no_flag.end = Bytes("z");
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_ordered_count(map, &no_flag, NULL, &keys));
  tidepool_namespace* hash = Open(client, "hash", TIDEPOOL_HASH, NULL);
  IS(TIDEPOOL_FAILED_PRECONDITION, tidepool_ordered_count(hash, NULL, NULL, &keys));
  CHECK(strstr(tidepool_error_what(), "kind hash") != NULL);
  tidepool_namespace_free(hash);
  tidepool_namespace_free(map);
  tidepool_client_free(client);
  return 0;
}
