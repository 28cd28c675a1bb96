#include "daemon/sessions.h"

#include <string>
#include <utility>
#include <vector>

#include "proto/base/limits.h"
#include "proto/base/log.h"

namespace tidepool::daemon {

Sessions::Sessions(transport::Worker& worker, Streams& streams, const Clock& clock)
    : worker_(worker), streams_(streams), clock_(clock) {}

Sessions::~Sessions() {
  for (auto& [id, session] : sessions_) Disconnect(*session);
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
  if (session != nullptr) Disconnect(*session);
  TP_RETURN_IF_ERROR(worker_.CheckAddress(request.worker_address));
  if (session == nullptr) {
    auto made = std::make_unique<Session>();
    made->id = grant.id;
    made->daemon = request.daemon;
    made->client_name = request.client_name;
    made->credit_operations = grant.credit_operations;
    made->credit_bytes = grant.credit_bytes;
    made->heard_ns = grant.heard_ns;
    session = made.get();
    sessions_.emplace(grant.id.value(), std::move(made));
  }
  session->connection = grant.connection;
  session->worker_address = request.worker_address;
  Heard(*session, clock_.MonotonicNs());
  return OkStatus();
}

Session* Sessions::Find(SessionId id) {
  const auto found = sessions_.find(id.value());
  return found == sessions_.end() ? nullptr : found->second.get();
}

Session* Sessions::Find(std::uint64_t id, std::uint32_t connection) {
  Session* session = Find(SessionId(id));
  if (session == nullptr || session->connection != connection) return nullptr;
  if (session->endpoint == nullptr && !session->worker_address.empty()) Connect(*session);
  return session->endpoint != nullptr ? session : nullptr;
}

// Not before its first frame, whose connection the endpoint then shares: when both sides connect to
// each other at once, and again as these connections break, UCX 1.13.1 aborts the process
// (tcp_cm.c, "stale_fd == -1").
void Sessions::Connect(Session& session) {
  auto endpoint = worker_.Connect(std::exchange(session.worker_address, {}));
  if (!endpoint.ok()) {
    log::Warn("cannot answer " + session.client_name + ": " + endpoint.status().ToString());
    return;
  }
  session.endpoint = *endpoint;
  session.endpoint->user = &session;
}

Session* Sessions::FindByEndpoint(transport::Endpoint* endpoint) {
  auto* session = static_cast<Session*>(endpoint->user);
  return session != nullptr && session->endpoint == endpoint ? session : nullptr;
}

void Sessions::Heard(Session& session, std::uint64_t now_ns) {
  // The shared word costs a cache miss, so it is written once a second.
  constexpr std::uint64_t kStepNs = 1'000'000'000;
  if (now_ns < session.last_heard_ns + kStepNs) return;
  session.last_heard_ns = now_ns;
  session.heard_ns->store(now_ns, std::memory_order_relaxed);
}

void Sessions::Disconnect(Session& session) {
  streams_.OnDisconnect(session);
  session.worker_address.clear();
  if (session.endpoint == nullptr) return;
  session.endpoint->user = nullptr;
  worker_.Close(std::exchange(session.endpoint, nullptr));
  Heard(session, clock_.MonotonicNs());
}

void Sessions::End(Session& session, std::string_view why) {
  if (!why.empty()) {
    log::Warn("session of " + session.client_name + " closed: " + std::string(why));
  }
  Disconnect(session);
  sessions_.erase(session.id.value());
}

void Sessions::ExpireSilent(std::uint64_t now_ns) {
  constexpr std::uint64_t kSilentNs = limits::kSessionUnconnectedSeconds * 1'000'000'000ull;
  std::vector<Session*> silent;
  for (const auto& [id, session] : sessions_) {
    // A client that waits for an answer is not silent however long it takes. One that receives a
    // value is heard by its acknowledgements.
    if (session->waiting_operations > 0) continue;
    if (session->suspended_operations > 0 && session->attached()) continue;
    if (now_ns > session->heard_ns->load(std::memory_order_relaxed) + kSilentNs)
      silent.push_back(session.get());
  }
  for (Session* session : silent) End(*session, {});
}

}  // namespace tidepool::daemon
