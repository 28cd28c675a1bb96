#include "daemon/services/moves_service.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "daemon/moving/copy_mover.h"
#include "daemon/moving/receive_partition.h"
#include "daemon/moving/send_partition.h"
#include "daemon/services/gate.h"
#include "proto/base/limits.h"
#include "proto/base/thread.h"
#include "proto/convert/grpc_status.h"

namespace tidepool::daemon {
namespace {

using convert::ToGrpc;

constexpr std::chrono::milliseconds kProgressInterval(200);
constexpr int kEntryStepsMax = 8;

class MovesGate final : public v1::Moves::Service, private Gate {
 public:
  MovesGate(const Authenticator& authenticator, v1::Moves::Service* inner)
      : Gate(authenticator), inner_(*inner) {}

  grpc::Status Move(grpc::ServerContext* call, const v1::MovePartitionRequest* request,
                    grpc::ServerWriter<v1::MovePartitionProgress>* writer) override {
    return Pass(call, [&] { return inner_.Move(call, request, writer); });
  }
  grpc::Status Receive(
      grpc::ServerContext* call,
      grpc::ServerReaderWriter<v1::ReceiveAnswer, v1::PartitionPiece>* stream) override {
    return Pass(call, [&] { return inner_.Receive(call, stream); });
  }
  grpc::Status Grant(grpc::ServerContext* call, const v1::GrantPartitionRequest* request,
                     v1::GrantPartitionResponse* response) override {
    return Pass(call, [&] { return inner_.Grant(call, request, response); });
  }
  grpc::Status Change(grpc::ServerContext* call, const v1::ChangePartitionRequest* request,
                      v1::ChangePartitionResponse* response) override {
    return Pass(call, [&] { return inner_.Change(call, request, response); });
  }
  grpc::Status OpenCopy(grpc::ServerContext* call, const v1::OpenCopyRequest* request,
                        v1::OpenCopyResponse* response) override {
    return Pass(call, [&] { return inner_.OpenCopy(call, request, response); });
  }

 private:
  v1::Moves::Service& inner_;
};

// Reports progress repeatedly, also while the move waits, so that a caller can distinguish a slow
// move from a stopped node.
class ProgressWriter {
 public:
  explicit ProgressWriter(grpc::ServerWriter<v1::MovePartitionProgress>* writer)
      : writer_(*writer) {}
  // Errors: kResourceExhausted (no thread).
  Status Begin() {
    return StartThread("the progress of a move", &thread_, [this] { Run(); });
  }
  ~ProgressWriter() { End(); }
  ProgressWriter(const ProgressWriter&) = delete;
  ProgressWriter& operator=(const ProgressWriter&) = delete;

  void Write(const v1::MovePartitionProgress& progress) {
    const std::lock_guard lock(mutex_);
    last_ = progress;
    writer_.Write(last_);
  }
  // Ends the writing. Returns the last progress written.
  v1::MovePartitionProgress End() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
    return last_;
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, kProgressInterval, [this] { return ended_; })) {
      writer_.Write(last_);
    }
  }

  grpc::ServerWriter<v1::MovePartitionProgress>& writer_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool ended_ = false;
  v1::MovePartitionProgress last_;
  std::thread thread_;  // After all that it uses.
};

Status Malformed(std::string_view what) {
  return Status(StatusCode::kInvalidArgument, "malformed " + std::string(what) + " request");
}

// Checks that a PartitionId and a Term fit; truncated numbers would name another partition.
template <typename Request>
bool NamesPartition(const Request& request) {
  return request.namespace_id() <= limits::kNamespacesMax &&
         request.partition() < limits::kPartitionsPerNamespaceMax &&
         request.term() <= limits::kTermMax;
}

}  // namespace

std::unique_ptr<grpc::Service> MakeMovesGate(const Authenticator* authenticator,
                                             v1::Moves::Service* inner) {
  return std::make_unique<MovesGate>(*authenticator, inner);
}

