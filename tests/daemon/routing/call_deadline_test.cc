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

}  // namespace
}  // namespace tidepool::daemon
