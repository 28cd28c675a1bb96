/* Bad arguments: NULL, handles of other types, options of other versions. Each is a status. */
#define _POSIX_C_SOURCE 200809L
#include <sys/wait.h>
#include <unistd.h>

#include "tests/client/c/check.h"

static void BadHandles(tidepool_client* client, tidepool_namespace* map) {
  tidepool_value_info info;
  char buffer[4];
  tidepool_namespace* space = NULL;
  tidepool_future* future = NULL;
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_map_get(NULL, S("k"), buffer, 4, NULL, &info));
  CHECK(strstr(tidepool_error_what(), "NULL") != NULL && strlen(tidepool_error_remedy()) > 0);
  CHECK(tidepool_error_code() == TIDEPOOL_INVALID_ARGUMENT);
  IS(TIDEPOOL_INVALID_ARGUMENT,
     tidepool_map_get((tidepool_namespace*)client, S("k"), buffer, 4, NULL, &info));
  CHECK(strstr(tidepool_error_what(), "no namespace") != NULL);
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_namespace_open((tidepool_client*)map, "x", TIDEPOOL_HASH,
                                                        TIDEPOOL_OPEN, NULL, &space));
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_future_wait((tidepool_future*)map, 0));
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_map_get(map, NULL, 3, buffer, 4, NULL, &info));
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_map_get(map, S("k"), NULL, 4, NULL, &info));
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_map_get(map, S("k"), buffer, 4, NULL, NULL));
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_map_put(map, S("k"), NULL, 1, NULL, NULL));
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_map_get_async(map, S("k"), NULL, NULL));
  future = (tidepool_future*)buffer;
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_map_get_async(NULL, S("k"), NULL, &future));
  CHECK(future == NULL); /* Stored on failure, too. */
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_map_multi_get(map, NULL, 1, NULL, NULL));
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_map_multi_put(map, NULL, NULL, 1, NULL, NULL));
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_map_apply(map, S("k"), NULL, S(""), NULL, NULL));
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_connect(NULL, NULL));
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_client_drop(client, NULL));
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_chain_get(NULL, S("k"), NULL));
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_chain_new(NULL));
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_map_execute(map, NULL, NULL, NULL));
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_group_barrier(NULL, NULL));
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_buffered_flush(NULL));
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_iterator_status(NULL));
  CHECK(tidepool_iterator_next(NULL, NULL) == 0 && tidepool_items_size(NULL) == 0);
  CHECK(tidepool_batch_size((tidepool_batch*)map) == 0);
  CHECK(strcmp(tidepool_namespace_name(NULL), "") == 0);
  CHECK(tidepool_nodes_size(NULL) == 0 && tidepool_files_size(NULL) == 0);
  tidepool_iterator* iterator = NULL;
  OK(tidepool_map_iterate(map, NULL, &iterator));
  CHECK(tidepool_iterator_next(iterator, NULL) == 0);
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_iterator_status(iterator));
  tidepool_iterator_free(iterator);
}

static void FreedHandles(tidepool_namespace* map) {
  /* NULL is fine; a handle of another type is left alone. */
  tidepool_client_free(NULL);
  tidepool_namespace_free(NULL);
  tidepool_future_free(NULL);
  tidepool_batch_free(NULL);
  tidepool_value_free(NULL);
  tidepool_items_free(NULL);
  tidepool_iterator_free(NULL);
  tidepool_chain_free(NULL);
  tidepool_chain_result_free(NULL);
  tidepool_buffered_free(NULL);
  tidepool_group_free(NULL);
  tidepool_nodes_free(NULL);
  tidepool_namespace_list_free(NULL);
  tidepool_files_free(NULL);
  tidepool_bloom_copy_free(NULL);
  tidepool_future_free((tidepool_future*)map);
  OK(tidepool_map_put(map, S("k"), S("v"), NULL, NULL));
}

/* A struct of a program that is compiled against a newer library. */
typedef struct newer_options {
  tidepool_put_options known;
  uint64_t added;
} newer_options;

