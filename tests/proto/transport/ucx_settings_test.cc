// Proves by their effect that the settings are in force: ucp_config_modify says success to
// anything.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "proto/transport/ports.h"
#include "tests/proto/transport/harness.h"
#include "tests/support/skip.h"

namespace tidepool::transport {
namespace {

using Environment = std::map<std::string, std::string>;

// A user's environment that would undo every setting.
const Environment kHostile = {{"UCX_TLS", "posix"},           {"UCX_TCP_MAX_POLL", "16"},
                              {"UCX_TCP_PUT_ENABLE", "y"},    {"UCX_TCP_TX_SEG_SIZE", "8K"},
                              {"UCX_TCP_RX_SEG_SIZE", "64K"}, {"UCX_RNDV_THRESH", "0"},
                              {"UCX_NET_DEVICES", "all"},     {"UCX_KEEPALIVE_INTERVAL", "20s"},
                              {"UCX_PROTO_ENABLE", "y"},      {"UCX_KEEPALIVE_NUM_EPS", "1"},
                              {"UCX_MAX_POLL", "16"},         {"UCX_TCP_CONN_NB", "n"},
                              {"UCX_TCP_PORT_RANGE", "0"},    {"UCX_RESOLVE_REMOTE_EP_ID", "y"},
                              {"UCX_ADAPTIVE_PROGRESS", "y"}, {"UCX_LOG_LEVEL", "fatal"}};

struct Traced {
  std::string output;  // The last line that the peer printed.
  std::vector<std::string>
      calls;  // Calls of its main thread: UCX's helper thread polls by its own rules.
};

bool StraceWorks() {
  Child child({"strace", "-o", "/dev/null", "true"});
  const auto status = child.Wait();
  return status.has_value() && *status == 0;
}

Traced TracePeer(const std::string& calls, const std::vector<std::string>& args,
                 const Environment& environment) {
  char path[] = "/tmp/tidepool-strace-XXXXXX";
  const int fd = mkstemp(path);
  REQUIRE(fd >= 0);
  std::vector<std::string> argv = {"strace",         "-s", "0",  "-e",
                                   "trace=" + calls, "-o", path, PeerProgram()};
  argv.insert(argv.end(), args.begin(), args.end());
  Environment traced_environment = environment;
  traced_environment["ASAN_OPTIONS"] = "detect_leaks=0";  // The leak check cannot run under ptrace.
  Child child(argv, traced_environment);
  Traced traced;
  while (auto line = child.ReadLine()) traced.output = *line;
  const auto status = child.Wait();
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) traced.calls.push_back(line);
  close(fd);
  unlink(path);
  REQUIRE(status.has_value());
  REQUIRE(*status == 0);
  return traced;
}

// Numbers that stand behind each `before` in the calls.
std::vector<long> NumbersAfter(const Traced& traced, const std::string& before) {
  std::vector<long> numbers;
  for (const std::string& call : traced.calls) {
    for (std::size_t at = 0; (at = call.find(before, at)) != std::string::npos;) {
      at += before.size();
      numbers.push_back(std::strtol(call.c_str() + at, nullptr, 10));
    }
  }
  return numbers;
}

// The argument number `which` from the end of each call that starts with `name`.
std::vector<long> ArgumentFromEnd(const Traced& traced, const std::string& name,
                                  std::size_t which) {
  std::vector<long> numbers;
  for (const std::string& call : traced.calls) {
    const std::size_t end = call.rfind(") ");
    if (call.rfind(name + "(", 0) != 0 || end == std::string::npos) continue;
    std::size_t at = end;
    for (std::size_t i = 0; i < which; ++i) at = call.rfind(", ", at - 1);
    numbers.push_back(std::strtol(call.c_str() + at + 2, nullptr, 10));
  }
  return numbers;
}

long Largest(const std::vector<long>& numbers) {
  long largest = -1;
  for (const long number : numbers) largest = std::max(largest, number);
  return largest;
}

#define SKIP_WITHOUT_STRACE() \
  if (!StraceWorks()) TIDEPOOL_SKIP("strace is not installed or ptrace is not permitted here")

}  // namespace

TEST_CASE("EpollTakesOneEventAtATimeWhateverTheEnvironmentSays", "[machine]") {
  SKIP_WITHOUT_STRACE();
  for (const Environment& environment : {Environment{}, kHostile}) {
    const Traced traced = TracePeer("epoll_wait,epoll_pwait", {"self", "100"}, environment);
    // Ours (ucx_events.h) is made of epoll_pwait; under sanitizers it stays libc's.
    auto max_events = ArgumentFromEnd(traced, "epoll_pwait", 4);
    for (const long each : ArgumentFromEnd(traced, "epoll_wait", 2)) max_events.push_back(each);
    REQUIRE(max_events.size() > 100);
    CHECK(Largest(max_events) == 1);
  }
}

TEST_CASE("AFullFrameIsSentByOneCallAndReadIntoALargeBuffer", "[machine]") {
  SKIP_WITHOUT_STRACE();
  for (const Environment& environment : {Environment{}, kHostile}) {
    const Traced traced = TracePeer("sendto,sendmsg,recvfrom", {"self", "2"}, environment);
    CHECK(Largest(NumbersAfter(traced, "MSG_NOSIGNAL) = ")) >
          static_cast<long>(FrameBuffer::kCapacity));
    CHECK(Largest(ArgumentFromEnd(traced, "recvfrom", 4)) >= 256 * 1024);
  }
}

