/* The connection to a cluster, its namespaces, and the files that were staged in.
 *
 *   tidepool_client* client;
 *   tidepool_namespace* map;
 *   if (tidepool_connect(NULL, &client) != TIDEPOOL_OK) return tidepool_report(...);
 *   tidepool_namespace_open(client, "particles", TIDEPOOL_HASH, TIDEPOOL_OPEN_OR_CREATE, NULL,
 * &map);
 */
#pragma once

#include "tidepool/c/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A client of a cluster. A process normally has a single client. Namespaces and futures that a
 * client made keep it connected: it ends when the last of these handles is freed. After fork() the
 * calls of the child and its tidepool_connect end with TIDEPOOL_FAILED_PRECONDITION: fork first. */
typedef struct tidepool_client tidepool_client;

/* How a thread that waits for an answer spends its time. */
typedef enum tidepool_wait_mode {
  TIDEPOOL_WAIT_AUTO = 0, /* Spins up to 50 us while that pays, then sleeps. */
  TIDEPOOL_WAIT_POLL = 1, /* Spins: only with a CPU for each thread that waits. */
  TIDEPOOL_WAIT_BLOCK = 2 /* Sleeps at once. */
} tidepool_wait_mode;

/* How operations reach a daemon. */
typedef enum tidepool_transport {
  TIDEPOOL_TRANSPORT_AUTO = 0, /* Shared memory on this machine, UCX elsewhere. */
  TIDEPOOL_TRANSPORT_UCX = 1,
  TIDEPOOL_TRANSPORT_RING = 2 /* Shared memory only: other machines are TIDEPOOL_UNAVAILABLE. */
} tidepool_transport;

typedef struct tidepool_connect_options {
  size_t struct_bytes;
  /* The connection file of the cluster. NULL: TIDEPOOL_CLUSTER, the file of the Slurm job,
   * ./tidepool-cluster.json, or the default service of the user, in this order. */
  const char* cluster_file;
  const char* client_name;        /* For logs and status. NULL: program, host and process id. */
  const char* devices;            /* Network devices, comma separated. NULL: chosen. */
  uint64_t call_timeout_ms;       /* For calls without a timeout. 0: 10,000. */
  uint64_t connect_timeout_ms;    /* 0: 10,000. */
  uint64_t direct_read_bytes_max; /* Mapped of each daemon on this machine. 0: no bound. */
  tidepool_wait_mode wait;
  tidepool_transport transport;
  int uncounted;           /* 1: status and metrics leave this client out. */
  int insecure;            /* 1: the job token may travel to other machines without TLS. */
  int no_direct_reads;     /* 1: daemons answer all reads. */
  int no_remote_reads;     /* 1: no reads by RDMA. */
  int background_progress; /* 1: a thread of the library makes progress while no call waits. */
  int reserved;            /* 0. */
} tidepool_connect_options;
#define TIDEPOOL_CONNECT_OPTIONS_INIT TIDEPOOL_OPTIONS_INIT_(tidepool_connect_options)

/* Connects. Returns: TIDEPOOL_NOT_FOUND (no connection file), TIDEPOOL_UNAVAILABLE,
 * TIDEPOOL_UNAUTHENTICATED, TIDEPOOL_INVALID_ARGUMENT, TIDEPOOL_PERMISSION_DENIED,
 * TIDEPOOL_FAILED_PRECONDITION (no TLS and not insecure), TIDEPOOL_DEADLINE_EXCEEDED. */
TIDEPOOL_C_API tidepool_code tidepool_connect(const tidepool_connect_options* options,
                                              tidepool_client** client);
/* Ends the client. Operations under way end with TIDEPOOL_CANCELLED, or with TIDEPOOL_UNKNOWN if
 * they may have an effect; so do later calls of all its handles. The handles still must be freed.
 */
