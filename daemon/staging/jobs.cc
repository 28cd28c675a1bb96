#include "daemon/staging/jobs.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "proto/base/unique_fd.h"
#include "proto/file_tree/beneath.h"

namespace tidepool::daemon::staging {
namespace {

Status CheckRequest(const v1::StartStageRequest& request) {
  const auto bad = [](std::string what, std::string remedy = {}) {
    return Status(StatusCode::kInvalidArgument, std::move(what), std::move(remedy));
  };
  if (request.direction() != v1::StartStageRequest::DIRECTION_IN &&
      request.direction() != v1::StartStageRequest::DIRECTION_OUT) {
    return bad("a job stages in or out; this one says neither");
  }
  if (request.directory().empty() || request.directory().front() != '/') {
    return bad("'" + file_tree::Printable(request.directory()) + "' is no absolute path");
  }
  if (request.directory().find('\0') != std::string::npos) return bad("a path holds no NUL");
  const std::string& probe = request.probe_file();
  if (request.direction() == v1::StartStageRequest::DIRECTION_OUT && probe.empty()) {
    return bad("stage-out needs a probe file", "make one in the directory and name it");
  }
  if (!probe.empty() &&
      (!probe.starts_with(file_tree::kOwnNamePrefix) || probe.find('/') != std::string::npos)) {
    return bad("the probe file's name must begin with " + std::string(file_tree::kOwnNamePrefix));
  }
  return OkStatus();
}

// True if the arguments describe one job; the name of the probe may differ.
bool IsSame(const v1::StartStageRequest& a, const v1::StartStageRequest& b) {
  return a.direction() == b.direction() && a.namespace_() == b.namespace_() &&
         a.directory() == b.directory() && a.checksum() == b.checksum() &&
         a.incomplete_ok() == b.incomplete_ok() && a.partial_ok() == b.partial_ok() &&
         a.delete_stale() == b.delete_stale() && a.strict() == b.strict() &&
         a.xattrs() == b.xattrs();
}

void RemoveProbe(const v1::StartStageRequest& request) {
  if (request.probe_file().empty()) return;
  const UniqueFd root(open(request.directory().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (root.is_open()) unlinkat(root.get(), request.probe_file().c_str(), 0);
}

bool IsRunning(Job& job) { return !job.state().Snapshot().done(); }

}  // namespace

Result<std::shared_ptr<Job>> Jobs::FindSame(const v1::StartStageRequest& request) const {
  std::size_t running = 0;
  for (const auto& job : jobs_) {
    if (!IsRunning(*job)) continue;
    ++running;
    if (IsSame(job->request(), request)) return job;
    if (job->request().namespace_() == request.namespace_()) {
      return Status(StatusCode::kFailedPrecondition,
                    "job " + job->id() + " moves '" + request.namespace_() + "' and " +
                        file_tree::Printable(job->request().directory()) + " already",
                    "wait for it, or: kvctl stage cancel " + job->id());
    }
  }
  if (running >= kRunningJobsMax) {
    return Status(StatusCode::kOverloaded, std::to_string(running) + " jobs run on this node",
                  "wait for one of them");
  }
  return std::shared_ptr<Job>();
}

Result<v1::StartStageResponse> Jobs::Start(const v1::StartStageRequest& asked) {
  TP_RETURN_IF_ERROR(CheckRequest(asked));
  v1::StartStageRequest request = asked;
  // A directory has a single real name, whatever links lead to it.
  if (char* real = realpath(asked.directory().c_str(), nullptr); real != nullptr) {
    request.set_directory(real);
    std::free(real);
  }
  v1::StartStageResponse response;
  const auto attach = [&](const std::shared_ptr<Job>& job) {
    RemoveProbe(request);
    job->set_attached();
    response.set_job(job->id());
    response.set_attached(true);
    return response;
  };
  {
    const std::lock_guard lock(mutex_);
    auto same = FindSame(request);
    if (!same.ok()) return same.status();
    if (*same != nullptr) return attach(*same);
  }
  auto space = router_.FindNamespace(request.namespace_());
  if (!space.ok()) return space.status();
  if ((*space)->kind != placement::Kind::kHash) {
    return Status(StatusCode::kInvalidArgument,
                  "'" + request.namespace_() + "' is no hash namespace",
                  "files are staged into and out of hash namespaces");
  }
  auto blind = ClusterView(&router_, &saved_, *space).BlindNodes(request);
  if (!blind.ok()) return blind.status();
  for (std::string& node : *blind) response.add_blind_nodes(std::move(node));
  if (response.blind_nodes_size() > 0) return response;

  std::shared_ptr<Job> job;
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return Status(StatusCode::kUnavailable, "the daemon is stopping");
    auto same = FindSame(request);  // Another caller may have been faster.
    if (!same.ok()) return same.status();
    if (*same != nullptr) return attach(*same);
    job = std::make_shared<Job>(stage::RandomJobId(), request, &router_, &saved_, *space);
    // Comes before the claim: callers that are sent here by the claim find the job.
    jobs_.push_front(job);
    std::size_t ended = 0;
    std::erase_if(jobs_,
                  [&](const auto& old) { return !IsRunning(*old) && ++ended > kEndedJobsKept; });
  }
  if (const Status claimed = job->Claim(); !claimed.ok()) {
    const std::lock_guard lock(mutex_);
    // Callers that attached meanwhile ask for it by its name, and learn its end.
    if (!job->attached()) std::erase(jobs_, job);
    const v1::ClaimStageRequest& holder = job->holder();
    if (holder.control_address().empty() || !IsSame(holder.request(), request)) return claimed;
    RemoveProbe(request);
    response.set_job(holder.job());
    response.set_attached(true);
    response.set_control_address(holder.control_address());
    return response;
  }
  RemoveProbe(request);
  if (const Status begun = job->Begin(); !begun.ok()) {
    const std::lock_guard lock(mutex_);
    if (!job->attached()) std::erase(jobs_, job);
    return begun;
  }
  response.set_job(job->id());
  return response;
}

std::shared_ptr<Job> Jobs::Find(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(jobs_.begin(), jobs_.end(), [&](const auto& job) { return job->id() == id; });
  return found == jobs_.end() ? nullptr : *found;
}

std::vector<std::shared_ptr<Job>> Jobs::List() const {
  const std::lock_guard lock(mutex_);
  return {jobs_.begin(), jobs_.end()};
}

void Jobs::Stop() {
  std::list<std::shared_ptr<Job>> jobs;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    jobs = jobs_;
  }
  for (const auto& job : jobs) job->state().Cancel();
  for (const auto& job : jobs) (void)job->state().WaitDone(5'000);
}

}  // namespace tidepool::daemon::staging
