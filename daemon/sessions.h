// The sessions of one core: how they begin, lose their connection, come back and end.
//
//   Attach (gRPC, through the mailbox) -> [sessions]; frames find theirs here
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <memory>
#include <string_view>

#include "daemon/core_group.h"
#include "daemon/session.h"
#include "daemon/streams.h"
#include "proto/base/clock.h"
#include "proto/transport/transport.h"

namespace tidepool::daemon {

struct SessionGrant {
  SessionId id;
  std::uint32_t connection = 1;
  std::uint32_t credit_operations = 0;
  std::uint32_t credit_bytes = 0;
  std::shared_ptr<std::atomic<std::uint64_t>> heard_ns;  // See Session.
};

// Owner core only.
class Sessions {
 public:
  // All must outlive it.
  Sessions(transport::Worker& worker, Streams& streams, const Clock& clock);
  ~Sessions();
  Sessions(const Sessions&) = delete;
  Sessions& operator=(const Sessions&) = delete;

  // Opens `grant.id`, or resumes it if it is held: its old connection is closed first, so that
  // nothing late of it is taken for new. Errors: kInvalidArgument, kUnavailable (connect),
  // kOverloaded, kNotFound (a connection above 1, and the session is not held any more),
  // kCancelled (a later attach has been here already).
  Status Attach(const SessionGrant& grant, const AttachRequest& request);

  // For frames: the session is held and connected, by this connection; at the first of them it is
  // connected to. Else null.
  Session* Find(std::uint64_t id, std::uint32_t connection);
  // Null if it is not held.
  Session* Find(SessionId id);
  Session* FindByEndpoint(transport::Endpoint* endpoint);

  // A frame of the session has come.
  void Heard(Session& session, std::uint64_t now_ns);

  // Drops the connection; the session waits for its client.
  void Disconnect(Session& session);
  // Ends it: the client left, or broke the protocol (then `why` is logged). `session` is gone.
  void End(Session& session, std::string_view why);

  // Ends sessions that were silent or without a connection for too long.
  void ExpireSilent(std::uint64_t now_ns);

  std::size_t size() const { return sessions_.size(); }

 private:
  void Connect(Session& session);

  transport::Worker& worker_;
  Streams& streams_;
  const Clock& clock_;
  absl::flat_hash_map<std::uint64_t, std::unique_ptr<Session>> sessions_;
};

}  // namespace tidepool::daemon
