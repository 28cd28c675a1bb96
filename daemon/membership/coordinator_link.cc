#include "daemon/membership/coordinator_link.h"

#include <algorithm>
#include <utility>

#include "proto/base/log.h"
#include "proto/convert/grpc_status.h"
#include "proto/convert/placement_convert.h"
#include "tidepool/v1/moves.grpc.pb.h"

namespace tidepool::daemon {
namespace {

// One address of several may be dead; the others get their turn within the caller's deadline.
constexpr std::uint64_t kLocateTryMs = 1000;

Deadline SoonerOf(Deadline a, std::uint64_t ms) {
  return Deadline(std::min(a.at_ns(), Deadline::AfterMs(ms).at_ns()));
}

}  // namespace

Result<v1::JoinResponse> LocalLink::Join(const v1::JoinRequest& request, Deadline) {
  return coordinator_.Join(request);
}

Result<v1::HeartbeatResponse> LocalLink::Heartbeat(const v1::HeartbeatRequest& request, Deadline) {
  return coordinator_.Heartbeat(request);
}

Status LocalLink::Leave(const v1::LeaveRequest& request, Deadline) {
  return coordinator_.Leave(request);
}

Result<v1::PlacementMap> LocalLink::GetMap(Epoch known, Epoch wait_for, Deadline deadline) {
  coordinator_.map().WaitFor(wait_for, deadline);
  const placement::PlacementMapPtr map = coordinator_.map().Get();
  v1::PlacementMap message;
  convert::ToProto(placement::DeltaSince(*map, std::min(known, map->epoch)), &message);
  return message;
}

Result<v1::GrantPartitionResponse> LocalLink::GrantPartition(
    const v1::GrantPartitionRequest& request, Deadline) {
  return coordinator_.GrantPartition(request);
}

Result<v1::ChangePartitionResponse> LocalLink::ChangePartition(
    const v1::ChangePartitionRequest& request, Deadline) {
  return coordinator_.ChangePartition(request);
}

void LocalLink::Close() { coordinator_.map().Close(); }

Result<std::string> FinderByMap::Find(Deadline deadline) {
  {
    const std::lock_guard lock(mutex_);
    if (!address_.empty()) return address_;
  }
  Status failed(StatusCode::kUnavailable, "no address of the cluster is known");
  for (const std::string& seed : addresses_()) {
    auto channel = peers_.Open(seed);
    if (!channel.ok()) return channel.status();
    grpc::ClientContext call;
    peers_.Prepare(&call, SoonerOf(deadline, kLocateTryMs));
    v1::GetMapResponse response;
    const grpc::Status asked =
        v1::Cluster::NewStub(*channel)->GetMap(&call, v1::GetMapRequest(), &response);
    if (!asked.ok()) {
      failed = convert::FromGrpc(asked, "the node at " + seed);
      continue;
    }
    if (response.map().nodes_size() == 0) {
      failed =
          Status(StatusCode::kUnavailable, "the node at " + seed + " has not joined itself yet");
      continue;
    }
    const std::lock_guard lock(mutex_);
    address_ = response.map().nodes(0).control_address();
    return address_;
  }
  return failed;
}

void FinderByMap::OnLost(const std::string& address) {
  const std::lock_guard lock(mutex_);
  if (address_ == address) address_.clear();
}

template <typename Service, typename Call>
Status RemoteLink::Run(Deadline deadline, Call call) {
  const auto coordinator = finder_->Find(deadline);
  if (!coordinator.ok()) return coordinator.status();
  auto channel = peers_.Open(*coordinator);
  if (!channel.ok()) return channel.status();
  grpc::ClientContext context;
  peers_.Prepare(&context, deadline);
  const auto stub = Service::NewStub(*channel);
  const Status status =
      convert::FromGrpc(call(&context, *stub), "the coordinator at " + *coordinator);
  // A deadline is not counted: a long poll ends with it in good order, and a coordinator that is
  // stopped is still the coordinator.
  const bool is_lost = status == StatusCode::kUnavailable || status == StatusCode::kUnauthenticated;
  // It may be back elsewhere, and another service may have its port.
  if (is_lost) finder_->OnLost(*coordinator);
  return status;
}

Result<v1::JoinResponse> RemoteLink::Join(const v1::JoinRequest& request, Deadline deadline) {
  v1::JoinResponse response;
  const Status status = Run(deadline, [&](grpc::ClientContext* context, v1::Cluster::Stub& stub) {
    return stub.Join(context, request, &response);
  });
  if (!status.ok()) return status;
  return response;
}

Result<v1::HeartbeatResponse> RemoteLink::Heartbeat(const v1::HeartbeatRequest& request,
                                                    Deadline deadline) {
  v1::HeartbeatResponse response;
  const Status status = Run(deadline, [&](grpc::ClientContext* context, v1::Cluster::Stub& stub) {
    return stub.Heartbeat(context, request, &response);
  });
  if (!status.ok()) return status;
  return response;
}

Status RemoteLink::Leave(const v1::LeaveRequest& request, Deadline deadline) {
  v1::LeaveResponse response;
  return Run(deadline, [&](grpc::ClientContext* context, v1::Cluster::Stub& stub) {
    return stub.Leave(context, request, &response);
  });
}

Result<v1::PlacementMap> RemoteLink::GetMap(Epoch known, Epoch wait_for, Deadline deadline) {
  v1::GetMapRequest request;
  request.set_known_epoch(known.value());
  request.set_wait_for_epoch(wait_for.value());
  v1::GetMapResponse response;
  const Status status = Run(deadline, [&](grpc::ClientContext* context, v1::Cluster::Stub& stub) {
    {
      const std::lock_guard lock(mutex_);
      if (closed_) return grpc::Status(grpc::StatusCode::CANCELLED, "closed");
      waiting_.insert(context);
    }
    const grpc::Status got = stub.GetMap(context, request, &response);
    const std::lock_guard lock(mutex_);
    waiting_.erase(context);
    return got;
  });
  if (!status.ok()) return status;
  return std::move(*response.mutable_map());
}

Result<v1::GrantPartitionResponse> RemoteLink::GrantPartition(
    const v1::GrantPartitionRequest& request, Deadline deadline) {
  v1::GrantPartitionResponse response;
  const Status status =
      Run<v1::Moves>(deadline, [&](grpc::ClientContext* context, v1::Moves::Stub& stub) {
        return stub.Grant(context, request, &response);
      });
  if (!status.ok()) return status;
  return response;
}

Result<v1::ChangePartitionResponse> RemoteLink::ChangePartition(
    const v1::ChangePartitionRequest& request, Deadline deadline) {
  v1::ChangePartitionResponse response;
  const Status status =
      Run<v1::Moves>(deadline, [&](grpc::ClientContext* context, v1::Moves::Stub& stub) {
        return stub.Change(context, request, &response);
      });
  if (!status.ok()) return status;
  return response;
}

void RemoteLink::CancelWaiting() {
  const std::lock_guard lock(mutex_);
  for (grpc::ClientContext* waiting : waiting_) waiting->TryCancel();
}

void RemoteLink::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  for (grpc::ClientContext* waiting : waiting_) waiting->TryCancel();
}