static void BadOptions(tidepool_client* client, tidepool_namespace* map) {
  tidepool_put_options put = TIDEPOOL_PUT_OPTIONS_INIT;
  put.condition = (tidepool_put_condition)9;
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_map_put(map, S("k"), S("v"), &put, NULL));
  put.condition = TIDEPOOL_PUT_ALWAYS;
  put.kind = (tidepool_value_kind)3;
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_map_put(map, S("k"), S("v"), &put, NULL));
  put.kind = TIDEPOOL_VALUE_I64;
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_map_put(map, S("k"), S("short"), &put, NULL));
  put.kind = TIDEPOOL_VALUE_BYTES;
  put.promises = 64;
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_map_put(map, S("k"), S("v"), &put, NULL));
  put.promises = 0;
  put.struct_bytes = 0;
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_map_put(map, S("k"), S("v"), &put, NULL));
  CHECK(strstr(tidepool_error_remedy(), "_INIT") != NULL);
  /* An older program has fewer fields. */
  put.struct_bytes = offsetof(tidepool_put_options, condition);
  put.condition = (tidepool_put_condition)9;
  OK(tidepool_map_put(map, S("k"), S("v"), &put, NULL));
  /* A newer program has more, which must be 0 for this library. */
  newer_options newer = {TIDEPOOL_PUT_OPTIONS_INIT, 0};
  newer.known.struct_bytes = sizeof newer;
  OK(tidepool_map_put(map, S("k"), S("v"), &newer.known, NULL));
  newer.added = 1;
  IS(TIDEPOOL_UNIMPLEMENTED, tidepool_map_put(map, S("k"), S("v"), &newer.known, NULL));

  tidepool_namespace_options options = TIDEPOOL_NAMESPACE_OPTIONS_INIT;
  tidepool_namespace* space = NULL;
  options.durability = (tidepool_durability)3;
  IS(TIDEPOOL_INVALID_ARGUMENT,
     tidepool_namespace_open(client, "x", TIDEPOOL_HASH, TIDEPOOL_CREATE, &options, &space));
  options.durability = TIDEPOOL_VOLATILE;
  options.split_key_count = 1;
  IS(TIDEPOOL_INVALID_ARGUMENT,
     tidepool_namespace_open(client, "x", TIDEPOOL_ORDERED, TIDEPOOL_CREATE, &options, &space));
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_namespace_open(client, "x", (tidepool_namespace_kind)0,
                                                        TIDEPOOL_CREATE, NULL, &space));
  IS(TIDEPOOL_INVALID_ARGUMENT,
     tidepool_namespace_open(client, "x", TIDEPOOL_HASH, (tidepool_open_mode)3, NULL, &space));
  IS(TIDEPOOL_INVALID_ARGUMENT,
     tidepool_namespace_open(client, "a/bad name", TIDEPOOL_HASH, TIDEPOOL_CREATE, NULL, &space));
  tidepool_iterate_options iterate = TIDEPOOL_ITERATE_OPTIONS_INIT;
  tidepool_iterator* iterator = NULL;
  iterate.cursor = Bytes("no cursor");
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_map_iterate(map, &iterate, &iterator));
  CHECK(iterator == NULL);
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_map_fetch(map, (tidepool_fetch)7, S("n"), 1, NULL, NULL));
  tidepool_stats stats = {0};
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_client_stats(client, &stats));
  tidepool_connect_options connect = TIDEPOOL_CONNECT_OPTIONS_INIT;
  tidepool_client* other = NULL;
  connect.cluster_file = "no/such/file";
  IS(TIDEPOOL_NOT_FOUND, tidepool_connect(&connect, &other));
  CHECK(other == NULL);
  connect.transport = (tidepool_transport)3;
  IS(TIDEPOOL_INVALID_ARGUMENT, tidepool_connect(&connect, &other));
}

/* Calls of a child end, and it cannot connect. */
static void Fork(tidepool_namespace* map) {
  fflush(NULL);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    tidepool_value_info info;
    IS(TIDEPOOL_FAILED_PRECONDITION, tidepool_map_get(map, S("k"), NULL, 0, NULL, &info));
    tidepool_connect_options options = TIDEPOOL_CONNECT_OPTIONS_INIT;
    tidepool_client* client = NULL;
    IS(TIDEPOOL_FAILED_PRECONDITION, tidepool_connect(&options, &client));
    CHECK(client == NULL);
    _exit(0);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  OK(tidepool_map_put(map, S("parent"), S("x"), NULL, NULL));
}

static void Codes(void) {
  CHECK(strcmp(tidepool_code_name(TIDEPOOL_DEVICE_ERROR), "DEVICE_ERROR") == 0);
  CHECK(strcmp(tidepool_code_name((tidepool_code)20), "INVALID_CODE") == 0);
  CHECK(strcmp(tidepool_code_name((tidepool_code)256), "INVALID_CODE") == 0);
  CHECK(tidepool_code_is_retryable(TIDEPOOL_UNAVAILABLE) == 1);
  CHECK(tidepool_code_is_retryable(TIDEPOOL_UNKNOWN) == 0);
  CHECK(tidepool_exit_code(TIDEPOOL_NOT_FOUND) == 3);
  CHECK(tidepool_report(TIDEPOOL_OK) == 0 && tidepool_report(TIDEPOOL_INVALID_ARGUMENT) == 2);
  CHECK(strchr(tidepool_version(), '.') != NULL);
}

int main(void) {
  CHECK(tidepool_error_code() == TIDEPOOL_OK && strcmp(tidepool_error_what(), "") == 0);
  tidepool_client* client = Connect();
  tidepool_namespace* map = Open(client, "arguments", TIDEPOOL_HASH, NULL);
  BadHandles(client, map);
  FreedHandles(map);
  BadOptions(client, map);
  Fork(map);
  Codes();
  tidepool_namespace_free(map);
  tidepool_client_free(client);
  return 0;
}
