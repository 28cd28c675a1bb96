#include "tests/integration/harness.h"

#include <fcntl.h>
#include <grpcpp/channel.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "proto/cluster_file/find.h"
#include "proto/cluster_file/job_token.h"
#include "proto/cluster_file/tls_identity.h"
#include "proto/convert/grpc_channel.h"
#include "proto/convert/grpc_status.h"
#include "tests/integration/etcd_harness.h"
#include "tidepool/v1/cluster.grpc.pb.h"
#include "tidepool/v1/common.pb.h"
#include "tidepool/v1/namespaces.grpc.pb.h"

extern char** environ;

namespace tidepool::testing {
namespace {

constexpr std::size_t kLogBytesShown = 4000;

// For code that threads of a test also call: Catch's macros need a single thread.
template <typename T>
T OrThrow(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.status().ToString());
  return *std::move(result);
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool IsLeftOut(std::string_view variable) {
  const std::string_view name = variable.substr(0, variable.find('='));
  constexpr std::string_view kEnding = "_proxy";
  return name.substr(0, 9) == "TIDEPOOL_" || name.substr(0, 6) == "SLURM_" ||
         (name.size() > kEnding.size() && name.substr(name.size() - kEnding.size()) == kEnding);
}

std::vector<char*> Pointers(std::vector<std::string>* texts) {
  std::vector<char*> pointers;
  for (std::string& text : *texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// After fork, before exec: only calls that are safe there.
[[noreturn]] void BecomeProgram(pid_t parent, int output, int errors, char** arguments,
                                char** environment) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // The test died before the line above.
  dup2(output, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  execve(arguments[0], arguments, environment);
  _exit(127);
}

}  // namespace

bool WaitUntil(const std::function<bool()>& condition, std::uint64_t timeout_ms) {
  const Deadline deadline = Deadline::AfterMs(timeout_ms);
  while (!condition()) {
    if (deadline.Passed()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

TemporaryFolder::TemporaryFolder() {
  const char* parent = std::getenv("TMPDIR");
  path_ = std::string(parent != nullptr ? parent : "/tmp") + "/tidepool-test-XXXXXX";
  REQUIRE(mkdtemp(path_.data()) != nullptr);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Process::Process(std::vector<std::string> arguments, std::vector<std::string> environment,
                 std::string output_stem)
    : output_stem_(std::move(output_stem)) {
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!IsLeftOut(*variable)) environment.emplace_back(*variable);
  }
  const int mode = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
  const int output = open((output_stem_ + ".out").c_str(), mode, 0600);
  const int errors = open((output_stem_ + ".err").c_str(), mode, 0600);
  const std::vector<char*> argument_pointers = Pointers(&arguments);
  const std::vector<char*> environment_pointers = Pointers(&environment);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    BecomeProgram(parent, output, errors, const_cast<char**>(argument_pointers.data()),
                  const_cast<char**>(environment_pointers.data()));
  }
  close(output);
  close(errors);
  REQUIRE(pid_ > 0);
}

Process::~Process() {
  if (!running()) return;
  Signal(SIGKILL);
  Wait();
}

void Process::Signal(int signal) const {
  if (pid_ > 0) kill(pid_, signal);
}

bool Process::running() { return pid_ > 0 && Wait(0) == -1; }

int Process::Wait(std::uint64_t timeout_ms) {
  WaitUntil(
      [this] {
        if (pid_ <= 0) return true;
        int status = 0;
        const pid_t ended = waitpid(pid_, &status, WNOHANG);
        if (ended == 0) return false;
        pid_ = -1;
        exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        return true;
      },
      timeout_ms);
  return pid_ > 0 ? -1 : exit_code_;
}

std::string Process::Output() const { return ReadAll(output_stem_ + ".out"); }
std::string Process::Errors() const { return ReadAll(output_stem_ + ".err"); }

std::string ProgramPath(const std::string& name) {
  if (const char* path = std::getenv("TIDEPOOL_TEST_KVD"); path != nullptr && name == "kvd") {
    return path;
  }
  std::error_code failed;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", failed);
  // Tests stand in the build folder below tests/ or in bin/; the programs in bin/.
  for (auto folder = self.parent_path(); folder != folder.root_path();
       folder = folder.parent_path()) {
    for (const auto& candidate : {folder / name, folder / "bin" / name}) {
      if (std::filesystem::is_regular_file(candidate, failed)) return candidate;
    }
  }
  FAIL("there is no program '" << name << "' beside " << self);
  return {};
}

TestCluster::TestCluster(TestClusterOptions options) : options_(std::move(options)) {
  processes_.resize(options_.nodes);
  const char* store = std::getenv("TIDEPOOL_TEST_STORE");
  if (options_.store.empty() && store != nullptr) options_.store = store;
  if (options_.store == "etcd") {
    if (options_.etcd.empty()) options_.etcd = TestEtcd::Shared().endpoints();
    store_flags_ = {"--store=etcd", "--etcd=" + options_.etcd, "--etcd-prefix=" + file()};
  }
  if (!options_.start) return;
  for (std::size_t i = 0; i < options_.nodes; ++i) Start(i);
  WaitReady();
}

TestCluster::~TestCluster() {
  const bool test_failed =
      std::uncaught_exceptions() > 0 || Catch::getResultCapture().lastAssertionPassed() == false;
  for (auto& process : processes_) {
    if (process == nullptr) continue;
    process->Signal(SIGKILL);
    process->Wait();
  }
  if (!test_failed) return;
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    const std::string log = Log(i);
    std::cerr << "---- daemon " << i << ", last lines of its log ----\n"
              << (log.size() > kLogBytesShown ? log.substr(log.size() - kLogBytesShown) : log);
  }
}

void TestCluster::Start(std::size_t index, std::vector<std::string> more_flags,
                        std::vector<std::string> more_environment) {
  std::vector<std::string> arguments = {ProgramPath("kvd"),
                                        "--nodes=" + std::to_string(options_.nodes),
                                        "--cluster=" + file(),
                                        "--data-dir=" + data_folder(index),
                                        "--interface=lo",
                                        "--cores=" + std::to_string(options_.cores),
                                        "--memory=" + options_.memory,
                                        "--lease-ms=" + std::to_string(options_.lease_ms),
                                        "--heartbeat-ms=" + std::to_string(options_.heartbeat_ms)};
  arguments.insert(arguments.end(), store_flags_.begin(), store_flags_.end());
  arguments.insert(arguments.end(), options_.flags.begin(), options_.flags.end());
  arguments.insert(arguments.end(), more_flags.begin(), more_flags.end());
  const std::string stem = folder() + "/kvd-" + std::to_string(index);
  processes_.at(index).reset();
  // Removes the output, because its ready line is from an earlier start; the log stays.
  std::filesystem::remove(stem + ".out");
  more_environment.insert(more_environment.begin(), options_.environment.begin(),
                          options_.environment.end());
  processes_[index] =
      std::make_unique<Process>(std::move(arguments), std::move(more_environment), stem);
}

void TestCluster::WaitReady() {
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (processes_[i] == nullptr || !processes_[i]->running()) continue;
    PlaceOf(i);
  }
}

TestCluster::Place TestCluster::PlaceOf(std::size_t index) {
  // "kvd ready: node 0 of 1 at 127.0.0.1:4410, cluster file ..."
  Process& daemon = *processes_.at(index);
  std::string line = daemon.Output();
  const auto has_line = [&] { return line.find('\n') != std::string::npos; };
  // Threads of a test come here too, once it is ready, so assertions must not run.
  if (!has_line()) {
    WaitUntil([&] {
      line = daemon.Output();
      return has_line() || !daemon.running();
    });
    INFO("daemon " << index << ": " << Log(index));
    REQUIRE(has_line());
  }
  Place place;
  char address[300] = "";
  if (std::sscanf(line.c_str(), "kvd ready: node %u of %*u at %299[^, \n]", &place.node_id,
                  address) != 2) {
    throw std::runtime_error("daemon " + std::to_string(index) + " said: " + line);
  }
  place.address = address;
  return place;
}

void TestCluster::Kill(std::size_t index) {
  processes_.at(index)->Signal(SIGKILL);
  REQUIRE(processes_[index]->Wait() == 128 + SIGKILL);
}

int TestCluster::Terminate(std::size_t index) {
  processes_.at(index)->Signal(SIGTERM);
  return processes_[index]->Wait();
}

void TestCluster::Suspend(std::size_t index) {
  processes_.at(index)->Signal(SIGSTOP);
  // The signal takes its time; WSTOPPED is reported once every thread has stopped.
  siginfo_t info{};
  const auto pid = static_cast<id_t>(processes_.at(index)->pid());
  while (waitid(P_PID, pid, &info, WSTOPPED) != 0 && errno == EINTR) {
  }
}
void TestCluster::Resume(std::size_t index) { processes_.at(index)->Signal(SIGCONT); }

std::string TestCluster::data_folder(std::size_t index) const {
  return folder() + "/data-" + std::to_string(index);
}

cluster_file::ClusterFile TestCluster::ReadFile() const {
  return OrThrow(cluster_file::Read(file()));
}

std::string TestCluster::token() const {
  return OrThrow(cluster_file::ReadTokenFile(ReadFile().token_file));
}

std::string TestCluster::address(std::size_t index) { return PlaceOf(index).address; }
std::uint32_t TestCluster::node_id(std::size_t index) { return PlaceOf(index).node_id; }

std::size_t TestCluster::coordinator_index() {
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (processes_[i] != nullptr && node_id(i) == 0) return i;
  }
  FAIL("no daemon is node 0");
  return 0;
}

std::string TestCluster::Log(std::size_t index) const {
  return ReadAll(folder() + "/kvd-" + std::to_string(index) + ".err");
}

std::shared_ptr<grpc::Channel> TestCluster::channel(std::size_t index) {
  const auto& flags = options_.flags;
  const bool insecure = std::find(flags.begin(), flags.end(), "--insecure") != flags.end();
  const auto security = cluster_file::SecurityOf(ReadFile(), insecure);
  return OrThrow(convert::MakeChannel(address(index), OrThrow(security)));
}

void TestCluster::Prepare(grpc::ClientContext* call, std::uint64_t timeout_ms) const {
  convert::PrepareCall(call, Deadline::AfterMs(timeout_ms), token());
}

Status TestCluster::CreateHash(std::size_t index, const std::string& name,
                               std::uint64_t timeout_ms) {
  grpc::ClientContext call;
  Prepare(&call, timeout_ms);
  v1::CreateNamespaceRequest request;
  request.set_name(name);
  request.set_kind(v1::KIND_HASH);
  v1::CreateNamespaceResponse response;
  return convert::FromGrpc(
      v1::Namespaces::NewStub(channel(index))->Create(&call, request, &response), "kvd");
}

v1::StatusResponse TestCluster::StatusFrom(std::size_t index) {
  grpc::ClientContext call;
  Prepare(&call);
  v1::StatusResponse response;
  const grpc::Status got =
      v1::Cluster::NewStub(channel(index))->Status(&call, v1::StatusRequest(), &response);
  INFO(got.error_message());
  REQUIRE(got.ok());
  return response;
}

bool TestCluster::WaitForNodeState(std::size_t index, v1::NodeState state, std::size_t asked) {
  const std::uint32_t id = node_id(index);
  if (asked == SIZE_MAX) asked = coordinator_index();
  return WaitUntil([&] {
    const v1::StatusResponse status = StatusFrom(asked);
    return static_cast<int>(id) < status.nodes_size() &&
           status.nodes(static_cast<int>(id)).node().state() == state;
  });
}

}  // namespace tidepool::testing
