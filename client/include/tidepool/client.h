// The connection of a program to a cluster.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tidepool/export.h"
#include "tidepool/namespace.h"
#include "tidepool/status.h"

namespace tidepool {

namespace internal {
class Engine;
}  // namespace internal

// A file of a hash namespace; see Client::ListFiles.
struct ListedFile {
  std::string path;  // Any bytes.
  std::uint64_t bytes = 0;

  friend bool operator==(const ListedFile&, const ListedFile&) = default;
};

// How a thread that waits for an answer spends its time.
enum class WaitMode : std::uint8_t {
  kAuto,   // Spins up to 50 us while that pays, then sleeps. Good everywhere.
  kPoll,   // Spins. Only with a CPU for each waiting thread.
  kBlock,  // Sleeps at once.
};

// How operations reach a daemon. Client::Ping reports the path to each node.
enum class Transport : std::uint8_t {
  kAuto,  // Shared memory to a daemon of this machine whose socket is reachable; UCX otherwise.
  kUcx,   // UCX only.
  kRing,  // Shared memory only: daemons of other machines are kUnavailable.
};

struct ConnectOptions {
  // Behaviour
  // ----------------------------------------------------------------------------

  // The cluster's connection file. Empty: TIDEPOOL_CLUSTER, then the job's file inside a Slurm job,
  // then ./tidepool-cluster.json, then the user's own default service.
  std::string cluster_file;
  // Deadline of calls whose options set no timeout.
  std::chrono::milliseconds call_timeout{10'000};
  // A name for people, in the daemons' logs and status. Empty: program, host and process id.
  std::string client_name;

  // Keeps this client's operations out of the counts of users' operations in status and metrics.
  // For tools that look after a cluster.
  bool uncounted = false;
  // Allows the job token to travel to other machines without TLS, as --insecure does for daemons
  // and kvctl. For trusted networks only. TIDEPOOL_INSECURE=1 has the same effect. Without it,
  // Connect fails with kFailedPrecondition if the cluster serves beyond loopback without TLS. Where
  // daemons ask for a client certificate, TIDEPOOL_TLS_CERT and TIDEPOOL_TLS_KEY name its PEM
  // files.
  bool insecure = false;
  // Deadline of Connect.
  std::chrono::milliseconds connect_timeout{10'000};

  // Speed
  // ------------------------------------------------------------------------------

  // Network devices for data by UCX's names ("eth0", "mlx5_0:1"), comma separated. Empty: the
  // device that leads to the cluster.
  std::string devices;
  WaitMode wait = WaitMode::kAuto;
  Transport transport = Transport::kAuto;
  // Bytes of each local daemon's memory that this program may map, in pieces of up to 256 MiB. The
  // program then reads records of hash and bloom namespaces there itself, unless they are sync. The
  // mapping costs page tables only, 2 MiB per GiB. 0: the daemons answer all reads.
  std::uint64_t direct_read_bytes_max = ~std::uint64_t{0};
  // Reads the same namespaces of other nodes by RDMA, without using their processors. Needs daemons
  // started with kvd --rdma and an RDMA device on this machine. Costs a connection and 2 MiB for
  // each daemon read this way.
  bool remote_reads = true;
  // Starts one thread that makes progress while no other thread waits. Asynchronous operations then
  // move on, and Future::Then runs, while the program computes. The thread sleeps most of the time.
  bool background_progress = false;
};

struct NodeInfo {
  std::uint32_t id = 0;
  std::string host;
  bool local = false;           // On this program's machine.
  std::string control_address;  // host:port of its gRPC services.
  std::string state;            // "up", "down" or "left".
  std::uint32_t cores = 0;
  bool attached = false;  // True if this client has a session with the node.
  std::string data_path;  // For example "ring" or "ucx tcp/lo"; empty if not attached.
};

struct ClientDescription {
  std::string cluster_uuid;
  std::string cluster_file;
  std::uint64_t epoch = 0;  // Version of this client's placement map.
  std::vector<NodeInfo> nodes;
};

struct PingResult {
  std::uint32_t node = 0;
  std::string host;
  std::string data_path;
  Status status;
  std::chrono::nanoseconds round_trip{0};  // Over the data path, to one core and back.
};

// Counts since Connect.
struct ClientStats {
  std::uint64_t operations = 0;       // Begun.
  std::uint64_t operations_done = 0;  // Answered.
  std::uint64_t operations_unknown = 0;
  std::uint64_t direct_reads =
      0;  // Reads of mapped memory, not part of `operations`. Daemons count them as operations.
  std::uint64_t remote_reads = 0;         // The part of direct_reads by RDMA from another node.
  std::uint64_t operations_requeued = 0;  // Refused by an old owner, or read again after a restart.
  std::uint64_t frames_sent = 0;
  std::uint64_t frames_received = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t frames_resent = 0;
  std::uint64_t attaches = 0;
  std::uint64_t map_refreshes = 0;
  std::uint64_t sleeps = 0;  // A thread waiting for the network gave its CPU away.
};

// A client of one cluster. Connects to a node's cores when the first operation needs them.
//
// Threads: any number of threads may use one client at the same time; they share its connections.
// Use one client per process.
//
// Lifetime: handles made by a client (maps, futures) keep it connected until the last handle is
// destroyed.
//
// Fork: after fork() the child's calls and its Connect end with kFailedPrecondition, because the
// network libraries do not survive a fork. Fork before Connect, or start the child as a program
// (exec).
//
// Side effects: the library starts no thread of its own for data, except by background_progress;
// gRPC and UCX have threads. It installs no signal handler, leaves the environment alone and writes
// nothing to standard output. UCX installs handlers for SEGV, BUS, ILL, FPE and HUP when it is
// loaded; before main() the library restores the handlers of the program. UCX_HANDLE_ERRORS or
// UCX_DEBUG_SIGNO in the program's environment keeps UCX's handlers. UCX writes its messages to
// standard error, or to the file that UCX_LOG_FILE names.
class TIDEPOOL_API Client {
 public:
  // Connects to the cluster of `options.cluster_file`.
  // Errors:
  //   kNotFound            no connection file; the text lists the places searched
  //   kInvalidArgument     the connection file is damaged
  //   kPermissionDenied    the connection file cannot be read
  //   kUnavailable         no node can be reached, or the network device does not exist
  //   kUnauthenticated     the cluster has another job token
  //   kFailedPrecondition  a node serves beyond loopback without TLS and `insecure` is not set; the
  //                        daemons ask for a certificate and there is none; the library was not
  //                        proved with this version of UCX; or this process was forked by a process
  //                        with a client
  //   kDeadlineExceeded
  static Result<Client> Connect(const ConnectOptions& options = {});

  Client(Client&&) noexcept = default;
  Client& operator=(Client&&) noexcept = default;
  // Closes the client as Close() does, once no handle of it is left.
  ~Client() = default;

  // Opens a namespace as a T (BytesMap or a typed container) and creates it if it does not exist. A
  // typed container stores the names of its types with the namespace it creates. It cannot open a
  // namespace that was created with other types.
  // Errors:
  //   kInvalidArgument     wrong name or options
  //   kAlreadyExists       the namespace has other options; the text names the difference
  //   kFailedPrecondition  the namespace has another kind or other types (the text names both), or
  //                        its home is local and no node is up on this machine
  //   kUnimplemented       this version lacks the kind or an option
  //   kResourceExhausted   a filter does not fit its nodes, or all namespace ids are used
  //   kUnavailable, kDeadlineExceeded
  template <typename T>
  Result<T> OpenOrCreate(std::string_view name, const NamespaceOptions& options = {}) {
    return As<T>(OpenOrCreateNamespace(name, T::kKind, Typed<T>(options)));
  }
  // Creates a namespace. Errors: as OpenOrCreate; kAlreadyExists even if the options are equal.
  template <typename T>
  Result<T> Create(std::string_view name, const NamespaceOptions& options = {}) {
    return As<T>(CreateNamespace(name, T::kKind, Typed<T>(options)));
  }
  // Opens an existing namespace. Errors: kNotFound, kFailedPrecondition (another kind or other
  // types), kUnavailable, kDeadlineExceeded.
  template <typename T>
  Result<T> Open(std::string_view name) {
    return As<T>(OpenNamespace(name, T::kKind, Typed<T>({})));
  }

  Result<Namespace> OpenOrCreateNamespace(std::string_view name, NamespaceKind kind,
                                          const NamespaceOptions& options = {});
  Result<Namespace> CreateNamespace(std::string_view name, NamespaceKind kind,
                                    const NamespaceOptions& options = {});
  // Only key_type and value_type of `types` are used.
  Result<Namespace> OpenNamespace(std::string_view name, NamespaceKind kind,
                                  const NamespaceOptions& types = {});

  // Deletes a namespace and its records. A namespace created later under this name starts empty.
  // Returns: kOk, kNotFound, kFailedPrecondition ('default' always exists), kUnavailable,
  // kDeadlineExceeded.
  Status Drop(std::string_view name);
  // Makes a durable namespace durable up to now: after kOk, every change acknowledged to any client
  // before this call survives a crash of its daemons. Flush buffered handles first, because their
  // operations are not acknowledged yet.
  // Returns: kOk, kNotFound, kFailedPrecondition (the namespace is volatile), kUnavailable (an
  // owner is down), kDeviceError (a device failed: nothing more becomes durable on that node),
  // kDeadlineExceeded (the changes may still become durable).
  Status Persist(std::string_view name);
  // Moves a namespace of kind queue, priority or bloom to a node while programs use it. No item is
  // lost, duplicated or reordered, and leases stay. Operations on a partition wait while it is
  // copied. The move is given up if the copy takes longer than `hold`; 0 selects 10 s plus 1 s for
  // each 50 MB. Returns kOk at once if the namespace is there already.
  //
  // Returns:
  //   kOk
  //   kNotFound            no such namespace
  //   kUnimplemented       another kind
  //   kInvalidArgument     no such node, or Home()
  //   kFailedPrecondition  Home::Local(), and no node is up on this machine
  //   kUnavailable         the node or an owner is down or cannot be reached
  //   kResourceExhausted   no memory on the node
  //   kAborted             another move is under way, or the namespace was dropped or granted anew
  //   kCancelled           a daemon of the move is stopping
  //   kDataLoss            a piece arrived damaged
  //   kDeadlineExceeded    the copy took longer than `hold`
  //   kUnknown             the owner stopped answering; kvctl namespace describe shows where it is
  // After a failure other than kUnknown, the old node still serves the namespace; of several
  // partitions, some may have moved. The move completes or ends by itself if this process ends.
  Status Migrate(std::string_view name, const Home& to, std::chrono::milliseconds hold = {});
  // Lists all namespaces, sorted by name. Errors: kUnavailable, kDeadlineExceeded.
  Result<std::vector<NamespaceInfo>> List();

  // Lists the files of a hash namespace: staged files by path, with the total size of files stored
  // in parts, and every record that a program has put. Omits directories, symbolic links and the
  // records that staging needs for itself; Iterate shows them. The order has no meaning. A file
  // that exists during the whole call is listed once. Holds the whole list in memory.
  // Errors: kNotFound (no such namespace), kDataLoss (unreadable records), and the errors of
  // BytesMap::Iterate.
  Result<std::vector<ListedFile>> ListFiles(const Namespace& space);
  // Opens the namespace each time, which costs a message to a daemon.
  Result<std::vector<ListedFile>> ListFiles(std::string_view space);
  // Returns the content of a staged-in file by its path in the directory. Files above 64 MiB are
  // stored in parts; their hashes are checked. A record put under the path counts as the file.
  // Holds the whole file in memory, plus up to 128 MiB. Each part has the deadline of a call.
  // Errors, besides the errors of every BytesMap operation:
  //   kNotFound            no such namespace or file
  //   kInvalidArgument     a directory or a symbolic link; the text names its target
  //   kFailedPrecondition  no such file yet: the last stage-in is under way or has failed
  //   kAborted             the file was replaced again and again during the read
  //   kDataLoss            a part is missing or differs from the staged data
  //   kResourceExhausted   no memory for the file
  Result<std::string> ReadFile(const Namespace& space, std::string_view path);
  // Opens the namespace each time, which costs a message to a daemon.
  Result<std::string> ReadFile(std::string_view space, std::string_view path);

  // Returns the client's present knowledge without a message.
  ClientDescription Describe() const;
  // Attaches to each node that is up and measures the data path. Returns one entry per node.
  std::vector<PingResult> Ping();
  ClientStats Stats() const;

  // Waits until all operations that any thread of this client started earlier have ended, including
  // pushes that wait for room. Does not wait for WaitForKey, WaitForChange, pops or group calls.
  // The futures hold the outcomes. Flush buffered handles first.
  // Returns: kOk, kDeadlineExceeded, kFailedPrecondition (after a fork), kCancelled (closed).
  // `timeout` 0: ConnectOptions::call_timeout.
  Status WaitForAll(std::chrono::milliseconds timeout = {});

  // Ends this client. Operations under way end with kCancelled, or with kUnknown if they may have
  // an effect. The daemons end its sessions. Later calls end with kCancelled.
  void Close();

 private:
  explicit Client(std::shared_ptr<internal::Engine> engine) : engine_(std::move(engine)) {}

  template <typename T>
  static NamespaceOptions Typed(NamespaceOptions options) {
    if constexpr (requires { T::KeyType(); }) options.key_type = T::KeyType();
    if constexpr (requires { T::ValueType(); }) options.value_type = T::ValueType();
    return options;
  }

  template <typename T>
  static Result<T> As(Result<Namespace> space) {
    if (!space.ok()) return space.status();
    return T(*std::move(space));
  }

  std::shared_ptr<internal::Engine> engine_;
};

}  // namespace tidepool
