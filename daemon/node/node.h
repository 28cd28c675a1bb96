// One daemon, put together: identity, network, cores, services, membership; and taken apart again.
//
//   daemon/kvd -> [node] -> everything below daemon/
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/control/network_interface.h"
#include "daemon/control/node_catalog.h"
#include "daemon/control/node_state.h"
#include "daemon/control/stop_signal.h"
#include "daemon/core/core_group.h"
#include "daemon/core/lease.h"
#include "daemon/membership/cluster_store.h"
#include "daemon/membership/coordinator.h"
#include "daemon/membership/coordinator_link.h"
#include "daemon/membership/etcd_session.h"
#include "daemon/membership/etcd_store.h"
#include "daemon/membership/founding.h"
#include "daemon/membership/identity.h"
#include "daemon/membership/member.h"
#include "daemon/moving/range_splitter.h"
#include "daemon/routing/request_router.h"
#include "daemon/services/admin_service.h"
#include "daemon/services/auth.h"
#include "daemon/services/bulk_service.h"
#include "daemon/services/cluster_service.h"
#include "daemon/services/data_service.h"
#include "daemon/services/moves_service.h"
#include "daemon/services/namespaces_service.h"
#include "daemon/services/service_host.h"
#include "daemon/services/snapshots_service.h"
#include "daemon/services/staging_service.h"
#include "daemon/status_page/listener.h"
#include "daemon/status_page/pages.h"
#include "proto/cluster_file/loss_record.h"
#include "proto/cluster_file/published_file.h"
#include "proto/cluster_file/tls_identity.h"
#include "proto/transport/transport.h"
#include "proto/wire/aggregator.h"
#include "storage/nvm/volume.h"

namespace tidepool::daemon {

// Start, WaitFormed and Drain from one thread, in this order.
class Node {
 public:
  // Starts everything and joins (or begins) the cluster. `stop` must outlive the node; a request
  // ends a start that waits. Errors: one clear line per cause, from whichever part failed;
  // kCancelled (a stop was requested).
  // `make_aggregator`: of what sends operations on for this machine's clients.
  static Result<std::unique_ptr<Node>> Start(const LoadedOptions& loaded, StopSignal* stop,
                                             const wire::AggregatorMaker& make_aggregator);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // Waits until all expected nodes have joined, then reports health. False if a stop came first.
  bool WaitFormed();

  // "node 0 of 3 at 127.0.0.1:4410, cluster file /tmp/x.json"
  std::string Describe();

  // Returns the namespaces of which records here are neither staged out nor durable. Any thread,
  // between WaitFormed and Drain; takes at most about a second.
  std::vector<cluster_file::LostNamespace> FindLosses();

  // Leaves in good order: the coordinator hears of it, calls in progress are answered, and the last
  // node of a cluster takes the connection file away. `reason`: of the end ("SIGTERM"), for the
  // record of what is lost.
  void Drain(const StopRequest& request, const std::string& reason);

 private:
  explicit Node(const LoadedOptions& loaded, StopSignal* stop);
  wire::AggregatorOptions MakeAggregatorOptions();

  Status Run();  // Start's steps, in order:
  Status OpenIdentity();
  Status Prepare();  // All that no other node hears of:
  Status Decide();
  Status DecideByFile();
  Status ChooseSecurity();  // Decide's last step.
  Status OpenDevices();
  Status StartNetwork();
  Status ReadBack();
  Status StartServices();
  Status StartListener();  // Of metrics and the status page.
  Status BeginCluster();   // kFirst, kReturn.
  Status JoinCluster();
  CoordinatorOptions MakeCoordinatorOptions() const;
  Status WriteSecrets(const std::string& cluster, const std::string& token);
  Status PublishFile(bool is_new);
  Status JoinWith(std::unique_ptr<CoordinatorLink> link);
  Status InstallMap(placement::PlacementMapPtr map, NodeId self);

  v1::JoinRequest MakeJoinRequest(const std::string& cluster_uuid) const;
  cluster_file::ClusterFile MakeClusterFile(const placement::PlacementMap& map) const;
  std::vector<std::string> CoordinatorAddresses();
  Result<std::string> TokenOfCluster();
  Result<std::string> TokenToJoin();
  Result<std::string> TokenByMunge();
  Result<std::optional<cluster_file::TlsIdentity>> ChooseTls() const;
  // The coordinator's thread: notices silent nodes, keeps the connection file up to date.
  void RunCoordinator();
  bool CoordinatorWaits();
  void UpdateFile();
  bool MustLookAtFile();

