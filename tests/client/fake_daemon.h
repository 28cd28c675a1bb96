// A cluster in this process, at the level of frames. The client meets, on demand and in any order,
// events that a real daemon has only by accident: refusals, late answers, cut connections, resumed
// and lost sessions. All other behaviour is tested with real daemons.
//
// Frames pass through memory when the client makes progress, on its thread. The fake keeps received
// frames until the test answers them, or answers by itself from a map in memory (Auto()).
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "client/engine/control_plane.h"
#include "client/engine/engine.h"
#include "client/engine/space.h"
#include "proto/base/clock.h"
#include "proto/placement/placement_map.h"
#include "proto/transport/transport.h"
#include "proto/wire/answer.h"
#include "proto/wire/frame.h"
#include "proto/wire/group.h"
#include "proto/wire/stream.h"
#include "tidepool/tidepool.h"

namespace tidepool::testing {

// A frame that has come: decoded, with its bytes.
struct ReceivedFrame {
  std::uint16_t node = 0;
  std::uint16_t core = 0;
  std::vector<std::byte> bytes;
  wire::FrameHeader header;
  wire::Request request;     // A request frame: views of `bytes`.
  wire::StreamFrame stream;  // A stream frame.

  const wire::Operation& operation(std::size_t i) const { return request.operations[i]; }
  std::string key(std::size_t i) const { return std::string(AsText(operation(i).key)); }
};

struct FakeOptions {
  std::uint16_t nodes = 1;
  std::uint16_t cores = 1;
  std::uint32_t partitions = 4;
  std::uint32_t credit_operations = 256;
  std::uint32_t credit_bytes = 1024 * 1024;
  // Uses the machine's time and the wait mode of the ConnectOptions, instead of a TickingClock and
  // polling. For tests of sleeping and woken threads.
  bool real_time = false;
  // Empty rounds of progress before a sent message reaches the client.
  unsigned quiet_rounds = 0;
};

// Time that passes by being looked at, 100 ns each time, and that a test moves on: waits of a given
// length end by themselves, and deadlines pass only when the test wants.
class TickingClock final : public Clock {
 public:
  std::uint64_t MonotonicNs() const override { return now_ns_.fetch_add(100); }
  std::uint64_t WallMs() const override { return now_ns_.load() / 1'000'000; }
  std::uint64_t Peek() const { return now_ns_.load(); }
  void AdvanceMs(std::uint64_t ms) { now_ns_ += ms * 1'000'000; }

 private:
  mutable std::atomic<std::uint64_t> now_ns_{1'000'000'000};
};

class FakeWorker;

// Thread-safe: the client's threads come in through its worker and its control plane, the test's
// through the methods below.
class FakeCluster {
 public:
  explicit FakeCluster(FakeOptions options = {});
  ~FakeCluster();

  // A client of this cluster with a time of its own, and its namespace "space".
  std::shared_ptr<internal::Engine> Connect(ConnectOptions options = {});
  BytesMap Open(const std::shared_ptr<internal::Engine>& engine);

  // Answers requests by itself from now on.
  void Auto() { SetAuto(true); }
  void SetAuto(bool on);
  std::size_t auto_answered() const;

  // Number of received frames that were not taken: request frames, and stream frames.
  std::size_t request_count() const;
  std::shared_ptr<ReceivedFrame> TakeRequest();
  std::size_t stream_count() const;
  std::shared_ptr<ReceivedFrame> TakeStream();
  std::uint64_t detaches() const;
  // Number of workers of present clients. They use this object until the last of their workers is
  // gone.
  std::size_t worker_count() const {
    const auto guard = Guard();
    return workers_.size();
  }

  // Answers.
  void Send(const ReceivedFrame& to, const std::vector<wire::Answer>& answers);
  // kOk for each operation, with `value` and version 1.
  void AnswerAll(const ReceivedFrame& to, std::string_view value = {});
  void Refuse(const ReceivedFrame& to, std::uint16_t group, StatusCode code,
              std::uint64_t number = 0, std::string_view text = {});
  void SendPart(const ReceivedFrame& to, std::uint16_t index, std::uint64_t offset,
                std::string_view whole, std::size_t bytes, StatusCode code = StatusCode::kOk);
  void SendAck(const ReceivedFrame& part, std::uint64_t offset, StatusCode code = StatusCode::kOk);

  // State of nodes. The map is published when PublishMap is called.
  placement::PlacementMap& map() { return map_; }
  // Raises the epoch and the namespace's change mark.
  void PublishMap();
  void SetTerm(std::uint32_t partition, std::uint32_t term, std::uint16_t node, std::uint16_t core);
  // Cuts the connections of all clients with the node.
  void Cut(std::uint16_t node);
  // Sets if Attach finds the old session.
  void set_resumes(bool resumes) { resumes_ = resumes; }
  // From the next Attach on.
  void set_cores(std::uint16_t cores) { cores_ = cores; }
  void set_attach_error(Status status) {
    const auto guard = Guard();
    attach_error_ = std::move(status);
  }
  void set_map_error(Status status) {
    const auto guard = Guard();
    map_error_ = std::move(status);
  }
  // Runs in each GetMap before it answers, unlocked: it may block.
  void set_map_hook(std::function<void()> hook) { map_hook_ = std::move(hook); }
  std::size_t attach_count() const;
  std::vector<Epoch> map_waits() const;  // wait_for of each GetMap.

  // A key of partition `index`; another for each `number`.
  std::string KeyIn(std::uint32_t index, int number = 0) const;
  TickingClock& clock() { return clock_; }
  // Drives the client, as a thread does that waits for something else, until `condition` holds.
  // False after some thousand rounds.
  bool Pump(const std::shared_ptr<internal::Engine>& engine,
            const std::function<bool()>& condition);
  // Drives it until nothing more can happen by itself.
  void Settle(const std::shared_ptr<internal::Engine>& engine);

 private:
  friend class FakeWorker;
  friend class FakeControl;

  struct Outgoing {
    FakeWorker* worker;
    std::vector<std::byte> bytes;
  };
  void OnClientFrame(FakeWorker* from, std::uint16_t node, std::uint16_t core, Bytes frame);
  void AnswerByItself(const ReceivedFrame& frame);
  wire::Answer Apply(const wire::Operation& operation, std::string* value);
  void Post(const ReceivedFrame& to, std::vector<std::byte> bytes);
  std::unique_lock<std::recursive_mutex> Guard() const {
    return std::unique_lock<std::recursive_mutex>(mutex_);
  }

  const FakeOptions options_;
  mutable std::recursive_mutex mutex_;
  TickingClock clock_;
  placement::PlacementMap map_;
  placement::PlacementMap published_;
  bool resumes_ = true;
  std::uint16_t cores_ = 1;
  Status attach_error_;
  Status map_error_;
  std::function<void()> map_hook_;
  std::size_t attaches_ = 0;
  std::vector<Epoch> map_waits_;
  std::uint64_t next_session_ = 0x1000;
  std::map<std::uint64_t, std::uint32_t> connections_;  // By session.
  std::map<std::uint64_t, FakeWorker*> worker_of_session_;

  bool auto_ = false;
  std::size_t auto_answered_ = 0;
  std::map<std::string, std::string> store_;
  std::deque<std::shared_ptr<ReceivedFrame>> requests_;
  std::deque<std::shared_ptr<ReceivedFrame>> streams_;
  std::uint64_t detaches_ = 0;
  std::vector<FakeWorker*> workers_;
};

}  // namespace tidepool::testing
