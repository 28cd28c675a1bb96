#include "daemon/staging/job.h"

#include <utility>

#include "proto/base/clock.h"
#include "proto/base/log.h"

namespace tidepool::daemon::staging {

Job::Job(std::string id, v1::StartStageRequest request, RequestRouter* router, SavedRegistry* saved,
         std::shared_ptr<const placement::Namespace> space)
    : id_(std::move(id)),
      request_(std::move(request)),
      view_(router, saved, std::move(space)),
      state_(id_, Clock::Real()),
      thread_([this] { Run(); }) {}

Job::~Job() {
  state_.Cancel();
  thread_.join();
}

void Job::Run() {
  const bool in = request_.direction() == v1::StartStageRequest::DIRECTION_IN;
  const std::string what = std::string(in ? "stage in " : "stage out ") + id_ + " of '" +
                           request_.namespace_() + "' and " + request_.directory();
  log::Info(what + " begins");
  (void)stage::RunJob({id_, request_, &view_, &state_});
  const v1::StageProgress end = state_.Snapshot();
  log::Info(what + " ends: " + std::to_string(end.files_done()) + " files moved, " +
            std::to_string(end.files_skipped()) + " there already, " +
            std::to_string(end.failures_total()) + " failed. " + end.message());
}

}  // namespace tidepool::daemon::staging