  // With etcd, in node_election.cc:
  bool by_election() const { return options_.store == "etcd"; }
  Status OpenEtcd();
  Status DecideByElection();
  Result<std::optional<Part>> TryToDecide();
  Status CheckPlace(const std::optional<ClusterState>& state,
                    const cluster_file::Examination& found) const;
  Result<std::optional<Part>> TryToBegin(const std::optional<ClusterState>& state,
                                         const cluster_file::Examination& found);
  bool KnowsSecretsOf(const std::string& cluster_uuid,
                      const cluster_file::Examination& found) const;
  Status ServeElected();  // The rest of BeginCluster and of JoinCluster.
  Status KeepSecrets();
  // The thread instead of RunCoordinator's: also sees who is elected, and is a candidate.
  void RunElections();
  void LookAtElection();
  bool IsFirstChoice(Deadline deadline);
  void NumberCoordinator(const placement::PlacementMap& map);
  void NoteElected(const std::optional<ElectedNode>& elected);
  void LeadOrFollow();
  Status BecomeCoordinator();
  void StepDown();
  void Announce();
  std::vector<NamespaceId> NothingToLose(bool loss_agreed);
  void EndCoordinator(bool whole_cluster);
  void CloseDevices();
  void WriteSummary(const std::string& summary) const;

  // In node_end.cc:
  void RecordLosses(const StopRequest& request, const std::string& reason);
  bool MayLive(const placement::Node& node) const;
  bool IsLast(const placement::PlacementMap& map, const std::string& cluster_uuid) const;
  void RemoveFilesOfCluster();
  void RemoveNodeFolders(const std::string& coordinator_uuid);

  const LoadedOptions loaded_;
  const Options& options_;
  StopSignal& stop_;
  NodeState state_;
  cluster_file::Environment environment_;
  std::string file_path_;  // Of the connection file; empty with --join alone.
  bool data_dir_given_ = false;

  std::optional<Identity> identity_;
  Lease lease_;
  std::unique_ptr<etcd::Client> etcd_;  // With the next three, null: no etcd.
  std::unique_ptr<EtcdSession> session_;
  ElectedLink* elected_link_ = nullptr;
  class ElectionFinder;
  ElectionFinder* finder_ = nullptr;
  std::string etcd_prefix_;
  std::vector<std::string> members_;  // UUIDs of the cluster that is joined, when that was decided.
  std::atomic<bool> may_be_elected_{false};
  bool is_announced_ = false;
  std::unique_ptr<ClusterStore> store_;
  std::string state_uuid_;            // Of the cluster whose state there is; empty: none.
  std::uint32_t nodes_of_state_ = 0;  // That it expects; 0: there is no state.
  Part part_;
  NetworkInterface interface_;
  std::optional<cluster_file::TlsIdentity> tls_;  // None: this node serves without.
  ChannelSecurity security_;                      // Of its calls to others.

  // Outlives the cores, which have queues on its devices.
  std::unique_ptr<storage::Volume> volume_;
  std::optional<NodeCatalog> catalog_;  // None: no volume.
  std::unique_ptr<transport::Context> context_;
  std::unique_ptr<wire::Aggregator> aggregator_;
  std::unique_ptr<CoreGroup> cores_;
  Authenticator authenticator_;
  std::unique_ptr<RequestRouter> router_;
  ClusterService cluster_service_{&state_};
  NamespacesService namespaces_service_{&state_};
  MovesService moves_service_{&state_};
  AdminService admin_service_{&state_};
  std::unique_ptr<DataService> data_service_;
  std::unique_ptr<BulkService> bulk_service_;
  std::unique_ptr<StagingService> staging_service_;
  std::unique_ptr<SnapshotsService> snapshots_service_;
  std::unique_ptr<Coordinator> coordinator_;
  std::int64_t tenure_ = 0;  // With etcd, the election that it is of.
  // What this node was the coordinator with. Calls that had begun then may still use them.
  struct FormerTenure {
    std::unique_ptr<ClusterStore> store;
    std::unique_ptr<Coordinator> coordinator;
    std::uint64_t ended_ns = 0;
  };
  std::vector<FormerTenure> former_tenures_;
  Epoch file_epoch_;  // Of the map that the connection file was last compared with, and when.
  std::uint64_t file_checked_ns_ = 0;
  std::optional<cluster_file::PublishedFile> published_;
  std::string token_file_;
  std::string token_;
  std::string tls_file_;  // That this node has written; empty: none.
  std::unique_ptr<CoordinatorLink> link_;
  std::unique_ptr<Member> member_;
  RangeSplitter splitter_{&state_};
  std::unique_ptr<ServiceHost> host_;
  Pages pages_{&state_};
  std::unique_ptr<Listener> listener_;  // Null: --metrics-port off.
  std::thread coordinator_thread_;
  StopSignal coordinator_stop_;
};

}  // namespace tidepool::daemon
