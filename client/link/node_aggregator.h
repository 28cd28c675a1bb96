// A daemon's sender of operations that clients of its machine gave to it: a thread with a client's
// engine. kvd's main program installs it, so neither daemon/ nor client/ knows the other.
//
//   daemon/core/dispatcher -> [node aggregator] -> pack merger -> engine => owners' cores
//
// Operations wait for operations of the machine's other clients. The wait ends when all recent
// participants have brought operations, or after flush_delay_us. A lone client never waits.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "client/engine/engine.h"
#include "client/link/pack_merger.h"
#include "proto/wire/aggregator.h"

namespace tidepool::internal {

class NodeAggregator final : public wire::Aggregator {
 public:
  // Its thread and its connections are made when the first frame comes.
  explicit NodeAggregator(wire::AggregatorOptions options) : options_(std::move(options)) {}
  ~NodeAggregator() override { Stop(); }
  NodeAggregator(const NodeAggregator&) = delete;
  NodeAggregator& operator=(const NodeAggregator&) = delete;

  void Forward(wire::ForwardedFrame frame) override;
  // Calls that have not ended by then end with kUnknown or kCancelled.
  void Stop() override;

 private:
  // A session that has lately brought something.
  struct Companion {
    bool present = false;      // In the round at hand.
    std::uint32_t missed = 0;  // Rounds in a row that it was not in.
    std::uint64_t seen_ns = 0;
  };

  void Run();
  bool TakeInbox(std::vector<wire::ForwardedFrame>* frames);
  Status Connect();
  void Add(const wire::ForwardedFrame& frame);
  bool RoundIsComplete(std::uint64_t now_ns) const;
  void EndRound();
  void Deliver();
  void EndAll();
  void Refuse(const wire::ForwardedFrame& frame, const Status& why);

  const wire::AggregatorOptions options_;

  std::mutex mutex_;
  std::condition_variable arrived_;  // While there is no engine.
  std::vector<wire::ForwardedFrame> inbox_;
  bool stopping_ = false;
  Engine* to_ring_ = nullptr;  // Null until the engine exists.
  std::thread thread_;

  // The thread's own.
  Notifier notifier_;
  std::shared_ptr<Engine> engine_;
  std::unique_ptr<PackMerger> merger_;
  std::unordered_map<SessionId, Companion> companions_;
  std::size_t present_ = 0;
  std::size_t expected_ = 0;  // Companions that rounds wait for.
  std::uint64_t round_since_ns_ = 0;
  std::unordered_map<CoreId, std::vector<wire::ForwardedOutcome>> outcomes_;
};

}  // namespace tidepool::internal
