/* One member of a group: groups RANK SIZE. */
#include "tests/client/c/check.h"

int main(int argc, char** argv) {
  CHECK(argc == 3);
  const uint32_t rank = (uint32_t)atoi(argv[1]), size = (uint32_t)atoi(argv[2]);
  tidepool_client* client = Connect();
  tidepool_join_options options = TIDEPOOL_JOIN_OPTIONS_INIT;
  options.choose_rank = 1;
  options.rank = rank;
  options.label = argv[1];
  options.timeout_ms = 60000;
  tidepool_group* group = NULL;
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_group_join(client, "members", 0, NULL, &group));
  OK(tidepool_group_join(client, "members", size, &options, &group));
  uint32_t my_rank = 99, my_size = 0;
  OK(tidepool_group_describe(group, &my_rank, &my_size));
  CHECK(my_rank == rank && my_size == size);

  /* Each puts a record through a buffer; behind the fence all are there. */
  tidepool_namespace* map = Open(client, "fenced", TIDEPOOL_HASH, NULL);
  tidepool_buffered* buffered = NULL;
  OK(tidepool_buffered_open(map, NULL, &buffered));
  OK(tidepool_buffered_put(buffered, S(argv[1]), S("x"), 0, TIDEPOOL_VALUE_BYTES));
  OK(tidepool_group_fence(group, &buffered, 1, NULL));
  uint64_t length = 0;
  OK(tidepool_map_length(map, NULL, &length));
  CHECK(length == size);

  int64_t numbers[2] = {(int64_t)rank, -1};
  OK(tidepool_group_reduce(group, TIDEPOOL_EVERYWHERE, TIDEPOOL_NUMBER_I64, TIDEPOOL_SUM, numbers,
                           2, NULL));
  CHECK(numbers[0] == (int64_t)size * (size - 1) / 2 && numbers[1] == -(int64_t)size);
  double f64 = rank + 0.5;
  OK(tidepool_group_reduce(group, 0, TIDEPOOL_NUMBER_F64, TIDEPOOL_MAX, &f64, 1, NULL));
  CHECK(f64 == (rank == 0 ? size - 0.5 : rank + 0.5));
  uint64_t u64 = UINT64_MAX - rank;
  OK(tidepool_group_reduce(group, TIDEPOOL_EVERYWHERE, TIDEPOOL_NUMBER_U64, TIDEPOOL_MIN, &u64, 1,
                           NULL));
  CHECK(u64 == UINT64_MAX - size + 1);
  IS(TIDEPOOL_INVALID_ARGUMENT,
     tidepool_group_reduce(group, 0, (tidepool_number_type)9, TIDEPOOL_SUM, &u64, 1, NULL));
  IS(TIDEPOOL_INVALID_ARGUMENT,
     tidepool_group_reduce(group, 0, TIDEPOOL_NUMBER_U64, TIDEPOOL_SUM, &u64, 0, NULL));

  tidepool_value* news = NULL;
  OK(tidepool_group_broadcast(group, 1, S(argv[1]), NULL, &news));
  CheckValue(news, "1");
  OK(tidepool_group_barrier(group, NULL));
  tidepool_buffered_free(buffered);
  tidepool_group_free(group);
  tidepool_namespace_free(map);
  tidepool_client_free(client);
  return 0;
}
