#include "daemon/core/sessions.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "proto/base/limits.h"
#include "proto/base/log.h"

namespace tidepool::daemon {
namespace {

// The first time; then twice as long, each time. A client comes back within about half a second.
constexpr std::uint64_t kTellAgainNs = 1'000'000'000;
// Set aside at once for answers that will be kept.
constexpr std::uint64_t kHeapStepBytes = 4ull << 20;

}  // namespace

Sessions::Sessions(transport::Worker& worker, Streams& streams, const Clock& clock, HeapCover& heap,
                   const transport::BufferPool& buffers, std::uint64_t cached_bytes_max,
                   std::function<void(SessionId)> on_shed)
    : worker_(worker),
      streams_(streams),
      clock_(clock),
      on_shed_(std::move(on_shed)),
      heap_(heap),
      buffers_(buffers),
      cached_bytes_max_(cached_bytes_max) {
  FitHeap(0);
}

Sessions::~Sessions() {
  for (auto& [id, session] : sessions_) Close(*session);
}

Status Sessions::Attach(const SessionGrant& grant, const AttachRequest& request) {
  Session* session = Find(grant.id);
  if (session == nullptr && grant.connection > 1) {
    return Status(StatusCode::kNotFound, "the session has ended here");
  }
  if (session == nullptr && sessions_.size() >= limits::kSessionsPerCoreMax) {
    return Status(StatusCode::kOverloaded,
                  std::to_string(sessions_.size()) + " sessions on this core",
                  "use fewer clients, or more nodes or cores");
  }
  if (session != nullptr && grant.connection <= session->connection) {
    return Status(StatusCode::kCancelled, "a later attach of this session came first");
  }
  if (session != nullptr) Close(*session);
  auto endpoint = worker_.Connect(request.worker_address);
  if (!endpoint.ok()) return endpoint.status();
  if (session == nullptr) {
    auto made = std::make_unique<Session>(&cached_bytes_);
    made->id = grant.id;
    made->uncounted = request.uncounted;
    made->client_name = request.client_name;
    made->credit_operations = grant.credit_operations;
    made->credit_bytes = grant.credit_bytes;
    made->heard_ns = grant.heard_ns;
    session = made.get();
    sessions_.emplace(grant.id.value(), std::move(made));
  }
  session->connection = grant.connection;
  session->worker_address = request.worker_address;
  session->endpoint = *endpoint;
  session->endpoint->user = session;
  Touch(*session, clock_.MonotonicNs());
  return OkStatus();
}

Session* Sessions::Find(SessionId id) {
  const auto found = sessions_.find(id.value());
  return found == sessions_.end() ? nullptr : found->second.get();
}

Session* Sessions::Find(std::uint64_t id, std::uint32_t connection) {
  Session* session = Find(SessionId(id));
  const bool current =
      session != nullptr && session->connection == connection && session->endpoint != nullptr;
  return current ? session : nullptr;
}

Session* Sessions::FindByEndpoint(transport::Endpoint* endpoint) {
  auto* session = static_cast<Session*>(endpoint->user);
  return session != nullptr && session->endpoint == endpoint ? session : nullptr;
}

void Sessions::Touch(Session& session, std::uint64_t now_ns) {
  // Writes once a second, because the shared word costs a cache miss.
  constexpr std::uint64_t kStepNs = 1'000'000'000;
  if (now_ns < session.last_heard_ns + kStepNs) return;
  session.last_heard_ns = now_ns;
  session.heard_ns->store(now_ns, std::memory_order_relaxed);
}

void Sessions::Disconnect(Session& session) {
  if (session.endpoint == nullptr) return Close(session);
  const std::uint64_t now_ns = clock_.MonotonicNs();
  Tell(session);
  untold_.push_back({session.id, session.connection, kTellAgainNs, now_ns + kTellAgainNs});
  streams_.OnDisconnect(session);
  Touch(session, now_ns);
}

// Sends over the present connection, or over a new one that is then left open.
void Sessions::Tell(Session& session) {
  if (session.endpoint == nullptr || !session.endpoint->alive()) {
    Close(session);
    // Connects anew; if the client has died, this connection breaks too.
    auto fresh = worker_.Connect(session.worker_address);
    if (!fresh.ok()) return;
    session.endpoint = *fresh;
  }
  if (on_leave_) on_leave_(session);
  streams_.SayGoodbye(session);
  session.endpoint->user = nullptr;
  worker_.CloseWhenSent(std::exchange(session.endpoint, nullptr));
}

void Sessions::TellAgain(std::uint64_t now_ns) {
  std::erase_if(untold_, [&](Untold& untold) {
    if (now_ns < untold.again_ns) return false;
    Session* session = Find(untold.id);
    if (session == nullptr || session->connection != untold.connection) return true;
    Tell(*session);
    untold.wait_ns *= 2;
    untold.again_ns = now_ns + untold.wait_ns;
    return false;
  });
}

// Without a word.
void Sessions::Close(Session& session) {
  streams_.OnDisconnect(session);
  if (session.endpoint == nullptr) return;
  if (on_leave_) on_leave_(session);
  session.endpoint->user = nullptr;
  worker_.Close(std::exchange(session.endpoint, nullptr));
  Touch(session, clock_.MonotonicNs());
}

void Sessions::End(Session& session, std::string_view why) {
  if (!why.empty()) {
    log::Warn("session of " + session.client_name + " closed: " + std::string(why));
  }
  Disconnect(session);
  sessions_.erase(session.id.value());
}

bool Sessions::Waits(const Session& session) {
  return session.waiting_operations > 0 ||
         (session.event_waiters > 0 && session.endpoint != nullptr);
}

// Reserves memory for this many bytes, or as much of it as there is.
void Sessions::FitHeap(std::uint64_t cached_bytes) {
  const std::uint64_t other_bytes = buffers_.bytes() + worker_.memory_bytes();
  heap_.Fit(cached_bytes + other_bytes);
  const std::uint64_t covered = heap_.bytes() - std::min(heap_.bytes(), other_bytes);
  // One session's maximum is always allowed, because it is small.
  cached_bytes_limit_ =
      std::min(std::max<std::uint64_t>(covered, limits::kCachedReplyBytesMax), cached_bytes_max_);
}

void Sessions::KeepMore(const Session& but) {
  FitHeap(cached_bytes_ + kHeapStepBytes);
  if (cached_bytes_ > cached_bytes_limit_) ShedCached(but);
}

// Frees an eighth more than needed, so that the next frame does not search again.
void Sessions::ShedCached(const Session& but) {
  struct Holder {
    // Sort key. Sessions with a waiting operation lose most, so they come last. Then small
    // sessions, because even many of them free little memory. Then sessions by the time of silence
    // on all cores.
    bool busy;
    bool small;
    std::uint64_t heard_ns;  // Read once: other cores write it.
    Session* session;
  };
  std::vector<Holder> holders;
  for (const auto& [id, session] : sessions_) {
    if (session.get() == &but || session->kept.held_bytes() == 0) continue;
    holders.push_back({Waits(*session), false, session->heard_ns->load(std::memory_order_relaxed),
                       session.get()});
  }
  if (holders.empty()) return;
  const std::uint64_t large_bytes = cached_bytes_limit_ / 2 / holders.size();
  for (Holder& holder : holders) holder.small = holder.session->kept.held_bytes() <= large_bytes;
  std::sort(holders.begin(), holders.end(), [](const Holder& a, const Holder& b) {
    return std::tie(a.busy, a.small, a.heard_ns) < std::tie(b.busy, b.small, b.heard_ns);
  });
  std::size_t ended = 0;
  while (ended < holders.size() && cached_bytes_ > cached_bytes_limit_ / 8 * 7) {
    Session& session = *holders[ended++].session;
    on_shed_(session.id);
    End(session, {});
  }
  if (ended == 0) return;
  log::Warn("more than " + std::to_string(cached_bytes_limit_ >> 20) +
            " MiB of answers were kept for clients that do not go on; closed the sessions that "
            "held much and were silent longest: " +
            std::to_string(ended));
}

void Sessions::OnTimer(std::uint64_t now_ns) {
  ExpireSilent(now_ns);
  TellAgain(now_ns);
  FitHeap(cached_bytes_);
}

void Sessions::ExpireSilent(std::uint64_t now_ns) {
  constexpr std::uint64_t kSilentNs = limits::kSessionUnconnectedSeconds * 1'000'000'000ull;
  std::vector<Session*> silent;
  for (const auto& [id, session] : sessions_) {
    // A client that waits for an answer is not silent, however long it waits. A client that
    // receives a value is heard by its acknowledgements.
    if (Waits(*session)) continue;
    if (now_ns > session->heard_ns->load(std::memory_order_relaxed) + kSilentNs)
      silent.push_back(session.get());
  }
  for (Session* session : silent) End(*session, {});
}

}  // namespace tidepool::daemon
