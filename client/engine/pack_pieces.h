// The pieces of a pack whose keys have come to lie in several partitions, because a range was split
// after the pack was made.
//
//   engine (SpreadPack) -> [PackPieces] -> partition queues
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "client/calls/call.h"
#include "client/engine/partition_queue.h"
#include "proto/wire/pack.h"

namespace tidepool::internal {

// A pack of its own, of some of another one's operations.
struct PackPiece {
  Operation operation;
  Operation* whole = nullptr;
  wire::Pack pack;                    // What `operation` has its bytes from.
  std::vector<std::uint16_t> places;  // Of its operations in the whole.
};

// Belongs to the whole pack, which ends when the last piece has ended. A piece may be spread again.
struct PackPieces {
  // `route`: the queue of a key.
  PackPieces(Operation* whole, const std::function<PartitionQueue*(Bytes)>& route);

  std::vector<std::unique_ptr<PackPiece>> pieces;
  std::size_t left = 0;  // Not ended.
};

}  // namespace tidepool::internal
