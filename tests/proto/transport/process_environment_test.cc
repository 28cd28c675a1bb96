#include "proto/transport/process_environment.h"

#include <catch2/catch.hpp>
#include <csignal>
#include <map>
#include <string>
#include <vector>

#include "tests/proto/transport/harness.h"

namespace tidepool::transport {
namespace {

using Lines = std::map<std::string, std::string>;

// Returns the helper's output by the first word of each line, with its process id and end; as "all"
// every line.
Lines RunPeer(const std::vector<std::string>& args, const std::map<std::string, std::string>& env) {
  std::vector<std::string> argv = {
      "env",           "-u", "UCX_HANDLE_ERRORS",       "-u", "UCX_DEBUG_SIGNO", "-u",
      "UCX_LOG_LEVEL", "-u", "UCX_WARN_UNUSED_ENV_VARS"};
  for (const auto& [name, value] : env) argv.push_back(name + "=" + value);
  argv.push_back(PeerProgram());
  argv.insert(argv.end(), args.begin(), args.end());
  Child child(argv);
  Lines lines;
  lines["started as"] = std::to_string(child.pid());
  while (auto line = child.ReadLine()) {
    const std::size_t space = line->find(' ');
    lines[line->substr(0, space)] = line->substr(space + 1);
    lines["all"].append(*line).append("\n");
  }
  lines["exit"] = std::to_string(child.Wait().value_or(-1) >> 8);
  return lines;
}

}  // namespace

TEST_CASE("WithoutTheEnvironmentTheSignalsThatUcxTakesAreGivenBackAtLoad") {
  auto lines = RunPeer({"plain"}, {});
  CHECK(lines["hangup"] == "default");
  CHECK(lines["fault"] == "default");
}

TEST_CASE("AHangupSignalThatIsIgnoredStaysIgnored") {
  // Like a program started by nohup.
  struct sigaction before {};
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGHUP, &ignore, &before);
  auto lines = RunPeer({"plain"}, {});
  sigaction(SIGHUP, &before, nullptr);
  CHECK(lines["hangup"] == "ignored");
}

TEST_CASE("AUserMayAskForTheSignalHandlersOfUcx") {
  auto lines = RunPeer({"plain"}, {{"UCX_DEBUG_SIGNO", "SIGHUP"}, {"UCX_HANDLE_ERRORS", "bt"}});
  CHECK(lines["hangup"] == "handled");
  CHECK(lines["fault"] == "handled");
}

TEST_CASE("LinesOfUcxGoToStandardErrorUnlessTheUserNamesAPlace") {
  const auto printed = [](std::map<std::string, std::string> environment) {
    environment.emplace("UCX_SITE_SETTING", "1");  // Unknown to UCX, which warns.
    return RunPeer({"worker"}, environment)["all"];
  };
  CHECK(printed({}).find("UCX") == std::string::npos);
  CHECK(printed({{"UCX_LOG_LEVEL", "info"}}).find("UCX") == std::string::npos);
  CHECK(printed({{"UCX_LOG_FILE", "stdout"}}).find("UCX_SITE_SETTING") != std::string::npos);
}

TEST_CASE("EnteringTheEnvironmentSetsTheMissingVariablesAndKeepsUcxFromSignals") {
  auto lines = RunPeer({"environment"}, {});
  CHECK(lines["status"] == "OK");
  CHECK(lines["hangup"] == "default");
  CHECK(lines["UCX_HANDLE_ERRORS"] == "none");
  CHECK(lines["UCX_DEBUG_SIGNO"] == "0");
  CHECK(lines["UCX_LOG_LEVEL"] == "fatal");
  CHECK(lines["UCX_WARN_UNUSED_ENV_VARS"] == "n");
  CHECK(lines["exit"] == "0");
}

TEST_CASE("ExecutingAgainKeepsProcessIdNameAndArguments") {
  auto lines = RunPeer({"environment", "extra"}, {});
  CHECK(lines["pid"] == lines["started as"]);
  CHECK(lines["name"] == "transport_peer");
  CHECK(lines["exit"] == "1");  // The second argument arrived.
}

TEST_CASE("TheGuardVariableDoesNotReachTheRunningProgram") {
  CHECK(RunPeer({"environment"}, {})["TIDEPOOL_EXECUTED_AGAIN"] == "-");
}

TEST_CASE("TheUsersLogLevelIsKeptAndHandlersAreForcedOff") {
  auto lines = RunPeer({"environment"}, {{"UCX_LOG_LEVEL", "error"}, {"UCX_HANDLE_ERRORS", "bt"}});
  CHECK(lines["UCX_LOG_LEVEL"] == "error");
  CHECK(lines["UCX_HANDLE_ERRORS"] == "none");
  CHECK(lines["hangup"] == "default");
}

TEST_CASE("ExecutesOnlyOnceEvenIfTheVariablesAreStillWrong") {
  auto lines = RunPeer({"environment"}, {{"TIDEPOOL_EXECUTED_AGAIN", "1"}});
  CHECK(lines["status"] == "UNAVAILABLE");
  CHECK(lines["exit"] == "0");
}

}  // namespace tidepool::transport
