// The client's session with a node: its begin, break, resumption and end.
//
//   engine -> [node session] -> core links
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/engine/control_plane.h"
#include "client/link/core_link.h"
#include "proto/base/ids.h"
#include "proto/base/status.h"
#include "proto/placement/placement_map.h"

namespace tidepool::internal {

class Engine;
struct EngineOptions;
class MappedArenas;
class RemoteNode;

// Guarded by the client's lock. Lives as long as the client.
//
// One Attach covers all cores of the node. While the session is not attached, operations wait in
// their queues. The next waiting thread makes the attach.
class NodeSession {
 public:
  NodeSession(Engine& engine, NodeId node) : engine_(engine), node_(node) {}
  NodeSession(const NodeSession&) = delete;
  NodeSession& operator=(const NodeSession&) = delete;

  NodeId node() const { return node_; }
  SessionId id() const { return id_; }
  std::uint32_t connection() const { return connection_; }
  bool attached() const { return attached_; }
  bool node_down() const { return node_down_; }
  const std::string& control_address() const { return control_address_; }
  // For messages: "node 1 (host)".
  std::string Describe() const;

  // Made at first use.
  CoreLink& Link(CoreId core);
  const std::vector<std::unique_ptr<CoreLink>>& links() const { return links_; }
  bool HasWork() const;

  // Takes over the newest map's entry of the node.
  void OnMap(const placement::Node& node);

  // True if frames may be sent now. False after 45 s of silence: the daemon forgets sessions that
  // are silent for 60 s, so the client attaches again before it sends.
  bool ReadyToSend(std::uint64_t now_ns);
  void Sent(std::uint64_t now_ns) { last_sent_ns_ = now_ns; }
  // A frame of this session has come: the connection works.
  void Heard() { backoff_ns_ = attach_not_before_ns = 0; }

  // The connection broke. The session may be resumed.
  void OnLost(const Status& why);

  // Under another tag each time: a node knows each of its connections by that.
  AttachRequest MakeAttachRequest(const std::string& worker_address, const EngineOptions& options,
                                  std::uint64_t tag);
  void OnAttached(const AttachReply& reply, std::uint64_t now_ns);
  void OnAttachFailed(const Status& why, std::uint64_t now_ns);
  // Says good-bye to the daemon's cores, which forget the session.
  void Detach();

  // The daemon's memory, if the daemon is on this node and has shown memory. Null as soon as the
  // daemon is known to have restarted, because the earlier memory is then useless.
  std::shared_ptr<MappedArenas> arenas;
  // Memory of another node, read by RDMA. Null until the first use.
  std::shared_ptr<RemoteNode> remote;
  // See AttachReply::memory_address.
  const std::string& memory_address() const { return memory_address_; }

  // The engine's bookkeeping of attaches to make.
  bool attach_wanted = false;
  bool attach_running = false;
  std::uint64_t attach_not_before_ns = 0;
  const Status& last_error() const { return last_error_; }

 private:
  void RaiseBackoff(std::uint64_t now_ns);

  Engine& engine_;
  const NodeId node_;
  std::string uuid_;
  std::string host_;
  std::string control_address_;
  bool node_down_ = false;

  bool attached_ = false;
  SessionId id_;
  std::uint32_t connection_ = 0;
  std::uint64_t incarnation_ = 0;      // Incarnation of the daemon that gave the session.
  std::uint64_t map_incarnation_ = 0;  // Incarnation in the map.
  std::uint64_t tag_ = 0;
  std::string memory_address_;
  std::uint64_t last_sent_ns_ = 0;
  std::uint64_t backoff_ns_ = 0;
  Status last_error_;
  std::vector<std::unique_ptr<CoreLink>> links_;  // Index = CoreId; null until used.
};

}  // namespace tidepool::internal
