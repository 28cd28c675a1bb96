// Pieces of a filter as answers to its download.
//
//   daemon/ops/bloom_ops, daemon/ops/prefilter_ops -> [filter_piece] -> storage/block_filter
#pragma once

#include <cstdint>

#include "daemon/ops/operation.h"
#include "storage/block_filter.h"

namespace tidepool::daemon {

// Answers with the bytes from `offset` on, at most to the end of a block, and the next offset (0:
// at the end). A block without inserts has no bytes in the answer: its bits are zero.
void AnswerFilterPiece(const storage::BlockFilter& filter, std::uint64_t offset,
                       const OperationContext& context, Reply* reply);

}  // namespace tidepool::daemon
