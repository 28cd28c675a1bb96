// The sessions of one core: how they begin, lose their connection, come back and end.
//
//   Attach (gRPC, through the mailbox) -> [sessions]; frames find theirs here
#pragma once

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/core/core_group.h"
#include "daemon/core/heap_cover.h"
#include "daemon/core/session.h"
#include "daemon/core/streams.h"
#include "proto/base/clock.h"
#include "proto/base/limits.h"
#include "proto/transport/transport.h"

namespace tidepool::daemon {

struct SessionGrant {
  SessionId id;
  std::uint32_t connection = 1;
  std::uint32_t credit_operations = 0;
  std::uint32_t credit_bytes = 0;
  std::shared_ptr<std::atomic<std::uint64_t>> heard_ns;  // See Session.
};

// What the answers that a core keeps may take of the heap at most, and less while records leave no
// memory for it (heap_cover.h): of a node with `memory_bytes` a 16th for each core, 32 to 256 MiB.
// The upper bound is what the credits of all sessions allow to be under way at once.
constexpr std::uint64_t ReplyCacheBytesMax(std::uint64_t memory_bytes) {
  return std::clamp<std::uint64_t>(memory_bytes / 16, 4 * limits::kCachedReplyBytesMax,
                                   limits::kCreditBytesBudget);
}

// Owner core only.
class Sessions {
 public:
  // All must outlive it; `buffers` are the core's. `cached_bytes_max`: see ReplyCacheBytesMax.
  // `on_shed` is told of each session that ends since too much is kept: to others its client is
  // lost then.
  Sessions(transport::Worker& worker, Streams& streams, const Clock& clock, HeapCover& heap,
           const transport::BufferPool& buffers, std::uint64_t cached_bytes_max,
           std::function<void(SessionId)> on_shed);
  ~Sessions();
  Sessions(const Sessions&) = delete;
  Sessions& operator=(const Sessions&) = delete;

  // Sets the observer of connections that are about to close; they are still open then.
  void set_on_leave(std::function<void(Session&)> on_leave) { on_leave_ = std::move(on_leave); }

  // Opens `grant.id`, or resumes it if it is held: its old connection is closed first, so that
  // nothing late of it is taken for new. Errors: kInvalidArgument, kUnavailable (connect),
  // kOverloaded, kNotFound (a connection above 1, and the session is not held any more),
  // kCancelled (a later attach has been here already).
  Status Attach(const SessionGrant& grant, const AttachRequest& request);

  // For frames: the session is held and connected, by this connection. Else null.
  Session* Find(std::uint64_t id, std::uint32_t connection);
  // Null if it is not held.
  Session* Find(SessionId id);
  Session* FindByEndpoint(transport::Endpoint* endpoint);

  // A frame of the session has come. If more is kept for all of them than may be, others end: those
  // first that hold more than others and have been silent longest, and last those that wait for
  // something. They are told: a client that has all of its answers attaches anew before it sends,
  // and loses nothing. That ends the session on all cores, so that what the client, busy or
  // stopped, has under way on any of them ends with kUnknown.
  void Heard(Session& session, std::uint64_t now_ns) {
    Touch(session, now_ns);
    if (cached_bytes_ > cached_bytes_limit_) [[unlikely]]
      KeepMore(session);
  }

  // Drops the connection, which may be lost; the session waits for its client. The client is told,
  // since its own connection to here is another one and may be well: now, and now and then until it
  // has come back, as what tells it may be lost, too.
  void Disconnect(Session& session);
  // Ends it: the client left, broke the protocol (then `why` is logged), or is not heard of any
  // more. It is told. `session` is gone.
  void End(Session& session, std::string_view why);

  // Ends sessions that were silent or without a connection for too long, and tells again those that
  // do not come back.
  void OnTimer(std::uint64_t now_ns);

  std::size_t size() const { return sessions_.size(); }
  template <typename See>
  void ForEach(See see) const {
    for (const auto& [id, session] : sessions_) see(*session);
  }
  std::uint64_t cached_bytes() const { return cached_bytes_; }

 private:
  static void Touch(Session& session, std::uint64_t now_ns);
  // For an answer that it will get, however long that takes.
  static bool Waits(const Session& session);
  void FitHeap(std::uint64_t cached_bytes);
  void KeepMore(const Session& but);
  void ShedCached(const Session& but);
  void Close(Session& session);
  void Tell(Session& session);
  void TellAgain(std::uint64_t now_ns);
  void ExpireSilent(std::uint64_t now_ns);

  // Of a session that was disconnected from here.
  struct Untold {
    SessionId id;
    std::uint32_t connection = 0;
    std::uint64_t wait_ns = 0;
    std::uint64_t again_ns = 0;
  };

  transport::Worker& worker_;
  Streams& streams_;
  const Clock& clock_;
  const std::function<void(SessionId)> on_shed_;
  std::function<void(Session&)> on_leave_;
  HeapCover& heap_;
  const transport::BufferPool& buffers_;
  const std::uint64_t cached_bytes_max_;
  std::uint64_t cached_bytes_limit_ = 0;  // The same or less: what is covered now.
  std::vector<Untold> untold_;
  std::uint64_t cached_bytes_ = 0;  // Of all cached replies: values and entries.
  absl::flat_hash_map<std::uint64_t, std::unique_ptr<Session>> sessions_;
};

}  // namespace tidepool::daemon
