#include "cli/commands/cluster/doctor_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <ctime>

#include "cli/text.h"
#include "proto/cluster_file/file_io.h"
#include "proto/cluster_file/job_token.h"
#include "proto/cluster_file/published_file.h"
#include "proto/convert/probe_cluster.h"

namespace tidepool::cli {
namespace {

constexpr const char* kTopic = "file";

std::string ModeText(mode_t mode) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "%04o", static_cast<unsigned>(mode & 07777));
  return text.data();
}

std::string AgeText(const struct stat& info) {
  const std::time_t age = std::time(nullptr) - info.st_mtime;
  return age < 0 ? "in the future"
                 : FormatDurationMs(static_cast<std::uint64_t>(age) * 1000) + " ago";
}

// A user who can write to the folder can replace the file.
void JudgeFolder(const std::string& path, Findings* findings) {
  const std::string folder = cluster_file::FolderOf(path);
  struct stat info {};
  if (stat(folder.c_str(), &info) != 0) return;
  const bool others_write = (info.st_mode & 022) != 0 && (info.st_mode & S_ISVTX) == 0;
  if (!others_write) return;
  findings->push_back({Level::kWarning, kTopic, folder,
                       "others may write to this folder (mode " + ModeText(info.st_mode) +
                           "), and so put a connection file of their own in the place of yours",
                       "chmod go-w " + folder + ", or keep it elsewhere (--cluster)"});
}

// The token's or that of TLS.
void JudgeSecret(const std::string& path, const std::string& what, Findings* findings) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) {
    findings->push_back({Level::kProblem, kTopic, path, what + " cannot be read",
                         "it lies beside the connection file: was that copied without it, or has "
                         "the cluster ended?"});
    return;
  }
  if ((info.st_mode & 077) != 0) {
    findings->push_back({Level::kProblem, kTopic, path,
                         what + " is open to others (mode " + ModeText(info.st_mode) + ")",
                         "they may have read it: stop the cluster and start it anew"});
    return;
  }
  findings->push_back(
      {Level::kOk, kTopic, path, what + ", mode " + ModeText(info.st_mode), std::string()});
}

// False: no process of its cluster lives.
bool JudgeLife(const cluster_file::Found& found, Findings* findings) {
  const std::string job = cluster_file::JobId(cluster_file::ProcessEnvironment());
  if (!job.empty() && !found.file.job_id.empty() && job != found.file.job_id) {
    findings->push_back({Level::kWarning, kTopic, found.path,
                         "is of job " + found.file.job_id + ", and this is job " + job,
                         "unset TIDEPOOL_CLUSTER if this job has a cluster of its own"});
  }
  const auto examined = cluster_file::Examine(found.path, "", convert::ProbeCluster);
  if (!examined.ok() || examined->finding != cluster_file::Finding::kStale) return true;
  std::string nodes;
  for (const auto& node : found.file.nodes) {
    nodes += (nodes.empty() ? "" : ", ") + node.host + " " + node.control_address;
  }
  findings->push_back({Level::kProblem, kTopic, found.path,
                       "is stale: no daemon of cluster " + found.file.cluster_uuid +
                           " lives or can be reached (" + nodes + ")",
                       "if its daemons have ended, kvctl start moves it aside; else this machine "
                       "does not reach them"});
  return false;
}

}  // namespace

std::optional<cluster_file::Found> JudgeClusterFile(const std::string& cluster,
                                                    Findings* findings) {
  auto found = cluster_file::Find(cluster);
  if (!found.ok()) {
    const auto environment = cluster_file::ProcessEnvironment();
    const bool named = !cluster.empty() || environment("TIDEPOOL_CLUSTER").has_value();
    const bool none = found.code() == StatusCode::kNotFound;
    findings->push_back(
        {none && !named ? Level::kNote : Level::kProblem, kTopic, "here",
         (none && !named ? "no cluster, so only this machine was looked at: " : "") +
             std::string(found.status().what()),
         std::string(found.status().remedy())});
    return std::nullopt;
  }
  struct stat info {};
  if (stat(found->path.c_str(), &info) == 0) {
    const std::string whose =
        info.st_uid == geteuid() ? "yours" : "of user " + std::to_string(info.st_uid);
    findings->push_back(
        {(info.st_mode & 077) == 0 ? Level::kOk : Level::kNote, kTopic, found->path,
         "connection file by " + found->why + ": " + whose + ", mode " + ModeText(info.st_mode) +
             ", written " + AgeText(info) + ", cluster " + found->file.cluster_uuid +
             (found->file.job_id.empty() ? "" : " of job " + found->file.job_id),
         (info.st_mode & 077) == 0 ? "" : "kvd makes it with mode 0600: chmod 600 it"});
  }
  JudgeFolder(found->path, findings);
  if (!JudgeLife(*found, findings)) return std::nullopt;
  if (!found->file.munge) JudgeSecret(found->file.token_file, "the job token", findings);
  if (!found->file.tls.file.empty()) {
    JudgeSecret(found->file.tls.file, "the key for TLS", findings);
  }
  return *std::move(found);
}

}  // namespace tidepool::cli
