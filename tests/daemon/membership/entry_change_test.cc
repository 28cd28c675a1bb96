// Entries of partitions: accepted changes, and the invariants after each of them.
#include "daemon/membership/entry_change.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "tests/daemon/membership/coordinator_fixture.h"

namespace tidepool::daemon {
namespace {

using placement::PartitionState;
using What = v1::EntryStep::What;

// Three nodes and a namespace with partition 0 on node 0.
struct Fixture : CoordinatorFixture {
  Fixture() : CoordinatorFixture(3) {
    for (int node = 1; node <= 3; ++node) Join(node);
    space = Create("copied")->id;
    REQUIRE(Place().node == NodeId(0));
  }
  placement::PartitionPlace Place() { return *Map()->Find(PartitionId(space, 0)); }
  // The saved entry.
  PartitionEntry Entry() {
    const auto saved = store.Load();
    REQUIRE((saved.ok() && saved->has_value()));
    const auto found = (*saved)->entries.find(PartitionId(space, 0));
    return found == (*saved)->entries.end() ? PartitionEntry() : found->second;
  }
  std::vector<PartitionCopy> Copies() { return Entry().copies; }

  static v1::EntryStep Step(What what, std::uint32_t node, std::uint64_t incarnation = 1) {
    v1::EntryStep step;
    step.set_what(what);
    step.set_node_id(node);
    step.set_incarnation(incarnation);
    return step;
  }
  v1::ChangePartitionRequest RequestFor(const std::vector<v1::EntryStep>& steps) {
    v1::ChangePartitionRequest request;
    request.set_namespace_id(space.value());
    request.set_term(Place().term.value());
    request.set_version(Entry().version);
    for (const v1::EntryStep& step : steps) *request.add_steps() = step;
    return request;
  }
  StatusCode Send(const v1::ChangePartitionRequest& request) {
    const auto answer = coordinator->ChangePartition(request);
    REQUIRE(answer.ok());
    CHECK(answer->changed() == (answer->code() == 0));
    return static_cast<StatusCode>(answer->code());
  }
  StatusCode Ask(const std::vector<v1::EntryStep>& steps) { return Send(RequestFor(steps)); }

