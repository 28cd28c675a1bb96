// Survey of a namespace's available and missing parts, for a stage-out while a node is dead or has
// lost its data.
//
//   cluster -> [survey] -> job_out, kvctl
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "proto/base/status.h"
#include "proto/placement/placement_map.h"
#include "tidepool/v1/staging.pb.h"

namespace tidepool::stage {

// One thread.
class Survey {
 public:
  struct Missing {
    NodeId node;
    std::string who;  // Describe(node); "node 7" of a node that the map does not have.
    Status why;
    std::uint32_t partitions = 0;
  };
  // kOk if the owner of a partition serves it.
  using Check = std::function<Status(const placement::PartitionPlace&)>;
  using FindNode = std::function<const placement::Node*(NodeId)>;

  Survey() = default;
  Survey(const placement::Namespace& space, const Check& check, const FindNode& find);

  // Returns the nodes that serve at least one partition, by their numbers.
  const std::vector<placement::Node>& owners() const { return owners_; }
  // By node and reason.
  const std::vector<Missing>& missing() const { return missing_; }
  bool complete() const { return missing_.empty(); }
  std::uint32_t partitions() const { return static_cast<std::uint32_t>(places_.size()); }
  bool Has(std::uint32_t partition) const { return places_[partition].served; }
  // Returns the reason for the first missing part. Precondition: a part is missing.
  const Status& first_reason() const { return missing_.front().why; }

  // Drops an owner that failed when asked: its partitions are missing from now on.
  void Drop(NodeId node, const Status& why);

 private:
  struct Place {
    NodeId node;
    bool served = false;
  };
  void AddMissing(NodeId node, const std::string& who, const Status& why);

  std::vector<Place> places_;  // Index = partition.
  std::vector<placement::Node> owners_;
  std::vector<Missing> missing_;
};

// Returns true if the failure concerns only a node's part, false if it concerns the whole job.
bool IsOfNode(StatusCode code);

// For reports of jobs.
v1::MissingPart ToProto(const Survey::Missing& missing);
// "node 1 (host 127.0.0.1:4711): 43 of 128 partitions; why".
std::string Text(const v1::MissingPart& missing, std::uint32_t partitions);

}  // namespace tidepool::stage
