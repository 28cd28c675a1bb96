#include "cli/commands/cluster/wait_ready.h"

#include <tidepool/bytes_map.h>
#include <tidepool/client.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/channel.h"
#include "cli/invocation.h"
#include "cli/poll.h"
#include "cli/text.h"
#include "proto/cluster_file/find.h"
#include "proto/cluster_file/random.h"
#include "tidepool/v1/cluster.grpc.pb.h"

namespace tidepool::cli {
namespace {

constexpr std::uint64_t kWaitReadyMs = 60'000;
// Timeout of a request to daemons that may not exist yet.
constexpr std::uint64_t kReadyTimeoutMs = 1'000;

Status WaitReady(Invocation& run) {
  const Result<std::uint64_t> timeout_ms = run.args.DurationMs("--timeout", kWaitReadyMs);
  if (!timeout_ms.ok()) return timeout_ms.status();
  const Deadline deadline = Deadline::AfterMs(*timeout_ms);
  std::string path;
  for (;;) {
    const auto found = cluster_file::Find(run.args.Text("--cluster"));
    if (found.ok()) {
      path = found->path;
      if (AllServe(path, 0, run.insecure())) {
        TP_RETURN_IF_ERROR(TryEachNode(path, run.insecure(), deadline));
        const std::size_t nodes = found->file.nodes_expected;
        run.out.Result({{"cluster_file", path}, {"nodes", nodes}},
                       std::to_string(nodes) + (nodes == 1 ? " node serves" : " nodes serve"));
        return OkStatus();
      }
    } else if (found.code() != StatusCode::kNotFound) {
      return found.status();
    }
    if (deadline.Passed()) break;
    std::this_thread::sleep_for(kPollEvery);
  }
  const std::string after = " after " + FormatDurationMs(*timeout_ms);
  if (path.empty()) {
    const auto found = cluster_file::Find(run.args.Text("--cluster"));
    return Status(StatusCode::kDeadlineExceeded, std::string(found.status().what()) + after,
                  std::string(found.status().remedy()));
  }
  return Status(StatusCode::kDeadlineExceeded,
                "the daemons of " + path + " do not all serve" + after, "see: kvctl status");
}

}  // namespace

bool AllServe(const std::string& path, std::uint64_t nodes, bool insecure) {
  const auto channel = Channel::Connect({.cluster = path,
                                         .timeout_ms = kReadyTimeoutMs,
                                         .timeout_given = true,
                                         .insecure = insecure});
  if (!channel.ok()) return false;  // No file yet, or no listener yet.
  v1::StatusResponse status;
  const Status asked = (*channel)->Call<v1::Cluster>(&v1::Cluster::Stub::Status, {}, &status);
  // Also while the file is a dead cluster's. Another user's daemon may listen at its address now,
  // and does not know its token.
  if (!asked.ok() || status.forming()) return false;
  const auto up = std::count_if(status.nodes().begin(), status.nodes().end(), [](const auto& node) {
    return node.node().state() == v1::NODE_STATE_UP && node.has_status();
  });
  // The coordinator adds them to the file a little later, and programs begin with its content.
  const auto file = cluster_file::Read(path);
  if (!file.ok()) return false;
  if (nodes == 0) nodes = file->nodes_expected;
  return static_cast<std::uint64_t>(up) >= nodes && file->nodes.size() >= nodes;
}

Status TryEachNode(const std::string& path, bool insecure, Deadline deadline) {
  ConnectOptions options;
  options.cluster_file = path;
  options.client_name = "kvctl start";
  options.uncounted = true;
  options.insecure = insecure;
  options.connect_timeout = options.call_timeout =
      std::chrono::milliseconds(std::max<std::uint64_t>(deadline.LeftMs(), kReadyTimeoutMs));
  Result<Client> client = Client::Connect(options);
  if (!client.ok()) return client.status();
  Result<BytesMap> map = client->Open<BytesMap>("default");
  if (!map.ok()) return map.status();
  std::map<std::uint32_t, std::string> hosts;
  for (const NodeInfo& node : client->Describe().nodes) {
    if (node.state == "up") hosts[node.id] = node.host;
  }
  const std::string stem = "kvctl-start-" + cluster_file::RandomHex(8) + "-";
  // Some 5 keys per partition find each node; more only if keys fall oddly.
  constexpr int kKeysPerNodeMax = 1'000;
  const int keys_max = kKeysPerNodeMax * static_cast<int>(hosts.size());
  for (int i = 0; i < keys_max && !hosts.empty(); ++i) {
    const std::string key = stem + std::to_string(i);
    const auto node = hosts.find(map->space().OwnerOf(key));
    if (node == hosts.end()) continue;
    Status tried = map->Put(key, key).status();
    if (tried.ok()) {
      const auto value = map->Get(key);
      const bool differs = value.ok() && value->bytes != key;
      tried = differs ? Status(StatusCode::kInternal, "another value comes back") : value.status();
    }
    if (tried.ok()) tried = map->Delete(key);
    if (!tried.ok()) {
      return Status(tried.code(),
                    "node " + std::to_string(node->first) + " (" + node->second +
                        ") has joined but does not serve: " + std::string(tried.what()),
                    "do the nodes reach each other over the network that kvd uses? See kvd "
                    "--interface, --net-devices");
    }
    hosts.erase(node);
  }
  return OkStatus();
}

std::vector<Verb> WaitReadyVerbs() {
  return {
      {"wait-ready",
       "wait until all nodes serve",
       "For scripts that start kvd by themselves: until the connection file is there, all nodes "
       "have joined, and each has taken and given back a record (--timeout, default 60s).",
       {},
       {},
       {{"kvctl wait-ready --timeout 2m", ""}},
       WaitReady,
       "ready"},
  };
}

}  // namespace tidepool::cli
