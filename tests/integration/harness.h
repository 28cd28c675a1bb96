// Real daemons for tests: starts kvd processes in a temporary folder, waits until they serve,
// stops, kills or suspends them, shows their logs when a test fails, and removes all its files.
//
//   TestCluster cluster({.nodes = 3});        // Three kvd on loopback, formed and ready.
//   cluster.Kill(1);                          // SIGKILL
//   REQUIRE(cluster.WaitForNodeState(1, v1::NODE_STATE_DOWN));
//   cluster.Start(1);                         // The same node again, from its own data folder.
//
// The kernel kills the daemons, which are children, with the test (PR_SET_PDEATHSIG). So no daemon
// outlives a test that crashes or is killed by ctest. kvd is found beside the test's own binary or
// by TIDEPOOL_TEST_KVD.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "proto/base/clock.h"
#include "proto/base/status.h"
#include "proto/cluster_file/cluster_file.h"

// The headers of gRPC are half of the compile time of a test, and most tests do not use them. A
// test that calls a service includes its header.
namespace grpc {
class Channel;
class ClientContext;
}  // namespace grpc
namespace tidepool::v1 {
enum NodeState : int;
class StatusResponse;
}  // namespace tidepool::v1

namespace tidepool::testing {

// Time that a loaded machine may take for quick work. Ends a test that hangs; no test may depend on
// its length.
inline constexpr std::uint64_t kPatienceMs = 60'000;

// Polls `condition` every 10 ms until it is true. False after `timeout_ms`.
bool WaitUntil(const std::function<bool()>& condition, std::uint64_t timeout_ms = kPatienceMs);

// A folder of its own below the temporary folder, removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A child process; its stdout and stderr go to a file each. Killed with its owner. Not thread-safe;
// start it on a thread that outlives it (PR_SET_PDEATHSIG goes by the thread).
class Process {
 public:
  // `arguments[0]` is the program. `environment` ("NAME=VALUE") is added to that of the test, from
  // which all TIDEPOOL_*, SLURM_* and *_proxy variables are left out.
  Process(std::vector<std::string> arguments, std::vector<std::string> environment,
          std::string output_stem);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal) const;
  bool running();
  // Exit code, or 128 + signal; -1 if it still runs after the time.
  int Wait(std::uint64_t timeout_ms = kPatienceMs);
  std::string Output() const;  // Returns the output to stdout so far.
  std::string Errors() const;  // To stderr.

 private:
  pid_t pid_ = -1;
  int exit_code_ = -1;
  std::string output_stem_;
};

// Returns the path of kvd, or of another program of the build. Fails the test if it is absent.
std::string ProgramPath(const std::string& name);

struct TestClusterOptions {
  std::uint32_t nodes = 1;
  std::uint32_t cores = 1;
  std::string memory = "64MiB";
  // Short, so that tests of failures are quick; long enough for a loaded machine.
  std::uint32_t lease_ms = 1500;
  std::uint32_t heartbeat_ms = 100;
  std::vector<std::string> flags;  // Given to each daemon, for example "--wait=block".
  std::vector<std::string> environment;
  bool start = true;  // False: the test starts the daemons itself.
  // "embedded" or "etcd"; empty: TIDEPOOL_TEST_STORE, else embedded.
  std::string store;
  std::string etcd;  // Addresses; empty: TestEtcd::Shared's.
};

// N daemons on loopback that share a connection file. Members are REQUIREd: a test that cannot
// start its daemons fails with their logs. Not thread-safe.
class TestCluster {
 public:
  explicit TestCluster(TestClusterOptions options = {});
  // Ends all daemons; if the test failed, prints the end of each log.
  ~TestCluster();
  TestCluster(const TestCluster&) = delete;
  TestCluster& operator=(const TestCluster&) = delete;

  // Starts daemon `index` (again). Its data folder stays, so it is the same node.
  void Start(std::size_t index, std::vector<std::string> more_flags = {},
             std::vector<std::string> more_environment = {});
  // Waits until every running daemon's health says SERVING, that is until the cluster has formed.
  void WaitReady();
  void Kill(std::size_t index);      // SIGKILL, and waits for the end.
  int Terminate(std::size_t index);  // SIGTERM; the exit code.
  void Suspend(std::size_t index);   // SIGSTOP
  void Resume(std::size_t index);    // SIGCONT

  const std::string& folder() const { return folder_.path(); }
  // Flags for a further daemon of this cluster: --store and its options.
  const std::vector<std::string>& store_flags() const { return store_flags_; }
  // The connection file: the value of a client's --cluster or TIDEPOOL_CLUSTER.
  std::string file() const { return folder_.path() + "/cluster.json"; }
  std::string data_folder(std::size_t index) const;
  cluster_file::ClusterFile ReadFile() const;
  std::string token() const;
  // host:port of daemon `index` (not NodeId: of several daemons started at once any may come
  // first).
  std::string address(std::size_t index);
  // NodeId of daemon `index`.
  std::uint32_t node_id(std::size_t index);
  // The daemon that is the coordinator (NodeId 0).
  std::size_t coordinator_index();
  Process& process(std::size_t index) { return *processes_.at(index); }
  std::size_t size() const { return processes_.size(); }
  std::string Log(std::size_t index) const;

  // A channel to a daemon, and a call prepared with token and deadline.
  std::shared_ptr<grpc::Channel> channel(std::size_t index);
  void Prepare(grpc::ClientContext* call, std::uint64_t timeout_ms = 10'000) const;

  // Makes a hash namespace by daemon `index`.
  Status CreateHash(std::size_t index, const std::string& name, std::uint64_t timeout_ms = 10'000);

  // Returns daemon `index`'s status of the cluster.
  v1::StatusResponse StatusFrom(std::size_t index);
  // Waits until daemon `asked` (default: the coordinator) shows daemon `index` in `state`.
  bool WaitForNodeState(std::size_t index, v1::NodeState state, std::size_t asked = SIZE_MAX);

 private:
  struct Place {
    std::string address;
    std::uint32_t node_id = 0;
  };
  // From the ready line of the daemon.
  Place PlaceOf(std::size_t index);

  TestClusterOptions options_;
  std::vector<std::string> store_flags_;
  TemporaryFolder folder_;
  std::vector<std::unique_ptr<Process>> processes_;
};

}  // namespace tidepool::testing
