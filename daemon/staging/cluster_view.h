// The other nodes as a job sees them: who owns which key, and the short questions it asks them.
//
//   job -> [cluster_view] -> part_list, or Staging of a peer
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/saved_registry.h"
#include "daemon/services/request_router.h"
#include "proto/manifest/entry.h"
#include "tidepool/v1/staging.pb.h"

namespace tidepool::daemon::staging {

// What one node said about its part of the namespace.
struct NodeTotals {
  NodeId node;
  manifest::Summary summary;
  std::uint64_t changes = 0;
  bool all_staged = true;
};

// Thread-safe. Of one namespace; router and registry must outlive it.
class ClusterView {
 public:
  // `saved` may be null where nothing is marked.
  ClusterView(RequestRouter* router, SavedRegistry* saved,
              std::shared_ptr<const placement::Namespace> space)
      : router_(*router), saved_(saved), space_(std::move(space)) {}

  const std::shared_ptr<const placement::Namespace>& space() const { return space_; }
  RequestRouter& router() const { return router_; }

  NodeId OwnerOf(std::string_view key) const;
  // The nodes that own a partition, in order. Errors: kUnavailable and kDataLoss, naming the first
  // that cannot serve.
  Result<std::vector<placement::Node>> Owners() const;

  // The nodes, of all that are up, that do not see the probe file (see the .proto).
  Result<std::vector<std::string>> BlindNodes(const v1::StartStageRequest& request) const;

  // Everything that the owners hold, or only their totals. `take` is called by this thread.
  Result<std::vector<NodeTotals>> List(const std::vector<placement::Node>& owners, bool totals_only,
                                       const std::function<bool(const v1::StageItem&)>& take) const;

  Status MarkSaved(const placement::Node& node, std::uint64_t changes) const;

  // Plain record operations, wherever the key lives.
  Status Put(const std::string& key, const std::string& value) const;
  // kNotFound is fine for Delete.
  Status Delete(const std::string& key) const;
  // The namespace's mark; complete and exact with an empty source if there is none.
  Result<manifest::Mark> GetMark(bool* exists) const;

 private:
  RequestRouter& router_;
  SavedRegistry* const saved_;
  const std::shared_ptr<const placement::Namespace> space_;
};

// How many records of a namespace are staging's own. Asks for one record, or all owners to count
// while a job is under way.
Result<std::uint64_t> InternalRecords(RequestRouter* router,
                                      std::shared_ptr<const placement::Namespace> space);

// Whether this node sees what the request describes.
bool SeesFile(const v1::SeesFileRequest& request);

}  // namespace tidepool::daemon::staging
