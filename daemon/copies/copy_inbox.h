// The target half of a link, and the copies that it fills.
//
//   copies -> [copy_inbox] -> copy_target; acknowledgements by copy_link
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "daemon/copies/copy_alarms.h"
#include "daemon/copies/copy_link.h"
#include "daemon/copies/copy_target.h"
#include "proto/base/bytes.h"
#include "proto/placement/placement_map.h"

namespace tidepool::daemon {

// Owner core only. The credit of the link bounds the frames that wait here.
class CopyInbox {
 public:
  // `source`: the node at the other end. `alarms` hears of it when the link breaks; may be null.
  CopyInbox(std::unique_ptr<CopyLink> link, storage::CoreStore& store, NodeId source,
            CopyAlarms* alarms)
      : link_(std::move(link)), store_(store), source_(source), alarms_(alarms) {}
  ~CopyInbox();
  CopyInbox(const CopyInbox&) = delete;
  CopyInbox& operator=(const CopyInbox&) = delete;

  CopyLink& link() { return *link_; }
  void Add(std::unique_ptr<CopyTarget> target) { targets_.push_back(std::move(target)); }
  CopyTarget* Find(PartitionId partition) const;
  void Remove(PartitionId partition);  // Throws its copy away.
  // Nothing is left that it is for.
  bool over() const { return link_->lost() && targets_.empty(); }
  bool has_frames() const { return !frames_.empty(); }
  // Clients of the source may wait for what has come.
  bool urgent() const;

  // False: it is no frame of this link's source.
  bool OnFrame(const wire::CopyFrameHeader& header, Bytes body);
  void OnLost();
  // Applies frames in their order. True: there is more to do at once.
  bool Slice(std::uint64_t end_ns);
  // The record that the next message needs cannot be read.
  void Unreadable(StatusCode code);
  // Forgets adopted copies, and drops copies of former terms. Drops replicas that the map does not
  // name for node `self`.
  void OnMap(const placement::PlacementMap& map, NodeId self);

 private:
  bool IsWanted(const CopyTarget& target, const placement::PlacementMap& map, NodeId self) const;
  CopyTarget::Outcome Apply(const wire::CopyMessage& message);
  void Refuse(const wire::CopyMessage& message);
  void Fail(CopyTarget& target);
  void GiveUp(CopyTarget& target, StatusCode code);
  void SendFailed(const CopyTarget& target, StatusCode code);
  void Acknowledge();

  const std::unique_ptr<CopyLink> link_;
  storage::CoreStore& store_;
  const NodeId source_;
  CopyAlarms* const alarms_;
  std::vector<std::unique_ptr<CopyTarget>> targets_;
  struct Arrived {
    std::vector<std::byte> body;
    std::uint64_t position;
  };
  std::deque<Arrived> frames_;
  std::size_t at_ = 0;  // In the first of them.
  std::uint64_t applied_ = 0;
  std::uint64_t acknowledged_ = 0;
  std::set<std::pair<PartitionId, std::uint32_t>> refused_;  // Copies whose source was told.
};

}  // namespace tidepool::daemon
