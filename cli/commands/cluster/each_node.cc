#include "cli/commands/cluster/each_node.h"

#include "tidepool/v1/cluster.grpc.pb.h"

namespace tidepool::cli {

Status AskEachNode(Invocation& run,
                   const std::function<Status(Channel& channel, const v1::Node& node)>& ask) {
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  v1::GetMapResponse map;
  TP_RETURN_IF_ERROR((*channel)->Call<v1::Cluster>(&v1::Cluster::Stub::GetMap, {}, &map));
  std::size_t answered = 0;
  Status first;
  for (const v1::Node& node : map.map().nodes()) {
    if (node.state() != v1::NODE_STATE_UP) continue;
    const auto own = (*channel)->ConnectTo(node.control_address());
    const Status status = own.ok() ? ask(**own, node) : own.status();
    if (status.ok()) {
      ++answered;
      continue;
    }
    if (first.ok()) first = status;
    run.out.Note("node " + std::to_string(node.node_id()) + " (" + node.host() +
                 "): " + std::string(status.what()));
  }
  if (answered == 0) return first;
  if (!first.ok()) run.out.SetPartial();
  return OkStatus();
}

}  // namespace tidepool::cli
