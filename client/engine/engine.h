// The shared state of a client's threads: the map, the sessions, the operations under way, and the
// only network worker. One lock guards it. Waiting threads drive it.
//
//   bytes_map, client -> [engine] -> core links -> proto/transport
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "client/calls/call.h"
#include "client/direct/read_counts.h"
#include "client/direct/unanswered_keys.h"
#include "client/engine/control_plane.h"
#include "client/engine/fork_guard.h"
#include "client/engine/partition_queue.h"
#include "client/link/core_link.h"
#include "client/link/node_session.h"
#include "proto/base/clock.h"
#include "proto/base/ids.h"
#include "proto/base/result.h"
#include "proto/placement/placement_map.h"
#include "proto/transport/spin_policy.h"
#include "proto/transport/transport.h"
#include "tidepool/client.h"

namespace tidepool::internal {

struct EngineOptions {
  ConnectOptions connect;
  std::string cluster_file;            // Where it was found.
  std::vector<std::string> addresses;  // Control addresses to begin with.
  std::string client_name;
  const Clock* clock = &Clock::Real();  // A test's own works with WaitMode::kPoll only.
};

// Wakes the thread that moves an engine on, from outside.
struct Notifier {
  std::atomic<bool> rung{false};
  std::atomic<bool> awaited{false};  // A thread sleeps until the ring.
};

// Thread-safety: every public function may be called from any thread, except for the functions
// under "For core links", which need the lock.
//
// Progress: a waiting thread either leads or follows. The leader alone moves the worker, and
// handles messages for all threads. A follower sleeps until its call is done or it is appointed. A
// leader that leaves appoints the next leader. A leader sleeps unlocked. Blocking work (attaching,
// fetching the map) is done by a waiting thread, unlocked and within its deadline, while another
// thread leads.
//
// Invariants:
// (1) leading_ is true while exactly one thread is inside Lead().
// (2) If a thread waits and no thread leads, one of the followers has been woken.
// (3) A call in the active list has left > 0, and the engine holds one reference to it.
class Engine final : public transport::Receiver {
 public:
  // The parts are the engine's from then on. Handles share the returned pointer: when the last of
  // them goes, the engine closes itself. Errors: as Context::MakeWorker.
  static Result<std::shared_ptr<Engine>> Create(EngineOptions options,
                                                std::unique_ptr<ControlPlane> control,
                                                std::unique_ptr<transport::Context> context);
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  std::uint64_t Now() const { return options_.clock->MonotonicNs(); }
  // kOk, or why nothing may be started: closed, or this process is a fork.
  Status Usable() const;
  const EngineOptions& options() const { return options_; }
  // The pointer that handles share; null while closing.
  std::shared_ptr<Engine> Shared() const { return shared_.lock(); }

  // Calls. ---------------------------------------------------------------------------------------

  // Returns the sequence of an operation that comes after all others.
  std::uint64_t NextSequence() { return ++sequence_; }
  // Starts a call whose operations have their queues. With `waits` the caller waits for it at once.
  // `packed_by`: the ranges behind its packs, if it has packs of an ordered namespace.
  void Submit(Call* call, bool waits, const placement::Ranges* packed_by = nullptr);
  // Moves everything on until the call is done. False if `until_ns` passed first.
  bool Wait(Call* call, std::uint64_t until_ns);
  // Moves everything on until the notifier is rung or `until_ns` has passed; continuations run.
  void WaitForNotifier(Notifier& notifier, std::uint64_t until_ns);
  // Wakes the thread that waits for the notifier. Any thread, without the lock.
  void Ring(Notifier& notifier);
  // Moves all calls on until the calls started before have ended. Calls that wait for other
  // processes do not count. Returns: kOk, kDeadlineExceeded, and the errors of Usable.
  Status WaitForAll(std::chrono::milliseconds timeout);
  // Moves all calls on until one of these asynchronous calls is done or `until_ns` has passed. Then
  // ends the rest of them with kCancelled. Returns false if the time has passed.
  bool WaitForOne(std::span<const CallRef> calls, std::uint64_t until_ns);
  void Then(Call* call, std::function<void(CallRef)> next);
  // True if an asynchronous call that this thread starts now may be done on return. False deep
  // inside continuations of other calls, because the stack is bounded.
  static bool MayEndAtOnce();
  // Ends everything and says good-bye to the daemons.
  void Close();

  // Reads without the owners (engine_direct.cc). --------------------------------------------------

