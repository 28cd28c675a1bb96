#include "cli/commands/data/sdk_client.h"

#include <chrono>
#include <vector>

#include "proto/base/wrong_kind.h"

namespace tidepool::cli {
namespace {

Result<Transport> TransportOf(const std::string& name) {
  if (name == "auto") return Transport::kAuto;
  if (name == "ucx") return Transport::kUcx;
  if (name == "ring") return Transport::kRing;
  return Status(StatusCode::kInvalidArgument, "--transport cannot be '" + name + "'",
                "give auto, ucx or ring");
}

}  // namespace

Option TransportOption() {
  return {"--transport", "auto|ucx|ring",
          "how daemons are reached: auto (of this machine by shared memory, others by UCX; the "
          "default), ucx, or ring (shared memory or not at all)"};
}

Result<Client> ConnectSdk(Invocation& run, bool uncounted,
                          std::optional<std::uint64_t> call_timeout_ms) {
  const Result<std::uint64_t> timeout_ms = run.TimeoutMs();
  if (!timeout_ms.ok()) return timeout_ms.status();
  ConnectOptions options;
  options.cluster_file = run.args.Text("--cluster");
  options.client_name = "kvctl";
  options.uncounted = uncounted;
  options.insecure = run.insecure();
  options.call_timeout = std::chrono::milliseconds(call_timeout_ms.value_or(*timeout_ms));
  options.connect_timeout = std::chrono::milliseconds(*timeout_ms);
  if (run.args.Knows("--transport") && run.args.Has("--transport")) {
    const auto transport = TransportOf(run.args.Text("--transport"));
    if (!transport.ok()) return transport.status();
    options.transport = *transport;
  }
  Result<Client> client = Client::Connect(options);
  if (client.ok()) return client;
  return AsOtherCluster(AsUnreachable(client.status()));
}

Status OpenFailure(Client& client, const std::string& space, const Status& failure,
                   std::string_view verb, KindMask needs) {
  if (failure.code() != StatusCode::kFailedPrecondition) return failure;
  const Result<std::vector<NamespaceInfo>> all = client.List();
  if (!all.ok()) return failure;
  for (const NamespaceInfo& info : *all) {
    const Kind kind = static_cast<Kind>(info.kind);
    if (info.name == space && (MaskOf(kind) & needs) == 0) {
      return WrongKind(space, kind, verb, needs);
    }
  }
  return failure;
}

}  // namespace tidepool::cli
