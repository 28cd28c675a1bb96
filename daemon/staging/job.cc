#include "daemon/staging/job.h"

#include <utility>

#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/thread.h"
#include "proto/file_tree/beneath.h"

namespace tidepool::daemon::staging {
namespace {

v1::ClaimStageRequest ClaimOf(const std::string& id, const v1::StartStageRequest& request,
                              const RequestRouter& router) {
  v1::ClaimStageRequest claim;
  claim.set_job(id);
  *claim.mutable_request() = request;
  const placement::PlacementMapPtr map = router.context().map();
  if (const placement::Node* self = map->FindNode(router.context().self()); self != nullptr) {
    claim.set_host(self->host);
    claim.set_control_address(self->control_address);
  }
  return claim;
}

}  // namespace

Job::Job(std::string id, v1::StartStageRequest request, RequestRouter* router, SavedRegistry* saved,
         std::shared_ptr<const placement::Namespace> space)
    : id_(std::move(id)),
      request_(std::move(request)),
      view_(router, saved, std::move(space)),
      state_(id_, Clock::Real(), request_.strict()),
      claim_(&view_, &state_, ClaimOf(id_, request_, *router)) {}

Job::~Job() {
  state_.Cancel();
  if (thread_.joinable()) thread_.join();
}

Status Job::Claim() {
  const Status taken = claim_.Take();
  if (!taken.ok()) state_.End(taken);
  return taken;
}

Status Job::Begin() {
  Status begun = StartThread("a staging job", &thread_, [this] { Run(); });
  if (!begun.ok()) {
    claim_.Release();
    state_.End(begun);
  }
  return begun;
}

void Job::Run() {
  const bool in = request_.direction() == v1::StartStageRequest::DIRECTION_IN;
  const std::string what = std::string(in ? "stage in " : "stage out ") + id_ + " of '" +
                           request_.namespace_() + "' and " +
                           file_tree::Printable(request_.directory());
  log::Info(what + " begins");
  (void)stage::RunJob({id_, request_, &view_, &state_, &claim_});
  const v1::StageProgress end = state_.Snapshot();
  log::Info(what + " ends: " + std::to_string(end.files_done()) + " files moved, " +
            std::to_string(end.files_skipped()) + " there already, " +
            std::to_string(end.failures_total()) + " failed. " + end.message());
}

}  // namespace tidepool::daemon::staging
