// All cores of this node, for the control plane: gRPC threads and membership call cores only
// through this class.
//
//   daemon/services, daemon/membership -> [core_group] -> mailbox -> daemon/core/core
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/call_bounds.h"
#include "daemon/core/lease.h"
#include "proto/base/clock.h"
#include "proto/base/ids.h"
#include "proto/base/latency_buckets.h"
#include "proto/base/result.h"
#include "proto/placement/placement_map.h"
#include "proto/transport/remote_memory.h"
#include "proto/transport/transport.h"
#include "proto/wire/aggregator.h"
#include "proto/wire/answer.h"
#include "proto/wire/group.h"
#include "proto/wire/opcode.h"
#include "proto/wire/receipt.h"
#include "storage/spill/spill_counters.h"

namespace tidepool::storage {
class Volume;
}

namespace tidepool::daemon {

class Core;
class CopyAlarms;
class Functions;
struct SessionGrant;

// How a core waits for work.
enum class WaitPolicy : std::uint8_t { kAuto, kPoll, kBlock };

struct CoreGroupOptions {
  std::uint32_t cores = 1;
  std::uint64_t memory_bytes = 1ull << 30;  // All cores together.
  WaitPolicy wait_policy = WaitPolicy::kAuto;
  std::shared_ptr<const Functions> functions;  // Null: the built-in functions.
  wire::Aggregator* aggregator = nullptr;      // Must outlive the group. Null: none.
  storage::Volume* volume = nullptr;  // Must outlive the group. Null: all data stays in memory.
  // Where clients of other nodes may read records by RDMA: a numeric address of this node, and
  // UCX's names of the transports. Either empty: no such reads. A warning says why if it is
  // impossible.
  std::string memory_address;
  std::string memory_transports;
  std::uint64_t slow_ns = 0;  // Slower frames go to the slow log; 0: none.
  std::vector<int> cpus;      // CPUs for the cores' threads, in turn; empty: not pinned.
};

struct AttachRequest {
  std::string worker_address;  // Worker address of the client.
  SessionId
      session;  // 0: a new session. The service has checked that the incarnation is this node's.
  std::string client_name;
  bool uncounted = false;  // The client is a tool.
};
struct AttachResult {
  SessionId session;
  bool resumed = false;
  std::uint32_t connection = 0;
  std::uint32_t credit_operations = 0;
  std::uint32_t credit_bytes = 0;
  std::vector<std::string> worker_addresses;  // Index = CoreId.
};

// Counts of a namespace on one core since start; see SpaceCounters.
struct SpaceStats {
  NamespaceId space;
  std::vector<std::pair<wire::Opcode, std::uint64_t>> operations;  // Opcodes with a count.
  std::uint64_t reads = 0;  // Operations that return records' content,
  std::uint64_t device_reads = 0;
  std::uint64_t direct_reads = 0;
  std::uint64_t changes = 0;
  LatencyBuckets frames;
  LatencyBuckets waits;
};

// A snapshot. Counters are since start unless stated otherwise.
struct CoreStats {
  bool answered = false;  // False: the core is stuck, and the other fields are unset.
  std::uint64_t sessions = 0;
  std::uint64_t partitions = 0;
  std::uint64_t operations = 0;    // Users' operations executed by the core.
  std::uint64_t direct_reads = 0;  // In addition: reads by clients in the core's memory.
  std::uint64_t frames = 0;
  std::uint64_t loops = 0;
  std::uint64_t sleeps = 0;
  std::uint64_t p50_ns = 0;  // Frame received to answer posted, since the last reset.
  std::uint64_t p99_ns = 0;
  std::uint64_t records = 0;
  std::uint64_t ring_bytes = 0;  // Shared memory of same-node connections, and its maximum.
  std::uint64_t ring_bytes_max = 0;
  std::uint64_t used_bytes = 0;
  std::uint64_t live_bytes = 0;
  std::uint64_t index_bytes = 0;
  std::uint64_t limit_bytes = 0;  // All cores together.
  std::uint64_t spilled_live_bytes = 0;
  storage::SpillCounters spill;
  std::uint64_t durable_written_bytes =
      0;  // Written to devices: segments and commits of durable partitions.
  std::uint64_t durable_bytes = 0;       // Changes of durable partitions, each counted once.
  std::uint64_t refused_for_memory = 0;  // Refused changes.
  std::uint64_t expired_records = 0;
  std::uint64_t compacted_segments = 0;
  std::uint64_t malformed_frames = 0;
  std::uint64_t slow_frames = 0;
  // Present values.
  std::uint64_t credit_operations = 0;  // Granted to sessions,
  std::uint64_t credit_bytes = 0;
  std::uint64_t credit_operations_held = 0;  // and the part that waiting operations hold.
  std::uint64_t reply_cache_bytes = 0;
  std::uint64_t map_waiters = 0;  // See Dispatcher.
  std::uint64_t io_waiters = 0;
  std::uint64_t event_waiters = 0;
  std::uint64_t replies_awaiting_commit = 0;
  std::vector<SpaceStats> spaces;
};
struct PartitionStats {
  PartitionId id;
  std::uint64_t records = 0;
  std::uint64_t live_bytes = 0;  // Bytes of keys and values.
  std::uint64_t changes = 0;     // Differs whenever the partition has changed.
  std::uint64_t operations = 0;  // Operations by frame since the partition was opened here.
};

// The outcome of one operation for a gRPC service; owns its value.
struct OperationOutcome {
  StatusCode code = StatusCode::kUnavailable;
  wire::ValueKind value_kind = wire::ValueKind::kBytes;
  Lsn version;
  bool has_number = false;
  std::uint64_t number = 0;  // As wire::Answer::number.
  std::string value;         // The value; for failures a text; for Iterate a record list.
  // The value exceeds the caller's limit: only its size is in `number`.
  bool value_omitted = false;
  wire::Receipt receipt;  // Set for a successful change.
};

// Thread-safe, except Start and destruction. Blocking calls take a deadline; any thread but a
// core's may make them.
class CoreGroup {
 public:
  // Starts the cores' threads. `lease` and `context` must outlive the group.
  // Errors: kResourceExhausted (memory), kUnavailable (network).
  static Result<std::unique_ptr<CoreGroup>> Start(const CoreGroupOptions& options,
                                                  const Lease* lease, transport::Context* context);
  // Answers operations in flight, at most for a second, and joins the threads.
  ~CoreGroup();
  CoreGroup(const CoreGroup&) = delete;
  CoreGroup& operator=(const CoreGroup&) = delete;

