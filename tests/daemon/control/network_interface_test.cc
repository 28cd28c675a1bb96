#include "daemon/control/network_interface.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <utility>
#include <vector>

#include "proto/cluster_file/file_io.h"
#include "proto/transport/ports.h"
#include "tests/support/skip.h"

namespace tidepool::daemon {
namespace {

TEST_CASE("OneNodeListensOnLoopback") {
  const auto chosen = ChooseInterface("", /*is_alone=*/true);
  REQUIRE(chosen.ok());
  CHECK(chosen->is_loopback);
  CHECK(chosen->address == "127.0.0.1");
}

TEST_CASE("SeveralNodesNeverListenOnLoopbackByThemselves") {
  const auto chosen = ChooseInterface("", /*is_alone=*/false);
  if (chosen.ok()) {
    CHECK_FALSE(chosen->is_loopback);
  } else {
    CHECK(chosen.code() == StatusCode::kUnavailable);
    CHECK(chosen.status().remedy().find("--interface") != std::string::npos);
  }
}

TEST_CASE("AnInterfaceIsNamedByNameOrAddress") {
  CHECK(ChooseInterface("lo", false)->address == "127.0.0.1");
  CHECK(ChooseInterface("127.0.0.1", false)->name == "lo");
}

TEST_CASE("AnUnknownInterfaceListsTheKnownOnes") {
  const auto chosen = ChooseInterface("eth77", false);
  CHECK(chosen.code() == StatusCode::kInvalidArgument);
  CHECK(chosen.status().remedy().find("lo (127.0.0.1)") != std::string::npos);
}

// Port 0: the kernel chooses a port. The result is closed if another process listens on the port.
UniqueFd ListenerAt(std::uint32_t port) {
  UniqueFd taken(socket(AF_INET, SOCK_STREAM, 0));
  // A port whose last connections are still closing counts as free, like in CheckPort.
  const int on = 1;
  REQUIRE(setsockopt(taken.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(static_cast<std::uint16_t>(port));
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(taken.get(), reinterpret_cast<sockaddr*>(&where), sizeof where) != 0 ||
      listen(taken.get(), 1) != 0) {
    REQUIRE(errno == EADDRINUSE);
    return {};
  }
  return taken;
}

TEST_CASE("APortInUseIsNamed") {
  const UniqueFd taken = ListenerAt(0);
  REQUIRE(taken.is_open());
  sockaddr_in where{};
  socklen_t bytes = sizeof where;
  REQUIRE(getsockname(taken.get(), reinterpret_cast<sockaddr*>(&where), &bytes) == 0);
  const std::uint32_t port = ntohs(where.sin_port);
  const Status checked = CheckPort("127.0.0.1", port);
  CHECK(checked == StatusCode::kUnavailable);
  CHECK(checked.what().find("127.0.0.1:" + std::to_string(port)) != std::string::npos);
  CHECK(checked.remedy().find("another --port") != std::string::npos);
  const Status page = CheckPort("127.0.0.1", port, "--metrics-port");
  CHECK(page.remedy().find("another --metrics-port") != std::string::npos);
}

TEST_CASE("AnAddressOfAnotherMachineIsRefused") {
  CHECK(CheckPort("192.0.2.1", 4410) == StatusCode::kInvalidArgument);
  CHECK(CheckPort("nonsense", 4410) == StatusCode::kInvalidArgument);
}

TEST_CASE("AServiceWithoutAPortOfItsOwnKeepsOffThoseOfDataPaths") {
  const transport::PortRange range = transport::UnnamedPorts().services;
  for (int i = 0; i < 20; ++i) {
    std::uint32_t given = 0;
    REQUIRE(ListenOn("127.0.0.1", 0, [&](std::uint32_t port) {
              given = port;
              return OkStatus();
            }).ok());
    CHECK(given >= range.first);
    CHECK(given <= range.last);
  }
}

TEST_CASE("APortThatSomebodyTakesMeanwhileIsLeftToThem", "[machine]") {
  if (transport::UnnamedPorts().services.first == 0) {
    TIDEPOOL_SKIP("too few ports here");
  }
  std::vector<UniqueFd> taken;
  const auto take_two = [&](std::uint32_t port) {
    if (taken.size() == 2) return OkStatus();
    UniqueFd listener = ListenerAt(port);
    if (listener.is_open()) taken.push_back(std::move(listener));
    return Status(StatusCode::kUnavailable, "taken");
  };
  CHECK(ListenOn("127.0.0.1", 0, take_two).ok());
  CHECK(taken.size() == 2);
}

TEST_CASE("WhatFailsForAnotherReasonIsNotTriedElsewhere") {
  int tries = 0;
  const auto fail = [&](std::uint32_t) {
    ++tries;
    return Status(StatusCode::kInvalidArgument, "no certificate");
  };
  CHECK(ListenOn("127.0.0.1", 0, fail) == StatusCode::kInvalidArgument);
  CHECK(tries == 1);
}

TEST_CASE("AddressesOfVersion6GetBrackets") {
  CHECK(AddressWithPort("10.0.0.1", 5) == "10.0.0.1:5");
  CHECK(AddressWithPort("fd00::1", 5) == "[fd00::1]:5");
}

}  // namespace
}  // namespace tidepool::daemon