  // The keys of this client's own operations under way.
  const UnansweredKeys& unanswered() const { return unanswered_; }
  // Asks the partition's owner for a view, and its daemon for memory: to be mapped, or to be read
  // by RDMA (engine_remote.cc).
  void AskToShow(SpaceState* space, std::uint32_t partition);
  void AskForMemory(SpaceState* space, std::uint32_t partition, std::uint64_t offset);

  // The map. -------------------------------------------------------------------------------------

  // Fetches the changes of the map until its epoch is at least `at_least`.
  // Returns: kOk, kUnavailable, kDeadlineExceeded, kUnauthenticated.
  Status RefreshMap(Epoch at_least, Deadline deadline);
  // Returns null if the newest known map lacks the namespace.
  SpaceState* FindSpace(std::string_view name);
  SpaceState* FindSpace(NamespaceId id, Traffic traffic = Traffic::kPrompt);
  placement::PlacementMapPtr map() const;
  ControlPlane& control() { return *control_; }
  // Returns control addresses, likely reachable addresses first.
  std::vector<std::string> Addresses() const;
  // Reads the connection file again, at most once per second: daemons that were started elsewhere
  // write their addresses there. True if Addresses() has new addresses since then. Any thread,
  // without the lock.
  bool RereadAddresses();

  // Statistics and descriptions.
  ClientStats Stats() const;
  // Lanes of the node's first connection; empty if not attached.
  std::string DataPath(NodeId node) const;
  bool Attached(NodeId node) const;
  std::uint32_t OwnerOf(const SpaceState& space, Bytes key) const;
  // For each partition a word that is the same where the core is the same, as of now. Any thread.
  std::vector<const void*> CoresOf(const SpaceState& space) const;
  // Returns the present ranges of an ordered namespace. Any thread.
  std::shared_ptr<const placement::Ranges> RangesOf(const SpaceState& space) const;
  // Returns the begin of the first range at or above `from` that the node owns, or `from` itself if
  // the node owns its range. No value: there is no further range.
  std::optional<std::string> NextRangeOn(const SpaceState& space, Bytes from, NodeId node) const;
  // The lowest node of this machine that is up: where operations are forwarded to.
  std::optional<NodeId> AggregatorNode() const;
  // How many sessions' operations its aggregator has lately sent together; 0: nothing is known.
  std::uint32_t companions() const { return companions_.load(std::memory_order_relaxed); }
  // Returns another lane at each call, for handles of queues with lanes.
  std::uint32_t NextLane() { return next_lane_.fetch_add(1, std::memory_order_relaxed); }
  // True if the partition's owner is on this machine now. `owner` receives its name for people.
  bool IsLocal(const SpaceState& space, std::uint32_t partition, std::string* owner) const;
  // Grows when the map changes. Any thread, without the lock.
  std::uint64_t epoch_hint() const { return epoch_hint_.load(std::memory_order_relaxed); }
  // Returns the first partition from `from` on that the node owns; the number of partitions: none.
  std::uint32_t NextPartitionOn(const SpaceState& space, std::uint32_t from, NodeId node) const;
  Result<std::uint32_t> PartitionOn(const SpaceState& space, NodeId node) const;

  // For core links and sessions; the lock is held.
  // --------------------------------------------------

  transport::Worker& worker() { return *worker_; }
  transport::BufferPool& pool() { return pool_; }
  ReadCounts& read_counts() { return *read_counts_; }
  ClientStats& stats() { return stats_; }
  Epoch epoch() const { return map_ == nullptr ? Epoch() : map_->epoch; }
  void set_companions(std::uint32_t count) { companions_.store(count, std::memory_order_relaxed); }
  // Sends an operation of an ordered namespace again, to the partition of its key.
  void RequeueByRange(Operation* operation);
  // The queue has successors and nothing outstanding any more: they may send.
  void WakeSuccessors(const SpaceState& space);
  // The link has something to send.
  void MarkDirty(CoreLink* link);
  void WantMap(Epoch at_least);
  void WantAttach(NodeSession* session);
  // An operation that no queue and no frame knows any more has its outcome.
  void End(Operation* operation, StatusCode code);
  void End(Operation* operation, Status why);
  // Returns a Status that names the object of the operation.
  Status Explain(const Operation& operation, StatusCode code, std::string_view text) const;
  // A call with the default deadline moves more bytes than it knew.
  void ExtendDeadline(Call* call, std::size_t bytes);

