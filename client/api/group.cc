#include "tidepool/group.h"

#include <array>
#include <random>
#include <utility>

#include "client/calls/calls.h"
#include "proto/wire/process_group_ops.h"

namespace tidepool {
namespace {

using internal::CallRef;
using internal::Mode;
using internal::OperationSpec;
using wire::Opcode;

static_assert(Group::kSizeMax == wire::kProcessGroupSizeMax);
static_assert(Group::kContributionBytesMax == wire::kContributionBytesMax);

// Timeout of a call to a node that may be gone. No caller should wait long for it.
constexpr std::chrono::milliseconds kLeaveTimeout{1'000};

// Not 0, which is no member's.
std::uint64_t RandomNumber() {
  std::random_device device;
  std::uint64_t number = 0;
  while (number == 0) number = (std::uint64_t{device()} << 32) | device();
  return number;
}

// The value that the operation returned.
Result<std::string> Run(const Namespace& space, Opcode opcode, std::string_view name,
                        std::string_view value, std::chrono::milliseconds timeout) {
  OperationSpec spec;
  spec.opcode = opcode;
  spec.key = name;
  spec.value = value;
  spec.timeout = timeout;
  spec.waits = opcode != Opcode::kGroupLeave;
  const CallRef call = internal::StartOne(*space.space(), spec, Mode::kSync);
  const internal::Operation& operation = call.get()->operations()[0];
  if (operation.code != StatusCode::kOk) return call.get()->StatusOf(operation);
  return std::string(operation.result);
}

template <std::size_t kHeaderBytes, typename Request>
std::string Encoded(const Request& request, void (*store)(const Request&, std::byte*),
                    std::string_view rest = {}) {
  std::array<std::byte, kHeaderBytes> header;
  store(request, header.data());
  return std::string(AsText(header)).append(rest);
}

}  // namespace

struct Group::State {
  Namespace space;  // Any that always exists: only the name's place in it is used.
  std::string name;
  std::uint64_t member = 0;
  wire::JoinReply joined;
  std::uint64_t step = 0;  // Collective calls that are complete.
  Status broken;

  Result<std::string> Meet(wire::CollectiveCall call, std::string_view contribution,
                           std::chrono::milliseconds timeout);
  void Leave();
};

Group::Group(std::unique_ptr<State> state) : state_(std::move(state)) {}
Group::Group(Group&&) noexcept = default;
Group& Group::operator=(Group&& other) noexcept {
  if (state_ != nullptr && this != &other) state_->Leave();
  state_ = std::move(other.state_);
  return *this;
}
Group::~Group() {
  if (state_ != nullptr) state_->Leave();
}

std::uint32_t Group::rank() const { return state_->joined.rank; }
std::uint32_t Group::size() const { return state_->joined.size; }
const std::string& Group::name() const { return state_->name; }

Result<Group> Group::Join(Client& client, std::string_view name, std::uint32_t size,
                          const JoinOptions& options) {
  if (size == 0 || size > kSizeMax) {
    return Status(StatusCode::kInvalidArgument, "a group of " + std::to_string(size),
                  "groups have 1 to " + std::to_string(kSizeMax) + " members");
  }
  if (options.rank < -1 || options.rank >= static_cast<std::int64_t>(size)) {
    return Status(StatusCode::kInvalidArgument,
                  "rank " + std::to_string(options.rank) + " of a group of " + std::to_string(size),
                  "ranks go from 0 to " + std::to_string(size - 1) + "; -1 takes a free one");
  }
  Result<Namespace> space = client.OpenNamespace("default", NamespaceKind::kHash);
  if (!space.ok()) return space.status();
  auto state = std::make_unique<State>(
      State{*std::move(space), std::string(name), RandomNumber(), {}, 0, {}});
  const std::string& label =
      options.label.empty() ? state->space.space()->engine()->options().client_name : options.label;
  const wire::JoinRequest join{state->member, size, options.rank, {}};
  const Result<std::string> answer =
      Run(state->space, Opcode::kGroupJoin, name,
          Encoded<wire::kJoinHeaderBytes>(
              join, wire::StoreJoinHeader,
              std::string_view(label).substr(0, wire::kMemberLabelBytesMax)),
          options.timeout);
  if (!answer.ok()) {
    state->Leave();  // The other members must not count on this process.
    return answer.status();
  }
  const Result<wire::JoinReply> joined = wire::LoadJoinReply(AsBytes(*answer));
  if (!joined.ok()) return joined.status();
  state->joined = *joined;
  return Group(std::move(state));
}

void Group::State::Leave() {
  const wire::LeaveRequest leave{joined.instance, member};
  (void)Run(space, Opcode::kGroupLeave, name, Encoded<wire::kLeaveBytes>(leave, wire::StoreLeave),
            kLeaveTimeout);
}

Result<std::string> Group::State::Meet(wire::CollectiveCall call, std::string_view contribution,
                                       std::chrono::milliseconds timeout) {
  if (!broken.ok()) return broken;
  const wire::MeetRequest meet{joined.instance, step + 1, joined.rank, call, {}};
  Result<std::string> answer =
      Run(space, Opcode::kGroupMeet, name,
          Encoded<wire::kMeetHeaderBytes>(meet, wire::StoreMeetHeader, contribution), timeout);
  if (answer.ok()) ++step;
  if (answer.code() == StatusCode::kAborted || answer.code() == StatusCode::kInvalidArgument) {
    broken = answer.status();
  }
  return answer;
}

Status Group::Barrier(const CallOptions& options) {
  return state_->Meet({}, {}, options.timeout).status();
}

Result<std::string> Group::Broadcast(std::string_view value, std::uint32_t root,
                                     const CallOptions& options) {
  if (root >= size() || (root == rank() && value.size() > kContributionBytesMax)) {
    return Status(StatusCode::kInvalidArgument,
                  root >= size() ? "no member of the group has rank " + std::to_string(root)
                                 : "a broadcast of " + std::to_string(value.size()) + " bytes",
                  "put larger values into a namespace, and broadcast their key");
  }
  wire::CollectiveCall call;
  call.collective = wire::Collective::kBroadcast;
  call.root = root;
  return state_->Meet(call, root == rank() ? value : std::string_view(), options.timeout);
}

Result<std::string> Group::Combine(std::uint32_t root, ElementType type, Reduction reduction,
                                   std::string_view values, const CallOptions& options) {
  const bool everywhere = root == kEverywhere;
  if ((!everywhere && root >= size()) || values.empty() || values.size() > kContributionBytesMax) {
    return Status(StatusCode::kInvalidArgument,
                  !everywhere && root >= size()
                      ? "no member of the group has rank " + std::to_string(root)
                      : "a reduction of " + std::to_string(values.size()) + " bytes",
                  "a member contributes 1 to " +
                      std::to_string(kContributionBytesMax / wire::kElementBytes) + " numbers");
  }
  wire::CollectiveCall call;
  call.collective = everywhere ? wire::Collective::kAllReduce : wire::Collective::kReduce;
  call.root = everywhere ? 0 : root;
  call.type = static_cast<wire::ElementType>(type);
  call.reduction = static_cast<wire::Reduction>(reduction);
  return state_->Meet(call, values, options.timeout);
}

Status Group::WaitForAll(std::chrono::milliseconds timeout) {
  return state_->space.space()->engine()->WaitForAll(timeout);
}

}  // namespace tidepool
