// One client's state on one core; it survives a broken connection.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/core/reply_cache.h"
#include "daemon/ops/operation.h"
#include "proto/base/ids.h"
#include "proto/transport/transport.h"
#include "storage/value_io.h"

namespace tidepool::daemon {

// A value that the client streams in, collected in unpublished memory until a Put names it.
struct Upload {
  std::uint64_t number = 0;  // Chosen by the client.
  std::uint64_t received_bytes = 0;
  std::uint64_t acked_bytes = 0;
  storage::ValueWriter writer;
  // Parts that wait for memory, at most a window of them.
  std::deque<std::vector<std::byte>> parked;
  std::uint64_t arrived_bytes = 0;  // Received or parked.
};

// A value that is streamed out, pinned until the client has it.
struct Download {
  std::uint64_t frame_id = 0;
  std::uint64_t operation = 0;
  std::uint64_t sent_bytes = 0;
  std::uint64_t acked_bytes = 0;
  std::shared_ptr<const storage::ValueReader> reader;
};

// The session credit in bytes that a waiting frame takes, until its last group is gone.
class HeldBytes {
 public:
  HeldBytes(std::shared_ptr<std::uint64_t> sum, std::uint64_t bytes)
      : sum_(std::move(sum)), bytes_(bytes) {
    *sum_ += bytes_;
  }
  ~HeldBytes() { *sum_ -= bytes_; }
  HeldBytes(const HeldBytes&) = delete;
  HeldBytes& operator=(const HeldBytes&) = delete;

 private:
  const std::shared_ptr<std::uint64_t> sum_;  // May outlive the session.
  const std::uint64_t bytes_;
};

// Owner core only. Invariant: `endpoint` is null or open; at most one upload at a time.
struct Session {
  // `cached_bytes`: cached answers of all sessions of the core.
  explicit Session(std::uint64_t* cached_bytes) : kept(cached_bytes) {}

  SessionId id;
  std::uint32_t connection = 0;  // Counts attaches; frames of an older connection are dropped.
  bool uncounted =
      false;  // The client is a tool: its operations do not count as users' operations.
  std::string client_name;
  std::string worker_address;               // Worker address of the client.
  transport::Endpoint* endpoint = nullptr;  // Null while the client is not connected.
  std::uint64_t last_heard_ns = 0;
  // The last sign of life on any core: a client that speaks to one core is not silent for the
  // others. Shared by the session's parts on all cores.
  std::shared_ptr<std::atomic<std::uint64_t>> heard_ns;
  std::uint32_t credit_operations = 0;
  std::uint32_t credit_bytes = 0;
  std::uint32_t waiting_operations = 0;  // Operations in groups that wait for a newer map.
  // Bytes of these groups' frames; the sum over HeldBytes.
  std::shared_ptr<std::uint64_t> held_bytes = std::make_shared<std::uint64_t>(0);
  std::uint32_t event_waiters = 0;          // Operations that wait for an event,
  std::uint64_t event_waiter_bytes = 0;     // and their keys and values.
  std::uint64_t awaiting_commit_bytes = 0;  // Answers that wait for a commit.
  ReplyCache kept;
  std::unique_ptr<Upload> upload;
  std::uint64_t uploads_ended = 0;  // Parts of uploads up to this number are late and are ignored.
  std::vector<Download> downloads;
  // Direct reads counted already, by entry of the client's DirectCounts.
  std::unordered_map<std::uint32_t, DirectReads> direct_reads;
};

}  // namespace tidepool::daemon
