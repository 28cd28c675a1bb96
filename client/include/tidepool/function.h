/* clang-format off (it would join the lines of the example) */
/* Functions of a site's own, which run where the records are: inside of the daemons.
 *
 *   kvd --functions -> daemon/ops/functions -> [shared objects that include <tidepool/function.h>]
 *
 * A shared object that exports tidepool_functions() is loaded by kvd (--functions LIST) on every
 * node and serves programs (Apply) and `kvctl apply`. Needs nothing but this header:
 *
 *   #include <tidepool/function.h>
 *   static int Longest(struct tidepool_update* u) {
 *     if (u->present && u->value_bytes >= u->argument_bytes) return TIDEPOOL_KEEP;
 *     u->new_value = u->argument;
 *     u->new_value_bytes = u->argument_bytes;
 *     return TIDEPOOL_STORE;
 *   }
 *   static const struct tidepool_function kFunctions[] = {{"longest", Longest}};
 *   static const struct tidepool_function_table kTable = {
 *       TIDEPOOL_FUNCTIONS_VERSION, 1, kFunctions};
 *   const struct tidepool_function_table* tidepool_functions(void) { return &kTable; }
 *
 *   cc -shared -fPIC -o libmine.so mine.c
 *
 * A function runs in the core's own thread, between other clients' operations: it must return
 * within microseconds, must not block, throw or longjmp, and may be called by several threads at
 * once, for different keys. Its effect must follow from its input alone: it may be called more than
 * once for one operation, and only the last outcome counts. It runs in the daemon's process: a
 * function that crashes takes the daemon, and all that it holds, with it.
 */
/* clang-format on */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows with every incompatible change of what follows; a daemon refuses tables of another one. */
#define TIDEPOOL_FUNCTIONS_VERSION 1

#define TIDEPOOL_FUNCTION_VALUE_BYTES_MAX 32768
#define TIDEPOOL_FUNCTION_RESULT_BYTES_MAX 4096

/* What a value is beside its bytes; numbers have 8. */
enum tidepool_kind { TIDEPOOL_BYTES = 0, TIDEPOOL_I64 = 1, TIDEPOOL_F64 = 2 };

enum tidepool_verdict {
  TIDEPOOL_KEEP = 0,   /* The record stays as it is; an absent key stays absent. */
  TIDEPOOL_STORE = 1,  /* It is new_value from now on. */
  TIDEPOOL_DELETE = 2, /* It goes; an absent key stays absent. */
  TIDEPOOL_REFUSE = 3  /* It stays; the caller gets kInvalidArgument, with `result` as the text. */
};

/* One application. What it points at lives until the function returns. */
struct tidepool_update {
  /* In. An absent key has no value bytes. */
  const void* key;
  size_t key_bytes;
  const void* value;
  size_t value_bytes;
  int value_kind;
  int present;
  const void* argument;
  size_t argument_bytes;

  /* Room of TIDEPOOL_FUNCTION_VALUE_BYTES_MAX and TIDEPOOL_FUNCTION_RESULT_BYTES_MAX bytes. */
  void* value_room;
  void* result_room;

  /* Out; empty before. new_value may be in value_room, value or argument, result anywhere. More
   * bytes than there may be end the operation with kOutOfRange, and nothing changes. */
  const void* new_value;
  size_t new_value_bytes;
  int new_value_kind; /* A number that has not 8 bytes ends the operation with kInternal. */
  const void* result; /* What the caller gets, whatever the verdict. */
  size_t result_bytes;
};

struct tidepool_function {
  const char* name; /* 1 to 64 of [A-Za-z0-9._-]; no two of a daemon have the same. */
  /* Returns a tidepool_verdict; anything else ends the operation with kInternal. */
  int (*apply)(struct tidepool_update* update);
};

struct tidepool_function_table {
  uint32_t version; /* TIDEPOOL_FUNCTIONS_VERSION. */
  uint32_t count;
  const struct tidepool_function* functions;
};

/* The one symbol that a shared object exports. Called once; what it returns lives as long as the
 * object. */
const struct tidepool_function_table* tidepool_functions(void);

#ifdef __cplusplus
}
#endif