TEST_CASE("NoConnectBlocksWhateverTheEnvironmentSays", "[machine]") {
  SKIP_WITHOUT_STRACE();
  for (const Environment& environment : {Environment{}, kHostile}) {
    const Traced traced = TracePeer("connect", {"self", "2"}, environment);
    const auto in_progress = [](const std::string& call) {
      return call.find("EINPROGRESS") != std::string::npos;
    };
    const auto& calls = traced.calls;
    const auto connects = std::count_if(calls.begin(), calls.end(), [](const std::string& call) {
      return call.find("connect(") == 0 && call.find("AF_INET") != std::string::npos;
    });
    CHECK(connects == 2);  // A connect for each endpoint.
    CHECK(std::count_if(calls.begin(), calls.end(), in_progress) == connects);
  }
}

TEST_CASE("AFrameCostsNoEpollCtlWhateverTheEnvironmentSays", "[machine]") {
  SKIP_WITHOUT_STRACE();
  for (const Environment& environment : {Environment{}, kHostile}) {
    const Traced traced = TracePeer("epoll_ctl", {"self", "500"}, environment);
    CHECK(traced.calls.size() < 200);  // Formerly a call for each of the 1,000 frames.
  }
}

TEST_CASE("KeepaliveRunsOnceASecond", "[machine]") {
  SKIP_WITHOUT_STRACE();
  for (const Environment& environment : {Environment{}, kHostile}) {
    const Traced traced = TracePeer("timerfd_settime", {"self", "2"}, environment);
    const auto seconds = NumbersAfter(traced, "it_interval={tv_sec=");
    REQUIRE_FALSE(seconds.empty());
    CHECK(Largest(seconds) == 1);
  }
}

TEST_CASE("KeepaliveLooksAtEveryEndpointInEachRound", "[machine]") {
  SKIP_WITHOUT_STRACE();
  constexpr std::size_t kEndpoints = 5;  // Two rounds of an endpoint each would miss three.
  for (const Environment& environment : {Environment{}, kHostile}) {
    const Traced traced = TracePeer("getppid,sendto,sendmsg,write,writev",
                                    {"idle", std::to_string(kEndpoints)}, environment);
    const auto mark = std::find_if(traced.calls.rbegin(), traced.calls.rend(),
                                   [](const auto& call) { return call.rfind("getppid(", 0) == 0; });
    REQUIRE(mark != traced.calls.rend());
    std::set<std::string> sockets;  // "sendto(17"
    for (auto call = mark.base(); call != traced.calls.end(); ++call) {
      if (call->rfind("send", 0) == 0) sockets.insert(call->substr(0, call->find(',')));
    }
    CHECK(sockets.size() >= kEndpoints);
  }
}

TEST_CASE("ListenersKeepOffThePortsOfServices", "[machine]") {
  SKIP_WITHOUT_STRACE();
  const PortRange range = UnnamedPorts().data_paths;
  for (const Environment& environment : {Environment{}, kHostile}) {
    const Traced traced = TracePeer("bind", {"self", "2"}, environment);
    const std::vector<long> ports = NumbersAfter(traced, "sin_port=htons(");
    REQUIRE_FALSE(ports.empty());
    for (const long port : ports) {
      CHECK(port >= range.first);
      CHECK((range.last == 0 || port <= range.last));
    }
  }
}

TEST_CASE("ThereIsOneTcpLaneOnTheConfiguredDevice") {
  for (const Environment& environment : {Environment{}, kHostile}) {
    Child child({PeerProgram(), "self", "2"}, environment);
    CHECK(child.ReadLine() == "ucx tcp/lo");
    CHECK(child.Wait() == 0);
  }
}

// UCX reports the protocol for each size ("0..<egr/short>..65529..<egr/zcopy>..(inf)"). Short means
// copied into a single TX_SEG_SIZE: a frame is sent in one piece, and its buffer is free.
TEST_CASE("FramesAreEagerInOnePieceWhateverTheEnvironmentSays") {
  const auto thresholds = [](std::vector<std::string> args) {
    args.insert(args.begin(), {PeerProgram(), "thresholds"});
    Child child(args, kHostile);
    return child.ReadLine().value_or("");
  };
  const std::string ours = thresholds({});
  CHECK(ours.find("<egr/short>..65529") != std::string::npos);
  CHECK(ours.find("rndv") == std::string::npos);
  CHECK(thresholds({"TX_SEG_SIZE"}).find("<egr/short>..65529") == std::string::npos);
  CHECK(thresholds({"RNDV_THRESH"}).find("rndv") != std::string::npos);
}

// With put, a rendezvous sends all its bytes as a single message; without it, in fragments of
// RX_SEG_SIZE. UCX 1.13 uses put only without peer-error handling, so bare UCX is asked.
TEST_CASE("TcpPutIsOffWhateverTheEnvironmentSays", "[machine]") {
  SKIP_WITHOUT_STRACE();
  Environment environment = kHostile;
  environment.erase("UCX_RNDV_THRESH");
  const Traced with_put =
      TracePeer("sendmsg", {"rendezvous", "RNDV_THRESH", "PUT_ENABLE"}, environment);
  REQUIRE(with_put.output == "moved");
  const char* kSent = "MSG_NOSIGNAL) = ";
  REQUIRE(Largest(NumbersAfter(with_put, kSent)) > 1 << 20);  // The proof thus sees a difference.
  const Traced ours = TracePeer("sendmsg", {"rendezvous", "RNDV_THRESH"}, environment);
  REQUIRE(ours.output == "moved");
  REQUIRE(Largest(NumbersAfter(ours, kSent)) > 0);
  CHECK(Largest(NumbersAfter(ours, kSent)) <= 256 * 1024 + 64);  // A fragment and its header.
}

}  // namespace tidepool::transport
