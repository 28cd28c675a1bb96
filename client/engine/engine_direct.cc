// Access to a daemon's memory: views of partitions, the memory itself, and the keys that must not
// be read directly.
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "client/calls/calls.h"
#include "client/direct/direct_space.h"
#include "client/direct/mapped_arenas.h"
#include "client/engine/engine.h"
#include "proto/base/key_hash.h"

namespace tidepool::internal {
namespace {

constexpr std::chrono::milliseconds kShowTimeout{1'000};

}  // namespace

void Engine::NoteUnanswered(const Operation& operation, bool begins) {
  const SpaceState& space = *operation.queue->space;
  const wire::OpcodeInfo& info = wire::InfoOf(operation.opcode);
  if (operation.may_have_any_key() || (info.mutates && !info.keyed)) {
    const std::uint32_t id = space.id.value();
    return begins ? unanswered_.AddUnnamed(id) : unanswered_.RemoveUnnamed(id);
  }
  if (!info.keyed) return;
  const std::uint64_t hash = KeyHash(operation.key_view());
  begins ? unanswered_.Add(hash) : unanswered_.Remove(hash);
}

void Engine::AskToShow(SpaceState* space, std::uint32_t partition) {
  std::shared_ptr<MappedArenas> arenas;
  bool is_remote = false;
  {
    const Lock lock(*this);
    if (space->dropped) return;
    const CoreLink& link = *space->queues[partition].link;
    if (link.endpoint() == nullptr || options_.connect.direct_read_bytes_max == 0) return;
    arenas = link.session().arenas;
    // The first piece has no offset of its own; any will do. An error: it is not on this node.
    if (arenas == nullptr && worker_->AskForMemory(link.endpoint(), 0).ok()) {
      return space->direct->ExpectMemory(partition);
    }
    is_remote = arenas == nullptr;
  }
  if (is_remote) return AskToShowRemotely(space, partition, 0);
  AskShow(space, partition, std::nullopt,
          [space, partition, arenas](Engine& engine, const CallRef& answer) {
            engine.OnShown(space, partition, arenas, answer);
          });
}

void Engine::AskShow(SpaceState* space, std::uint32_t partition, std::optional<RemoteShow> remote,
                     std::function<void(Engine&, const CallRef&)> next) {
  Call* call = Call::Make(1, 0);
  Operation& operation = call->operations()[0];
  operation.queue = &space->queues[partition];
  operation.opcode = wire::Opcode::kShow;
  if (remote.has_value()) remote->AddTo(&operation);
  std::shared_ptr<Engine> self = Shared();
  if (self == nullptr) return call->Release();
  const Space handle(self, space);
  std::weak_ptr<Engine> weak = self;
  CallRef started = StartCall(handle, call, Mode::kAsync, kShowTimeout, 0);
  std::move(started).Then([weak, next = std::move(next)](CallRef answer) {
    if (const auto engine = weak.lock(); engine != nullptr) next(*engine, answer);
  });
}

void Engine::OnShown(SpaceState* space, std::uint32_t partition,
                     const std::shared_ptr<MappedArenas>& asked_of, const CallRef& answer) {
  const Operation& operation = Only(answer);
  storage::DirectView view;
  if (operation.code != StatusCode::kOk || operation.result.size() != sizeof view) return;
  std::memcpy(&view, operation.result.data(), sizeof view);
  const Lock lock(*this);
  const CoreLink& link = *space->queues[partition].link;
  // The daemon may have restarted meanwhile, and its numbers then have other meanings.
  if (link.session().arenas != asked_of || link.endpoint() == nullptr) return;
  std::optional<KeyBounds> bounds;
  if (!space->FindBounds(partition, Term(view.term), &bounds)) return;
  ReadCount& count = read_counts_->Of(link, space->id, Now());
  const DirectSpace::ViewRequest view_request =
      space->direct->Show(partition, view, std::move(bounds), asked_of, &count);
  if (view_request.missing != 0) (void)worker_->AskForMemory(link.endpoint(), view_request.missing);
}

void Engine::AskForMemory(SpaceState* space, std::uint32_t partition, std::uint64_t offset) {
  {
    const Lock lock(*this);
    const CoreLink& link = *space->queues[partition].link;
    if (link.endpoint() == nullptr || worker_->AskForMemory(link.endpoint(), offset).ok()) return;
  }
  AskToShowRemotely(space, partition, offset);
}

void Engine::OnNodeMemory(transport::Endpoint* endpoint, const transport::NodeMemory& memory) {
  auto* const link = static_cast<CoreLink*>(endpoint->user);
  if (link == nullptr) return;
  std::shared_ptr<MappedArenas>& arenas = link->session().arenas;
  if (arenas == nullptr) arenas = MappedArenas::Make(memory, *options_.clock);
  if (arenas == nullptr || !arenas->Add(memory, options_.connect.direct_read_bytes_max)) return;
  ForEachSpace([](SpaceState* space) {
    if (space->direct != nullptr) space->direct->MemoryCame();
  });
}

}  // namespace tidepool::internal
