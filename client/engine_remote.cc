// How a client comes to read the memory of another node: the connection, keys of its memory, and
// until when an owner serves.
#include <cstring>
#include <utility>

#include "client/calls.h"
#include "client/direct_space.h"
#include "client/engine.h"
#include "client/remote_node.h"
#include "proto/wire/show_ops.h"

namespace tidepool::internal {

// `offset`: a piece of memory to be shown as well; 0: none.
void Engine::AskToShowRemotely(SpaceState* space, std::uint32_t partition, std::uint64_t offset) {
  std::shared_ptr<RemoteNode> node;
  {
    const Lock lock(*this);
    if (space->dropped || !options_.connect.remote_reads) return;
    NodeSession& session = space->queues[partition].link->session();
    if (session.memory_address().empty()) return;
    if (session.remote == nullptr) {
      session.remote = std::make_shared<RemoteNode>(session.memory_address(), *options_.clock);
    }
    node = session.remote;
  }
  // Without the lock: the first one starts a device.
  const RemoteNode::State state = node->Poll();
  if (state == RemoteNode::State::kConnecting) {
    const Lock lock(*this);
    return space->direct->ExpectMemory(partition);
  }
  if (state == RemoteNode::State::kFailed) return;
  // The lease counts from before the question is sent.
  const std::uint64_t asked_ns = Now();
  AskShow(space, partition, offset,
          [space, partition, node, asked_ns](Engine& engine, const CallRef& answer) {
            engine.OnShownRemotely(space, partition, node, asked_ns, answer);
          });
}

void Engine::OnShownRemotely(SpaceState* space, std::uint32_t partition,
                             const std::shared_ptr<RemoteNode>& asked_of, std::uint64_t asked_ns,
                             const CallRef& answer) {
  const Operation& operation = Only(answer);
  storage::DirectView view;
  static_assert(sizeof view == wire::kDirectViewBytes);
  if (operation.code != StatusCode::kOk || operation.result.size() < sizeof view) return;
  const auto shown = wire::LoadShownMemory(AsBytes(operation.result).subspan(sizeof view));
  if (!shown.ok()) return;
  std::memcpy(&view, operation.result.data(), sizeof view);
  asked_of->Add(*shown);
  const Lock lock(*this);
  // It may be another daemon by now, whose numbers mean other things.
  if (space->queues[partition].link->session().remote != asked_of) return;
  space->direct->ShowRemotely(partition, view, asked_of, asked_ns, shown->lease_ns);
}

}  // namespace tidepool::internal
