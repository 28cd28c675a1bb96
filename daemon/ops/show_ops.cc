#include "daemon/ops/show_ops.h"

#include <cstring>
#include <optional>

#include "proto/base/clock.h"
#include "proto/transport/remote_memory.h"
#include "proto/wire/show_ops.h"

namespace tidepool::daemon {
namespace {

using wire::Argument;

static_assert(sizeof(storage::DirectView) == wire::kDirectViewBytes);
static_assert(wire::kShownKeyBytesMax >= transport::kRemoteKeyBytesMax);

// For readers on other nodes: shows the piece that holds the requested offset.
std::size_t ShowRemotely(const OperationContext& context, std::byte* to) {
  wire::ShownMemory shown;
  const std::uint64_t until_ns = context.store.shown_lease_ns();
  const std::uint64_t now_ns = Clock::Real().MonotonicNs();
  shown.lease_ns = until_ns > now_ns ? until_ns - now_ns : 0;
  std::optional<transport::RemotePiece> piece;
  if (context.exporter != nullptr) {
    piece = context.exporter->Find(context.operation.get(Argument::kCursor));
  }
  if (piece.has_value()) {
    shown.begin = piece->begin;
    shown.bytes = piece->bytes;
    shown.address = piece->address;
    shown.key = AsBytes(piece->key);
  }
  return wire::StoreShownMemory(shown, to);
}

// Also for filters. Without the argument the reader is on this node and can map the memory; for
// other readers the numbers are useless.
void HandleShow(const OperationContext& context, Reply* reply) {
  const auto view = context.store.ViewOf(context.partition);
  if (!view.has_value() || context.scratch.size() < wire::kShownBytesMax) {
    reply->answer.code = StatusCode::kNotFound;
    return;
  }
  const wire::Operation& operation = context.operation;
  if (operation.has(Argument::kOperand) || operation.has(Argument::kOptions)) {
    DirectReads reads;
    if (operation.has(Argument::kOperand)) reads.gets = operation.get(Argument::kOperand);
    if (operation.has(Argument::kOptions)) reads.looks = operation.get(Argument::kOptions);
    context.executor->OnDirectReads(context.session, context.partition, reads);
  }
  std::memcpy(context.scratch.data(), &*view, sizeof *view);
  std::size_t bytes = sizeof *view;
  if (context.operation.has(Argument::kCursor)) {
    bytes += ShowRemotely(context, context.scratch.data() + bytes);
  }
  reply->answer.value = context.scratch.first(bytes);
}

constexpr HandlerEntry kShowHandlers[] = {{wire::Opcode::kShow, HandleShow}};

}  // namespace

std::span<const HandlerEntry> ShowHandlers() { return kShowHandlers; }

}  // namespace tidepool::daemon
