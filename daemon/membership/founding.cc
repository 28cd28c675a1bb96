#include "daemon/membership/founding.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "proto/base/log.h"
#include "proto/cluster_file/file_io.h"

namespace tidepool::daemon {
namespace {

using cluster_file::ClusterFile;
using cluster_file::Examination;
using cluster_file::Finding;

constexpr auto kPollInterval = std::chrono::milliseconds(100);

std::string Describe(const std::string& path, const ClusterFile& file) {
  return "'" + path + "' is the connection file of cluster " + file.cluster_uuid + " (" +
         std::to_string(file.nodes.size()) + " of " + std::to_string(file.nodes_expected) +
         " nodes, the first at " + file.nodes.front().control_address + ")";
}

Status Refuse(const std::string& what, const std::string& remedy) {
  return Status(StatusCode::kFailedPrecondition, what, remedy);
}

bool IsMember(const ClusterFile& file, const Identity& identity) {
  return std::any_of(file.nodes.begin(), file.nodes.end(),
                     [&](const auto& node) { return node.uuid == identity.uuid(); });
}

// In a job of several nodes its first node begins the cluster; the others may start a minute apart.
bool MustWaitForFirst(const FoundingContext& context) {
  const auto node = context.environment("SLURM_NODEID");
  const bool is_in_job = context.environment("SLURM_JOB_ID").has_value();
  return is_in_job && node.has_value() && *node != "0" && context.options->nodes > 1;
}

Result<Part> JoinLive(const FoundingContext& context, ClusterFile file) {
  const Options& options = *context.options;
  const bool is_full = file.nodes.size() >= file.nodes_expected;
  if (is_full && !IsMember(file, *context.identity)) {
    return Refuse(Describe(context.path, file) + ", which is live",
                  "use it, end it with kvctl stop, or give this daemon another --cluster file");
  }
  if (options.nodes_given && options.nodes != file.nodes_expected) {
    return Refuse(
        Describe(context.path, file) + ", but --nodes is " + std::to_string(options.nodes),
        "give all its daemons the same --nodes");
  }
  Part part;
  part.kind = Part::Kind::kJoin;
  part.file = std::move(file);
  return part;
}

// The cluster's other nodes may live. Its coordinator is gone, unless this folder is a copy of the
// folder of a coordinator that lives, on this host or on another one.
Result<Part> ReturnToOwn(const FoundingContext& context, const ClusterFile& file, Part part) {
  const std::string& address = file.nodes[file.coordinator].control_address;
  if (!context.probe(file, address)) return part;
  return Refuse("the data folder '" + context.identity->folder() +
                    "' is a copy of that of the coordinator of cluster " + file.cluster_uuid +
                    ", which is live at " + address,
                "the original goes on. To use the copy instead, stop the original first: "
                "kvctl stop");
}

// The state in the data folder makes this daemon the coordinator of its cluster.
Result<Part> Return(const FoundingContext& context, const Examination& found) {
  Part part;
  part.kind = Part::Kind::kReturn;
  if (found.finding == Finding::kNothing) return part;
  const ClusterFile& file = *found.file;
  if (file.cluster_uuid == context.state_uuid) return ReturnToOwn(context, file, std::move(part));
  if (found.finding == Finding::kLive) {
    return Refuse(Describe(context.path, file) + ", which is live, but the data folder '" +
                      context.identity->folder() + "' holds the state of cluster " +
                      context.state_uuid,
                  "give this daemon another --cluster file or another --data-dir");
  }
  TP_RETURN_IF_ERROR(cluster_file::MoveAside(context.path, file));
  return part;
}

// Nothing where this daemon must wait for another to act.
Result<std::optional<Part>> Decide(const FoundingContext& context, const Examination& found) {
  if (!context.state_uuid.empty()) {
    auto part = Return(context, found);
    if (!part.ok()) return part.status();
    return std::optional<Part>(*std::move(part));
  }
  if (found.finding == Finding::kLive) {
    auto part = JoinLive(context, *found.file);
    if (!part.ok()) return part.status();
    return std::optional<Part>(*std::move(part));
  }
  if (found.finding == Finding::kStale) {
    const bool was_member = context.identity->cluster_uuid() == found.file->cluster_uuid &&
                            IsMember(*found.file, *context.identity);
    const std::string job = cluster_file::JobId(context.environment);
    const bool is_of_this_job = found.file->job_id == job;
    if (was_member && (is_of_this_job || context.keeps_durable)) {
      Part part;
      part.kind = Part::Kind::kJoin;
      part.file = found.file;
      log::Info("waiting for the coordinator of cluster " + found.file->cluster_uuid);
      return std::optional<Part>(std::move(part));
    }
    if (MustWaitForFirst(context) || context.keeps_durable) return std::optional<Part>();
    log::Info("'" + context.path + "' is stale: moved aside");
    TP_RETURN_IF_ERROR(cluster_file::MoveAside(context.path, *found.file));
  }
  if (MustWaitForFirst(context) || context.keeps_durable) return std::optional<Part>();
  return std::optional<Part>(Part());
}

}  // namespace

Result<Part> DecidePart(const FoundingContext& context) {
  if (!context.options->join.empty()) {
    if (!context.state_uuid.empty()) {
      return Refuse("the data folder '" + context.identity->folder() +
                        "' is that of the coordinator of cluster " + context.state_uuid,
                    "start it without --join, or give another --data-dir");
    }
    Part part;
    part.kind = Part::Kind::kJoin;
    return part;
  }
  TP_RETURN_IF_ERROR(cluster_file::CheckFolderOf(context.path, "write the connection file"));
  const std::uint64_t timeout_ms = context.options->join_timeout_ms;
  const Deadline deadline = Deadline::AfterMs(timeout_ms);
  const std::string job = cluster_file::JobId(context.environment);
  while (!context.stopped()) {
    auto lock = cluster_file::TakeStartLock(context.path, deadline.LeftMs());
    if (!lock.ok()) return lock.status();
    auto found = cluster_file::Examine(context.path, job, context.probe);
    if (!found.ok()) return found.status();
    auto part = Decide(context, *found);
    if (!part.ok()) return part.status();
    if (part->has_value()) {
      if ((*part)->kind != Part::Kind::kJoin) (*part)->start_lock = *std::move(lock);
      return std::move(**part);
    }
    if (deadline.Passed() && context.keeps_durable) {
      return Status(StatusCode::kDeadlineExceeded,
                    "this node keeps durable data of cluster " + context.identity->cluster_uuid() +
                        ", whose coordinator has not come back within " +
                        std::to_string(timeout_ms / 1000) + " s",
                    "start that cluster's first node too, with the --data-dir or --nvm-dir that it "
                    "had; or give an empty --nvm-dir");
    }
    if (deadline.Passed()) {
      return Status(StatusCode::kDeadlineExceeded,
                    "the first node of the job has not written '" + context.path + "' within " +
                        std::to_string(timeout_ms / 1000) + " s",
                    "is kvd started on all nodes of the job, the first one included?");
    }
    lock = Status(StatusCode::kAborted, "given back");
    std::this_thread::sleep_for(kPollInterval);
  }
  return Status(StatusCode::kCancelled, "stopped while starting");
}

}  // namespace tidepool::daemon
