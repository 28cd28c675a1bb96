// The cluster as a job on this node sees it: each owner moves the files whose keys it owns.
//
//   proto/stage -> [cluster_view] -> part, part_list, or Staging of a peer
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/control/saved_registry.h"
#include "daemon/routing/request_router.h"
#include "proto/stage/cluster.h"
#include "tidepool/v1/staging.pb.h"

namespace tidepool::daemon::staging {

// Thread-safe. For one namespace; router and registry must outlive it.
class ClusterView final : public stage::Cluster {
 public:
  // `saved` may be null if nothing is marked.
  ClusterView(RequestRouter* router, SavedRegistry* saved,
              std::shared_ptr<const placement::Namespace> space)
      : router_(*router), saved_(saved), space_(std::move(space)) {}

  const std::string& space_name() const override { return space_->name; }
  Status CheckNothingLost() const override { return stage::CheckNothingLost(*space_); }
  NodeId OwnerOf(std::string_view key) const override;
  stage::Survey TakeSurvey() const override;
  std::uint32_t PartitionOf(std::string_view key) const override;
  std::vector<placement::Node> Movers(const std::vector<placement::Node>& owners) const override {
    return owners;
  }
  NodeId MoverOf(std::string_view key) const override { return OwnerOf(key); }
  Result<std::unique_ptr<stage::PartLink>> OpenPart(const placement::Node& mover,
                                                    const v1::RunPartStart& start,
                                                    stage::PartLink::Report report,
                                                    std::function<void()> ended) const override;

  // Returns the nodes that are up and do not see the probe file (see the .proto).
  Result<std::vector<std::string>> BlindNodes(const v1::StartStageRequest& request) const;

  Result<std::vector<stage::NodeTotals>> ListParts(const std::vector<placement::Node>& owners,
                                                   v1::ListPartRequest::What what, stage::Loss loss,
                                                   const TakeItem& take) const override;
  Result<v1::ClaimStageResponse> Claim(const v1::ClaimStageRequest& request,
                                       Deadline deadline) const override;
  Status MarkSaved(const placement::Node& node, std::uint64_t changes) const override;
  std::uint64_t ChangesOf(NodeId /*node*/) const override {
    return 0;
  }  // Parts report the changes.

  Status Put(const std::string& key, const std::string& value) const override;
  Status Delete(const std::string& key) const override;
  Result<manifest::Mark> GetMark(bool* exists) const override;

 private:
  Result<v1::ClaimStageResponse> ClaimOnce(const v1::ClaimStageRequest& request,
                                           Deadline deadline) const;
  stage::Survey SurveyOf(const placement::Namespace& space) const;
  Status ListRemote(const placement::Node& node, const v1::ListPartRequest& request,
                    const std::function<bool(const v1::ListPartResponse&)>& take) const;

  RequestRouter& router_;
  SavedRegistry* const saved_;
  const std::shared_ptr<const placement::Namespace> space_;
};

// Returns how many records of a namespace belong to staging. Asks for one record. While a job is
// under way all owners have to count (`may_walk`), which reads records on devices. Errors:
// kUnavailable (a walk is needed and not allowed), those of the requests.
Result<std::uint64_t> InternalRecords(RequestRouter* router,
                                      std::shared_ptr<const placement::Namespace> space,
                                      bool may_walk);

// Returns true if this node sees the file that the request describes.
bool SeesFile(const v1::SeesFileRequest& request);

}  // namespace tidepool::daemon::staging