  std::uint32_t size() const { return static_cast<std::uint32_t>(cores_.size()); }

  // Returns MemoryExporter::address; empty: clients of other nodes cannot read by RDMA.
  std::string memory_address() const;
  transport::MemoryExporter::Usage memory_usage() const;

  // Lets each core take the partitions that `map` gives to {self, core}: new partitions open empty,
  // known partitions continue under their new term, others are closed and freed. Returns when all
  // cores are done, or kDeadlineExceeded (the cores still finish). `may_grant_durable`: as
  // Ownership::Install.
  Status InstallMap(placement::PlacementMapPtr map, NodeId self, Deadline deadline,
                    bool may_grant_durable = true);

  // Opens or resumes a session. Errors: kOverloaded (no room for another session), kInvalidArgument
  // (address), kDeadlineExceeded, kUnavailable.
  Result<AttachResult> Attach(const AttachRequest& request, Deadline deadline);

  // Applies operations of one partition of `core` in order, in slices between which the core serves
  // other clients. Keys and values of `operations` must stay valid until the return. Omits values
  // above `value_bytes_max`, and values that exceed `answer_bytes_max` together. An operation that
  // would remove such a value leaves it and fails with kOutOfRange. `is_users`: counts as a user's
  // operation.
  // Errors: kWrongEpoch (this node does not own the partition under this term), kDataLoss,
  // kUnavailable (no lease), kDeadlineExceeded (not applied), kUnknown (applied or not). After the
  // first slice they are the outcomes of the remaining operations.
  Result<std::vector<OperationOutcome>> Execute(CoreId core, PartitionId partition, Term term,
                                                const std::vector<wire::Operation>& operations,
                                                std::size_t value_bytes_max, Deadline deadline,
                                                std::size_t answer_bytes_max = kCallAnswerBytesMax,
                                                bool is_users = true);

  // Runs `task` on `core` and waits for it. `task` must not block. It must own what it touches,
  // because it may still run after kDeadlineExceeded. A task that meets records on a device, or
  // lacks memory that is on its way, runs again from its beginning later. Until then it must not
  // change anything, or must remember its progress. A task that called Dispatcher::NoteTaskWait
  // ends when the noted changes are durable; kUnknown if they never will be.
  Status Run(CoreId core, std::function<void(Core&)> task, Deadline deadline);

  // Runs `task` on `core` without waiting. Returns false if the core takes no more tasks.
  bool Post(CoreId core, std::function<void(Core&)> task);

  // Reports the outcomes of frames that a core gave to the aggregator.
  void OnForwarded(CoreId core, std::vector<wire::ForwardedOutcome> outcomes);

  std::vector<CoreStats> Stats(Deadline deadline);
  std::vector<PartitionStats> NamespaceStats(
      Deadline deadline);  // Counts all partitions of this node.
  void ResetStats();
  // Returns each core's count of loops, for the heartbeat: a count that stands still shows a stuck
  // core.
  std::vector<std::uint64_t> Progress() const;
  // Returns a text for people, for example "ucx tcp/lo".
  std::string Describe() const;

  // Owners whose links to copies on this node broke.
  CopyAlarms& copy_alarms();

 private:
  CoreGroup();
  void ShowMemory(const CoreGroupOptions& options);
  Result<SessionGrant> Grant(SessionId resume);
  void ForgetSession(SessionId session);

  struct Shared;
  std::unique_ptr<Shared> shared_;
  std::vector<std::unique_ptr<Core>> cores_;
  std::uint64_t outside_bytes_ = 0;  // See HeapCover::OutsideBytes.
};

}  // namespace tidepool::daemon
