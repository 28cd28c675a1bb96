// All cores of this node, as the control plane sees them: gRPC threads and membership talk to cores
// through here, never directly.
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
class Functions;
struct SessionGrant;

// How a core waits for work.
enum class WaitPolicy : std::uint8_t { kAuto, kPoll, kBlock };

struct CoreGroupOptions {
  std::uint32_t cores = 1;
  std::uint64_t memory_bytes = 1ull << 30;  // Of all cores together.
  WaitPolicy wait_policy = WaitPolicy::kAuto;
  std::shared_ptr<const Functions> functions;  // Null: the built-in ones.
  wire::Aggregator* aggregator = nullptr;      // Must outlive the group. Null: none.
  storage::Volume* volume = nullptr;           // The same. Null: all data stays in memory.
  // Where clients of other nodes may read records by RDMA: a numeric address of this node, and
  // UCX's names of the transports. Either empty: nowhere. If it cannot be, a warning says why.
  std::string memory_address;
  std::string memory_transports;
  std::uint64_t slow_ns = 0;  // What takes longer is in the slow log; 0: nothing.
  std::vector<int> cpus;      // To pin the cores' threads to, in turn; empty: not pinned.
};

struct AttachRequest {
  std::string worker_address;  // Of the client.
  SessionId session;  // 0: a new one. The service has checked that the incarnation is ours.
  std::string client_name;
  bool uncounted = false;  // A tool's.
};
struct AttachResult {
  SessionId session;
  bool resumed = false;
  std::uint32_t connection = 0;
  std::uint32_t credit_operations = 0;
  std::uint32_t credit_bytes = 0;
  std::vector<std::string> worker_addresses;  // Index = CoreId.
};

// Of a namespace on one core, since start: see SpaceCounters.
struct SpaceStats {
  NamespaceId space;
  std::vector<std::pair<wire::Opcode, std::uint64_t>> operations;  // Those that there were.
  std::uint64_t reads = 0;  // Of operations that answer what records hold,
  std::uint64_t device_reads = 0;
  std::uint64_t direct_reads = 0;
  std::uint64_t changes = 0;
  LatencyBuckets frames;
  LatencyBuckets waits;
};

// A snapshot; counters are since start unless said otherwise.
struct CoreStats {
  bool answered = false;  // Else the core is stuck, and the rest is nothing.
  std::uint64_t sessions = 0;
  std::uint64_t partitions = 0;
  std::uint64_t operations = 0;    // Users' operations that the core has worked on.
  std::uint64_t direct_reads = 0;  // Beside them: made by clients in its memory.
  std::uint64_t frames = 0;
  std::uint64_t loops = 0;
  std::uint64_t sleeps = 0;
  std::uint64_t p50_ns = 0;  // Frame received to answer posted, since the last reset.
  std::uint64_t p99_ns = 0;
  std::uint64_t records = 0;
  std::uint64_t ring_bytes = 0;  // Shared memory of same-node connections, and how much it may be.
  std::uint64_t ring_bytes_max = 0;
  std::uint64_t used_bytes = 0;
  std::uint64_t live_bytes = 0;
  std::uint64_t index_bytes = 0;
  std::uint64_t limit_bytes = 0;  // Of all cores together.
  std::uint64_t spilled_live_bytes = 0;
  storage::SpillCounters spill;
  std::uint64_t durable_written_bytes = 0;  // To devices: segments and commits of durable ones.
  std::uint64_t durable_bytes = 0;          // Of changes of durable partitions, each once.
  std::uint64_t refused_for_memory = 0;     // Changes.
  std::uint64_t expired_records = 0;
  std::uint64_t compacted_segments = 0;
  std::uint64_t malformed_frames = 0;
  std::uint64_t slow_frames = 0;
  // Now.
  std::uint64_t credit_operations = 0;  // Granted to its sessions,
  std::uint64_t credit_bytes = 0;
  std::uint64_t credit_operations_held = 0;  // and of these, taken by what waits here.
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
  std::uint64_t live_bytes = 0;  // Of keys and values.
  std::uint64_t changes = 0;     // Differs whenever the partition has changed since the last look.
  std::uint64_t operations = 0;  // Since it was opened here; those that came by frame.
};

