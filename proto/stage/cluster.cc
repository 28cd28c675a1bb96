#include "proto/stage/cluster.h"

#include <algorithm>

#include "proto/manifest/keys.h"

namespace tidepool::stage {

std::string Describe(const placement::Node& node) {
  return "node " + std::to_string(node.id.value()) + " (" + node.host + " " + node.control_address +
         ")";
}

Status CheckNothingLost(const placement::Namespace& space) {
  if (space.losses.empty()) return OkStatus();
  const bool all = space.losses.front().all;
  return Status(StatusCode::kDataLoss,
                std::to_string(space.losses.size()) + " of " +
                    std::to_string(space.partitions.size()) + " partitions of '" + space.name +
                    (all ? "' have lost what they held" : "' may have lost their last changes") +
                    " when their daemons ended: kvctl namespace describe " + space.name,
                "give --partial to write what is there; kvctl namespace accept-loss " + space.name +
                    " agrees to it for good");
}

Result<v1::ClaimStageResponse> AskClaimKeeper(const placement::Namespace& space, Survey survey,
                                              v1::ClaimStageRequest request, Deadline deadline,
                                              const SendClaim& send) {
  const std::uint32_t mark = space.IndexOf(AsBytes(manifest::MarkKey()));
  const NodeId owner = space.partitions[mark].node;
  const bool is_out = request.request().direction() == v1::StartStageRequest::DIRECTION_OUT;
  // A renewal leaves an owner that the map calls up only if the claim was granted elsewhere: an
  // owner that is merely slow still keeps it.
  const bool may_give_up_owner = is_out && (!request.renew() || request.mark_is_missing());
  request.set_mark_is_missing(false);
  if (survey.Has(mark)) {
    const auto at = std::find_if(survey.owners().begin(), survey.owners().end(),
                                 [&](const placement::Node& node) { return node.id == owner; });
    const Deadline own = may_give_up_owner ? Deadline::AfterMs(deadline.LeftMs() / 2) : deadline;
    auto answer = send(*at, request, own);
    if (answer.ok() || !may_give_up_owner || !IsOfNode(answer.code())) return answer;
    survey.Drop(owner, answer.status());
  }
  const auto why =
      std::find_if(survey.missing().begin(), survey.missing().end(),
                   [&](const Survey::Missing& missing) { return missing.node == owner; });
  if (!is_out || survey.owners().empty()) return why->why;
  request.set_mark_is_missing(true);
  auto answer = send(survey.owners().front(), request, deadline);
  if (answer.ok()) answer->set_mark_is_missing(true);
  return answer;
}

Result<std::vector<placement::Node>> Cluster::Owners() const {
  const Survey survey = TakeSurvey();
  if (!survey.complete()) return survey.first_reason();
  return survey.owners();
}

}  // namespace tidepool::stage