TIDEPOOL_C_API tidepool_code tidepool_client_close(tidepool_client* client);
/* Frees the handle. The client stays connected while namespaces or futures of it are left. */
TIDEPOOL_C_API void tidepool_client_free(tidepool_client* client);
/* Waits until all operations that were started before have ended, waits for keys, items and group
 * members aside. Flush buffered handles first. `timeout_ms` 0: the client's call timeout.
 * Returns: TIDEPOOL_OK, TIDEPOOL_DEADLINE_EXCEEDED. */
TIDEPOOL_C_API tidepool_code tidepool_client_wait_for_all(tidepool_client* client,
                                                          uint64_t timeout_ms);

/* Counts since tidepool_connect. Set struct_bytes before the call. */
typedef struct tidepool_stats {
  size_t struct_bytes;
  uint64_t operations; /* Begun. */
  uint64_t operations_done;
  uint64_t operations_unknown;
  uint64_t direct_reads; /* Reads from the memory of a daemon; not among operations. */
  uint64_t remote_reads; /* Direct reads by RDMA. */
  uint64_t operations_requeued;
  uint64_t frames_sent;
  uint64_t frames_received;
  uint64_t bytes_sent;
  uint64_t bytes_received;
  uint64_t frames_resent;
  uint64_t attaches;
  uint64_t map_refreshes;
  uint64_t sleeps;
} tidepool_stats;
#define TIDEPOOL_STATS_INIT TIDEPOOL_OPTIONS_INIT_(tidepool_stats)
TIDEPOOL_C_API tidepool_code tidepool_client_stats(const tidepool_client* client,
                                                   tidepool_stats* stats);

/* The nodes of the cluster as this client knows them. */
typedef struct tidepool_nodes tidepool_nodes;
/* The texts are valid until tidepool_nodes_free. */
typedef struct tidepool_node {
  uint32_t id;
  uint32_t cores;
  int local;    /* 1: on this machine. */
  int attached; /* 1: this client has a session with the node. */
  const char* host;
  const char* control_address; /* host:port of its gRPC services. */
  const char* state;           /* "up", "down" or "left". */
  const char* data_path;       /* For example "ring" or "ucx tcp/lo"; "" if not attached. */
  tidepool_code ping;          /* Outcome of tidepool_client_ping; TIDEPOOL_OK without a ping. */
  uint64_t round_trip_ns;      /* Measured by tidepool_client_ping; 0 without it. */
} tidepool_node;
/* Describes the cluster without a message. */
TIDEPOOL_C_API tidepool_code tidepool_client_describe(tidepool_client* client,
                                                      tidepool_nodes** nodes);
/* Describes the cluster, attaches to each node that is up, and measures the way to it. */
TIDEPOOL_C_API tidepool_code tidepool_client_ping(tidepool_client* client, tidepool_nodes** nodes);
/* Return 0 or "" for a wrong handle. */
TIDEPOOL_C_API size_t tidepool_nodes_size(const tidepool_nodes* nodes);
TIDEPOOL_C_API const char* tidepool_nodes_cluster_uuid(const tidepool_nodes* nodes);
TIDEPOOL_C_API const char* tidepool_nodes_cluster_file(const tidepool_nodes* nodes);
TIDEPOOL_C_API uint64_t tidepool_nodes_epoch(const tidepool_nodes* nodes);
TIDEPOOL_C_API tidepool_code tidepool_nodes_get(const tidepool_nodes* nodes, size_t index,
                                                tidepool_node* node);
TIDEPOOL_C_API void tidepool_nodes_free(tidepool_nodes* nodes);

/* ------------------------------------------------------------------------------------ Namespaces
 */

/* An open namespace. The functions tidepool_map_* work on the kinds hash and ordered,
 * tidepool_ordered_* on ordered, tidepool_queue_* on queue and priority, tidepool_bloom_* on bloom.
 * A function of another kind ends with TIDEPOOL_FAILED_PRECONDITION. Thread-safe. If the namespace
 * is dropped, operations end with TIDEPOOL_NOT_FOUND for ever. */
typedef struct tidepool_namespace tidepool_namespace;

