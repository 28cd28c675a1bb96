#include "proto/convert/port_state.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>

#include "proto/cluster_file/file_io.h"

namespace tidepool::convert {
namespace {

TEST_CASE("APortIsOpenWhileAProcessListensAndClosedAfterwards") {
  std::string address;
  {
    const UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof where;
    REQUIRE(bind(listener.get(), reinterpret_cast<sockaddr*>(&where), bytes) == 0);
    REQUIRE(listen(listener.get(), 4) == 0);
    REQUIRE(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&where), &bytes) == 0);
    address = "127.0.0.1:" + std::to_string(ntohs(where.sin_port));
    CHECK(AskPort(address, 10'000) == PortState::kOpen);
  }
  CHECK(AskPort(address, 10'000) == PortState::kClosed);
}

TEST_CASE("WhatIsNoAddressOrDoesNotAnswerIsNotKnown") {
  for (const char* const address : {"", "x", ":1", "no.such.host.invalid:1", "127.0.0.1:http"}) {
    CAPTURE(address);
    CHECK(AskPort(address, 100) == PortState::kUnknown);
  }
  // RFC 5737: no machine has it. A router on the way may refuse it in that machine's name.
  CHECK(AskPort("192.0.2.1:9", 100) != PortState::kOpen);
}

}  // namespace
}  // namespace tidepool::convert
