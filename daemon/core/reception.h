// The operations at hand: what they are, who sent them, and where their answers go.
//
//   daemon/core/dispatcher -> [reception] -> what runs, answers, counts and keeps operations
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
  Upload* upload = nullptr;  // Of an operation that has waited; otherwise the session has it.
};

// A request, decoded. The dispatcher reuses one, so decoding allocates nothing once it is warm.
struct RequestAtHand {
  wire::Request request;
  std::vector<Planned> plan;  // Its operations that run now; views of `request`.
  // A copy of its frame, made when the first of its groups must wait; and what the copy takes of
  // the session's credit.
  std::shared_ptr<const std::vector<std::byte>> copy;
  std::shared_ptr<const HeldBytes> held;
};

inline std::uint64_t DeadlineNs(const wire::Request& request, std::uint64_t received_ns) {
  return received_ns + std::uint64_t{request.header.time_left_us} * 1'000;
}

// Begins to keep the answers of the request.
inline CachedReply* KeepFrame(Session& session, const wire::Request& request) {
  return &session.kept.Make(request.header.frame_id, request.groups.size());
}

// A value that is streamed once its answer is out.
struct AwaitingDownload {
  std::uint16_t index;
  std::shared_ptr<const storage::ValueReader> value;
};

// Owner of the operations at hand, and the way of their answers. Lives on the stack.
struct Reception {
  Session& session;
  std::uint64_t frame_id;
  std::uint64_t received_ns;
  CachedReply* kept;  // Null while nothing of the frame needs to be kept.
  AnswerSink& sink;
  // The position that must be durable before the answers go out; 0: none.
  std::uint64_t commit_wait = 0;
  std::vector<AwaitingDownload> downloads = {};  // They go out with the answers.
  bool held = false;                             // The answers wait for `commit_wait`.
  // Bytes that answers behind the present operation need beside their entries.
  std::size_t rooms_behind = 0;
};

}  // namespace tidepool::daemon
