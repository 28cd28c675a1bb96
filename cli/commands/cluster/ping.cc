#include "cli/commands/cluster/ping.h"

#include <tidepool/client.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "cli/commands/data/sdk_client.h"
#include "cli/text.h"

namespace tidepool::cli {
namespace {

Status Ping(Invocation& run) {
  const Result<std::uint64_t> count = run.args.Number("--count", 5);
  if (!count.ok()) return count.status();
  if (*count == 0 || *count > 1'000'000) {
    return Status(StatusCode::kInvalidArgument, "--count goes from 1 to 1000000");
  }
  Result<Client> client = ConnectSdk(run, /*uncounted=*/true);
  if (!client.ok()) return client.status();
  // Takes the fastest of several, because the first ping pays for the connection.
  std::vector<PingResult> best;
  for (std::uint64_t i = 0; i < *count; ++i) {
    const std::vector<PingResult> results = client->Ping();
    best.resize(results.size());
    for (std::size_t n = 0; n < results.size(); ++n) {
      const bool better = results[n].round_trip < best[n].round_trip || i == 0;
      if (better || !results[n].status.ok()) best[n] = results[n];
    }
  }
  Json nodes = Json::array();
  Table table({"NODE", "HOST", "DATA PATH", "ROUND TRIP"});
  Status failure;
  std::size_t failed = 0;
  for (const PingResult& node : best) {
    const bool ok = node.status.ok();
    if (!ok) ++failed;
    if (!ok && failure.ok()) failure = node.status;
    table.Add({std::to_string(node.node), node.host, node.data_path.empty() ? "-" : node.data_path,
               ok ? FormatNs(static_cast<std::uint64_t>(node.round_trip.count()))
                  : std::string(node.status.what())});
    nodes.push_back({{"node_id", node.node},
                     {"host", node.host},
                     {"data_path", node.data_path},
                     {"round_trip_ns", ok ? Json(node.round_trip.count()) : Json(nullptr)},
                     {"error", ok ? Json(nullptr) : Json(node.status.ToString())}});
  }
  run.out.Result({{"nodes", std::move(nodes)}}, table.ToString());
  if (failed > 0 && failed < best.size()) run.out.SetPartial();
  return failure;
}

}  // namespace

std::vector<Verb> PingVerbs() {
  return {
      {"ping",
       "measure the data path to each node",
       "From this process over the fast path (not gRPC) to one core of each node and back; the "
       "fastest of --count.",
       {},
       {{"-c,--count", "N", "round trips to each node (default 5)"}, TransportOption()},
       {{"kvctl ping", ""}, {"kvctl ping --transport ucx -c 1000", ""}},
       Ping,
       "latency"},
  };
}

}  // namespace tidepool::cli
