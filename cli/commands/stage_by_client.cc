#include "cli/commands/stage_by_client.h"

#include <signal.h>

#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "cli/commands/client_cluster.h"
#include "cli/commands/stage_report.h"
#include "cli/text.h"
#include "proto/stage/job.h"
#include "tidepool/v1/staging.grpc.pb.h"

namespace tidepool::cli {
namespace {

constexpr std::uint64_t kShowIntervalMs = 200;

volatile sig_atomic_t interrupted = 0;

// While this object lives the first Ctrl-C (or SIGTERM) asks for an end, a second one ends kvctl.
class InterruptFlag {
 public:
  InterruptFlag() {
    interrupted = 0;
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted = 1; };
    action.sa_flags = SA_RESETHAND | SA_RESTART;
    sigaction(SIGINT, &action, &previous_interrupt_);
    sigaction(SIGTERM, &action, &previous_terminate_);
  }
  ~InterruptFlag() {
    sigaction(SIGINT, &previous_interrupt_, nullptr);
    sigaction(SIGTERM, &previous_terminate_, nullptr);
  }
  InterruptFlag(const InterruptFlag&) = delete;
  InterruptFlag& operator=(const InterruptFlag&) = delete;

 private:
  struct sigaction previous_interrupt_ {};
  struct sigaction previous_terminate_ {};
};

// Two jobs in one namespace would take each other's half files for leftovers. Jobs of daemons that
// do not answer are not asked for: the owners among them fail this job anyway.
Status CheckNoOtherJob(Channel& first, const std::string& space) {
  for (const auto& node : first.found().file.nodes) {
    const auto channel = first.ConnectTo(node.control_address);
    if (!channel.ok()) continue;
    v1::ListStagesResponse response;
    const Status listed =
        (*channel)->Call<v1::Staging>(&v1::Staging::Stub::List, v1::ListStagesRequest(), &response);
    if (!listed.ok()) continue;
    for (const auto& job : response.jobs()) {
      if (job.progress().done() || job.request().namespace_() != space) continue;
      return Status(StatusCode::kFailedPrecondition,
                    "job " + job.progress().job() + " moves " + Quote(space) + " and " +
                        job.request().directory() + " already",
                    "wait for it, or: kvctl stage cancel " + job.progress().job());
    }
  }
  return OkStatus();
}

}  // namespace

Status StageThroughClient(Invocation& run, const v1::StartStageRequest& request, Json result) {
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  TP_RETURN_IF_ERROR(CheckNoOtherJob(**channel, request.namespace_()));
  const auto cluster = ClientCluster::Make(*channel, request.namespace_());
  if (!cluster.ok()) return cluster.status();
  const std::string job = stage::RandomJobId();
  stage::JobState state(job, Clock::Real());
  {
    const InterruptFlag flag;
    std::thread work([&] { (void)stage::RunJob({job, request, cluster->get(), &state}); });
    ProgressBar bar(run.out);
    while (!state.WaitDone(kShowIntervalMs)) {
      if (interrupted != 0) state.Cancel();
      bar.Show(BarState(state.Snapshot()));
    }
    work.join();
  }
  result["through_client"] = true;
  return EndOfJob(run, state.Snapshot(), std::move(result));
}

}  // namespace tidepool::cli
