#include "proto/convert/grpc_channel.h"

#include <catch2/catch.hpp>

namespace tidepool::convert {
namespace {

TEST_CASE("LoopbackIsToldFromEverythingElse") {
  for (const char* address : {"127.0.0.1:1", "127.3.2.1:65535", "localhost:80", "[::1]:4", "::1"}) {
    INFO(address);
    CHECK(IsLoopback(address));
  }
  for (const char* address : {"10.0.0.1:1", "127.evil.org:1", "127.0.0.1.evil:1", "localhost.x:1",
                              "[fd00::1]:4", "example.org:1", ""}) {
    INFO(address);
    CHECK_FALSE(IsLoopback(address));
  }
}

TEST_CASE("TheTokenNeverLeavesTheMachineUnlessInsecure") {
  CHECK(MakeChannel("127.0.0.1:4410", {}).ok());
  const auto refused = MakeChannel("10.0.0.1:4410", {});
  CHECK(refused.code() == StatusCode::kFailedPrecondition);
  CHECK(refused.status().remedy().find("--insecure") != std::string::npos);
  CHECK(MakeChannel("10.0.0.1:4410", {.insecure = true}).ok());
}

TEST_CASE("AnAddressNeedsHostAndPort") {
  for (const char* address : {"", "host", "host:", ":80", "host:0", "host:70000", "host:8x"}) {
    INFO(address);
    CHECK(MakeChannel(address, {.insecure = true}).code() == StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace tidepool::convert
