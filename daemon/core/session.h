// One client's state on one core: what survives a broken connection.
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

// A value that the client streams in: collected in unpublished memory until a Put names it.
struct Upload {
  std::uint64_t number = 0;  // The client's.
  std::uint64_t received_bytes = 0;
  std::uint64_t acked_bytes = 0;
  storage::ValueWriter writer;
  // Parts that wait for memory, which is on its way: at most a window of them.
  std::deque<std::vector<std::byte>> parked;
  std::uint64_t arrived_bytes = 0;  // Received or parked.
};

// A value that is streamed out: pinned until the client has it.
struct Download {
  std::uint64_t frame_id = 0;
  std::uint64_t operation = 0;
  std::uint64_t sent_bytes = 0;
  std::uint64_t acked_bytes = 0;
  std::shared_ptr<const storage::ValueReader> reader;
};

// What a frame that is kept back takes of its session's credit in bytes, until its last group goes.
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
  // `cached_bytes`: what all sessions of the core keep of answers.
  explicit Session(std::uint64_t* cached_bytes) : kept(cached_bytes) {}

  SessionId id;
  std::uint32_t connection = 0;  // Counts attaches; frames of an older connection are dropped.
  bool uncounted = false;        // A tool's: its operations are not among users' operations.
  std::string client_name;
  std::string worker_address;               // Of the client.
  transport::Endpoint* endpoint = nullptr;  // Null while the client is not connected.
  std::uint64_t last_heard_ns = 0;
  // The same of all cores: a client that speaks to one of them is not silent to the others. Shared
  // by the session's halves, and gone with the last of them.
  std::shared_ptr<std::atomic<std::uint64_t>> heard_ns;
  std::uint32_t credit_operations = 0;
  std::uint32_t credit_bytes = 0;
  std::uint32_t waiting_operations = 0;  // In groups that wait for a newer map.
  // The bytes of the frames of these groups; the sum of what HeldBytes hold.
  std::shared_ptr<std::uint64_t> held_bytes = std::make_shared<std::uint64_t>(0);
  std::uint32_t event_waiters = 0;          // That wait in their partition,
  std::uint64_t event_waiter_bytes = 0;     // and their keys and values.
  std::uint64_t awaiting_commit_bytes = 0;  // Of answers that wait for a commit.
  ReplyCache kept;
  std::unique_ptr<Upload> upload;
  std::uint64_t uploads_ended = 0;  // Parts of uploads up to this number are late and mean nothing.
  std::vector<Download> downloads;
  // Direct reads that were counted already, by entry of the client's DirectCounts.
  std::unordered_map<std::uint32_t, DirectReads> direct_reads;
};

}  // namespace tidepool::daemon
