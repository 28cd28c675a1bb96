// The answer of a drain for a queue that is elsewhere, with daemons of other machines.
#include <catch2/catch.hpp>

#include "tests/client/fake_daemon.h"
#include "tidepool/bytes_queue.h"

namespace tidepool::testing {
namespace {

TEST_CASE("A queue of another machine is not drained, and its node is named", "[client][queue]") {
  FakeCluster cluster{{.nodes = 2, .cores = 1, .partitions = 1}};
  const auto engine = cluster.Connect();
  const BytesQueue queue(cluster.Open(engine).space());
  const auto drained = queue.DrainLocal([](const ItemBatch::View&) { return true; });
  CHECK(drained.code() == StatusCode::kFailedPrecondition);
  CHECK(drained.status().ToString().find("node 0 on host0") != std::string::npos);
  CHECK(cluster.request_count() == 0);
}

}  // namespace
}  // namespace tidepool::testing
