#include "daemon/node/node_services.h"

#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <string>

#include "proto/convert/grpc_channel.h"
#include "proto/convert/grpc_status.h"
#include "tests/daemon/raw_client.h"
#include "tidepool/v1/cluster.grpc.pb.h"

namespace tidepool::daemon {
namespace {

constexpr std::uint64_t kPatienceMs = 20'000;
const std::string kToken(64, 'a');

Options OptionsOf() {
  Options options;
  options.memory_bytes = 64 << 20;
  options.metrics_port = "auto";
  return options;
}

struct ServicesFixture {
  ServicesFixture() : state(OptionsOf()), services(&state) {
    state.cores = &node.cores();
    state.host = "host";
    options.interface = *ChooseInterface("", /*is_alone=*/true);
  }
  void Start(const cluster_file::TlsIdentity* tls = nullptr) {
    options.tls = tls;
    const Status started = services.Start(options);
    INFO(started.ToString());
    REQUIRE(started.ok());
  }
  // The status of a call that needs a token and a node that has joined.
  Status GetMap(const std::string& token, const ChannelSecurity& security = {}) {
    auto channel = convert::MakeChannel(state.control_address, security);
    REQUIRE(channel.ok());
    grpc::ClientContext context;
    convert::PrepareCall(&context, Deadline::AfterMs(kPatienceMs), token);
    v1::GetMapRequest request;
    v1::GetMapResponse map;
    return convert::FromGrpc(v1::Cluster::NewStub(*channel)->GetMap(&context, request, &map),
                             state.control_address);
  }

  TestNode node;
  NodeState state;
  NodeServicesOptions options;
  NodeServices services;
};

TEST_CASE("StartedServicesAreNamedInTheNodesState") {
  ServicesFixture fixture;
  fixture.Start();
  CHECK(fixture.state.router != nullptr);
  CHECK(fixture.state.splitter != nullptr);
  CHECK(fixture.state.control_address == fixture.services.host().address());
  CHECK(fixture.state.metrics_url.rfind("http://127.0.0.1:", 0) == 0);
}

TEST_CASE("CallsAreRefusedWithoutTheRightTokenAndUntilTheNodeHasJoined") {
  ServicesFixture fixture;
  fixture.Start();
  // No token is right before the node has a token.
  CHECK(fixture.GetMap(kToken).code() == StatusCode::kUnavailable);
  CHECK_FALSE(fixture.services.authenticator().IsRight("Bearer " + kToken));
  fixture.services.authenticator().SetToken(kToken);
  CHECK(fixture.GetMap(std::string(64, 'b')).code() == StatusCode::kUnauthenticated);
  CHECK(fixture.GetMap(kToken).code() == StatusCode::kUnavailable);
}

TEST_CASE("ServicesStartAgainWithAnotherTlsIdentity") {
  ServicesFixture fixture;
  fixture.services.authenticator().SetToken(kToken);
  fixture.Start();
  fixture.services.Stop();
  const auto tls = cluster_file::MakeTlsIdentity();
  REQUIRE(tls.ok());
  fixture.Start(&*tls);
  CHECK(fixture.GetMap(kToken, cluster_file::SecurityOf(*tls)).code() ==
        StatusCode::kUnavailable);  // It has not joined; the connection is by TLS.
}

TEST_CASE("StopsOfServicesThatNeverStartedDoNothing") {
  ServicesFixture fixture;
  fixture.services.StopListener();
  fixture.services.StopStaging();
  fixture.services.StopHost(Deadline::AfterMs(0));
  fixture.services.StopSplitter();
  CHECK(fixture.state.router == nullptr);
}

}  // namespace
}  // namespace tidepool::daemon
