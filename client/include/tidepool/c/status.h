/* Codes, error texts, byte strings and values: shared by all headers of the C API.
 *
 * Conventions of the C API:
 * - A function returns a tidepool_code unless its comment says otherwise. No function throws, and
 * no argument ends the program: NULL, a handle of another type, and a size that does not fit end
 *   with TIDEPOOL_INVALID_ARGUMENT, TIDEPOOL_FAILED_PRECONDITION or TIDEPOOL_OUT_OF_RANGE.
 * - A handle is an opaque pointer. Its maker stores it in the last argument; on failure it stores
 *   NULL. The caller ends each handle with its _free function, which accepts NULL. A handle must
 *   not be used after that.
 * - Sizes count bytes. Times are milliseconds; names that end in _ms say so. Times above 30 days
 *   saturate where a call waits.
 * - Keys and values are any bytes. NULL is accepted where the size is 0. The library copies the
 *   arguments of asynchronous calls before it returns.
 * - Options are structs. NULL means all defaults, and a field of 0 means its default. Initialize a
 *   struct with its ..._INIT macro, which sets struct_bytes: a newer library then knows which
 *   fields the program has.
 * - Any number of threads may use one client and one namespace at the same time. All other handles
 *   are used by one thread at a time.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TIDEPOOL_C_API __attribute__((visibility("default")))
#else
#define TIDEPOOL_C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The list is closed. Codes 0 to 16 have the numbers and the meaning of gRPC. */
typedef enum tidepool_code {
  TIDEPOOL_OK = 0,
  TIDEPOOL_CANCELLED = 1,
  TIDEPOOL_UNKNOWN = 2,           /* A change was sent; it took effect once or not at all. */
  TIDEPOOL_INVALID_ARGUMENT = 3,  /* The request is wrong whatever the state of the cluster. */
  TIDEPOOL_DEADLINE_EXCEEDED = 4, /* The deadline passed; the operation had no effect. */
  TIDEPOOL_NOT_FOUND = 5,         /* An expected outcome of reads and deletes. */
  TIDEPOOL_ALREADY_EXISTS = 6,
  TIDEPOOL_PERMISSION_DENIED = 7,
  TIDEPOOL_RESOURCE_EXHAUSTED = 8,  /* Memory, a device or a quota is used up. */
  TIDEPOOL_FAILED_PRECONDITION = 9, /* The state does not allow it. */
  TIDEPOOL_ABORTED = 10,
  TIDEPOOL_OUT_OF_RANGE = 11, /* Also: a buffer of the caller is too small. */
  TIDEPOOL_UNIMPLEMENTED = 12,
  TIDEPOOL_INTERNAL = 13,
  TIDEPOOL_UNAVAILABLE = 14, /* The owner cannot be reached; safe to try again. */
  TIDEPOOL_DATA_LOSS = 15,   /* Acknowledged data is gone. */
  TIDEPOOL_UNAUTHENTICATED = 16,
  TIDEPOOL_WRONG_EPOCH = 17,
  TIDEPOOL_OVERLOADED = 18,
  TIDEPOOL_DEVICE_ERROR = 19
} tidepool_code;

/* Returns the name of a code, for example "NOT_FOUND"; "INVALID_CODE" for any other number.
 * The text is never freed. */
TIDEPOOL_C_API const char* tidepool_code_name(tidepool_code code);
/* Returns 1 if the same call may succeed later and surely had no effect so far, else 0. */
TIDEPOOL_C_API int tidepool_code_is_retryable(tidepool_code code);
/* Returns the exit code of a program for `code`, equal to kvctl's: 0 for TIDEPOOL_OK,
 * 2 wrong arguments, 3 not found, 4 no answer in time, 5 not reachable, 1 all others. */
TIDEPOOL_C_API int tidepool_exit_code(tidepool_code code);

/* Describe the last call of this thread that did not return TIDEPOOL_OK: its code, the cause, and a
 * remedy ("" if there is none). A call that succeeds leaves them. The texts live until this thread
 * makes another call that fails, or ends. They never are NULL. */
TIDEPOOL_C_API tidepool_code tidepool_error_code(void);
TIDEPOOL_C_API const char* tidepool_error_what(void);
TIDEPOOL_C_API const char* tidepool_error_remedy(void);
/* Prints the last error of this thread to standard error as a line that begins with "tidepool: ",
 * unless `code` is TIDEPOOL_OK. Returns tidepool_exit_code(code). */
TIDEPOOL_C_API int tidepool_report(tidepool_code code);

/* Returns the version of the library, for example "0.1.0". The text is never freed. */
TIDEPOOL_C_API const char* tidepool_version(void);

