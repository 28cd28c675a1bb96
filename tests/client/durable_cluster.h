// Daemons with a device each, which end and come back.
#pragma once

#include <grpcpp/channel.h>
#include <stdlib.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "tests/client/sdk_fixture.h"
#include "tidepool/v1/namespaces.grpc.pb.h"

namespace tidepool::testing {

// Devices on the build's disk: /tmp may be memory without direct I/O.
class DurableCluster {
 public:
  // `device`: the folder of the first device; empty: a folder of its own.
  explicit DurableCluster(std::uint32_t nodes = 1, std::uint32_t cores = 1,
                          const std::string& device = {},
                          std::uint32_t lease_ms = TestClusterOptions().lease_ms)
      : nodes_(nodes) {
    std::string pattern = "durable_test.XXXXXX";
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = std::filesystem::absolute(pattern).string();
    cluster_ = std::make_unique<TestCluster>(
        TestClusterOptions{.nodes = nodes, .cores = cores, .lease_ms = lease_ms, .start = false});
    if (!device.empty()) std::filesystem::create_directory_symlink(device, device_folder(0));
    for (std::size_t i = 0; i < nodes; ++i) std::filesystem::create_directory(device_folder(i));
    StartAll();
  }
  ~DurableCluster() {
    cluster_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  DurableCluster(const DurableCluster&) = delete;
  DurableCluster& operator=(const DurableCluster&) = delete;
  TestCluster& operator*() { return *cluster_; }
  TestCluster* operator->() { return cluster_.get(); }

  const std::string& path() const { return path_; }
  std::string device_folder(std::size_t index) const {
    return path_ + "/device-" + std::to_string(index);
  }
  std::string device_file(std::size_t index) const {
    return device_folder(index) + "/tidepool.nvm";
  }

  // Does not wait. `failpoint`: where it kills itself, see proto/base/failpoint.h.
  void Start(std::size_t index, const std::string& failpoint = {}) {
    std::vector<std::string> environment;
    if (!failpoint.empty()) environment.push_back("TIDEPOOL_TEST_FAILPOINT=" + failpoint);
    cluster_->Start(index, {"--nvm-dir=" + device_folder(index), "--nvm-size=256MiB"}, environment);
  }
  void StartAll() {
    for (std::size_t i = 0; i < nodes_; ++i) Start(i);
    cluster_->WaitReady();
  }
  // SIGKILL, and the same node again.
  void KillAndStart(std::size_t index) {
    cluster_->Kill(index);
    Start(index);
    cluster_->WaitReady();
  }
  // Starts a daemon that must not serve, and returns its output.
  std::string Refused(std::size_t index) {
    Start(index);
    const int code = cluster_->process(index).Wait();
    const std::string log = cluster_->Log(index);
    INFO(log);
    CHECK(code == 1);
    const std::size_t line = log.rfind("kvd: ");
    return line == std::string::npos ? std::string() : log.substr(line);
  }

 private:
  const std::uint32_t nodes_;
  std::string path_;
  std::unique_ptr<TestCluster> cluster_;
};

inline NamespaceOptions Durable(Durability durability = Durability::kAsync) {
  NamespaceOptions options;
  options.durability = durability;
  return options;
}

inline v1::DescribeNamespaceResponse Describe(TestCluster& cluster, const std::string& name) {
  const auto stub = v1::Namespaces::NewStub(cluster.channel(0));
  grpc::ClientContext call;
  cluster.Prepare(&call);
  v1::DescribeNamespaceRequest request;
  request.set_name(name);
  v1::DescribeNamespaceResponse response;
  REQUIRE(stub->Describe(&call, request, &response).ok());
  return response;
}

inline void AcceptLoss(TestCluster& cluster, const std::string& name) {
  const auto stub = v1::Namespaces::NewStub(cluster.channel(0));
  grpc::ClientContext call;
  cluster.Prepare(&call);
  v1::AcceptLossRequest request;
  request.set_name(name);
  v1::AcceptLossResponse accepted;
  REQUIRE(stub->AcceptLoss(&call, request, &accepted).ok());
}

}  // namespace tidepool::testing
