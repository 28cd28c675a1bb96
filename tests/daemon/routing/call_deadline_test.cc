// Deadlines of calls, in a server that is asked within this process.
#include "daemon/routing/call_deadline.h"

#include <grpcpp/client_context.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <memory>

#include "daemon/routing/request_router.h"
#include "daemon/services/data_service.h"
#include "proto/placement/placement_map.h"
#include "tidepool/v1/data.grpc.pb.h"

namespace tidepool::daemon {
namespace {

// Notes by how much a write ends before its call.
class Noting final : public v1::Data::Service {
 public:
  grpc::Status Put(grpc::ServerContext* call, const v1::PutRequest* /*request*/,
                   v1::PutResponse* /*response*/) override {
    const std::uint64_t write_ns = WriteDeadlineOf(*call).at_ns();
    const std::uint64_t room_ns = RoomDeadlineOf(*call).at_ns();
    const std::uint64_t call_ns = DeadlineOf(*call).at_ns();
    early_ms_ = call_ns < write_ns ? 0 : (call_ns - write_ns) / 1'000'000;
    room_early_ms_ = call_ns < room_ns ? 0 : (call_ns - room_ns) / 1'000'000;
    return grpc::Status::OK;
  }
  std::uint64_t early_ms_ = 0;
  std::uint64_t room_early_ms_ = 0;
};

// Asks several times: a thread that stands still between two looks at a clock sees other times.
void Ask(std::chrono::milliseconds timeout, std::uint64_t* early_ms, std::uint64_t* room_early_ms) {
  Noting noting;
  grpc::ServerBuilder builder;
  builder.RegisterService(&noting);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  REQUIRE(server != nullptr);
  const auto stub = v1::Data::NewStub(server->InProcessChannel({}));
  *early_ms = *room_early_ms = 0;
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext call;
    call.set_deadline(std::chrono::system_clock::now() + timeout);
    v1::PutResponse response;
    if (!stub->Put(&call, {}, &response).ok()) continue;
    *early_ms = std::max(*early_ms, noting.early_ms_);
    *room_early_ms = std::max(*room_early_ms, noting.room_early_ms_);
  }
}

TEST_CASE("AWriteEndsEarlyEnoughForItsAnswerToBeHeard") {
  std::uint64_t early_ms = 0;
  std::uint64_t room_early_ms = 0;
  Ask(std::chrono::seconds(600), &early_ms, &room_early_ms);
  CHECK(early_ms >= 190);
  CHECK(room_early_ms >= 190);
}

TEST_CASE("AWriteOfAShortCallGivesUpATenthOfItsTime") {
  std::uint64_t early_ms = 0;
  std::uint64_t room_early_ms = 0;
  Ask(std::chrono::milliseconds(1'000), &early_ms, &room_early_ms);
  CHECK(early_ms >= 20);
  CHECK(early_ms <= 150);
}

// The owner of all keys; notes how long it may work on a call of another node.
class Owner final : public v1::Data::Service {
 public:
  grpc::Status Execute(grpc::ServerContext* call, const v1::ExecuteRequest* request,
                       v1::ExecuteResponse* response) override {
    const Deadline deadline = WorkDeadlineOf(*call);
    work_ms_ = std::max(work_ms_, deadline.LeftMs());
    answer_ms_ = std::max(answer_ms_, DeadlineOf(*call).LeftMs() - deadline.LeftMs());
    for (const v1::Operation& operation : request->operations()) {
      static_cast<void>(operation);
      response->add_results();
    }
    return grpc::Status::OK;
  }
  std::uint64_t work_ms_ = 0;
  std::uint64_t answer_ms_ = 0;  // Between the end of the work and the end of the call.
};

std::unique_ptr<grpc::Server> Serve(v1::Data::Service* service) {
  grpc::ServerBuilder builder;
  builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  REQUIRE(server != nullptr);
  return server;
}

// Two nodes: the first node is asked, and has no core.
placement::PlacementMapPtr MapOfAnOwner() {
  auto space = std::make_shared<placement::Namespace>();
  space->name = "default";
  space->partitions.emplace_back();
  space->partitions[0].node = NodeId(1);
  auto map = std::make_shared<placement::PlacementMap>();
  map->nodes.resize(2);
  for (std::uint32_t i = 0; i < 2; ++i) map->nodes[i].id = NodeId(i);
  map->namespaces[space->id] = space;
  return map;
}

TEST_CASE("AWriteThatIsPassedOnLosesNoMoreTimeThanAnother") {
  Owner owner;
  const auto owner_server = Serve(&owner);
  const placement::PlacementMapPtr map = MapOfAnOwner();
  RouterContext context;
  context.map = [&] { return map; };
  context.self = [] { return NodeId(0); };
  context.channel = [&](const placement::Node&) { return owner_server->InProcessChannel({}); };
  context.authorize = [](grpc::ClientContext&) {};
  RequestRouter router(context);
  DataService asked(&router);
  const auto asked_server = Serve(&asked);
  const auto stub = v1::Data::NewStub(asked_server->InProcessChannel({}));
  // Several times: a thread may stand still on the way.
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext call;
    call.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(1'000));
    v1::PutRequest request;
    request.set_namespace_("default");
    request.set_key("key");
    v1::PutResponse response;
    (void)stub->Put(&call, request, &response);
  }
  CHECK(owner.work_ms_ >= 850);
  CHECK(owner.work_ms_ <= 905);
  CHECK(owner.answer_ms_ >= 40);
}

}  // namespace
}  // namespace tidepool::daemon
