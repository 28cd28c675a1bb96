#include "daemon/ops/filter_piece.h"

#include <algorithm>

#include "proto/base/limits.h"
#include "proto/base/split_block.h"

namespace tidepool::daemon {

void AnswerFilterPiece(const storage::BlockFilter& filter, std::uint64_t offset,
                       const OperationContext& context, Reply* reply) {
  const std::uint64_t total = filter.shape().bytes();
  if (offset >= total || offset % kSplitBlockBytes != 0) {
    return Refuse(reply, StatusCode::kInvalidArgument, "no such place in the filter");
  }
  std::uint64_t block = offset / filter.block_bytes();
  std::uint64_t next = 0;
  if (filter.BlockOffset(block) == 0) {
    while (block < filter.block_count() && filter.BlockOffset(block) == 0) ++block;
    next = block * filter.block_bytes();
  } else {
    const std::uint64_t in_block = offset % filter.block_bytes();
    const std::uint64_t room = context.scratch.size() / kSplitBlockBytes * kSplitBlockBytes;
    const std::uint64_t bytes = std::min(
        {filter.block_bytes() - in_block, std::uint64_t{limits::kUnstreamedValueBytesMax}, room});
    if (bytes == 0) {
      return Refuse(reply, StatusCode::kInvalidArgument,
                    "no room for a piece of the filter in the answer; allow 60 KiB");
    }
    reply->answer.value = filter.Block(block).subspan(in_block, bytes);
    next = offset + bytes;
  }
  reply->answer.has_number = true;
  reply->answer.number = next < total ? next : 0;
}

}  // namespace tidepool::daemon