Result<v1::JoinResponse> ElectedLink::Join(const v1::JoinRequest& request, Deadline deadline) {
  if (Coordinator* here = here_(); here != nullptr) return here->Join(request);
  return remote_.Join(request, deadline);
}

Result<v1::HeartbeatResponse> ElectedLink::Heartbeat(const v1::HeartbeatRequest& request,
                                                     Deadline deadline) {
  if (Coordinator* here = here_(); here != nullptr) return here->Heartbeat(request);
  return remote_.Heartbeat(request, deadline);
}

Status ElectedLink::Leave(const v1::LeaveRequest& request, Deadline deadline) {
  if (Coordinator* here = here_(); here != nullptr) return here->Leave(request);
  return remote_.Leave(request, deadline);
}

Result<v1::PlacementMap> ElectedLink::GetMap(Epoch known, Epoch wait_for, Deadline deadline) {
  if (Coordinator* here = here_(); here != nullptr) {
    return LocalLink(here).GetMap(known, wait_for, deadline);
  }
  return remote_.GetMap(known, wait_for, deadline);
}

Result<v1::GrantPartitionResponse> ElectedLink::GrantPartition(
    const v1::GrantPartitionRequest& request, Deadline deadline) {
  if (Coordinator* here = here_(); here != nullptr) return here->GrantPartition(request);
  return remote_.GrantPartition(request, deadline);
}

Result<v1::ChangePartitionResponse> ElectedLink::ChangePartition(
    const v1::ChangePartitionRequest& request, Deadline deadline) {
  if (Coordinator* here = here_(); here != nullptr) return here->ChangePartition(request);
  return remote_.ChangePartition(request, deadline);
}

void ElectedLink::Close() {
  if (Coordinator* here = here_(); here != nullptr) here->map().Close();
  remote_.Close();
}

}  // namespace tidepool::daemon
