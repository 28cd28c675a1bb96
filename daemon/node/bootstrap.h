// Start of a node before other nodes hear of it: finds its identity, its devices, its part in a
// cluster, its interface and its TLS identity.
//
//   daemon/node/node -> [bootstrap] -> membership/{identity,founding,etcd_session}, storage/nvm
//
// Order of the steps: OpenIdentity, OpenDevices, Decide. Decide may be repeated after another
// starter has won the race for the connection file. GiveUp follows a step that failed.
//
// Invariants:
//   1. No step writes the connection file or the state of a cluster.
//   2. The identity's folder is locked from OpenIdentity until the identity is released.
//   3. part().kind is kFirst or kReturn only if TakeStore gives a store: with etcd, the store of an
//      election that this node has won.
//   4. After Decide a node beyond loopback has a TLS identity, unless --insecure was given.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/config/options.h"
#include "daemon/control/network_interface.h"
#include "daemon/control/node_catalog.h"
#include "daemon/control/stop_signal.h"
#include "daemon/core/lease.h"
#include "daemon/membership/cluster_store.h"
#include "daemon/membership/etcd_session.h"
#include "daemon/membership/founding.h"
#include "daemon/membership/identity.h"
#include "daemon/node/lease_guard.h"
#include "proto/base/result.h"
#include "proto/cluster_file/tls_identity.h"
#include "storage/nvm/volume.h"

namespace tidepool::daemon {

// Not thread-safe. Accessors that name no step are valid after OpenIdentity.
class Bootstrap {
 public:
  // All must outlive the object. A request of `stop` ends a step that waits; a fenced etcd session
  // requests `stop`.
  Bootstrap(const Options& options, StopSignal* stop, Lease* lease,
            cluster_file::Environment environment);
  Bootstrap(const Bootstrap&) = delete;
  Bootstrap& operator=(const Bootstrap&) = delete;

  // Finds and locks the data folder, and with --store etcd opens the session's client.
  // Errors: those of Identity::Open and CheckFolderOf; kFailedPrecondition (the folder has the
  // state of a cluster without etcd).
  Status OpenIdentity();
  // Opens the devices of --nvm-dir. Errors: those of OpenVolume and NodeCatalog::Open.
  Status OpenDevices();
  // Decides the part, then the interface and the TLS identity. Waits at most --join-timeout-ms.
  // Errors: those of DecidePart; kFailedPrecondition (no place in the cluster, or no TLS identity);
  // kDeadlineExceeded; kCancelled.
  Status Decide();
  // Removes what this start has made in the data folder.
  void GiveUp();

  // Gives the job token of the cluster that this node begins or comes back to. A new token is
  // written to the data folder. Errors: those of ReadTokenFile and WriteTokenFile.
  Result<std::string> TokenOfCluster() const;
  // Gives the port that the coordinator had before this start; 0: none is known.
  std::uint32_t PortToReturnTo();
  // Writes `token` and the TLS identity to the data folder: this node may be elected, and then
  // needs them. Errors: those of WriteTokenFile and WriteTlsFile.
  Status KeepSecrets(const std::string& token) const;

  bool by_election() const { return options_.store == "etcd"; }
  Identity& identity() { return *identity_; }
  bool has_identity() const { return identity_.has_value(); }
  bool data_dir_given() const { return data_dir_given_; }
  const std::string& file_path() const { return file_path_; }  // Empty with --join alone.
  const cluster_file::Environment& environment() const { return environment_; }

  // After OpenDevices. Null or none without --nvm-dir.
  storage::Volume* volume() { return volume_.get(); }
  const std::optional<NodeCatalog>& catalog() const { return catalog_; }
  std::optional<NodeCatalog>& catalog() { return catalog_; }

  // With etcd; else null or empty.
  etcd::Client* etcd() { return etcd_.get(); }
  EtcdSession* session() { return session_.get(); }
  const std::string& etcd_prefix() const { return etcd_prefix_; }

  // After Decide.
  Part& part() { return part_; }
  const NetworkInterface& interface() const { return interface_; }
  const std::optional<cluster_file::TlsIdentity>& tls() const { return tls_; }
  const ChannelSecurity& security() const { return security_; }  // Security of calls to others.
  const std::string& state_uuid() const { return state_uuid_; }
  const std::vector<std::string>& members() const { return members_; }
  std::int64_t election() const { return election_; }
  // Hands the store over to the coordinator. Null: this node begins as a member.
  std::unique_ptr<ClusterStore> TakeStore() { return std::move(store_); }

 private:
  Status DecideByFile();
  Status ChooseSecurity();  // Last step of Decide.
  Result<std::optional<cluster_file::TlsIdentity>> ChooseTls() const;

  // In bootstrap_election.cc:
  Status OpenEtcd();
  Status DecideByElection();
  Result<std::optional<Part>> TryToDecide();
  Status CheckPlace(const std::optional<ClusterState>& state,
                    const cluster_file::Examination& found) const;
  Result<std::optional<Part>> TryToBegin(const std::optional<ClusterState>& state,
                                         const cluster_file::Examination& found);
  bool KnowsSecretsOf(const std::string& cluster_uuid,
                      const cluster_file::Examination& found) const;

  const Options& options_;
  StopSignal& stop_;
  Lease& lease_;
  const cluster_file::Environment environment_;
  std::string file_path_;
  bool data_dir_given_ = false;
  std::optional<Identity> identity_;
  std::unique_ptr<storage::Volume> volume_;
  std::optional<NodeCatalog> catalog_;

  std::unique_ptr<etcd::Client> etcd_;
  std::unique_ptr<LeaseGuard> guard_;  // Null: no process could be started.
  std::unique_ptr<EtcdSession> session_;
  std::string etcd_prefix_;
  std::vector<std::string> members_;  // UUIDs of the joined cluster's nodes, when that was decided.

  std::unique_ptr<ClusterStore> store_;
  std::int64_t election_ = 0;         // Election that `store_` belongs to; 0: embedded, or none.
  std::string state_uuid_;            // Cluster whose state was found; empty: no state was found.
  std::uint32_t nodes_of_state_ = 0;  // Nodes that this state expects; 0: no state was found.
  Part part_;
  NetworkInterface interface_;
  std::optional<cluster_file::TlsIdentity> tls_;
  ChannelSecurity security_;
};

}  // namespace tidepool::daemon
