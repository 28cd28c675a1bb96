// Filters from daemons, piece by piece.
//
//   bytes_bloom, absent_copy -> [filter_download] => BloomRead, PrefilterRead
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "client/calls/calls.h"
#include "client/engine/space.h"
#include "proto/base/bytes.h"
#include "proto/base/status.h"

namespace tidepool::internal {

// Starts an operation on a partition, without a key or value. `words` are in the order of the wire.
CallRef StartAt(const Space& space, std::uint32_t partition, wire::Opcode opcode,
                const std::vector<OperationSpec::Word>& words, Mode mode,
                std::chrono::milliseconds timeout);

// Arguments of the operation that reads a piece. Its kCursor, the place to read from, follows them.
struct FilterReader {
  wire::Opcode opcode;
  std::vector<OperationSpec::Word> words;
};

// Reads a partition's filter into `bits`, which are zero, from several places at a time. The
// timeout is that of each piece. Returns: kOk, and as the pieces may end.
Status DownloadFilter(const Space& space, std::uint32_t partition, const FilterReader& reader,
                      MutableBytes bits, std::chrono::milliseconds timeout);

}  // namespace tidepool::internal
