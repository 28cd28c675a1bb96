/* Chains: steps, values that are handed on, conditions, failures. */
#include "tests/client/c/check.h"

static tidepool_chain* New(void) {
  tidepool_chain* chain = NULL;
  OK(tidepool_chain_new(&chain));
  return chain;
}

static void HandedOn(tidepool_namespace* map) {
  tidepool_chain* chain = New();
  tidepool_chain_result* result = NULL;
  tidepool_chain_outcome outcome;
  int taken = -1, put = -1, note = -1;
  OK(tidepool_map_put(map, S("{a}old"), S("content"), NULL, NULL));
  OK(tidepool_chain_take(chain, S("{a}old"), &taken));
  OK(tidepool_chain_put_from(chain, S("{a}new"), taken, NULL, &put));
  OK(tidepool_chain_put(chain, S("{a}note"), S("was empty"), NULL, &note));
  OK(tidepool_chain_if(chain, note, taken, TIDEPOOL_CHAIN_NOT_FOUND, NULL, 0));
  OK(tidepool_map_execute(map, chain, NULL, &result));
  CHECK(taken == 0 && put == 1 && note == 2 && tidepool_chain_result_size(result) == 3);
  OK(tidepool_chain_result_get(result, taken, &outcome));
  CHECK(outcome.code == TIDEPOOL_OK && Equal(outcome.value, "content") && outcome.value_bytes == 7);
  OK(tidepool_chain_result_get(result, put, &outcome));
  CHECK(outcome.code == TIDEPOOL_OK && outcome.version != 0);
  OK(tidepool_chain_result_get(result, note, &outcome));
  CHECK(outcome.code == TIDEPOOL_CANCELLED);
  IS(TIDEPOOL_OUT_OF_RANGE, tidepool_chain_result_get(result, 3, &outcome));
  tidepool_chain_result_free(result);
  char buffer[16];
  tidepool_value_info info;
  OK(tidepool_map_get(map, S("{a}new"), buffer, sizeof buffer, NULL, &info));
  CHECK(info.bytes == 7 && memcmp(buffer, "content", 7) == 0);
  tidepool_chain_free(chain);
}

static void Numbers(tidepool_namespace* map) {
  tidepool_chain* chain = New();
  tidepool_chain_result* result = NULL;
  tidepool_chain_outcome outcome;
  int step = -1, f64 = -1, ttl = -1;
  OK(tidepool_chain_fetch(chain, TIDEPOOL_FETCH_ADD, S("{n}a"), 5, NULL));
  OK(tidepool_chain_fetch(chain, TIDEPOOL_FETCH_ADD, S("{n}a"), 2, &step)); /* Returns 5. */
  OK(tidepool_chain_fetch_from(chain, TIDEPOOL_FETCH_MAX, S("{n}b"), step, NULL));
  OK(tidepool_chain_fetch_f64(chain, TIDEPOOL_FETCH_ADD, S("{n}f"), 1.5, NULL));
  OK(tidepool_chain_fetch_f64(chain, TIDEPOOL_FETCH_ADD, S("{n}f"), 1, &f64));
  OK(tidepool_chain_fetch_f64_from(chain, TIDEPOOL_FETCH_MIN, S("{n}g"), f64, NULL));
  OK(tidepool_chain_ttl(chain, S("{n}b"), &ttl));
  OK(tidepool_chain_expire(chain, S("{n}b"), 3600000, NULL));
  OK(tidepool_chain_append(chain, S("{n}text"), S("ab"), NULL));
  OK(tidepool_chain_get(chain, S("{n}text"), &step));
  OK(tidepool_chain_append_from(chain, S("{n}text"), step, NULL));
  OK(tidepool_chain_compare_and_swap(chain, S("{n}text"), S("abab"), S("done"), NULL));
  OK(tidepool_chain_delete(chain, S("{n}text"), NULL, NULL));
  OK(tidepool_chain_contains(chain, S("{n}text"), &step));
  OK(tidepool_chain_may_fail(chain, step));
  tidepool_future* future = NULL;
  OK(tidepool_map_execute_async(map, chain, NULL, &future));
  OK(tidepool_future_wait(future, TIDEPOOL_FOR_EVER));
  OK(tidepool_future_chain_result(future, &result));
  tidepool_future_free(future);
  OK(tidepool_chain_result_get(result, 1, &outcome));
  CHECK(outcome.number == 5);
  OK(tidepool_chain_result_get(result, f64, &outcome));
  CHECK(outcome.number_f64 == 1.5);
  OK(tidepool_chain_result_get(result, ttl, &outcome));
  CHECK(outcome.number == -1);
  OK(tidepool_chain_result_get(result, step, &outcome));
  CHECK(outcome.code == TIDEPOOL_NOT_FOUND);
  tidepool_chain_result_free(result);
  tidepool_chain_free(chain);
  int64_t before = 0;
  OK(tidepool_map_fetch(map, TIDEPOOL_FETCH_ADD, S("{n}b"), 0, NULL, &before));
  CHECK(before == 5);
}