typedef enum tidepool_namespace_kind {
  TIDEPOOL_HASH = 1,
  TIDEPOOL_ORDERED = 2,
  TIDEPOOL_QUEUE = 3,
  TIDEPOOL_PRIORITY = 4,
  TIDEPOOL_BLOOM = 5
} tidepool_namespace_kind;

typedef enum tidepool_open_mode {
  TIDEPOOL_OPEN = 0,          /* TIDEPOOL_NOT_FOUND if it does not exist. */
  TIDEPOOL_CREATE = 1,        /* TIDEPOOL_ALREADY_EXISTS if it exists. */
  TIDEPOOL_OPEN_OR_CREATE = 2 /* TIDEPOOL_ALREADY_EXISTS if it exists with other options. */
} tidepool_open_mode;

typedef enum tidepool_durability {
  TIDEPOOL_VOLATILE = 0, /* In memory, lost with the daemons. */
  TIDEPOOL_ASYNC = 1,    /* A crash loses about a second of changes. Needs kvd --nvm-dir. */
  TIDEPOOL_SYNC = 2      /* A crash loses nothing that was answered. Needs kvd --nvm-dir. */
} tidepool_durability;

/* Behaviour of a node that comes back without its data. */
typedef enum tidepool_on_loss {
  TIDEPOOL_ON_LOSS_ERROR = 0, /* Answers TIDEPOOL_DATA_LOSS until the loss is accepted. */
  TIDEPOOL_ON_LOSS_EMPTY = 1  /* Serves at once, empty. */
} tidepool_on_loss;

typedef enum tidepool_medium {
  TIDEPOOL_MEDIUM_ANY = 0,
  TIDEPOOL_MEDIUM_FILE = 1, /* Disks. */
  TIDEPOOL_MEDIUM_DAX = 2   /* Persistent memory. */
} tidepool_medium;

typedef enum tidepool_prefilter {
  TIDEPOOL_PREFILTER_NONE = 0,
  TIDEPOOL_PREFILTER_ABSENT = 1, /* Programs may download a filter of the keys. */
  TIDEPOOL_PREFILTER_ADMIT = 2   /* A key is stored at its second insert. */
} tidepool_prefilter;

typedef enum tidepool_split {
  TIDEPOOL_SPLIT_AUTO = 0, /* Daemons split a range that is large or busy. */
  TIDEPOOL_SPLIT_MANUAL = 1
} tidepool_split;

/* Fixed when the namespace is created. <tidepool/namespace.h> explains each field. */
typedef struct tidepool_namespace_options {
  size_t struct_bytes;
  uint64_t ttl_ms;               /* For records without their own. 0: for ever. */
  uint64_t expected_items;       /* Kind bloom needs it. */
  uint64_t capacity;             /* For kinds queue and priority, in items. 0: no bound. */
  double false_positive_rate;    /* 1e-6 to 0.5. 0: 0.01. */
  uint32_t partitions;           /* 1 to 4,096. 0: 4 per core. */
  uint32_t replicas;             /* 0: 1. 2: with a copy on another node. */
  uint32_t memory_share_percent; /* 0: no limit of its own. */
  uint32_t lanes;                /* For kind queue, at most 64. 0: 1. */
  tidepool_durability durability;
  tidepool_on_loss on_loss;
  tidepool_medium medium;
  tidepool_prefilter prefilter;
  tidepool_split split; /* For kind ordered. */
  uint32_t reserved;    /* 0. */
  const char* home;     /* The number of a node, or "local". NULL: all nodes. */
  const char* key_type; /* Names of types, as typed handles of C++ set them. NULL: none. */
  const char* value_type;
  const tidepool_bytes* split_keys; /* For kind ordered: begins of ranges. */
  size_t split_key_count;
} tidepool_namespace_options;
#define TIDEPOOL_NAMESPACE_OPTIONS_INIT TIDEPOOL_OPTIONS_INIT_(tidepool_namespace_options)

