#define CATCH_CONFIG_EXTERNAL_INTERFACES  // For the listener that ends the shared cluster.
#include "tests/client/sdk_fixture.h"

#include <catch2/catch.hpp>
#include <memory>
#include <stdexcept>
#include <utility>

namespace tidepool::testing {
namespace {

std::unique_ptr<TestCluster> shared_cluster;

// Ends it while Catch is still there, which a static object's end would not.
struct ClusterEnd : Catch::TestEventListenerBase {
  using Catch::TestEventListenerBase::TestEventListenerBase;
  void testRunEnded(const Catch::TestRunStats& stats) override {
    Catch::TestEventListenerBase::testRunEnded(stats);
    shared_cluster.reset();
  }
};
CATCH_REGISTER_LISTENER(ClusterEnd)

}  // namespace

TestCluster& Cluster() {
  if (shared_cluster == nullptr) {
    shared_cluster = std::make_unique<TestCluster>(
        TestClusterOptions{.nodes = 1, .cores = 2, .memory = "256MiB"});
    shared_cluster->WaitReady();
  }
  return *shared_cluster;
}

void RequireOk(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

Client ConnectTo(const TestCluster& cluster, ConnectOptions options) {
  options.cluster_file = cluster.file();
  auto client = Client::Connect(options);
  RequireOk(client.status());
  return *std::move(client);
}

}  // namespace tidepool::testing