  // transport::Receiver
  void OnFrame(Bytes frame) override;
  void OnPeerLost(transport::Endpoint* endpoint, const Status& why) override;
  void OnNodeMemory(transport::Endpoint* endpoint, const transport::NodeMemory& memory) override;

 private:
  // Unlocks and locks, and lets other threads in while a leader spins.
  class Lock {
   public:
    explicit Lock(const Engine& engine) : engine_(engine) { Acquire(); }
    ~Lock() { engine_.mutex_.unlock(); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    void Acquire();
    void Release() { engine_.mutex_.unlock(); }
    void LetOthersIn();

   private:
    const Engine& engine_;
  };
  // Wait condition of a thread: a call, room for another call, the end of all calls up to a given
  // call, or (background thread) the client's end.
  struct WaitCondition {
    const Call* call = nullptr;
    std::span<const CallRef> any;  // Any of these calls.
    bool room = false;
    Notifier* notifier = nullptr;
    std::uint64_t all_up_to = 0;  // 0: not that.
    bool background = false;
    std::uint64_t until_ns = ~0ull;
  };

  Engine(EngineOptions options, std::unique_ptr<ControlPlane> control,
         std::unique_ptr<transport::Context> context);
  static void RunBackground(std::shared_ptr<Engine> self);

  // engine_progress.cc
  bool Run(Lock& lock, const WaitCondition& condition, Waiter* waiter);
  bool Fulfilled(const WaitCondition& condition) const;
  bool EndedUpTo(std::uint64_t sequence) const;
  void Lead(Lock& lock, const WaitCondition& condition);
  void Block(Lock& lock, const WaitCondition& condition);
  void Follow(Lock& lock, Waiter* waiter, std::uint64_t until_ns);
  void Appoint();
  void WakeLeader();
  void WakeLeaderBefore(std::uint64_t at_ns);
  void FlushDirty(std::uint64_t now_ns);
  void LookAfterPause();
  void RunReady(Lock& lock);
  void Expire(std::uint64_t now_ns);

  // engine_maintenance.cc
  void ScheduleMaintenance();
  bool RunMaintenance(Lock& lock, std::uint64_t now_ns, std::uint64_t until_ns);
  void RunMapMaintenance(Lock& lock, std::uint64_t until_ns);
  void RunAttachMaintenance(Lock& lock, NodeSession* session, std::uint64_t until_ns);
  Status AskForMap(Epoch at_least, Deadline deadline, bool* answered);
  void ApplyMap(const placement::PlacementDelta& delta);
  void UpdateSpace(SpaceState* space);
  void UpdateForwarded(SpaceState* space);
  const placement::Node* FindAggregatorNode() const;
  void Drop(SpaceState* space);
  void PlaceQueue(PartitionQueue* queue, CoreLink* link);

  // engine_direct.cc
  void NoteUnanswered(const Operation& operation, bool begins);
  void OnShown(SpaceState* space, std::uint32_t partition,
               const std::shared_ptr<MappedArenas>& asked_of, const CallRef& answer);

  // Arguments of a question for a view by RDMA: wanted memory, and reads since the last question.
  struct RemoteShow {
    std::uint64_t offset = 0;  // 0: no memory.
    std::uint64_t gets = 0;
    std::uint64_t looks = 0;
    void AddTo(Operation* operation) const;
  };
  void AskShow(SpaceState* space, std::uint32_t partition, std::optional<RemoteShow> remote,
               std::function<void(Engine&, const CallRef&)> next);

  // engine_remote.cc
  static RemoteShow TakeUntold(std::uint64_t offset, ReadCount* count);
  void TakeBack(const RemoteShow& show, ReadCount* count);
  void TellRemoteReads();
  void AskToShowRemotely(SpaceState* space, std::uint32_t partition, std::uint64_t offset);
  void OnShownRemotely(SpaceState* space, std::uint32_t partition,
                       const std::shared_ptr<RemoteNode>& asked_of, ReadCount* count,
                       std::uint64_t asked_ns, const CallRef& answer);

  // engine_ranges.cc
  PartitionQueue* RouteOf(const Operation& operation);
  void EnqueueByRange(Operation* operation, const placement::Ranges* packed_by);
  bool SpreadPack(Operation* pack);
  void EndPiece(Operation* piece);
  bool AbandonPieces(Operation* pack);
  void UpdateRanges(SpaceState* space, const placement::Namespace& now);
  void MoveMisrouted(PartitionQueue* queue);

