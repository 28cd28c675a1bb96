// The cluster for a staging job that runs in kvctl: a map from the begin of the job (claims use a
// newer map), and kvctl itself as the only mover.
//
// kvctl stage --through-client -> proto/stage -> [ClientCluster] -> gRPC Staging, Data => daemons
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/channel.h"
#include "cli/commands/data/client_store.h"
#include "proto/stage/cluster.h"

namespace tidepool::cli {

// Thread-safe. Serves a single namespace.
class ClientCluster final : public stage::Cluster {
 public:
  // `channel` outlives it. Errors: kNotFound (namespace), kInvalidArgument (of another kind than
  // hash), and of the call.
  static Result<std::unique_ptr<ClientCluster>> Make(Channel* channel, const std::string& space);

  const std::string& space_name() const override { return space_->name; }
  Status CheckNothingLost() const override { return stage::CheckNothingLost(*space_); }
  NodeId OwnerOf(std::string_view key) const override;
  stage::Survey TakeSurvey() const override { return SurveyOf(*space_, nodes_); }
  std::uint32_t PartitionOf(std::string_view key) const override;
  std::vector<placement::Node> Movers(const std::vector<placement::Node>& owners) const override;
  NodeId MoverOf(std::string_view key) const override;
  Result<std::unique_ptr<stage::PartLink>> OpenPart(const placement::Node& mover,
                                                    const v1::RunPartStart& start,
                                                    stage::PartLink::Report report,
                                                    std::function<void()> ended) const override;
  Result<std::vector<stage::NodeTotals>> ListParts(const std::vector<placement::Node>& owners,
                                                   v1::ListPartRequest::What what, stage::Loss loss,
                                                   const TakeItem& take) const override;
  Result<v1::ClaimStageResponse> Claim(const v1::ClaimStageRequest& request,
                                       Deadline deadline) const override;
  Status MarkSaved(const placement::Node& node, std::uint64_t changes) const override;
  std::uint64_t ChangesOf(NodeId node) const override { return counts_->Of(node); }
  Status Put(const std::string& key, const std::string& value) const override;
  Status Delete(const std::string& key) const override;
  Result<manifest::Mark> GetMark(bool* exists) const override;

 private:
  ClientCluster() = default;
  static stage::Survey SurveyOf(const placement::Namespace& space,
                                const std::vector<placement::Node>& nodes);
  Status ListNode(const placement::Node& node, const v1::ListPartRequest& request,
                  const TakeItem& take, stage::NodeTotals* totals) const;

  Channel* channel_ = nullptr;
  std::vector<placement::Node> nodes_;  // Index = NodeId.
  std::shared_ptr<const placement::Namespace> space_;
  std::unique_ptr<ChangeCounts> counts_;
};

}  // namespace tidepool::cli
