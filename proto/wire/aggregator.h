// Node aggregation: a daemon forwards operations for the clients of its machine, and combines
// operations of several clients into common groups.
//
//   daemon/core/dispatcher -> [Aggregator] (client/link/node_aggregator) => the owners' cores
//
// The daemon's cores know only the interface. The sender is a client's engine, which the daemon's
// program installs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "proto/base/bytes.h"
#include "proto/base/channel_security.h"
#include "proto/base/ids.h"
#include "proto/base/result.h"
#include "proto/base/status.h"

namespace tidepool::wire {

// A checked group, as it came. Its operations are numbers `first` to `first` + `count` - 1 of their
// frame; `body` is as RequestWriter::AddEncodedGroup takes it.
struct ForwardedGroup {
  PartitionId partition;
  std::uint16_t first = 0;
  std::uint16_t count = 0;
  bool uniform = false;
  Bytes body;
};

// The forwarded groups of one frame.
struct ForwardedFrame {
  CoreId core;               // Core that waits for the outcome,
  std::uint64_t ticket = 0;  // and its number for the frame.
  SessionId session;         // The client's session.
  Epoch epoch;               // Epoch of the client's map.
  std::uint64_t deadline_ns = 0;
  std::vector<ForwardedGroup> groups;                   // In the order of `first`.
  std::shared_ptr<const std::vector<std::byte>> bytes;  // Memory behind the bodies.
};

// Some neighbouring operations of the frame did not take effect, or perhaps did not (kUnknown).
struct ForwardedFailure {
  std::uint16_t first = 0;
  std::uint16_t count = 0;
  StatusCode code = StatusCode::kUnknown;
  std::string text;
};

struct ForwardedOutcome {
  std::uint64_t ticket = 0;
  // Number of sessions whose operations have lately travelled together, with this session.
  std::uint32_t companions = 1;
  // Ascending and disjoint. All other operations took effect.
  std::vector<ForwardedFailure> failures;
};

class Aggregator {
 public:
  virtual ~Aggregator() = default;
  // Forwards a frame. Any thread; does not block. Each frame gets an outcome, at its deadline at
  // the latest. Operations of a session on a key take effect in the order of their frames.
  virtual void Forward(ForwardedFrame frame) = 0;
  // Waits at most a second until forwarded frames end, and delivers their outcomes. Later frames
  // get no outcome.
  virtual void Stop() = 0;
};

// Where the aggregator finds its cluster.
struct AggregatorTarget {
  std::vector<std::string> addresses;  // Control addresses, the node's own first.
  std::string token;
  std::string devices;  // Devices of the data path.
  ChannelSecurity security;
};

struct AggregatorOptions {
  // Longest wait of operations for operations of other clients.
  std::uint32_t flush_delay_us = 200;
  // Asked when the first frame has come. Any thread.
  std::function<AggregatorTarget()> target;
  // Takes the outcomes of a core's frames. Any thread; does not block.
  std::function<void(CoreId, std::vector<ForwardedOutcome>)> deliver;
};
using AggregatorMaker = std::function<std::unique_ptr<Aggregator>(AggregatorOptions)>;

}  // namespace tidepool::wire
