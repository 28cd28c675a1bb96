#include "cli/commands/cluster/doctor_rules.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace tidepool::cli {
namespace {

Place Daemon() {
  Place daemon;
  daemon.name = "node 0 (n1)";
  daemon.daemon = true;
  daemon.control_address = "10.0.0.1:4410";
  daemon.metrics_address = "127.0.0.1:9100";
  return daemon;
}

TEST_CASE("NodesThatHaveAFindingInCommonAreNamedInShort") {
  CHECK(PlacesText({"here"}) == "here");
  CHECK(PlacesText({"node 3 (n1)"}) == "node 3 (n1)");
  CHECK(PlacesText({"node 1 (n1)", "node 0 (n1)"}) == "nodes 0, 1 (n1)");
  CHECK(PlacesText({"node 0 (n1)", "node 1 (n2)", "node 2 (n3)", "node 7 (n4)", "here"}) ==
        "here, nodes 0-2, 7 (4 hosts)");
  CHECK(PlacesText({"/a/path", "node x (n1)"}) == "/a/path, node x (n1)");
}

TEST_CASE("FindingsThatDifferInTheirPlaceAloneAreOne") {
  const Findings findings = {{Level::kNote, "cpus", "node 0 (n1)", "few", "more"},
                             {Level::kOk, "cpus", "node 1 (n1)", "few", "more"},
                             {Level::kNote, "cpus", "node 1 (n1)", "few", "more"},
                             {Level::kNote, "cpus", "node 2 (n1)", "fewer", "more"}};
  const std::vector<GroupedFinding> groups = Grouped(findings);
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].places == std::vector<std::string>{"node 0 (n1)", "node 1 (n1)"});
  CHECK(groups[2].first->what == "fewer");
}

TEST_CASE("EachPortIsCalledWhatItIs") {
  Place daemon = Daemon();
  for (const char* const address : {"[::ffff:10.0.0.1]:4410", "127.0.0.1:9100", "10.0.0.1:5555"}) {
    daemon.facts.add_listens(address);
  }
  Findings findings;
  JudgePorts(daemon, &findings);
  REQUIRE(findings.size() == 3);
  CHECK(findings[0].what == "gRPC services, which ask for the job token, at 10.0.0.1:4410");
  CHECK(findings[1].what == "metrics and status page at 127.0.0.1:9100, on loopback only");
  CHECK(findings[2].what == "UCX listens, without authentication or encryption, at 10.0.0.1:5555");
  CHECK(findings[2].level == Level::kNote);
}

TEST_CASE("AMetricsPortBeyondLoopbackIsNoPortOfUcx") {
  Place daemon = Daemon();
  daemon.metrics_address = "10.0.0.1:9100";
  daemon.facts.add_listens("10.0.0.1:9100");
  Findings findings;
  JudgePorts(daemon, &findings);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].level == Level::kOk);
  CHECK(findings[0].what ==
        "metrics and status page at 10.0.0.1:9100, by TLS and with the job token");
}

}  // namespace
}  // namespace tidepool::cli