/* Opens a namespace, creates it, or both. For TIDEPOOL_OPEN only the types of the options count.
 * Returns also: TIDEPOOL_INVALID_ARGUMENT (name or options), TIDEPOOL_FAILED_PRECONDITION (another
 * kind, other types, or home "local" without a node here), TIDEPOOL_UNIMPLEMENTED,
 * TIDEPOOL_RESOURCE_EXHAUSTED, TIDEPOOL_UNAVAILABLE, TIDEPOOL_DEADLINE_EXCEEDED. */
TIDEPOOL_C_API tidepool_code tidepool_namespace_open(tidepool_client* client, const char* name,
                                                     tidepool_namespace_kind kind,
                                                     tidepool_open_mode mode,
                                                     const tidepool_namespace_options* options,
                                                     tidepool_namespace** space);
TIDEPOOL_C_API void tidepool_namespace_free(tidepool_namespace* space);
/* Returns the name, valid until the handle is freed; "" for a wrong handle. */
TIDEPOOL_C_API const char* tidepool_namespace_name(const tidepool_namespace* space);
/* Stores the kind and the number of partitions; each pointer may be NULL. */
TIDEPOOL_C_API tidepool_code tidepool_namespace_describe(const tidepool_namespace* space,
                                                         tidepool_namespace_kind* kind,
                                                         uint32_t* partitions);
/* Stores the number of the node that owns a key now. */
TIDEPOOL_C_API tidepool_code tidepool_namespace_owner_of(const tidepool_namespace* space,
                                                         const void* key, size_t key_bytes,
                                                         uint32_t* node);

/* Makes a handle of the same namespace with a copy of its prefilter "absent" in this process: reads
 * of keys that are surely absent then cost no message. Keys put after the download began, but
 * not through this handle, may be reported absent until the next download. `age_max_ms`: when a
 * look-up downloads the copy again; 0: only tidepool_namespace_refresh_prefilter does.
 * `timeout_ms`: of each 32 KiB. Returns: TIDEPOOL_FAILED_PRECONDITION (made without the prefilter),
 * TIDEPOOL_RESOURCE_EXHAUSTED, TIDEPOOL_ABORTED, TIDEPOOL_UNAVAILABLE,
 * TIDEPOOL_DEADLINE_EXCEEDED. */
TIDEPOOL_C_API tidepool_code tidepool_namespace_with_prefilter(const tidepool_namespace* space,
                                                               uint64_t age_max_ms,
                                                               uint64_t timeout_ms,
                                                               tidepool_namespace** with);
/* Downloads the copy again. After a failure the present copy goes on. */
TIDEPOOL_C_API tidepool_code tidepool_namespace_refresh_prefilter(const tidepool_namespace* space);
typedef struct tidepool_prefilter_stats {
  uint64_t bytes;    /* Size of the copy; all fields are 0 without a copy. */
  uint64_t answered; /* Keys that were found absent here. */
  uint64_t downloads;
  uint64_t age_ms;
} tidepool_prefilter_stats;
TIDEPOOL_C_API tidepool_code tidepool_namespace_prefilter_stats(const tidepool_namespace* space,
                                                                tidepool_prefilter_stats* stats);
/* Makes a handle of the same namespace for a round of work with these promises. `cache_bytes_max`:
 * memory for values read under TIDEPOOL_PROMISE_READ_ONLY; 0: 64 MiB. */
TIDEPOOL_C_API tidepool_code tidepool_namespace_with_promises(const tidepool_namespace* space,
                                                              uint32_t promises,
                                                              uint64_t cache_bytes_max,
                                                              tidepool_namespace** with);
/* Ends the round: forgets all reads under promises. The promises hold again from now on. */
TIDEPOOL_C_API tidepool_code tidepool_namespace_end_round(const tidepool_namespace* space);

/* Drops a namespace with its records. Returns: TIDEPOOL_NOT_FOUND, TIDEPOOL_FAILED_PRECONDITION
 * ('default' always exists), TIDEPOOL_UNAVAILABLE, TIDEPOOL_DEADLINE_EXCEEDED. */
