// The copies of a core: partitions on their way from here, and copies that others fill here.
//
//   moving/copy_mover, services/moves_service, by mailbox -> [copies] <- frames, maps, time
//                                                               '-> copy_source, copy_inbox
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "daemon/copies/copy_alarms.h"
#include "daemon/copies/copy_inbox.h"
#include "daemon/copies/copy_job.h"
#include "daemon/copies/copy_link.h"
#include "daemon/copies/copy_source.h"
#include "daemon/copies/copy_waits.h"
#include "proto/placement/placement_map.h"
#include "proto/transport/transport.h"
#include "storage/core_store.h"

namespace tidepool::daemon {

// A core of another daemon.
struct CopyPeer {
  NodeId node;
  std::uint64_t incarnation = 0;
  CoreId core;

  friend bool operator==(const CopyPeer&, const CopyPeer&) = default;
};

// How a core holds back the groups of a partition, and lets them run.
struct CopyHooks {
  std::function<bool(PartitionId, Term)> freeze;
  std::function<void(PartitionId, Term)> thaw;
};

// Owner core only.
class Copies {
 public:
  // Beyond this changes of a partition are held back until the target has taken most of them.
  static constexpr std::uint64_t kWaitingBytesHold = 64u << 20;

  // `alarms` must outlive the object; may be null.
  Copies(storage::CoreStore& store, CopyHooks hooks, CopyAlarms* alarms = nullptr);
  ~Copies();
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;
  void Start(transport::Worker* worker, transport::BufferPool* pool);
  void Stop();

  // ---- For a source.
  // Returns the link to this core, or 0: none.
  std::uint64_t FindLink(const CopyPeer& peer) const;
  // Begins to fill the copy that the target has opened. Connects the job's link first if it is
  // new. Errors: kWrongEpoch (not held here under this term), those of Connect.
  Status Begin(const std::shared_ptr<CopyJob>& job, const CopyPeer& peer, std::string_view address);
  // Holds back the partition's groups; the stage becomes kWhole when the target has everything.
  // Returns: kOk, kWrongEpoch (not served here under this term), kNotFound (the job is over).
  StatusCode Hold(const CopyJob& job);
  // Ends the job. kStays: the partition is served here on: the hold ends, and the target throws
  // the copy away, which can no longer become the owner. kMoved: held groups wait for the new map.
  enum class Ending : std::uint8_t { kStays, kMoved };
  void End(const CopyJob& job, Ending ending);

  // ---- For a target.
  // Makes an empty copy. Connects the link first if it is new. Errors: those of AddIncoming and of
  // Connect.
  Status Open(PartitionId partition, Term term, std::uint64_t version,
              const storage::PartitionOptions& options, std::uint64_t link, NodeId source,
              CoreId source_core, std::string_view address);

  // ---- For the core.
  // REQUIRES: wire::IsCopyFrame.
  void OnFrame(Bytes frame, std::uint64_t now_ns);
  // False: it is no endpoint of a link.
  bool OnPeerLost(const transport::Endpoint* endpoint);
  void OnMap(const placement::PlacementMap& map, NodeId self);
  void OnTimer(std::uint64_t now_ns);
  // There are links; and there is work to do.
  bool linked() const { return !outboxes_.empty() || !inboxes_.empty(); }
  bool active() const;
  // Adds what an answer about the partition waits for now. REQUIRES: the partition has replicas.
  void AddWaits(PartitionId partition, CopyWaits* waits) const {
    const auto found = counting_.find(partition.value());
    if (found != counting_.end()) found->second->AddWaits(waits);
  }
  // Changes when a wait may have ended.
  std::uint64_t progress() const { return progress_; }
  // Sends what changes have left in the links.
  void Flush();
  // Clients wait for its end.
  bool urgent() const;
  // Returns has_more().
  bool Slice(std::uint64_t budget_ns);
  // True: the last slice had more to do at once.
  bool has_more() const { return has_more_; }

 private:
  struct Outbox {
    CopyPeer peer;
    std::unique_ptr<CopyLink> link;
    std::vector<std::unique_ptr<CopySource>> sources;  // Gone before the link.
    bool holds = false;                                // Because of kWaitingBytesHold.
    std::uint64_t used_ns = 0;                         // When it had a source last.
    // When the target had taken everything, or has taken something, last.
    std::uint64_t moved_ns = 0;
    std::uint64_t moved_position = 0;
  };

  Result<std::unique_ptr<CopyLink>> Connect(std::uint64_t link, CoreId peer_core,
                                            std::string_view address);
  CopySource* FindSource(PartitionId partition) const;
  void OnAnswer(Outbox& outbox, const wire::CopyMessage& message);
  void BoundWaiting(Outbox& outbox);
  void EndSilent(Outbox& outbox, std::uint64_t now_ns);
  // Ends the link, and the copies that it fills.
  void Lose(Outbox& outbox);
  void RemoveOver(std::uint64_t now_ns);
  bool Work(std::uint64_t end_ns);

  storage::CoreStore& store_;
  const CopyHooks hooks_;
  CopyAlarms* const alarms_;
  transport::Worker* worker_ = nullptr;
  transport::BufferPool* pool_ = nullptr;
  std::vector<std::unique_ptr<Outbox>> outboxes_;
  std::vector<std::unique_ptr<CopyInbox>> inboxes_;
  bool fetching_ = false;
  bool has_more_ = false;
  std::uint64_t next_alive_ns_ = 0;
  std::uint64_t last_timer_ns_ = 0;
  std::uint64_t progress_ = 0;
  absl::flat_hash_map<std::uint32_t, CopySource*> counting_;  // Sources of replicas.
};

}  // namespace tidepool::daemon
