// The pieces of a pack with keys in several partitions, because a range was split after the pack
// was made.
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

// A pack made of some operations of another pack.
struct PackPiece {
  Operation operation;
  Operation* whole = nullptr;
  wire::Pack pack;                    // Has the bytes of `operation`.
  std::vector<std::uint16_t> places;  // Places of its operations in the whole pack.
};

// Belongs to the whole pack, which ends when the last piece has ended. A piece may be spread again.
struct PackPieces {
  // `route`: the queue of a key.
  PackPieces(Operation* whole, const std::function<PartitionQueue*(Bytes)>& route);

  std::vector<std::unique_ptr<PackPiece>> pieces;
  std::size_t left = 0;  // Not ended.
};

}  // namespace tidepool::internal