  // engine_maintenance.cc, too.
  void FailDown();
  void FailQueue(PartitionQueue* queue, StatusCode code, std::string_view text);
  bool IsDown(const PartitionQueue& queue) const;
  NodeSession& SessionOf(NodeId node, Traffic traffic);
  NodeSession* FindSession(NodeId node, Traffic traffic) const;  // Null if not used yet.
  template <typename Function>
  void ForEachSpace(Function&& function) {
    for (auto& spaces : spaces_) {
      for (auto& [id, space] : spaces) function(space.get());
    }
  }
  static std::size_t SessionIndex(NodeId node, Traffic traffic) {
    return kTraffics * node.value() + static_cast<std::size_t>(traffic);
  }

  void EndCall(Call* call);
  void EndUnstarted(Call* call, const Status& why);
  void EndAll(StatusCode code, std::string_view text);
  // True if it was sent, and changes something.
  bool Abandon(Operation* operation);
  bool HasRoom() const;

  const EngineOptions options_;
  const std::string host_;
  const std::uint64_t fork_generation_;
  const LiveClient live_;
  std::weak_ptr<Engine> shared_;
  std::unique_ptr<ControlPlane> control_;

  mutable std::mutex mutex_;
  mutable std::atomic<std::uint32_t> contenders_{0};  // Threads that wait for mutex_.
  mutable std::atomic<std::uint32_t> turns_{0};       // Number of times that a thread got the lock.
  std::atomic<bool> closed_{false};

  // The network. Buffers outlive the worker that sends them.
  transport::BufferPool pool_;
  std::unique_ptr<transport::Context> context_;
  std::unique_ptr<transport::Worker> worker_;
  std::unique_ptr<ReadCounts> read_counts_;

  // Leadership.
  bool leading_ = false;
  bool leader_sleeps_ = false;      // In poll, unlocked.
  bool background_sleeps_ = false;  // The background thread is in poll and leads no more.
  // When they wake by themselves, while they sleep.
  std::uint64_t leader_until_ns_ = 0;
  std::uint64_t background_until_ns_ = 0;
  Waiter* followers_ = nullptr;
  transport::SpinPolicy spin_;
  std::thread background_;

  // Calls under way.
  Call* active_ = nullptr;  // The newest call; each call has a link to the next older call.
  Call* oldest_ = nullptr;
  std::size_t active_operations_ = 0;
  std::size_t active_bytes_ = 0;
  std::uint64_t next_expiry_ns_ = ~0ull;  // Lower bound of all deadlines.
  std::uint64_t sequence_ = 0;
  std::vector<CoreLink*> dirty_;
  std::vector<CoreLink*> flushing_;
  std::uint64_t flushed_ns_ = 0;  // When FlushDirty ran last.
  std::vector<Call*> ready_;      // Done, and their `then` is to run.
  ClientStats stats_;

  // Where things are.
  placement::PlacementMapPtr map_;
  std::atomic<std::uint64_t> epoch_hint_{0};
  std::atomic<std::uint32_t> next_lane_;
  std::atomic<std::uint32_t> companions_{0};
  std::uint64_t map_checked_ns_ = 0;
  std::vector<std::unique_ptr<NodeSession>> sessions_;  // Index = SessionIndex(); null until used.
  std::array<std::unordered_map<NamespaceId, std::unique_ptr<SpaceState>>, kTraffics> spaces_;
  std::unordered_map<std::uint64_t, NodeSession*> sessions_by_id_;
  std::string last_good_address_;
  // Addresses of the connection file, after no node has answered.
  std::vector<std::string> file_addresses_;
  std::uint64_t file_read_ns_ = 0;

  // Work for the next waiting thread.
  bool map_wanted_ = false;
  bool map_running_ = false;
  Epoch map_at_least_;
  std::uint64_t map_not_before_ns_ = 0;
  std::uint64_t next_maintenance_ns_ = ~0ull;
  UnansweredKeys unanswered_;
  std::uint64_t attaches_ = 0;  // Begun, to any node.
  bool down_waiting_ = false;   // Operations wait in queues of a node that is down.
};

// The deadline that a call gets: `timeout` from now, or the default and 1 s per 50 MB.
std::uint64_t DeadlineFor(const Engine& engine, std::chrono::milliseconds timeout,
                          std::size_t bytes);

}  // namespace tidepool::internal
