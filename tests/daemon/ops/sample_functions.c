/* A site's own functions as a C program has them: compiled into a shared object by the tests. */
#include <string.h>

#include "tidepool/function.h"

/* Keeps the longest argument. */
static int Longest(struct tidepool_update* update) {
  if (update->present && update->value_bytes >= update->argument_bytes) return TIDEPOOL_KEEP;
  update->new_value = update->argument;
  update->new_value_bytes = update->argument_bytes;
  return TIDEPOOL_STORE;
}

/* Doubles a counter; refuses other values. */
static int Twice(struct tidepool_update* update) {
  static const char kWhy[] = "no counter";
  int64_t number = 0;
  if (update->value_kind != TIDEPOOL_I64) {
    update->result = kWhy;
    update->result_bytes = sizeof kWhy - 1;
    return TIDEPOOL_REFUSE;
  }
  memcpy(&number, update->value, sizeof number);
  number *= 2;
  memcpy(update->value_room, &number, sizeof number);
  update->new_value = update->value_room;
  update->new_value_bytes = sizeof number;
  update->new_value_kind = TIDEPOOL_I64;
  return TIDEPOOL_STORE;
}

/* Deletes the record and returns its key. */
static int Drop(struct tidepool_update* update) {
  update->result = update->key;
  update->result_bytes = update->key_bytes;
  return TIDEPOOL_DELETE;
}

/* What a daemon must survive. */
static int TooLong(struct tidepool_update* update) {
  update->new_value = update->value_room;
  update->new_value_bytes = TIDEPOOL_FUNCTION_VALUE_BYTES_MAX + 1;
  return TIDEPOOL_STORE;
}
static int TalksTooMuch(struct tidepool_update* update) {
  update->result = update->result_room;
  update->result_bytes = TIDEPOOL_FUNCTION_RESULT_BYTES_MAX + 1;
  return TIDEPOOL_STORE;
}
static int NoVerdict(struct tidepool_update* update) {
  (void)update;
  return 77;
}
static int BadNumber(struct tidepool_update* update) {
  update->new_value = update->value_room;
  update->new_value_bytes = 3;
  update->new_value_kind = TIDEPOOL_F64;
  return TIDEPOOL_STORE;
}

static const struct tidepool_function kFunctions[] = {
    {"sample.longest", Longest},      {"sample.twice", Twice},
    {"sample.drop", Drop},            {"sample.too-long", TooLong},
    {"sample.talk", TalksTooMuch},    {"sample.no-verdict", NoVerdict},
    {"sample.bad-number", BadNumber},
};
static const struct tidepool_function_table kTable = {
#ifdef SAMPLE_VERSION
    SAMPLE_VERSION,
#else
    TIDEPOOL_FUNCTIONS_VERSION,
#endif
    sizeof kFunctions / sizeof kFunctions[0], kFunctions};

#ifndef SAMPLE_NO_TABLE
const struct tidepool_function_table* tidepool_functions(void) { return &kTable; }
#else
const void* something_else(void) { return &kTable; }
#endif
