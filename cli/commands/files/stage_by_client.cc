#include "cli/commands/files/stage_by_client.h"

#include <signal.h>

#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "cli/commands/cluster/client_cluster.h"
#include "cli/commands/files/stage_report.h"
#include "proto/base/thread.h"
#include "proto/cluster_file/host_name.h"
#include "proto/stage/job.h"

namespace tidepool::cli {
namespace {

constexpr std::uint64_t kShowIntervalMs = 200;

volatile sig_atomic_t interrupted = 0;

// While this object lives, the first Ctrl-C (or SIGTERM) requests an end, and the second ends
// kvctl.
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

}  // namespace

Status StageThroughClient(Invocation& run, const v1::StartStageRequest& request, Json result) {
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  const auto cluster = ClientCluster::Make(*channel, request.namespace_());
  if (!cluster.ok()) return cluster.status();
  const std::string job = stage::RandomJobId();
  stage::JobState state(job, Clock::Real(), request.strict());
  const bool is_out = request.direction() == v1::StartStageRequest::DIRECTION_OUT;
  const stage::Survey survey = (*cluster)->TakeSurvey();
  // A stage-out goes on without the nodes that are gone.
  if (is_out ? survey.owners().empty() : !survey.complete()) return survey.first_reason();
  v1::ClaimStageRequest about;
  about.set_job(job);
  *about.mutable_request() = request;
  about.set_host(cluster_file::HostName());
  stage::JobClaim claim(cluster->get(), &state, std::move(about));
  TP_RETURN_IF_ERROR(claim.Take());
  {
    const InterruptFlag flag;
    std::thread work;
    TP_RETURN_IF_ERROR(StartThread("a staging job", &work, [&] {
      (void)stage::RunJob({job, request, cluster->get(), &state, &claim});
    }));
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