grpc::Status MovesService::Move(grpc::ServerContext* call, const v1::MovePartitionRequest* request,
                                grpc::ServerWriter<v1::MovePartitionProgress>* writer) {
  if (const Status joined = node_.CheckJoined(); !joined.ok()) return ToGrpc(joined);
  if (!NamesPartition(*request) || request->target_node() >= limits::kNodesMax) {
    return ToGrpc(Malformed("Move"));
  }
  if (request->hold_ms() > kHoldMsMax) {
    return ToGrpc(
        Status(StatusCode::kInvalidArgument,
               "operations would be held back for " + std::to_string(request->hold_ms()) + " ms",
               "the longest is a day; give a shorter --timeout"));
  }
  ProgressWriter progress(writer);
  if (const Status begun = progress.Begin(); !begun.ok()) return ToGrpc(begun);
  const auto report = [&](const v1::MovePartitionProgress& so_far) { progress.Write(so_far); };
  const auto space = node_.map.Get()->Find(NamespaceId(request->namespace_id()));
  const bool by_copy = space != nullptr && space->kind == placement::Kind::kHash;
  // A caller that goes away ends a copy, but nothing that is held back.
  const auto moved =
      by_copy ? MoveByCopy(&node_, *request, report, [call] { return call->IsCancelled(); })
              : SendPartition(&node_, *request, report);
  v1::MovePartitionProgress last = progress.End();
  if (!moved.ok()) return ToGrpc(moved.status());
  last.set_epoch(moved->value());
  writer->Write(last);
  return grpc::Status::OK;
}

grpc::Status MovesService::Receive(
    grpc::ServerContext* /*call*/,
    grpc::ServerReaderWriter<v1::ReceiveAnswer, v1::PartitionPiece>* stream) {
  v1::PartitionPiece first;
  if (!stream->Read(&first) || !first.has_start()) {
    return ToGrpc(Status(StatusCode::kInvalidArgument, "the first message must hold `start`"));
  }
  const v1::ReceiveStart& start = first.start();
  if (!NamesPartition(start) || start.source_node() >= limits::kNodesMax ||
      start.core() >= limits::kCoresPerNodeMax) {
    return ToGrpc(Malformed("Receive"));
  }
  return ToGrpc(ReceivePartition(&node_, start, stream));
}

grpc::Status MovesService::Grant(grpc::ServerContext* /*call*/,
                                 const v1::GrantPartitionRequest* request,
                                 v1::GrantPartitionResponse* response) {
  Coordinator* coordinator = node_.ActingCoordinator();
  if (coordinator == nullptr) {
    return ToGrpc(Status(StatusCode::kUnavailable, "this node is not the coordinator, or not yet"));
  }
  if (!NamesPartition(*request) || request->source_node() >= limits::kNodesMax ||
      request->target_node() >= limits::kNodesMax || request->core() >= limits::kCoresPerNodeMax) {
    return ToGrpc(Malformed("Grant"));
  }
  auto answer = coordinator->GrantPartition(*request);
  if (!answer.ok()) return ToGrpc(answer.status());
  *response = *std::move(answer);
  return grpc::Status::OK;
}

grpc::Status MovesService::Change(grpc::ServerContext* /*call*/,
                                  const v1::ChangePartitionRequest* request,
                                  v1::ChangePartitionResponse* response) {
  Coordinator* coordinator = node_.ActingCoordinator();
  if (coordinator == nullptr) {
    return ToGrpc(Status(StatusCode::kUnavailable, "this node is not the coordinator, or not yet"));
  }
  bool is_sound = NamesPartition(*request) && request->steps_size() > 0 &&
                  request->steps_size() <= kEntryStepsMax;
  for (const v1::EntryStep& step : request->steps()) {
    is_sound = is_sound && step.what() > v1::EntryStep::WHAT_UNSPECIFIED &&
               step.what() <= v1::EntryStep::WHAT_SUSPECT && step.node_id() < limits::kNodesMax &&
               step.core() < limits::kCoresPerNodeMax;
  }
  if (!is_sound) return ToGrpc(Malformed("Change"));
  auto answer = coordinator->ChangePartition(*request);
  if (!answer.ok()) return ToGrpc(answer.status());
  *response = *std::move(answer);
  return grpc::Status::OK;
}

grpc::Status MovesService::OpenCopy(grpc::ServerContext* /*call*/,
                                    const v1::OpenCopyRequest* request,
                                    v1::OpenCopyResponse* response) {
  if (const Status joined = node_.CheckJoined(); !joined.ok()) return ToGrpc(joined);
  if (!NamesPartition(*request) || request->source_node() >= limits::kNodesMax ||
      request->core() >= limits::kCoresPerNodeMax ||
      request->source_core() >= limits::kCoresPerNodeMax || request->link() == 0) {
    return ToGrpc(Malformed("OpenCopy"));
  }
  auto opened = daemon::OpenCopy(&node_, *request);
  if (!opened.ok()) return ToGrpc(opened.status());
  *response = *std::move(opened);
  return grpc::Status::OK;
}

}  // namespace tidepool::daemon
