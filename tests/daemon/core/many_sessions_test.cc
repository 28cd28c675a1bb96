// Thousands of clients on a core.
#include <catch2/catch.hpp>

#include "tests/daemon/raw_client.h"

namespace tidepool::daemon {
namespace {

TEST_CASE("TwoThousandSessionsAreServedByOneCore") {
  TestNode node(4);
  constexpr int kClients = 2'000;
  // All in a single process: each worker takes 9 descriptors, and each client another 4 here.
  std::vector<std::unique_ptr<SharedWorker>> workers;
  for (int i = 0; i < 200; ++i) workers.push_back(std::make_unique<SharedWorker>(node));
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<RawClient>(node, workers[i % workers.size()].get()));
    clients.back()->Attach();
  }
  CHECK(node.cores().Stats(Deadline::AfterMs(10'000))[0].sessions == kClients);
  // All ask before any answer is read.
  for (auto& client : clients) client->Call({AddOp("n", 1)});
  std::vector<bool> seen(kClients, false);
  for (auto& client : clients) {
    const OwnedAnswer answer = client->WaitAnswer();
    REQUIRE(answer.answer.code == StatusCode::kOk);
    REQUIRE(answer.answer.number < kClients);
    REQUIRE_FALSE(seen[answer.answer.number]);
    seen[answer.answer.number] = true;
  }
  // Each still has at least the smallest credit.
  for (const auto& client : clients) {
    CHECK(client->attached().credit_operations >= limits::kCreditOperationsMin);
    CHECK(client->attached().credit_bytes >= limits::kCreditBytesMin);
  }
}

}  // namespace
}  // namespace tidepool::daemon
