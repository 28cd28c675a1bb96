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

// How operations reach a daemon. Client::Ping tells how they do.
enum class Transport : std::uint8_t {
  kAuto,  // A daemon of this machine by shared memory, where its socket can be reached; others by
          // UCX.
  kUcx,   // All by UCX.
  kRing,  // By shared memory only: daemons of other machines are kUnavailable.
};

struct ConnectOptions {
  // What the client does
  // ----------------------------------------------------------------------------

  // The cluster's connection file. Empty: TIDEPOOL_CLUSTER, else the job's file inside a Slurm job,
  // else ./tidepool-cluster.json, else the user's own default service.
  std::string cluster_file;
  // Of calls that say nothing else.
  std::chrono::milliseconds call_timeout{10'000};
  // For people, in the daemons' logs and status. Empty: program, host and process id.
  std::string client_name;

  // This client's operations are not among users' operations in status and metrics: for tools that
  // look after a cluster.
  bool uncounted = false;
  // Agrees that the job token is sent to other machines over connections without TLS, as --insecure
  // does for daemons and kvctl: for trusted networks only. TIDEPOOL_INSECURE=1 says the same.
  // Without it Connect to a cluster that serves without TLS beyond loopback ends with
  // kFailedPrecondition. Where daemons ask for a certificate it is that of TIDEPOOL_TLS_CERT and
  // TIDEPOOL_TLS_KEY, files of PEM.
  bool insecure = false;
  // Of Connect itself.
  std::chrono::milliseconds connect_timeout{10'000};

  // How fast it does it
  // ------------------------------------------------------------------------------

  // Network devices for data, as UCX names them ("eth0", "mlx5_0:1"), comma separated. Empty: the
  // one that leads to the cluster.
  std::string devices;
  WaitMode wait = WaitMode::kAuto;
  Transport transport = Transport::kAuto;
  // What this program maps of the memory of daemons on its machine, so that it can read records
  // there by itself (hash and bloom namespaces that are not sync): at most so much of each, in
  // pieces of up to 256 MiB. It takes no memory but page tables, 2 MiB per GiB. 0: none, all reads
  // are answered by the daemons.
  std::uint64_t direct_read_bytes_max = ~std::uint64_t{0};
  // Reads by RDMA the same namespaces of other nodes whose daemons show their memory (kvd --rdma)
  // and that this machine has a device for, without their processors. Takes a connection and 2 MiB
  // per daemon that is read so.
  bool remote_reads = true;
  // Starts one thread that makes progress when nobody waits: asynchronous operations then move on,
  // and Future::Then runs, while the program computes. Costs a thread that sleeps most of the time.
  bool background_progress = false;
};

struct NodeInfo {
  std::uint32_t id = 0;
  std::string host;
  bool local = false;           // On this program's machine.
  std::string control_address;  // host:port of its gRPC services.
  std::string state;            // "up", "down" or "left".
  std::uint32_t cores = 0;
  bool attached = false;  // This client has a session with it.
  std::string data_path;  // For example "ring" or "ucx tcp/lo"; empty if not attached.
};

struct ClientDescription {
  std::string cluster_uuid;
  std::string cluster_file;
  std::uint64_t epoch = 0;  // Of the placement map that this client has.
  std::vector<NodeInfo> nodes;
};

struct PingResult {
  std::uint32_t node = 0;
  std::string host;
  std::string data_path;
  Status status;
  std::chrono::nanoseconds round_trip{0};  // Over the data path, to one core and back.
};

// Since Connect.
struct ClientStats {
  std::uint64_t operations = 0;       // Begun.
  std::uint64_t operations_done = 0;  // Answered.
  std::uint64_t operations_unknown = 0;
  std::uint64_t direct_reads = 0;  // Not among the operations here; daemons count them with theirs.
  std::uint64_t remote_reads = 0;  // Of these, by RDMA from another node.
  std::uint64_t operations_requeued = 0;  // Refused by an old owner, or read again after a restart.
  std::uint64_t frames_sent = 0;
  std::uint64_t frames_received = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t frames_resent = 0;
  std::uint64_t attaches = 0;
  std::uint64_t map_refreshes = 0;
  std::uint64_t sleeps = 0;  // A thread that waited for the network gave its CPU away.
};

// A client of one cluster. Connects to a node's cores when the first operation needs them.
//
// Threads: any number may use one client at the same time; they share its connections. One client
// per process is the rule. Handles made by a client (maps, futures) keep it connected: it goes when
// the last of them goes. After fork() the child's calls end with kFailedPrecondition: connect again
// there.
//
// The library starts no threads of its own for data (but see background_progress; gRPC and UCX have
// theirs), installs no signal handlers, does not touch the environment and writes nothing to
// standard output. UCX installs handlers for SEGV, BUS, ILL, FPE and HUP when it is loaded; the
// library puts back what was there, before main(). UCX_HANDLE_ERRORS or UCX_DEBUG_SIGNO in the
// environment of the program keeps UCX's handlers. Lines of UCX go to standard error; UCX_LOG_FILE
// in the environment names another place.
class TIDEPOOL_API Client {
 public:
  // Errors: kNotFound (no connection file; the text says where it was looked for), kUnavailable (no
  // node can be reached, or no such network device), kUnauthenticated (the job token is not the
  // cluster's), kInvalidArgument (the file is damaged), kPermissionDenied (the file cannot be
  // read), kFailedPrecondition (a node beyond loopback without TLS, and not
  // ConnectOptions::insecure; no certificate where one is asked for; a version of UCX with which
  // the library was not proved),
  // kDeadlineExceeded.
  static Result<Client> Connect(const ConnectOptions& options = {});

  Client(Client&&) noexcept = default;
  Client& operator=(Client&&) noexcept = default;
  // As Close(), once no handle of this client is left.
  ~Client() = default;

  // Opens a namespace as a T (BytesMap, or a typed container), creating it if it does not exist. A
  // typed container stores the names of its types with a namespace that it creates, and is refused
  // by one that was created with others.
  // Errors: kInvalidArgument (name or options), kAlreadyExists (it exists with other options; the
  // text names the difference), kFailedPrecondition (it is of another kind, or of other types; the
  // text names both; or the home is local and no node is up on this machine), kUnimplemented (a
  // kind or option that this version does not have), kResourceExhausted (a filter does not fit its
  // nodes, or all namespace ids are given), kUnavailable, kDeadlineExceeded.
  template <typename T>
  Result<T> OpenOrCreate(std::string_view name, const NamespaceOptions& options = {}) {
    return As<T>(OpenOrCreateNamespace(name, T::kKind, Typed<T>(options)));
  }
  // Errors: as OpenOrCreate, and kAlreadyExists also if it exists with equal options.
  template <typename T>
  Result<T> Create(std::string_view name, const NamespaceOptions& options = {}) {
    return As<T>(CreateNamespace(name, T::kKind, Typed<T>(options)));
  }
  // Errors: kNotFound, kFailedPrecondition (it is of another kind, or of other types),
  // kUnavailable, kDeadlineExceeded.
  template <typename T>
  Result<T> Open(std::string_view name) {
    return As<T>(OpenNamespace(name, T::kKind, Typed<T>({})));
  }

  Result<Namespace> OpenOrCreateNamespace(std::string_view name, NamespaceKind kind,
                                          const NamespaceOptions& options = {});
  Result<Namespace> CreateNamespace(std::string_view name, NamespaceKind kind,
                                    const NamespaceOptions& options = {});
  // Of `types` only key_type and value_type count.
  Result<Namespace> OpenNamespace(std::string_view name, NamespaceKind kind,
                                  const NamespaceOptions& types = {});

  // The namespace and its records are gone; one created later under this name has nothing of it.
  // Returns: kOk, kNotFound, kFailedPrecondition ('default' always exists), kUnavailable,
  // kDeadlineExceeded.
  Status Drop(std::string_view name);
  // What was answered of a durable namespace before this call, to anybody, outlives a crash of any
  // of its daemons when it returns. Flush buffered handles first: what they hold was not answered.
  // Returns: kOk, kNotFound, kFailedPrecondition (it is volatile), kUnavailable (an owner is down),
  // kDeviceError (a device has failed: nothing becomes durable on that node any more),
  // kDeadlineExceeded (it may become durable all the same).
  Status Persist(std::string_view name);
  // Moves a namespace of kind queue, priority or bloom to a node, while others go on using it: no
  // item is lost, doubled or overtaken, and leases stay. Operations on a partition wait while it is
  // copied, at most for `hold`, else the move is given up; 0: 10 s, and 1 s for each 50 MB. OK at
  // once if it is there.
  //
  // Returns: kOk; kNotFound; kUnimplemented (of another kind); kInvalidArgument (no such node, or
  // Home()); kFailedPrecondition (Home::Local(), and no node is up on this machine); kUnavailable
  // (the node or an owner is down, or cannot be reached); kResourceExhausted (no memory there);
  // kAborted (somebody else moves it, or it was dropped or granted anew meanwhile); kCancelled (a
  // daemon of the move is stopping); kDataLoss (a piece arrived damaged); kDeadlineExceeded (`hold`
  // was too short); kUnknown (the owner says nothing any more: kvctl namespace describe tells where
  // it is). After another end than kOk and kUnknown it is served where it was, and of several
  // partitions some may have moved; if this process or its connection ends, what was under way
  // still ends by itself.
  Status Migrate(std::string_view name, const Home& to, std::chrono::milliseconds hold = {});
  // All namespaces, by name. Errors: kUnavailable, kDeadlineExceeded.
  Result<std::vector<NamespaceInfo>> List();

  // Lists the files of a hash namespace: staged files by their paths, a file in parts with its
  // whole size, and every record that a program has put. Leaves out directories, symbolic links and
  // the records that staging keeps for itself, which an iteration shows. The order means nothing. A
  // file that exists from the beginning of the call to its end is listed once. Holds the whole list
  // in memory. Errors: kNotFound (the namespace does not exist), kDataLoss (records cannot be
  // read), and the errors of BytesMap::Iterate.
  Result<std::vector<ListedFile>> ListFiles(const Namespace& space);
  // The same; opens the namespace each time, which asks a daemon.
  Result<std::vector<ListedFile>> ListFiles(std::string_view space);
  // The content of a file that was staged in, by its path in the directory, whether it is stored as
  // one record or, above 64 MiB, in parts, whose hashes are checked. Holds the whole file in
  // memory, and up to 128 MiB beside it; each part has the deadline of a call. A record that was
  // put under the path by key counts as the file. Returns: the bytes; kNotFound (no such namespace
  // or file), kInvalidArgument (a directory or a symbolic link; the text names its target),
  // kFailedPrecondition (no such file, and the last stage-in is under way or has failed: it may
  // still come), kAborted (it was replaced again and again while it was read), kDataLoss (a part is
  // missing, or is not what was staged), kResourceExhausted (no memory for it), and how every
  // BytesMap operation may end.
  Result<std::string> ReadFile(const Namespace& space, std::string_view path);
  // The same; opens the namespace each time, which asks a daemon.
  Result<std::string> ReadFile(std::string_view space, std::string_view path);

  // What this client knows; asks nobody.
  ClientDescription Describe() const;
  // Attaches to each node that is up and measures the data path. One entry per node.
  std::vector<PingResult> Ping();
  ClientStats Stats() const;

  // Waits until everything has ended that any thread of this client has started before, pushes that
  // wait for room included; waits for keys, for items and for the members of a group aside. How the
  // operations ended is for their futures to say. What aggregates operations (Buffered handles)
  // must be flushed before. Returns: kOk, kDeadlineExceeded, and as every call kFailedPrecondition
  // (a fork) and kCancelled (closed). `timeout` 0: ConnectOptions::call_timeout.
  Status WaitForAll(std::chrono::milliseconds timeout = {});

  // Ends this client: operations under way end with kCancelled, or kUnknown if they may have an
  // effect; the daemons forget it. Later calls end with kCancelled.
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
