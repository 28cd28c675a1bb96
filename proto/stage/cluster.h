// The cluster of a job: owners of keys, movers of files, and short requests of a job. A daemon
// answers from its map and its peers, kvctl through gRPC.
//
//   job_in, job_out, movers -> [cluster] -> the daemons
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/clock.h"
#include "proto/manifest/entry.h"
#include "proto/placement/placement_map.h"
#include "proto/stage/part_link.h"
#include "proto/stage/survey.h"
#include "tidepool/v1/staging.pb.h"

namespace tidepool::stage {

// A node's report on its part of the namespace.
struct NodeTotals {
  NodeId node;
  manifest::Summary summary;
  std::uint64_t changes = 0;
  bool all_staged = true;
  std::uint64_t unreadable = 0;  // Records that were passed over (Loss::kSkip).
};

// Choice of a list that meets lost data: fail with kDataLoss, or list the rest.
enum class Loss { kFail, kSkip };

// "node 2 (host 127.0.0.1:4711)", for messages.
std::string Describe(const placement::Node& node);

// Returns kDataLoss if a durable namespace has a loss that no user has accepted; otherwise kOk.
Status CheckNothingLost(const placement::Namespace& space);

// Sends `request` by `send` to the node that keeps the claims of a namespace: the owner of the
// mark, as `survey` and `space` know it now. If a stage-out cannot reach the mark, the lowest node
// that serves keeps the claim instead, and request and answer mention it. Errors: why the mark is
// unavailable, and errors of `send`.
using SendClaim = std::function<Result<v1::ClaimStageResponse>(
    const placement::Node& keeper, const v1::ClaimStageRequest&, Deadline)>;
Result<v1::ClaimStageResponse> AskClaimKeeper(const placement::Namespace& space, Survey survey,
                                              v1::ClaimStageRequest request, Deadline deadline,
                                              const SendClaim& send);

// Thread-safe. For a single namespace.
class Cluster {
 public:
  virtual ~Cluster() = default;
  virtual const std::string& space_name() const = 0;
  // Checks like the function above, for the namespace at the job's begin.
  virtual Status CheckNothingLost() const = 0;

  virtual NodeId OwnerOf(std::string_view key) const = 0;
  // Returns the nodes that own a partition, in order. Errors: kUnavailable and kDataLoss, naming
  // the first that cannot serve.
  Result<std::vector<placement::Node>> Owners() const;
  // Returns the available parts as far as the map knows: a node that has just died may still count.
  virtual Survey TakeSurvey() const = 0;
  virtual std::uint32_t PartitionOf(std::string_view key) const = 0;

  // Movers of the files: each owner moves its own, or this process moves all of them.
  virtual std::vector<placement::Node> Movers(const std::vector<placement::Node>& owners) const = 0;
  virtual NodeId MoverOf(std::string_view key) const = 0;
  // `ended` is called when nothing more will be reported, with or without done = true. Errors: of
  // Part::Start.
  virtual Result<std::unique_ptr<PartLink>> OpenPart(const placement::Node& mover,
                                                     const v1::RunPartStart& start,
                                                     PartLink::Report report,
                                                     std::function<void()> ended) const = 0;

  // Lists the owners' records (see ListPartRequest), or only their totals. This thread calls
  // `take`; the list ends with kCancelled when it returns false.
  using TakeItem = std::function<bool(const v1::StageItem&)>;
  virtual Result<std::vector<NodeTotals>> ListParts(const std::vector<placement::Node>& owners,
                                                    v1::ListPartRequest::What what, Loss loss,
                                                    const TakeItem& take) const = 0;
  // All of it, or kDataLoss.
  Result<std::vector<NodeTotals>> List(const std::vector<placement::Node>& owners,
                                       v1::ListPartRequest::What what, const TakeItem& take) const {
    return ListParts(owners, what, Loss::kFail, take);
  }

  // Asks the present owner of the namespace's mark, which may have moved since the job began; see
  // job_claim.h. A stage-out whose mark is unavailable asks the lowest node that serves. Errors:
  // kNotFound (the namespace is gone), kWrongEpoch (it moves just now), and errors of the call.
  virtual Result<v1::ClaimStageResponse> Claim(const v1::ClaimStageRequest& request,
                                               Deadline deadline) const = 0;

  virtual Status MarkSaved(const placement::Node& node, std::uint64_t changes) const = 0;
  // Changes of the namespace on `node` that its own part of the job did not make.
  virtual std::uint64_t ChangesOf(NodeId node) const = 0;

  // Plain record operations, wherever the key lives.
  virtual Status Put(const std::string& key, const std::string& value) const = 0;
  // kNotFound is fine for Delete.
  virtual Status Delete(const std::string& key) const = 0;
  // Returns the namespace's mark; without a mark, complete and exact with an empty source.
  virtual Result<manifest::Mark> GetMark(bool* exists) const = 0;
};

}  // namespace tidepool::stage