/* A time to live without expiry, or a time to wait without end. */
#define TIDEPOOL_FOR_EVER UINT64_MAX

/* Bytes in another owner's memory. */
typedef struct tidepool_bytes {
  const void* data; /* May be NULL if bytes is 0. */
  size_t bytes;
} tidepool_bytes;

/* Counters are 8 bytes, little-endian; tidepool_map_fetch works on counters only. */
typedef enum tidepool_value_kind {
  TIDEPOOL_VALUE_BYTES = 0,
  TIDEPOOL_VALUE_I64 = 1,
  TIDEPOOL_VALUE_F64 = 2
} tidepool_value_kind;

/* Describes a value that was read. */
typedef struct tidepool_value_info {
  size_t bytes;     /* Size of the whole value, also if the buffer was too small. */
  uint64_t version; /* Grows with each change of the record; 0 is no version. */
  tidepool_value_kind kind;
} tidepool_value_info;

/* A value that the library holds for the caller, until tidepool_value_free. Immutable. */
typedef struct tidepool_value tidepool_value;
/* Shows the value without a copy. `bytes` is valid until tidepool_value_free. `info` may be NULL.
 */
TIDEPOOL_C_API tidepool_code tidepool_value_view(const tidepool_value* value, tidepool_bytes* bytes,
                                                 tidepool_value_info* info);
/* Copies the value. Returns: TIDEPOOL_OUT_OF_RANGE (the buffer is too small and unchanged; `info`
 * has the size that it needs). `info` may be NULL. */
TIDEPOOL_C_API tidepool_code tidepool_value_copy(const tidepool_value* value, void* buffer,
                                                 size_t buffer_bytes, tidepool_value_info* info);
TIDEPOOL_C_API void tidepool_value_free(tidepool_value* value);

/* Promises of the program about a round of its own work; combined by |. A broken promise may
 * give values that are not the newest, and never harms stored data. <tidepool/promise.h> has the
 * rules. */
enum {
  TIDEPOOL_PROMISE_NONE = 0,
  TIDEPOOL_PROMISE_READ_ONLY = 1,       /* No process writes. */
  TIDEPOOL_PROMISE_INSERT_ONLY = 2,     /* Writers insert new keys. */
  TIDEPOOL_PROMISE_DISJOINT_WRITES = 4, /* Each writer has its own keys. */
  TIDEPOOL_PROMISE_PUSH_ONLY = 8,       /* No process pops. */
  TIDEPOOL_PROMISE_POP_ONLY = 16,       /* No process pushes. */
  TIDEPOOL_PROMISE_LOCAL = 32           /* Only keys of the own node are used. */
};

/* Failures that a change outlives. */
typedef enum tidepool_receipt_level {
  TIDEPOOL_RECEIPT_NONE = 0,            /* No change has succeeded. */
  TIDEPOOL_RECEIPT_MEMORY = 1,          /* The change ends with its daemon. */
  TIDEPOOL_RECEIPT_NEXT_CHECKPOINT = 2, /* Lost if the daemon dies before its next checkpoint. */
  TIDEPOOL_RECEIPT_DEVICE = 3 /* The change outlives a crash of the daemon and of its node. */
} tidepool_receipt_level;

/* Written when a call that asked for it by its options returns. An asynchronous call writes it when
 * its result is taken, so the receipt must live until then. */
typedef struct tidepool_receipt {
  tidepool_receipt_level level; /* The least of all changes of the call. */
  uint64_t answered_at_ms;      /* By the owner's clock, since 1970; 0: a node without a device. */
  uint64_t durable_at_ms;       /* The owner's last checkpoint then; 0: none. */
} tidepool_receipt;

/* Options of most calls. */
typedef struct tidepool_call_options {
  size_t struct_bytes;
  uint64_t timeout_ms;       /* 0: that of tidepool_connect_options, and 1 s for each 50 MB. */
  uint32_t promises;         /* TIDEPOOL_PROMISE_..., in addition to the namespace's. */
  uint32_t reserved;         /* 0. */
  tidepool_receipt* receipt; /* NULL: no receipt. */
} tidepool_call_options;

#ifdef __cplusplus
#define TIDEPOOL_OPTIONS_INIT_(type) \
  { sizeof(type) }
#else
#define TIDEPOOL_OPTIONS_INIT_(type) \
  { .struct_bytes = sizeof(type) }
#endif
#define TIDEPOOL_CALL_OPTIONS_INIT TIDEPOOL_OPTIONS_INIT_(tidepool_call_options)

#ifdef __cplusplus
}
#endif
