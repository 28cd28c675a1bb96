#include "proto/convert/grpc_status.h"

#include <catch2/catch.hpp>

namespace tidepool::convert {
namespace {

TEST_CASE("EveryCodeSurvivesTheWayThereAndBack") {
  for (int code = 1; code < kStatusCodeCount; ++code) {
    const Status status(static_cast<StatusCode>(code), "what happened", "what to do");
    const grpc::Status sent = ToGrpc(status);
    CHECK_FALSE(sent.ok());
    CHECK(sent.error_code() <= 16);
    const Status back = FromGrpc(sent, "peer");
    CHECK(back.code() == status.code());
    CHECK(back.what() == status.what());
    CHECK(back.remedy() == status.remedy());
  }
  CHECK(ToGrpc(OkStatus()).ok());
  CHECK(FromGrpc(grpc::Status::OK, "peer").ok());
}

TEST_CASE("AProgramThatKnowsNoDetailsReadsTheText") {
  const grpc::Status sent = ToGrpc(Status(StatusCode::kNotFound, "no such thing", "make one"));
  CHECK(sent.error_code() == grpc::StatusCode::NOT_FOUND);
  CHECK(sent.error_message() == "no such thing (make one)");
}

TEST_CASE("AFailedConnectionNamesThePeer") {
  const Status status = FromGrpc(grpc::Status(grpc::StatusCode::UNAVAILABLE, "refused"), "node 3");
  CHECK(status == StatusCode::kUnavailable);
  CHECK(status.what().find("node 3") != std::string::npos);
}

TEST_CASE("DetailsThatAreNotOursAreIgnored") {
  const grpc::Status sent(grpc::StatusCode::NOT_FOUND, "text", "\xff\xff\xff not a message");
  CHECK(FromGrpc(sent, "peer") == StatusCode::kNotFound);
}

}  // namespace
}  // namespace tidepool::convert
