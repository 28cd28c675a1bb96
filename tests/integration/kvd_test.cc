// A daemon as a process: its defaults, its end, and a clear line for each error.
#include <arpa/inet.h>
#include <grpcpp/channel.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>

#include "proto/cluster_file/file_io.h"
#include "proto/cluster_file/find.h"
#include "proto/convert/grpc_channel.h"
#include "proto/convert/grpc_status.h"
#include "tests/integration/harness.h"
#include "tidepool/v1/admin.grpc.pb.h"
#include "tidepool/v1/cluster.pb.h"
#include "tidepool/v1/common.pb.h"
#include "tidepool/v1/data.grpc.pb.h"
#include "tidepool/v1/namespaces.grpc.pb.h"

namespace tidepool::testing {
namespace {

// A daemon of the user's own default service, in a runtime folder of the test's.
struct DefaultService {
  DefaultService() { std::filesystem::create_directory(runtime, failed); }
  std::unique_ptr<Process> Start(const std::string& name, std::vector<std::string> flags = {}) {
    std::vector<std::string> arguments = {ProgramPath("kvd"), "--memory=64MiB"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return std::make_unique<Process>(arguments,
                                     std::vector<std::string>{"XDG_RUNTIME_DIR=" + runtime},
                                     folder.path() + "/" + name);
  }
  std::unique_ptr<Process> StartReady(const std::string& name) {
    auto daemon = Start(name);
    const bool is_ready = WaitUntil([&] { return daemon->Output().find("kvd ready") == 0; });
    INFO(daemon->Errors());
    REQUIRE(is_ready);
    return daemon;
  }
  std::string Uuid() const { return cluster_file::Read(file)->cluster_uuid; }

  std::error_code failed;
  TemporaryFolder folder;
  std::string runtime = folder.path() + "/run";
  std::string file = runtime + "/tidepool/cluster.json";
};

struct Outcome {
  int exit_code = 0;
  std::string errors;
};

// Runs kvd with these flags until it ends, as it should by itself.
Outcome Run(std::vector<std::string> flags, std::vector<std::string> environment = {}) {
  const TemporaryFolder folder;
  std::vector<std::string> arguments = {ProgramPath("kvd"), "--memory=64MiB"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  environment.push_back("XDG_RUNTIME_DIR=" + folder.path());
  Process daemon(arguments, environment, folder.path() + "/kvd");
  Outcome outcome;
  outcome.exit_code = daemon.Wait();
  outcome.errors = daemon.Errors();
  return outcome;
}

void CheckRefused(const Outcome& outcome, int exit_code, const std::string& says) {
  INFO(outcome.errors);
  CHECK(outcome.exit_code == exit_code);
  CHECK(outcome.errors.find(says) != std::string::npos);
  // A clear line, in addition to the log.
  CHECK(outcome.errors.rfind("kvd: ") != std::string::npos);
  const std::size_t line = outcome.errors.rfind("kvd: ");
  CHECK(outcome.errors.find('\n', line) == outcome.errors.size() - 1);
}

TEST_CASE("ABareKvdServesAndEndsInGoodOrder") {
  for (const int signal : {SIGTERM, SIGINT}) {
    DefaultService service;
    auto daemon = service.StartReady("kvd");
    const auto file = cluster_file::Read(service.file);
    REQUIRE(file.ok());
    CHECK(convert::IsLoopback(file->nodes[0].control_address));
    daemon->Signal(signal);
    CHECK(daemon->Wait() == 0);
    CHECK_FALSE(std::filesystem::exists(service.file));
    CHECK_FALSE(std::filesystem::exists(file->token_file));
  }
}

TEST_CASE("TheLimitOfDescriptorsIsRaisedAsFarAsItMayBe") {
  const TemporaryFolder folder;
  Process daemon({"/bin/sh", "-c", R"(ulimit -Sn 256 && ulimit -Hn 512 && exec "$0" "$@")",
                  ProgramPath("kvd"), "--memory=64MiB"},
                 {"XDG_RUNTIME_DIR=" + folder.path()}, folder.path() + "/kvd");
  const bool is_ready = WaitUntil([&] { return daemon.Output().find("kvd ready") == 0; });
  INFO(daemon.Errors());
  REQUIRE(is_ready);
  rlimit limit{};
  REQUIRE(prlimit(daemon.pid(), RLIMIT_NOFILE, nullptr, &limit) == 0);
  CHECK(limit.rlim_max == 512);
  CHECK(limit.rlim_cur == limit.rlim_max);
}

TEST_CASE("ASecondBareKvdIsRefusedByTheNameOfTheFile") {
  DefaultService service;
  auto first = service.StartReady("first");
  auto second = service.Start("second");
  CHECK(second->Wait() == 1);
  CHECK(second->Errors().find(service.file) != std::string::npos);
  // Also while the first daemon is stopped and answers nothing.
  first->Signal(SIGSTOP);
  auto third = service.Start("third");
  CHECK(third->Wait() == 1);
  CHECK(third->Errors().find("is live") != std::string::npos);
  first->Signal(SIGCONT);
}

TEST_CASE("AfterAGoodEndTheNextStartIsANewServiceAfterABadOneItGoesOn") {
  DefaultService service;
  auto first = service.StartReady("first");
  const std::string uuid = service.Uuid();
  first->Signal(SIGKILL);
  first->Wait();
  auto second = service.StartReady("second");
  CHECK(service.Uuid() == uuid);
  second->Signal(SIGTERM);
  REQUIRE(second->Wait() == 0);
  auto third = service.StartReady("third");
  CHECK(service.Uuid() != uuid);
}

TEST_CASE("ASecondSignalEndsItAtOnce") {
  // The first signal cannot be obeyed: the coordinator is stopped and does not answer the farewell.
  TestCluster cluster({.nodes = 2});
  const std::size_t first = cluster.coordinator_index();
  const std::size_t other = 1 - first;
  cluster.Suspend(first);
  cluster.process(other).Signal(SIGTERM);
  REQUIRE(WaitUntil(
      [&] { return cluster.Log(other).find("stopping in good order") != std::string::npos; }));
  cluster.process(other).Signal(SIGTERM);
  CHECK(cluster.process(other).Wait() == 3);
}

TEST_CASE("ASignalEndsADaemonThatStillWaitsForOthers") {
  TestCluster cluster({.nodes = 2, .start = false});
  cluster.Start(0);
  REQUIRE(WaitUntil([&] { return cluster.Log(0).find("forming") != std::string::npos; }));
  CHECK(cluster.Terminate(0) == 0);
  CHECK_FALSE(std::filesystem::exists(cluster.file()));
}

TEST_CASE("APortInUseIsNamed") {
  const UniqueFd taken(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(bind(taken.get(), reinterpret_cast<sockaddr*>(&where), sizeof where) == 0);
  REQUIRE(listen(taken.get(), 1) == 0);
  socklen_t bytes = sizeof where;
  getsockname(taken.get(), reinterpret_cast<sockaddr*>(&where), &bytes);
  const std::string port = std::to_string(ntohs(where.sin_port));
  CheckRefused(Run({"--port=" + port}), 1, "127.0.0.1:" + port + ": the port is in use");
}

TEST_CASE("WrongOptionsGiveOneLineAndExitCode2") {
  const TemporaryFolder folder;
  const std::string config = folder.path() + "/kvd.toml";
  std::ofstream(config) << "memory = \n";
  CheckRefused(Run({"--config=" + config}), 2, config + ", line 1");
  CheckRefused(Run({"--memroy=1G"}), 2, "did you mean 'memory'?");
  CheckRefused(Run({"--nvm-size=1GiB"}), 2, "nvm-size is given without nvm-dir");
  CheckRefused(Run({"--ucx-connect=sockaddr"}), 2, "--ucx-connect is not in this version");
  CheckRefused(Run({"--auth=kerberos"}), 2, "auth cannot be 'kerberos'");
  CheckRefused(Run({"--memory=1M"}), 2, "at least 64MiB");
  CheckRefused(Run({"--log-file=/no/such/folder/x.log"}), 2, "/no/such/folder/x.log");
}

TEST_CASE("WhatTheMachineLacksGivesOneLine") {
  // Wrong anywhere; later options are right on another machine.
  CheckRefused(Run({"--interface=eth77"}), 2, "no network interface 'eth77'");
  CheckRefused(Run({"--cluster=/no/such/folder/c.json"}), 1, "/no/such/folder");
  CHECK_FALSE(std::filesystem::exists("/no"));
  CheckRefused(Run({"--net-devices=eth77"}), 1, "eth77");
  CheckRefused(Run({"--data-dir=/dev/null/x"}), 1, "/dev/null");
}

TEST_CASE("DamagedFilesAreNamedAndLeftAlone") {
  DefaultService service;
  auto first = service.StartReady("first");
  first->Signal(SIGKILL);
  first->Wait();
  std::string state;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(service.runtime)) {
    if (entry.path().filename() == "cluster-state") state = entry.path();
  }
  REQUIRE_FALSE(state.empty());
  std::filesystem::resize_file(state, std::filesystem::file_size(state) / 2);
  auto second = service.Start("second");
  CHECK(second->Wait() == 1);
  CHECK(second->Errors().find(state) != std::string::npos);
  CHECK(second->Errors().find("is damaged") != std::string::npos);
  std::filesystem::remove(state);
  std::ofstream(service.file, std::ios::trunc) << "{";
  auto third = service.Start("third");
  CHECK(third->Wait() == 2);
  CHECK(third->Errors().find("connection file '" + service.file + "' is damaged") !=
        std::string::npos);
}

TEST_CASE("TheConfigurationIsPrintedWithItsSources") {
  const TemporaryFolder folder;
  Process print({ProgramPath("kvd"), "--print-config", "--memory=1G"}, {"TIDEPOOL_CORES=2"},
                folder.path() + "/print");
  CHECK(print.Wait() == 0);
  const std::string output = print.Output();
  CHECK(output.find("memory = \"1GiB\"") != std::string::npos);
  CHECK(output.find("# flag") != std::string::npos);
  CHECK(output.find("# environment") != std::string::npos);
  // Its output is an option file.
  const std::string config = folder.path() + "/printed.toml";
  std::ofstream(config) << output;
  Process again({ProgramPath("kvd"), "--print-config", "--config", config}, {},
                folder.path() + "/again");
  CHECK(again.Wait() == 0);
  CHECK(again.Output().find("memory = \"1GiB\"") != std::string::npos);
  Process help({ProgramPath("kvd"), "--help"}, {}, folder.path() + "/help");
  CHECK(help.Wait() == 0);
  CHECK(help.Output().find("Examples:") != std::string::npos);
}

// Connects, writes `bytes`, reads a little, closes.
void SendJunk(std::uint16_t port, const std::string& bytes) {
  const UniqueFd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(port);
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(client.get(), reinterpret_cast<sockaddr*>(&where), sizeof where) != 0) return;
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t n = send(client.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return;
    sent += static_cast<std::size_t>(n);
  }
}

TEST_CASE("JunkOnTheGrpcPortHarmsNobody") {
  TestCluster cluster({.nodes = 1});
  const auto seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const std::string address = cluster.address(0);
  const auto port = static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  for (int i = 0; i < 300; ++i) {
    std::string junk(random() % 5000, '\0');
    for (char& c : junk) c = static_cast<char>(random());
    // Half of them pass the greeting, and some pass the frame's header.
    if (i % 2 == 0) junk.insert(0, preface);
    if (i % 4 == 0) junk.insert(preface.size(), std::string("\0\0\0\4\0\0\0\0\0", 9));
    SendJunk(port, junk);
  }
  CHECK(cluster.process(0).running());
  CHECK(cluster.StatusFrom(0).nodes_size() == 1);
}

Status Stop(TestCluster* cluster, std::size_t index, bool discard, v1::StopResponse* response) {
  grpc::ClientContext call;
  cluster->Prepare(&call, 20'000);
  v1::StopRequest request;
  request.set_cluster(true);
  request.set_discard(discard);
  return convert::FromGrpc(
      v1::Admin::NewStub(cluster->channel(index))->Stop(&call, request, response), "kvd");
}

TEST_CASE("StoppingRefusesToLoseAnythingUnlessToldTo") {
  TestCluster cluster({.nodes = 3});
  const std::size_t asked = (cluster.coordinator_index() + 1) % 3;
  grpc::ClientContext call;
  cluster.Prepare(&call);
  v1::PutRequest put;
  put.set_namespace_("default");
  put.set_key("k");
  put.set_value("v");
  v1::PutResponse ignored;
  REQUIRE(v1::Data::NewStub(cluster.channel(asked))->Put(&call, put, &ignored).ok());
  v1::StopResponse response;
  const Status refused = Stop(&cluster, asked, false, &response);
  INFO(refused.ToString());
  CHECK(refused == StatusCode::kFailedPrecondition);
  CHECK(refused.what().find("'default' (1 records") != std::string::npos);
  CHECK(refused.remedy().find("--discard") != std::string::npos);
  REQUIRE(Stop(&cluster, asked, true, &response).ok());
  CHECK(response.nodes_stopped_size() == 3);
  CHECK(response.nodes_failed_size() == 0);
  for (std::size_t i = 0; i < 3; ++i) CHECK(cluster.process(i).Wait() == 0);
  CHECK_FALSE(std::filesystem::exists(cluster.file()));
}

TEST_CASE("AnEmptyClusterStopsWithoutAWord") {
  TestCluster cluster({.nodes = 2});
  v1::StopResponse response;
  REQUIRE(Stop(&cluster, cluster.coordinator_index(), false, &response).ok());
  CHECK(response.nodes_stopped_size() == 2);
  for (std::size_t i = 0; i < 2; ++i) CHECK(cluster.process(i).Wait() == 0);
}

TEST_CASE("WhatCannotBeAskedIsNotKnownToBeSafe") {
  TestCluster cluster({.nodes = 2});
  const std::size_t first = cluster.coordinator_index();
  cluster.Kill(1 - first);
  v1::StopResponse response;
  const Status refused = Stop(&cluster, first, false, &response);
  CHECK(refused == StatusCode::kFailedPrecondition);
  CHECK(refused.what().find("is not known") != std::string::npos);
  REQUIRE(Stop(&cluster, first, true, &response).ok());
  CHECK(response.nodes_failed_size() == 1);
  CHECK(cluster.process(first).Wait() == 0);
}

TEST_CASE("AClusterThatWasToldToLoseItsDataComesBackEmptyAndNotLost") {
  TestCluster cluster({.nodes = 1});
  grpc::ClientContext create;
  cluster.Prepare(&create);
  v1::CreateNamespaceRequest request;
  request.set_name("kept");
  request.set_kind(v1::KIND_HASH);
  v1::CreateNamespaceResponse created;
  REQUIRE(v1::Namespaces::NewStub(cluster.channel(0))->Create(&create, request, &created).ok());
  grpc::ClientContext call;
  cluster.Prepare(&call);
  v1::PutRequest put;
  put.set_namespace_("kept");
  put.set_key("k");
  v1::PutResponse ignored;
  REQUIRE(v1::Data::NewStub(cluster.channel(0))->Put(&call, put, &ignored).ok());
  v1::StopResponse response;
  REQUIRE(Stop(&cluster, 0, true, &response).ok());
  REQUIRE(cluster.process(0).Wait() == 0);
  cluster.Start(0);
  cluster.WaitReady();
  const v1::StatusResponse status = cluster.StatusFrom(0);
  REQUIRE(status.namespaces_size() == 2);
  CHECK(status.namespaces(1).name() == "kept");
  CHECK(status.namespaces(1).records() == 0);
  CHECK(status.namespaces(1).partitions_lost() == 0);
}

}  // namespace
}  // namespace tidepool::testing
