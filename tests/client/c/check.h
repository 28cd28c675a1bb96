// Checks for the test programs of the C API. A check that fails says where, and ends the program.
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tidepool/c/tidepool.h"

#define CHECK(condition)                                                                        \
  do {                                                                                          \
    if (!(condition)) {                                                                         \
      fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);                   \
      fprintf(stderr, "  last error: %s: %s (%s)\n", tidepool_code_name(tidepool_error_code()), \
              tidepool_error_what(), tidepool_error_remedy());                                  \
      exit(1);                                                                                  \
    }                                                                                           \
  } while (0)

// Checks the code of a call.
#define IS(code, call)                                                                          \
  do {                                                                                          \
    const tidepool_code got_ = (call);                                                          \
    if (got_ != (code)) {                                                                       \
      fprintf(stderr, "%s:%d: %s returned %s, not %s: %s (%s)\n", __FILE__, __LINE__, #call,    \
              tidepool_code_name(got_), #code, tidepool_error_what(), tidepool_error_remedy()); \
      exit(1);                                                                                  \
    }                                                                                           \
  } while (0)
#define OK(call) IS(TIDEPOOL_OK, call)

// A string as a pair of arguments: its bytes and their number.
#define S(text) (text), strlen(text)

static inline tidepool_bytes Bytes(const char* text) {
  tidepool_bytes bytes;
  bytes.data = text;
  bytes.bytes = strlen(text);
  return bytes;
}

static inline int Equal(tidepool_bytes bytes, const char* text) {
  return bytes.bytes == strlen(text) && memcmp(bytes.data, text, bytes.bytes) == 0;
}

// Connects by TIDEPOOL_CLUSTER, as any program does.
static inline tidepool_client* Connect(void) {
  tidepool_client* client = NULL;
  OK(tidepool_connect(NULL, &client));
  return client;
}

static inline tidepool_namespace* Open(tidepool_client* client, const char* name,
                                       tidepool_namespace_kind kind,
                                       const tidepool_namespace_options* options) {
  tidepool_namespace* space = NULL;
  OK(tidepool_namespace_open(client, name, kind, TIDEPOOL_OPEN_OR_CREATE, options, &space));
  return space;
}

// Checks the content of a value, and frees it.
static inline void CheckValue(tidepool_value* value, const char* text) {
  tidepool_bytes bytes;
  OK(tidepool_value_view(value, &bytes, NULL));
  CHECK(Equal(bytes, text));
  tidepool_value_free(value);
}
