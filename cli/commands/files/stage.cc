#include "cli/commands/files/stage.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "cli/commands/data/ensure_namespace.h"
#include "cli/commands/data/record_call.h"
#include "cli/commands/files/stage_by_client.h"
#include "cli/commands/files/stage_report.h"
#include "cli/commands/retry.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "proto/base/file_time.h"
#include "proto/cluster_file/file_io.h"
#include "proto/cluster_file/random.h"
#include "proto/file_tree/directory_identity.h"
#include "tidepool/v1/namespaces.grpc.pb.h"
#include "tidepool/v1/staging.grpc.pb.h"

namespace tidepool::cli {
namespace {

using Request = v1::StartStageRequest;

const char* DirectionName(Request::Direction direction) {
  return direction == Request::DIRECTION_OUT ? "out" : "in";
}

// Follows a job to its end; a broken stream is opened anew, since the job goes on without it.
Result<v1::StageProgress> Watch(Channel& channel, const std::string& job,
                                const std::function<void(const v1::StageProgress&)>& see) {
  v1::WatchStageRequest request;
  request.set_job(job);
  for (int attempts = 1;; ++attempts) {
    grpc::ClientContext context;
    channel.PrepareStream(&context);
    StallGuard guard(&context, channel.stall_ms());
    const auto stub = v1::Staging::NewStub(channel.grpc_channel());
    const auto reader = stub->Watch(&context, request);
    v1::StageProgress progress;
    while (reader->Read(&progress)) {
      guard.Progress();
      attempts = 1;
      see(progress);
      if (progress.done()) {
        context.TryCancel();
        (void)reader->Finish();
        return progress;
      }
    }
    const Status end = channel.StreamEnd(reader->Finish(), guard);
    if (!end.ok() && !IsRetryable(end.code())) return end;
    if (attempts >= kAttemptsMax) {
      if (!end.ok()) return end;
      return Status(StatusCode::kInternal,
                    "the daemon ends the report of job " + job + " too early");
    }
    std::this_thread::sleep_for(kRetryDelay);
  }
}

// A folder as the daemons are to open it.
Result<std::string> AbsoluteFolder(const std::string& folder) {
  char resolved[PATH_MAX];
  if (realpath(folder.c_str(), resolved) == nullptr) {
    return cluster_file::FileReadError("open the folder", folder, errno);
  }
  struct stat info {};
  if (stat(resolved, &info) == 0 && !S_ISDIR(info.st_mode)) {
    return Status(StatusCode::kInvalidArgument, Quote(folder) + " is not a folder",
                  "for one file use: kvctl put NAMESPACE KEY @FILE");
  }
  return std::string(resolved);
}

// Checks first that this process can read the folder. The daemons run for the same user and could
// not read it either.
Status CheckReadable(const std::string& folder) {
  const UniqueFd opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (opened.is_open()) return OkStatus();
  return cluster_file::FileReadError("open the folder", folder, errno);
}

// A file of random name in a folder, by which daemons prove that they see the same folder.
class ProbeFile {
 public:
  static Result<ProbeFile> Make(const std::string& folder) {
    ProbeFile probe;
    probe.name_ = ".tidepool-stage-" + cluster_file::RandomHex(8);
    probe.path_ = folder + "/" + probe.name_;
    const int fd = open(probe.path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return cluster_file::FileError("write into the folder", folder, errno);
    close(fd);
    return probe;
  }
  ProbeFile() = default;
  ProbeFile(ProbeFile&& other) noexcept
      : name_(std::exchange(other.name_, {})), path_(std::exchange(other.path_, {})) {}
  ProbeFile& operator=(ProbeFile&& other) noexcept {
    std::swap(name_, other.name_);
    std::swap(path_, other.path_);
    return *this;
  }
  ~ProbeFile() {
    if (!path_.empty()) unlink(path_.c_str());
  }
  const std::string& name() const { return name_; }
  const std::string& path() const { return path_; }

 private:
  std::string name_;
  std::string path_;
};

Status BlindNodes(const v1::StartStageResponse& started, const std::string& directory) {
  std::string nodes;
  for (const std::string& node : started.blind_nodes()) nodes += (nodes.empty() ? "" : ", ") + node;
  return Status(StatusCode::kFailedPrecondition,
                "not every daemon sees " + Quote(directory) + " as this machine does: " + nodes,
                "use a directory of a file system that they share, or leave out --detach: then "
                "kvctl moves the files itself");
}

// Moves the files in this process only if the daemons cannot, or if the user asks for it.
Status RunJob(Invocation& run, const Request& request, ProbeFile probe, Json result) {
  const std::string probe_path = probe.path();
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  v1::StartStageResponse started;
  TP_RETURN_IF_ERROR((*channel)->Call<v1::Staging>(&v1::Staging::Stub::Start, request, &started));
  if (started.blind_nodes_size() > 0) {
    const Status blind = BlindNodes(started, request.directory());
    if (run.args.Has("--detach")) return blind;
    run.out.Note(std::string(blind.what()) + "; this kvctl moves the files (--through-client)");
    probe = ProbeFile();
    return StageThroughClient(run, request, std::move(result));
  }
  if (started.attached()) run.out.Note("this runs already; attached to job " + started.job());
  result["attached"] = started.attached();
  if (run.args.Has("--detach")) {
    result["job"] = started.job();
    run.out.Result(result, started.job());
    return OkStatus();
  }
  Channel* watched = *channel;
  std::unique_ptr<Channel> other;
  if (!started.control_address().empty()) {
    auto connected = (*channel)->ConnectTo(started.control_address());
    if (!connected.ok()) return connected.status();
    other = *std::move(connected);
    watched = other.get();
  }
  const FarewellOnInterrupt farewell(
      "job " + started.job() + " goes on; see kvctl stage status, end it with kvctl stage cancel " +
          started.job(),
      probe_path);
  Result<v1::StageProgress> end = [&] {
    ProgressBar bar(run.out);
    return Watch(*watched, started.job(),
                 [&](const v1::StageProgress& progress) { bar.Show(BarState(progress)); });
  }();
  if (!end.ok()) return end.status();
  return EndOfJob(run, *end, std::move(result));
}

Result<bool> ByClient(const Arguments& args) {
  if (!args.Has("--through-client")) return false;
  if (!args.Has("--detach")) return true;
  return Status(StatusCode::kInvalidArgument, "give only one of --through-client and --detach",
                "what kvctl moves itself ends with it");
}

// Describes the folder for the daemons, which compare: a stage-in writes no probe file into it.
Status DescribeFolder(const std::string& folder, Request* request) {
  const UniqueFd opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat info {};
  if (!opened.is_open() || fstat(opened.get(), &info) != 0) {
    return cluster_file::FileReadError("look at the folder", folder, errno);
  }
  request->set_inode(info.st_ino);
  request->set_mtime_ns(FileTime::Of(info.st_mtim).WrappedNs());
  request->set_identity(file_tree::DirectoryIdentity(opened.get()));
  return OkStatus();
}

Status StageIn(Invocation& run) {
  const Result<bool> by_client = ByClient(run.args);
  if (!by_client.ok()) return by_client.status();
  const Result<std::string> folder = AbsoluteFolder(run.args.Text("DIRECTORY"));
  if (!folder.ok()) return folder.status();
  TP_RETURN_IF_ERROR(CheckReadable(*folder));
  Request request;
  request.set_direction(Request::DIRECTION_IN);
  request.set_namespace_(run.args.Text("NAMESPACE"));
  request.set_directory(*folder);
  request.set_checksum(run.args.Has("--checksum"));
  request.set_delete_stale(run.args.Has("--delete"));
  request.set_strict(run.args.Has("--strict"));
  request.set_xattrs(run.args.Has("--xattrs"));
  const Result<bool> created =
      EnsureNamespace(run, request.namespace_(), "stage in", MaskOf(Kind::kHash));
  if (!created.ok()) return created.status();
  Json result = {{"namespace", request.namespace_()}, {"created", *created}};
  if (*by_client) return StageThroughClient(run, request, std::move(result));
  TP_RETURN_IF_ERROR(DescribeFolder(*folder, &request));
  return RunJob(run, request, ProbeFile(), std::move(result));
}

Status StageOut(Invocation& run) {
  const Result<bool> by_client = ByClient(run.args);
  if (!by_client.ok()) return by_client.status();
  const std::string& directory = run.args.Text("DIRECTORY");
  // Asks first, because a folder is useless without the namespace.
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  v1::DescribeNamespaceRequest describe;
  describe.set_name(run.args.Text("NAMESPACE"));
  v1::DescribeNamespaceResponse description;
  TP_RETURN_IF_ERROR(
      (*channel)->Call<v1::Namespaces>(&v1::Namespaces::Stub::Describe, describe, &description));
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return cluster_file::FileError("make the folder", directory, error.value());
  const Result<std::string> folder = AbsoluteFolder(directory);
  if (!folder.ok()) return folder.status();
  Request request;
  request.set_direction(Request::DIRECTION_OUT);
  request.set_namespace_(run.args.Text("NAMESPACE"));
  request.set_directory(*folder);
  request.set_checksum(run.args.Has("--checksum"));
  request.set_incomplete_ok(run.args.Has("--incomplete"));
  request.set_partial_ok(run.args.Has("--partial"));
  Json result = {{"namespace", request.namespace_()}};
  SetBytes(&result, "directory", *folder);
  if (*by_client) return StageThroughClient(run, request, std::move(result));
  Result<ProbeFile> probe = ProbeFile::Make(*folder);
  if (!probe.ok()) return probe.status();
  request.set_probe_file(probe->name());
  return RunJob(run, request, *std::move(probe), std::move(result));
}

// Calls `ask` for each node until it returns true: a job is known to the node that coordinates it.
Status AskNodes(Invocation& run, const std::function<Result<bool>(Channel&)>& ask) {
  const Result<Channel*> first = run.Connect();
  if (!first.ok()) return first.status();
  Status failure;
  for (const auto& node : (*first)->found().file.nodes) {
    Result<std::unique_ptr<Channel>> channel = (*first)->ConnectTo(node.control_address);
    const Result<bool> answer = channel.ok() ? ask(**channel) : Result<bool>(channel.status());
    if (answer.ok() && *answer) return OkStatus();
    if (!answer.ok() && answer.code() != StatusCode::kNotFound) failure = answer.status();
  }
  return failure;
}

struct FoundJob {
  v1::ListStagesResponse::Job job;
  std::string address;
};

// Finds all jobs, or the job of that name.
Result<std::vector<FoundJob>> FindJobs(Invocation& run, const std::string& name) {
  std::vector<FoundJob> jobs;
  const Status asked = AskNodes(run, [&](Channel& channel) -> Result<bool> {
    v1::ListStagesResponse response;
    TP_RETURN_IF_ERROR(channel.Call<v1::Staging>(&v1::Staging::Stub::List, {}, &response));
    for (const auto& job : response.jobs()) {
      if (name.empty() || job.progress().job() == name) jobs.push_back({job, channel.address()});
    }
    return !name.empty() && !jobs.empty();
  });
  if (!jobs.empty()) return jobs;
  if (!asked.ok()) return asked;
  if (name.empty()) return jobs;
  return Status(StatusCode::kNotFound, "no job " + Quote(name),
                "list them with: kvctl stage status");
}

Status StageStatus(Invocation& run) {
  const Result<std::vector<FoundJob>> jobs = FindJobs(run, run.args.Text("JOB"));
  if (!jobs.ok()) return jobs.status();
  if (run.args.Has("--watch")) {
    if (run.args.Text("JOB").empty()) {
      return Status(StatusCode::kInvalidArgument, "--watch needs a JOB",
                    "list them with: kvctl stage status");
    }
    const Result<Channel*> first = run.Connect();
    if (!first.ok()) return first.status();
    const auto channel = (*first)->ConnectTo(jobs->front().address);
    if (!channel.ok()) return channel.status();
    Result<v1::StageProgress> end = [&] {
      ProgressBar bar(run.out);
      return Watch(**channel, run.args.Text("JOB"),
                   [&](const v1::StageProgress& progress) { bar.Show(BarState(progress)); });
    }();
    if (!end.ok()) return end.status();
    return EndOfJob(run, *end, Json::object());
  }
  Json list = Json::array();
  Table table(
      {"JOB", "WHAT", "NAMESPACE", "DIRECTORY", "STATE", "FILES", "BYTES", "FAILED", "TIME"});
  for (const FoundJob& found : *jobs) {
    const Request& request = found.job.request();
    const v1::StageProgress& progress = found.job.progress();
    const char* ended = progress.code() == 0 && progress.failures_total() == 0 ? "done" : "failed";
    Json json = {{"direction", DirectionName(request.direction())},
                 {"namespace", request.namespace_()}};
    SetBytes(&json, "directory", request.directory());
    json.update(ProgressJson(progress));
    list.push_back(std::move(json));
    table.Add({progress.job(), DirectionName(request.direction()), request.namespace_(),
               ForTerminal(request.directory()), progress.done() ? ended : progress.phase(),
               std::to_string(progress.files_done() + progress.files_skipped()) + " of " +
                   std::to_string(progress.files_total()),
               FormatBytes(progress.bytes_done()), std::to_string(progress.failures_total()),
               FormatDurationMs(progress.elapsed_ms())});
  }
  run.out.Result({{"jobs", std::move(list)}}, jobs->empty() ? "no jobs" : table.ToString());
  return OkStatus();
}

Status StageCancel(Invocation& run) {
  const std::string& name = run.args.Text("JOB");
  const Result<std::vector<FoundJob>> jobs = FindJobs(run, name);
  if (!jobs.ok()) return jobs.status();
  const Result<Channel*> first = run.Connect();
  if (!first.ok()) return first.status();
  const auto channel = (*first)->ConnectTo(jobs->front().address);
  if (!channel.ok()) return channel.status();
  v1::CancelStageRequest request;
  request.set_job(name);
  v1::CancelStageResponse response;
  TP_RETURN_IF_ERROR((*channel)->Call<v1::Staging>(&v1::Staging::Stub::Cancel, request, &response));
  run.out.Result({{"job", name}}, "cancelled job " + name);
  return OkStatus();
}

}  // namespace

std::vector<Verb> StageVerbs() {
  const Option checksum = {"--checksum", "", "compare contents, not size and time of change"};
  const Option by_client = {"--through-client", "",
                            "kvctl moves the files itself; chosen by itself where not every daemon "
                            "sees DIRECTORY"};
  const Option detach = {"--detach", "", "print the job's name and do not wait for it"};
  const Parameter job = {"JOB", "as kvctl stage status names it"};
  return {
      {"stage in",
       "copy a directory into a namespace",
       "The daemons read the files, each those whose keys it owns; the key of a file is its path "
       "below DIRECTORY. The namespace is created if it is not there. Given again it moves only "
       "what is missing or has changed. Ctrl-C ends the display, not the job; it does end what "
       "kvctl moves itself. Files, folders, symbolic links, permissions and times of change are "
       "kept, holes of files above 64 MiB need no memory. Owners are not kept, and each hard link "
       "is a file of its own. A socket, pipe or device is left out with a warning, and so is a "
       "name that begins with .tidepool-stage-. A file or link in the place of a staged folder "
       "replaces what was staged below it.",
       {{"DIRECTORY", "what to copy"}, NamespaceParameter()},
       {checksum,
        {"--delete", "",
         "remove what an earlier stage in brought and DIRECTORY does not have any more; records "
         "that programs have written stay"},
        {"--xattrs", "", "keep extended attributes user.* and POSIX ACLs"},
        {"--strict", "", "what would be left out with a warning is a failure"},
        by_client,
        detach},
       {{"kvctl stage in ~/data inputs", ""},
        {"kvctl stage in --delete ~/data inputs", "the namespace has what ~/data has, no more"},
        {"kvctl get inputs run1/a.txt", "a staged file is read by its path"}},
       StageIn,
       "in stage-in copy upload"},
      {"stage out",
       "write a staged namespace into a directory",
       "Files, folders, symbolic links, permissions and times as they were, checksums verified. "
       "Sparse files stay sparse; attributes and ACLs come back if stage in --xattrs kept them; "
       "owner is who runs the command. "
       "DIRECTORY is made if it is not there. Given again it moves only what is missing or "
       "differs.",
       {NamespaceParameter(), {"DIRECTORY", "where to"}},
       {checksum,
        {"--incomplete", "", "also what a stage in left that did not end well"},
        {"--partial", "", "also of a durable namespace that has lost something in a crash"},
        by_client,
        detach},
       {{"kvctl stage out results /scratch/results", ""}},
       StageOut,
       "out stage-out download"},
      {"stage status",
       "show staging jobs",
       "",
       {{"JOB", "only this one", 0, 1}},
       {{"--watch", "", "follow JOB to its end"}},
       {{"kvctl stage status", ""}, {"kvctl stage status 7 --watch", ""}},
       StageStatus,
       "stage jobs"},
      {"stage cancel",
       "end a staging job",
       "What it has moved stays; the same stage command moves the rest.",
       {job},
       {},
       {{"kvctl stage cancel 7", ""}},
       StageCancel,
       "cancel"},
  };
}

}  // namespace tidepool::cli