TIDEPOOL_C_API tidepool_code tidepool_client_drop(tidepool_client* client, const char* name);
/* Returns when all changes of a durable namespace that were answered before are on its devices.
 * Returns: TIDEPOOL_NOT_FOUND, TIDEPOOL_FAILED_PRECONDITION (volatile), TIDEPOOL_UNAVAILABLE,
 * TIDEPOOL_DEVICE_ERROR, TIDEPOOL_DEADLINE_EXCEEDED. */
TIDEPOOL_C_API tidepool_code tidepool_client_persist(tidepool_client* client, const char* name);
/* Moves a namespace of kind queue, priority or bloom to a node: its number as text, or "local".
 * Operations wait while it is copied, at most `hold_ms`; 0: 10 s, and 1 s for each 50 MB.
 * Returns as Client::Migrate of <tidepool/client.h>. */
TIDEPOOL_C_API tidepool_code tidepool_client_migrate(tidepool_client* client, const char* name,
                                                     const char* node, uint64_t hold_ms);

/* All namespaces of the cluster, by name. */
typedef struct tidepool_namespace_list tidepool_namespace_list;
/* Texts and split keys are valid until tidepool_namespace_list_free. */
typedef struct tidepool_namespace_info {
  const char* name;
  tidepool_namespace_kind kind;
  uint32_t id;                        /* Never reused. */
  uint32_t partitions_down;           /* Their node is down. */
  uint32_t partitions_lost;           /* They wait for kvctl namespace accept-loss. */
  tidepool_namespace_options options; /* partitions and split_keys are as they are now. */
} tidepool_namespace_info;
TIDEPOOL_C_API tidepool_code tidepool_client_list(tidepool_client* client,
                                                  tidepool_namespace_list** list);
TIDEPOOL_C_API size_t tidepool_namespace_list_size(const tidepool_namespace_list* list);
TIDEPOOL_C_API tidepool_code tidepool_namespace_list_get(const tidepool_namespace_list* list,
                                                         size_t index,
                                                         tidepool_namespace_info* info);
TIDEPOOL_C_API void tidepool_namespace_list_free(tidepool_namespace_list* list);

/* ------------------------------------------------------------------------------------------ Files
 */

/* Files of a hash namespace: staged files, and records that programs have put. */
typedef struct tidepool_files tidepool_files;
typedef struct tidepool_file {
  tidepool_bytes path; /* Any bytes but NUL. Ends with a NUL that is not counted. */
  uint64_t bytes;      /* Size of the file. */
} tidepool_file;
/* Lists the files in no particular order. Holds the whole list in memory. Returns:
 * TIDEPOOL_FAILED_PRECONDITION (another kind), TIDEPOOL_DATA_LOSS (records cannot be read). */
TIDEPOOL_C_API tidepool_code tidepool_client_list_files(tidepool_client* client,
                                                        const tidepool_namespace* space,
                                                        tidepool_files** files);
TIDEPOOL_C_API size_t tidepool_files_size(const tidepool_files* files);
/* `file->path` is valid until tidepool_files_free. */
TIDEPOOL_C_API tidepool_code tidepool_files_get(const tidepool_files* files, size_t index,
                                                tidepool_file* file);
TIDEPOOL_C_API void tidepool_files_free(tidepool_files* files);
/* Reads a file that was staged in, by its path in the staged directory. Holds the whole file in
 * memory. Returns: TIDEPOOL_NOT_FOUND, TIDEPOOL_INVALID_ARGUMENT (a directory or a symbolic link),
 * TIDEPOOL_FAILED_PRECONDITION (the stage-in is not complete), TIDEPOOL_ABORTED (replaced while it
 * was read), TIDEPOOL_DATA_LOSS, TIDEPOOL_RESOURCE_EXHAUSTED. */
TIDEPOOL_C_API tidepool_code tidepool_client_read_file(tidepool_client* client,
                                                       const tidepool_namespace* space,
                                                       const void* path, size_t path_bytes,
                                                       tidepool_value** content);

#ifdef __cplusplus
}
#endif
