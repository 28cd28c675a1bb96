// The present operations: their content, their sender, and the destination of their answers.
//
//   daemon/core/dispatcher -> [reception] -> code that runs, answers, counts and keeps operations
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/core/answer_sink.h"
#include "daemon/core/reply_cache.h"
#include "daemon/core/session.h"
#include "proto/wire/group.h"
#include "storage/partition.h"
#include "storage/value_io.h"

namespace tidepool::daemon {

// One operation that will run. Views only.
struct Planned {
  storage::Partition* partition;
  const wire::Operation* operation;
  std::uint64_t hash;
  std::uint16_t index;
  std::uint16_t group;
  bool quiet = false;
  Upload* upload =
      nullptr;  // Upload of an operation that has waited; otherwise the session has it.
};

// A decoded request. The dispatcher reuses one object, so decoding allocates nothing after the
// first requests.
struct RequestAtHand {
  wire::Request request;
  std::vector<Planned> plan;  // Operations of `request` that run now.
  // A copy of its frame, made when the first of its groups must wait, and the session credit that
  // the copy takes.
  std::shared_ptr<const std::vector<std::byte>> copy;
  std::shared_ptr<const HeldBytes> held;
};

inline std::uint64_t DeadlineNs(const wire::Request& request, std::uint64_t received_ns) {
  return received_ns + std::uint64_t{request.header.time_left_us} * 1'000;
}

// Begins to cache the answers of the request.
inline CachedReply* KeepFrame(Session& session, const wire::Request& request) {
  return &session.kept.Make(request.header.frame_id, request.groups.size());
}

// A value that is streamed after its answer.
struct AwaitingDownload {
  std::uint16_t index;
  std::shared_ptr<const storage::ValueReader> value;
};

// The owner of the present operations and the destination of their answers. Lives on the stack.
struct Reception {
  Session& session;
  std::uint64_t frame_id;
  std::uint64_t received_ns;
  CachedReply* kept;  // Null while nothing of the frame needs to be cached.
  AnswerSink& sink;
  // Position that must be durable before the answers are sent; 0: none.
  std::uint64_t commit_wait = 0;
  CopyWaits copy_waits = {};                     // The answers wait for these copies too.
  std::vector<AwaitingDownload> downloads = {};  // Sent with the answers.
  bool held = false;                             // The answers wait for one of both.
  // Bytes that answers behind the present operation need besides their entries.
  std::size_t rooms_behind = 0;
};

}  // namespace tidepool::daemon
