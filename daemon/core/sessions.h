// The sessions of one core: they begin, lose their connection, come back and end.
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

// Returns the most heap that a core's cached answers may take: a 16th of `memory_bytes` per core,
// 32 to 256 MiB. It is less while records leave no memory for it (heap_cover.h). The upper bound is
// what the credits of all sessions allow at once.
constexpr std::uint64_t ReplyCacheBytesMax(std::uint64_t memory_bytes) {
  return std::clamp<std::uint64_t>(memory_bytes / 16, 4 * limits::kCachedReplyBytesMax,
                                   limits::kCreditBytesBudget);
}

// Owner core only.
class Sessions {
 public:
  // All must outlive it; `buffers` are the core's. `cached_bytes_max`: see ReplyCacheBytesMax.
  // `on_shed` is called for each session that ends because the cache is full; other cores then end
  // it too.
  Sessions(transport::Worker& worker, Streams& streams, const Clock& clock, HeapCover& heap,
           const transport::BufferPool& buffers, std::uint64_t cached_bytes_max,
           std::function<void(SessionId)> on_shed);
  ~Sessions();
  Sessions(const Sessions&) = delete;
  Sessions& operator=(const Sessions&) = delete;

  // Sets the observer of connections that are about to close; they are still open then.
  void set_on_leave(std::function<void(Session&)> on_leave) { on_leave_ = std::move(on_leave); }

  // Opens `grant.id`, or resumes it if this core holds it. Closes the old connection first, so that
  // its late frames are not taken for new. Errors: kInvalidArgument, kUnavailable (connect),
  // kOverloaded, kNotFound (a connection above 1 of a session that is no longer held), kCancelled
  // (a later attach came first).
  Status Attach(const SessionGrant& grant, const AttachRequest& request);

  // Returns the session if it is held and connected by this connection; otherwise null.
  Session* Find(std::uint64_t id, std::uint32_t connection);
  // Returns null if the session is not held.
  Session* Find(SessionId id);
  Session* FindByEndpoint(transport::Endpoint* endpoint);

  // Records a frame of the session. If the cached answers exceed their bound, ends other sessions:
  // first large and long silent sessions, last sessions that wait for an operation. Each client is
  // notified: a client that has all of its answers attaches anew before it sends and loses nothing.
  // The session ends on all cores, so that the operations that its client has under way end with
  // kUnknown everywhere.
  void Heard(Session& session, std::uint64_t now_ns) {
    Touch(session, now_ns);
    if (cached_bytes_ > cached_bytes_limit_) [[unlikely]]
      KeepMore(session);
  }

  // Drops the connection, which may be broken; the session waits for its client. Notifies the
  // client, whose own connection to this core is a different one and may work: now, and repeatedly
  // until it attaches again, because the notification may be lost.
  void Disconnect(Session& session);
  // Ends a session and notifies its client: the client left, was silent too long, or broke the
  // protocol (`why` is then logged). Destroys `session`.
  void End(Session& session, std::string_view why);

  // Ends sessions that were silent or without a connection for too long; notifies clients again
  // that do not come back.
  void OnTimer(std::uint64_t now_ns);

  std::size_t size() const { return sessions_.size(); }
  template <typename See>
  void ForEach(See see) const {
    for (const auto& [id, session] : sessions_) see(*session);
  }
  std::uint64_t cached_bytes() const { return cached_bytes_; }

 private:
  static void Touch(Session& session, std::uint64_t now_ns);
  // Returns true if the session waits for an answer that will come, however late.
  static bool Waits(const Session& session);
  void FitHeap(std::uint64_t cached_bytes);
  void KeepMore(const Session& but);
  void ShedCached(const Session& but);
  void Close(Session& session);
  void Tell(Session& session);
  void TellAgain(std::uint64_t now_ns);
  void ExpireSilent(std::uint64_t now_ns);

  // A client that this core disconnected.
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
  std::uint64_t cached_bytes_limit_ =
      0;  // At most cached_bytes_max_: the part that is covered now.
  std::vector<Untold> untold_;
  std::uint64_t cached_bytes_ = 0;  // All cached replies: values and entries.
  absl::flat_hash_map<std::uint64_t, std::unique_ptr<Session>> sessions_;
};

}  // namespace tidepool::daemon
