// How a client comes to read the memory of another node: the connection, keys of its memory, and
// until when an owner serves.
#include <cstring>
#include <utility>
#include <vector>

#include "client/calls/calls.h"
#include "client/direct/direct_space.h"
#include "client/direct/remote_node.h"
#include "client/engine/engine.h"
#include "proto/wire/show_ops.h"

namespace tidepool::internal {

void Engine::RemoteShow::AddTo(Operation* operation) const {
  if (gets != 0) operation->AddArgument(wire::Argument::kOperand, gets);
  operation->AddArgument(wire::Argument::kCursor, offset);
  if (looks != 0) operation->AddArgument(wire::Argument::kOptions, looks);
}

Engine::RemoteShow Engine::TakeUntold(std::uint64_t offset, ReadCount* count) {
  const std::uint64_t gets = count->remote_gets.load(std::memory_order_relaxed);
  const std::uint64_t looks = count->remote_looks.load(std::memory_order_relaxed);
  return {offset, gets - std::exchange(count->told_gets, gets),
          looks - std::exchange(count->told_looks, looks)};
}

// Returns reads that the daemon has not counted to the next question.
void Engine::TakeBack(const RemoteShow& show, ReadCount* count) {
  const Lock lock(*this);
  count->told_gets -= show.gets;
  count->told_looks -= show.looks;
}

// Reports the last reads before the sessions end. Waits 100 ms at most.
void Engine::TellRemoteReads() {
  constexpr std::uint64_t kPatienceNs = 100'000'000;
  std::vector<Call*> calls;
  const std::uint64_t until_ns = Now() + kPatienceNs;
  {
    const Lock lock(*this);
    if (closed_.load(std::memory_order_relaxed)) return;
    read_counts_->ForEachUntold([&](ReadCount& count) {
      const auto found = spaces_[0].find(count.space);
      if (found == spaces_[0].end() || found->second->dropped) return;
      for (PartitionQueue& queue : found->second->queues) {
        if (queue.link != &count.link) continue;
        Call* call = Call::Make(1, 0);
        call->operations()[0].queue = &queue;
        call->operations()[0].opcode = wire::Opcode::kShow;
        TakeUntold(0, &count).AddTo(&call->operations()[0]);
        call->space_name = found->second->name;
        call->deadline_ns = until_ns;
        calls.push_back(call);
        break;
      }
    });
  }
  for (Call* call : calls) Submit(call, true);
  for (Call* call : calls) {
    Wait(call, until_ns);
    call->Release();
  }
}

// `offset`: memory to be shown as well; 0: none.
void Engine::AskToShowRemotely(SpaceState* space, std::uint32_t partition, std::uint64_t offset) {
  std::shared_ptr<RemoteNode> node;
  CoreLink* link = nullptr;
  {
    const Lock lock(*this);
    if (space->dropped || !options_.connect.remote_reads) return;
    link = space->queues[partition].link;
    NodeSession& session = link->session();
    if (session.memory_address().empty()) return;
    if (session.remote == nullptr) {
      session.remote = std::make_shared<RemoteNode>(session.memory_address(), *options_.clock);
    }
    node = session.remote;
  }
  // Polls without the lock, because the first Poll starts a device.
  const RemoteNode::State state = node->Poll();
  if (state == RemoteNode::State::kConnecting) {
    const Lock lock(*this);
    return space->direct->ExpectMemory(partition);
  }
  if (state == RemoteNode::State::kFailed) return;
  // The lease counts from before the question is sent.
  const std::uint64_t asked_ns = Now();
  ReadCount* count = nullptr;
  RemoteShow show;
  {
    const Lock lock(*this);
    count = &read_counts_->Of(*link, space->id, asked_ns);
    show = TakeUntold(offset, count);
  }
  AskShow(space, partition, show,
          [space, partition, node, count, show, asked_ns](Engine& engine, const CallRef& answer) {
            if (Only(answer).code != StatusCode::kOk) engine.TakeBack(show, count);
            engine.OnShownRemotely(space, partition, node, count, asked_ns, answer);
          });
}

void Engine::OnShownRemotely(SpaceState* space, std::uint32_t partition,
                             const std::shared_ptr<RemoteNode>& asked_of, ReadCount* count,
                             std::uint64_t asked_ns, const CallRef& answer) {
  const Operation& operation = Only(answer);
  storage::DirectView view;
  static_assert(sizeof view == wire::kDirectViewBytes);
  if (operation.code != StatusCode::kOk || operation.result.size() < sizeof view) return;
  const auto shown = wire::LoadShownMemory(AsBytes(operation.result).subspan(sizeof view));
  if (!shown.ok()) return;
  std::memcpy(&view, operation.result.data(), sizeof view);
  asked_of->Add(*shown);
  const Lock lock(*this);
  // The daemon may have restarted meanwhile, and its numbers then have other meanings.
  if (space->queues[partition].link->session().remote != asked_of) return;
  std::optional<KeyBounds> bounds;
  if (!space->FindBounds(partition, Term(view.term), &bounds)) return;
  space->direct->ShowRemotely(partition, view, std::move(bounds), asked_of, count, asked_ns,
                              shown->lease_ns);
}

}  // namespace tidepool::internal