static void Failures(tidepool_namespace* map) {
  tidepool_chain* chain = New();
  tidepool_chain_result* result = NULL;
  tidepool_chain_outcome outcome;
  int first = -1, second = -1, step = -1;
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_map_execute(map, chain, NULL, &result)); /* No step. */
  CHECK(result == NULL);
  OK(tidepool_map_put(map, S("{r}state"), S("ready"), NULL, NULL));
  OK(tidepool_chain_get(chain, S("{r}state"), &first));
  OK(tidepool_chain_put(chain, S("{r}out"), S("x"), NULL, &second));
  OK(tidepool_chain_require(chain, second, first, TIDEPOOL_CHAIN_EQUALS, S("done")));
  IS(TIDEPOOL_FAILED_PRECONDITION, tidepool_map_execute(map, chain, NULL, &result));
  CHECK(result != NULL);
  OK(tidepool_chain_result_get(result, first, &outcome));
  CHECK(Equal(outcome.value, "ready"));
  OK(tidepool_chain_result_get(result, second, &outcome));
  CHECK(outcome.code == TIDEPOOL_FAILED_PRECONDITION);
  tidepool_chain_result_free(result);
  IS(TIDEPOOL_FAILED_PRECONDITION, tidepool_map_execute(map, chain, NULL, NULL));
  OK(tidepool_map_put(map, S("{r}state"), S("done"), NULL, NULL));
  OK(tidepool_map_execute(map, chain, NULL, NULL));

  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_chain_put_from(chain, S("{r}x"), 2, NULL, &step));
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_chain_put_from(chain, S("{r}x"), -1, NULL, &step));
  IS(TIDEPOOL_INVALID_ARGUMENT,
     tidepool_chain_if(chain, first, second, TIDEPOOL_CHAIN_OK, NULL, 0));
  IS(TIDEPOOL_INVALID_ARGUMENT,
     tidepool_chain_if(chain, second, first, (tidepool_chain_test)7, NULL, 0));
  IS(TIDEPOOL_UNIMPLEMENTED,
     tidepool_chain_fetch(chain, TIDEPOOL_FETCH_ADD_IF_PRESENT, S("{r}n"), 1, &step));
  IS(TIDEPOOL_UNIMPLEMENTED,
     tidepool_chain_fetch_f64(chain, TIDEPOOL_FETCH_OR, S("{r}n"), 1, &step));
  for (int i = 2; i < 64; ++i) OK(tidepool_chain_get(chain, S("{r}state"), &step));
  CHECK(step == 63);
  IS(TIDEPOOL_RESOURCE_EXHAUSTED, tidepool_chain_get(chain, S("{r}state"), &step));
  tidepool_chain_free(chain);

  chain = New();
  OK(tidepool_chain_get(chain, S("a"), NULL));
  OK(tidepool_chain_get(chain, S("b"), NULL));
  OK(tidepool_chain_get(chain, S("c"), NULL));
  OK(tidepool_chain_get(chain, S("d"), NULL));
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_map_execute(map, chain, NULL, &result));
  tidepool_chain_free(chain);
}

int main(void) {
  tidepool_client* client = Connect();
  tidepool_namespace_options options = TIDEPOOL_NAMESPACE_OPTIONS_INIT;
  options.partitions = 64;
  tidepool_namespace* map = Open(client, "chains", TIDEPOOL_HASH, &options);
  HandedOn(map);
  Numbers(map);
  Failures(map);
  tidepool_namespace_free(map);
  tidepool_client_free(client);
  return 0;
}