// The outcome of one operation that a gRPC service asked for; owns its value.
struct OperationOutcome {
  StatusCode code = StatusCode::kUnavailable;
  wire::ValueKind value_kind = wire::ValueKind::kBytes;
  Lsn version;
  bool has_number = false;
  std::uint64_t number = 0;  // As wire::Answer::number.
  std::string value;         // The value; for failures a text; Iterate: a record list.
  // The value is above the limit that the caller set: only its size is in `number`.
  bool value_omitted = false;
  wire::Receipt receipt;  // Of a change that has succeeded.
};

// Thread-safe, but for Start and destruction. Blocking calls take a deadline and may be made from
// any thread that is not a core's.
class CoreGroup {
 public:
  // Starts the cores' threads. `lease` and `context` must outlive the group.
  // Errors: kResourceExhausted (memory), kUnavailable (network).
  static Result<std::unique_ptr<CoreGroup>> Start(const CoreGroupOptions& options,
                                                  const Lease* lease, transport::Context* context);
  // Answers what is in flight, at most for a second, and joins the threads.
  ~CoreGroup();
  CoreGroup(const CoreGroup&) = delete;
  CoreGroup& operator=(const CoreGroup&) = delete;

  std::uint32_t size() const { return static_cast<std::uint32_t>(cores_.size()); }

  // As MemoryExporter::address; empty: no client of another node reads by itself.
  std::string memory_address() const;
  transport::MemoryExporter::Usage memory_usage() const;

  // Each core takes the partitions that `map` gives to {self, core}: new ones are opened empty,
  // known ones go on under their new term, those gone are closed and freed. Returns when all cores
  // have done so, or kDeadlineExceeded (they still will). `may_grant_durable`: as
  // Ownership::Install.
  Status InstallMap(placement::PlacementMapPtr map, NodeId self, Deadline deadline,
                    bool may_grant_durable = true);

  // Errors: kOverloaded (no room for another session), kInvalidArgument (address),
  // kDeadlineExceeded, kUnavailable.
  Result<AttachResult> Attach(const AttachRequest& request, Deadline deadline);

  // Applies operations of one partition of `core` in order, in slices between which the core serves
  // others. Keys and values in `operations` must stay valid until the return. Values above
  // `value_bytes_max` are left out of the outcomes, as are those for which the `answer_bytes_max`
  // of all together have no room; operations that would take such a value away leave it and end as
  // kOutOfRange. `is_users`: they are among users' operations.
  // Errors: kWrongEpoch (this node does not own it under this term), kDataLoss, kUnavailable (no
  // lease), kDeadlineExceeded (not applied), kUnknown (applied or not). After the first slice they
  // are the outcomes of those operations that they concern.
  Result<std::vector<OperationOutcome>> Execute(CoreId core, PartitionId partition, Term term,
                                                const std::vector<wire::Operation>& operations,
                                                std::size_t value_bytes_max, Deadline deadline,
                                                std::size_t answer_bytes_max = kCallAnswerBytesMax,
                                                bool is_users = true);

  // Runs `task` on `core` and waits for it. `task` must not block and must
  // own what it touches, since it may still run after kDeadlineExceeded.
  // A task that meets records on a device, or no memory while some is on its way, is run again from
  // its beginning when they are there: it must not change anything before it, unless it remembers
  // how far it has come. One that has noted what must be durable (Dispatcher::NoteTaskWait) is over
  // when that is so; kUnknown if it never will be.
  Status Run(CoreId core, std::function<void(Core&)> task, Deadline deadline);

  // The same without waiting. False if the core takes no more tasks.
  bool Post(CoreId core, std::function<void(Core&)> task);

  // What became of frames that a core gave to the aggregator.
  void OnForwarded(CoreId core, std::vector<wire::ForwardedOutcome> outcomes);

  std::vector<CoreStats> Stats(Deadline deadline);
  std::vector<PartitionStats> NamespaceStats(Deadline deadline);  // Of all partitions held here.
  void ResetStats();
  // Counts of each core's loop, for the heartbeat: one that stands still is stuck.
  std::vector<std::uint64_t> Progress() const;
  // For people, for example "ucx tcp/lo".
  std::string Describe() const;

 private:
  CoreGroup();
  void ShowMemory(const CoreGroupOptions& options);
  Result<SessionGrant> Grant(SessionId resume);
  void ForgetSession(SessionId session);

  struct Shared;
  std::unique_ptr<Shared> shared_;
  std::vector<std::unique_ptr<Core>> cores_;
};

}  // namespace tidepool::daemon
