#include "cli/commands/sdk_client.h"

#include <chrono>

namespace tidepool::cli {

Result<Client> ConnectSdk(Invocation& run) {
  const Result<std::uint64_t> timeout_ms = run.TimeoutMs();
  if (!timeout_ms.ok()) return timeout_ms.status();
  ConnectOptions options;
  options.cluster_file = run.args.Text("--cluster");
  options.client_name = "kvctl";
  options.insecure = run.insecure();
  options.call_timeout = std::chrono::milliseconds(*timeout_ms);
  options.connect_timeout = options.call_timeout;
  Result<Client> client = Client::Connect(options);
  if (client.ok()) return client;
  return AsUnreachable(client.status());
}

}  // namespace tidepool::cli