  NamespaceId space;
};

TEST_CASE("ACopyJoinsIsAdmittedAndBecomesOwnerInOneSaveEach") {
  Fixture cluster;
  const placement::PartitionPlace before = cluster.Place();
  CHECK(cluster.Ask({cluster.Step(v1::EntryStep::WHAT_JOIN, 1)}) == StatusCode::kOk);
  REQUIRE(cluster.Copies().size() == 1);
  CHECK_FALSE(cluster.Copies()[0].in_sync);
  CHECK(cluster.Entry().version == 1);
  const int saves = cluster.store.saves;
  CHECK(cluster.Ask({cluster.Step(v1::EntryStep::WHAT_ADMIT, 1),
                     cluster.Step(v1::EntryStep::WHAT_HANDOVER, 1),
                     cluster.Step(v1::EntryStep::WHAT_DROP, 0)}) == StatusCode::kOk);
  CHECK(cluster.store.saves == saves + 1);
  CHECK(cluster.Copies().empty());
  cluster.Open();  // It is durable.
  CHECK(cluster.Place().node == NodeId(1));
  CHECK(cluster.Place().term.value() == before.term.value() + 1);
  CHECK(cluster.Entry().version == 2);
}

TEST_CASE("OnlyAnInSyncCopyBecomesOwnerAndStepsTakeEffectTogether") {
  Fixture cluster;
  CHECK(cluster.Ask({cluster.Step(v1::EntryStep::WHAT_HANDOVER, 1)}) ==
        StatusCode::kFailedPrecondition);
  REQUIRE(cluster.Ask({cluster.Step(v1::EntryStep::WHAT_JOIN, 1)}) == StatusCode::kOk);
  const placement::PartitionPlace before = cluster.Place();
  CHECK(cluster.Ask({cluster.Step(v1::EntryStep::WHAT_HANDOVER, 1)}) ==
        StatusCode::kFailedPrecondition);
  // The second step fails, so the first has no effect.
  CHECK(cluster.Ask({cluster.Step(v1::EntryStep::WHAT_ADMIT, 1),
                     cluster.Step(v1::EntryStep::WHAT_HANDOVER, 2)}) ==
        StatusCode::kFailedPrecondition);
  CHECK(cluster.Place() == before);
  CHECK_FALSE(cluster.Copies()[0].in_sync);
  CHECK(cluster.Entry().version == 1);
}

TEST_CASE("ALateOrRepeatedRequestChangesNothing") {
  Fixture cluster;
  const auto join = cluster.RequestFor({cluster.Step(v1::EntryStep::WHAT_JOIN, 1)});
  REQUIRE(cluster.Send(join) == StatusCode::kOk);
  CHECK(cluster.Send(join) == StatusCode::kAborted);
  const auto handover = cluster.RequestFor(
      {cluster.Step(v1::EntryStep::WHAT_ADMIT, 1), cluster.Step(v1::EntryStep::WHAT_HANDOVER, 1)});
  REQUIRE(cluster.Ask({cluster.Step(v1::EntryStep::WHAT_TOUCH, 0)}) == StatusCode::kOk);
  CHECK(cluster.Send(handover) == StatusCode::kAborted);
  CHECK(cluster.Place().node == NodeId(0));
}

TEST_CASE("TheFormerOwnerStaysInSyncUntilItIsDropped") {
  Fixture cluster;
  REQUIRE(cluster.Ask({cluster.Step(v1::EntryStep::WHAT_JOIN, 2)}) == StatusCode::kOk);
  REQUIRE(cluster.Ask({cluster.Step(v1::EntryStep::WHAT_ADMIT, 2),
                       cluster.Step(v1::EntryStep::WHAT_HANDOVER, 2)}) == StatusCode::kOk);
  REQUIRE(cluster.Copies().size() == 1);
  CHECK(cluster.Copies()[0].node == NodeId(0));
  CHECK(cluster.Copies()[0].in_sync);
  REQUIRE(cluster.Ask({cluster.Step(v1::EntryStep::WHAT_HANDOVER, 0)}) == StatusCode::kOk);
  CHECK(cluster.Place().node == NodeId(0));
}

TEST_CASE("ARestartedProcessIsNoneOfTheEntrys") {
  Fixture cluster;
  REQUIRE(cluster.Ask({cluster.Step(v1::EntryStep::WHAT_JOIN, 1)}) == StatusCode::kOk);
  const std::uint64_t version = cluster.Entry().version;
  cluster.Join(2, 2);
  CHECK(cluster.Copies().empty());
  CHECK(cluster.Entry().version == version + 1);
  CHECK(cluster.Ask({cluster.Step(v1::EntryStep::WHAT_JOIN, 1, 1)}) == StatusCode::kUnavailable);
  REQUIRE(cluster.Ask({cluster.Step(v1::EntryStep::WHAT_JOIN, 1, 2)}) == StatusCode::kOk);
  // An owner that comes back as another process has no copies.
  cluster.Join(1, 2);
  CHECK(cluster.Copies().empty());
}

TEST_CASE("AStrangerAndTheOwnerCannotJoin") {
  Fixture cluster;
  CHECK(cluster.Ask({cluster.Step(v1::EntryStep::WHAT_JOIN, 7)}) == StatusCode::kInvalidArgument);
  CHECK(cluster.Ask({cluster.Step(v1::EntryStep::WHAT_JOIN, 0)}) ==
        StatusCode::kFailedPrecondition);
  CHECK(cluster.Ask({cluster.Step(v1::EntryStep::WHAT_DROP, 1)}) ==
        StatusCode::kFailedPrecondition);
}

// The rules hold whatever is asked for, however late: Commit checks the rules of the state.
TEST_CASE("AnyOrderOfRequestsKeepsOneOwnerAndRisingVersions") {
  const auto seed = std::random_device()();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  Fixture cluster;
  std::vector<v1::ChangePartitionRequest> sent;
  std::map<int, std::uint64_t> incarnations = {{0, 1}, {1, 1}, {2, 1}};
  int taken = 0;
  for (int i = 0; i < 400; ++i) {
    const placement::PartitionPlace before = cluster.Place();
    const PartitionEntry entry_before = cluster.Entry();
    if (random() % 40 == 0) {
      const int node = static_cast<int>(random() % 3);
      cluster.Join(node + 1, ++incarnations[node]);
      if (cluster.Place().state == PartitionState::kLost) {
        REQUIRE(cluster.coordinator->AcceptLoss("copied").ok());
      }
      continue;
    }
    const bool is_late = !sent.empty() && random() % 4 == 0;
    if (!is_late) {
      std::vector<v1::EntryStep> steps;
      for (std::uint32_t n = 1 + random() % 3; n > 0; --n) {
        const int node = static_cast<int>(random() % 3);
        const std::uint64_t incarnation =
            incarnations[node] - (random() % 8 == 0 && incarnations[node] > 1 ? 1 : 0);
        steps.push_back(cluster.Step(static_cast<What>(1 + random() % 5),
                                     static_cast<std::uint32_t>(node), incarnation));
      }
      sent.push_back(cluster.RequestFor(steps));
    }
    const auto& request = is_late ? sent[random() % sent.size()] : sent.back();
    const StatusCode code = cluster.Send(request);
    const placement::PartitionPlace after = cluster.Place();
    if (code != StatusCode::kOk) {
      REQUIRE(after == before);
      REQUIRE(cluster.Entry() == entry_before);
      continue;
    }
    ++taken;
    REQUIRE(request.version() == entry_before.version);
    REQUIRE(cluster.Entry().version == entry_before.version + 1);
    REQUIRE((after.node == before.node || after.term > before.term));
    std::set<NodeId> holders = {after.node};
    for (const auto& copy : cluster.Copies()) {
      REQUIRE(holders.insert(copy.node).second);
      REQUIRE(copy.incarnation == incarnations[copy.node.value()]);
    }
  }
  CHECK(taken > 20);
}

}  // namespace
}  // namespace tidepool::daemon
