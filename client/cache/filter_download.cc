#include "client/cache/filter_download.h"

#include <algorithm>

#include "proto/base/limits.h"

namespace tidepool::internal {
namespace {

// Pieces of a download that are asked for at a time: half the bytes that a daemon grants at least.
constexpr std::size_t kPiecesUnderWay = 4;

struct Piece {
  std::uint64_t at = 0;   // Where it goes on,
  std::uint64_t end = 0;  // and ends.
  CallRef call;
};

// Takes over the answer; the next piece begins behind it.
Status TakePiece(Piece* piece, MutableBytes bits) {
  const Operation& operation = piece->call.get()->operations()[0];
  if (operation.code != StatusCode::kOk) return piece->call.get()->StatusOf(operation);
  const std::uint64_t next = operation.number == 0 ? bits.size() : operation.number;
  if (next <= piece->at || next > bits.size() || operation.result.size() > next - piece->at) {
    return Status(StatusCode::kInternal, "the daemon answered another part of the filter");
  }
  std::copy_n(AsBytes(operation.result).data(), operation.result.size(), bits.data() + piece->at);
  piece->at = next;
  return {};
}

}  // namespace

CallRef StartAt(const Space& space, std::uint32_t partition, wire::Opcode opcode,
                const std::vector<OperationSpec::Word>& words, Mode mode,
                std::chrono::milliseconds timeout) {
  Call* call = Call::Make(1, 0);
  Operation& operation = call->operations()[0];
  operation.queue = &space.state()->queues[partition];
  operation.opcode = opcode;
  for (const auto& [argument, word] : words) operation.AddArgument(argument, word);
  return StartCall(space, call, mode, timeout, limits::kUnstreamedValueBytesMax);
}

Status DownloadFilter(const Space& space, std::uint32_t partition, const FilterReader& reader,
                      MutableBytes bits, std::chrono::milliseconds timeout) {
  std::vector<Piece> pieces;
  const std::uint64_t step = std::max<std::uint64_t>(
      AlignUp(bits.size() / kPiecesUnderWay, limits::kFilterBlockBytes), limits::kFilterBlockBytes);
  for (std::uint64_t at = 0; at < bits.size(); at += step) {
    pieces.push_back({at, std::min<std::uint64_t>(at + step, bits.size()), {}});
  }
  const auto start = [&](Piece& piece) {
    std::vector<OperationSpec::Word> words = reader.words;
    words.push_back({wire::Argument::kCursor, piece.at});
    piece.call = StartAt(space, partition, reader.opcode, words, Mode::kAsync, timeout);
  };
  for (Piece& piece : pieces) start(piece);
  for (bool more = true; more;) {
    more = false;
    for (Piece& piece : pieces) {
      if (piece.at >= piece.end) continue;
      piece.call.Wait(CallRef::TimePoint::max());
      if (Status taken = TakePiece(&piece, bits); !taken.ok()) return taken;
      if (piece.at < piece.end) {
        start(piece);
        more = true;
      }
    }
  }
  return {};
}

}  // namespace tidepool::internal
