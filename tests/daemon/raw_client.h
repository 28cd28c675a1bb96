// A node's cores in this process, and a client that speaks frames by hand, for tests of the
// protocol that the SDK would never do.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/core/core_group.h"
#include "proto/placement/owner.h"
#include "proto/transport/ucx_transport.h"
#include "proto/wire/answer.h"
#include "proto/wire/group.h"
#include "proto/wire/stream.h"

namespace tidepool::daemon {

// A node with a namespace of `partitions` partitions, all on core 0, under a lease of an hour. For
// a filter (for 100,000 items) there are two more: an equal filter, and a smaller filter.
// `capacity` is a queue's capacity. With a `volume`, which must outlive it and keep its slots, the
// namespace has durability sync, and like_it() is a volatile namespace.
class TestNode {
 public:
  explicit TestNode(std::uint32_t partitions = 1, std::uint64_t memory_bytes = 256ull << 20,
                    Kind kind = Kind::kHash, std::uint64_t capacity = 0,
                    std::string prefilter = "none",
                    std::shared_ptr<const Functions> functions = nullptr,
                    wire::Aggregator* aggregator = nullptr, storage::Volume* volume = nullptr);

  CoreGroup& cores() { return *cores_; }
  transport::Context& context() { return *context_; }
  Lease& lease() { return lease_; }
  static NamespaceId space() { return NamespaceId(7); }
  static NamespaceId like_it() { return NamespaceId(8); }
  static NamespaceId smaller() { return NamespaceId(9); }
  std::uint32_t partitions() const { return partitions_; }
  Term term() const { return term_; }
  // Publishes a map in which every partition has the next term.
  void RaiseTerms();
  // Publishes a map with these begins of an ordered namespace's ranges, under the next term.
  void SetRanges(std::vector<std::string> begins);
  // Sets the result of PartitionOf for all keys; no value: the partition of the key.
  void Address(std::optional<std::uint32_t> partition) { addressed_ = partition; }
  // Publishes a map in which the namespace has this share of the node's memory.
  void SetMemoryShare(std::uint32_t percent);
  // Publishes a map in which the partitions have this state.
  void SetState(placement::PartitionState state);
  PartitionId PartitionOf(std::string_view key, NamespaceId of = space()) const;

 private:
  void Publish();
  std::shared_ptr<const placement::Namespace> MakeSpace(NamespaceId id,
                                                        std::uint64_t expected_items) const;

  Lease lease_;
  std::unique_ptr<transport::Context> context_;
  std::unique_ptr<CoreGroup> cores_;
  std::uint32_t partitions_;
  const Kind kind_;
  const std::uint64_t capacity_;
  const std::string prefilter_;
  const bool is_durable_;
  Term term_{1};
  std::uint64_t epoch_ = 0;
  std::uint32_t memory_share_percent_ = 0;
  std::shared_ptr<const placement::Ranges> ranges_;
  std::optional<std::uint32_t> addressed_;
  placement::PartitionState state_ = placement::PartitionState::kActive;
};

// An answer that owns its bytes.
struct OwnedAnswer {
  std::uint64_t frame_id = 0;
  wire::Answer answer;
  std::string value;
};

class RawClient;

// A worker of many clients, each with its own session: workers need descriptors.
class SharedWorker final : public transport::Receiver {
 public:
  explicit SharedWorker(TestNode& node);

  transport::Worker& worker() { return *worker_; }
  void Add(SessionId session, RawClient* client) { clients_[session.value()] = client; }

  void OnFrame(Bytes frame) override;
  void OnPeerLost(transport::Endpoint* endpoint, const Status& why) override;

 private:
  std::unordered_map<std::uint64_t, RawClient*> clients_;
  std::unique_ptr<transport::Worker> worker_;
};

class RawClient : public transport::Receiver {
 public:
  // With `shared`, which must outlive it, it has no worker of its own.
  explicit RawClient(TestNode& node, SharedWorker* shared = nullptr);
  ~RawClient() override;

  // Opens a session, or resumes the present session on a new worker. Returns true if it was
  // resumed.
  bool Attach();
  // Drops the connection without a word, as a cut link does.
  void CutConnection();

  // A header with this session's numbers and the next frame id.
  wire::FrameHeader NextHeader();
  // Groups of operations on their keys' partitions in `space`.
  std::string Request(const wire::FrameHeader& header, Term term,
                      const std::vector<wire::Operation>& operations,
                      NamespaceId space = TestNode::space());
  void Send(const std::string& frame);
  // Makes header and request and sends them; returns the frame id.
  std::uint64_t Call(const std::vector<wire::Operation>& operations,
                     NamespaceId space = TestNode::space());

  // Waits for the next answer; fails the test after a minute. Answers come in the order received.
  OwnedAnswer WaitAnswer();
  // Waits for a stream frame.
  struct OwnedStream {
    wire::StreamFrame frame;
    std::string data;
  };
  OwnedStream WaitStream();
  void WaitLost();
  // True: an answer has come; false: the connection has ended.
  bool WaitAnswerOrLost();
  // Progresses until the daemon's core has run its loop a few times; then nothing more will come.
  void Settle();
  bool HasAnswer() const { return !answers_.empty(); }
  bool lost() const { return lost_; }
  // Entries that answered several operations; WaitAnswer takes them apart.
  int runs() const { return runs_; }

  std::uint64_t ack_watermark = 1;
  std::uint32_t reply_bytes_max = 60 * 1024;
  std::uint32_t time_left_us = 10'000'000;
  bool uncounted = false;  // Applies to the session of the next Attach.
  const AttachResult& attached() const { return attached_; }

  void OnFrame(Bytes frame) override;
  void OnPeerLost(transport::Endpoint* endpoint, const Status& why) override;

 private:
  template <typename Condition>
  void WaitUntil(const char* what, Condition&& condition);

  TestNode& node_;
  transport::Worker& worker() { return shared_ == nullptr ? *worker_ : shared_->worker(); }

  SharedWorker* shared_;
  transport::BufferPool pool_;
  std::unique_ptr<transport::Worker> worker_;
  transport::Endpoint* endpoint_ = nullptr;
  AttachResult attached_;
  std::uint64_t next_frame_ = 1;
  std::deque<OwnedAnswer> answers_;
  std::deque<OwnedStream> streams_;
  bool lost_ = false;
  int runs_ = 0;
};

// Sends a part of an upload.
void UploadPart(RawClient& client, std::uint64_t number, const std::string& value,
                std::size_t offset, std::size_t bytes);
// Sends all parts within the window and waits for the last acknowledgement.
void UploadValue(RawClient& client, std::uint64_t number, const std::string& value);
// The value of an answer that announces it. REQUIRES: no other value is on its way.
std::string DownloadValue(RawClient& client, const OwnedAnswer& answer);

// Operations for tests; `key` and `value` must outlive them.
wire::Operation GetOp(std::string_view key);
wire::Operation PutOp(std::string_view key, std::string_view value);
wire::Operation AddOp(std::string_view key, std::int64_t by);

}  // namespace tidepool::daemon
