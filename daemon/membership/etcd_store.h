// The cluster's state in etcd. Every change of it is one transaction, which etcd carries out only
// while the election that this object was made for is the present one and the state is the one that
// was seen last. So a coordinator that was paused, wakes up and goes on where it was changes
// nothing.
//
//   <prefix>/state                         the state, or, when it is large, how many parts it has
//   <prefix>/state/<epoch>/<save>/<part>   those parts, written before what names them; <save> is
//                                          random, so no late or repeated save touches another's
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "daemon/etcd/client.h"
#include "daemon/membership/cluster_store.h"

namespace tidepool::daemon {

// Used by one coordinator, under its lock. Each call ends within about a lease.
class EtcdStore final : public ClusterStore {
 public:
  // `etcd` must outlive it. `election`: EtcdSession::election(); 0 may load only.
  // `part_bytes`: what one value holds at most; etcd refuses requests above 1.5 MiB by default.
  EtcdStore(etcd::Client* etcd, const std::string& prefix, std::int64_t election,
            std::uint32_t lease_ms, std::size_t part_bytes = 1 << 20);

  Result<std::optional<ClusterState>> Load() override;
  Status Save(const ClusterState& next, Epoch previous) override;
  Status SaveIfDead(const ClusterState& next, Epoch previous,
                    const std::vector<DeadProcess>& dead) override;
  Status Retire() override;
  bool HearsOfDeaths() const override { return true; }  // By each daemon's lease_guard.
  Result<bool> KnowsAlive(const placement::Node& node) override;
  bool must_reload() const override { return must_reload_.load(); }
  std::string Describe() const override;

 private:
  Result<std::string> ReadText(const etcd::Entry& head, Deadline deadline);
  std::string PartKey(Epoch epoch, const std::string& save, std::size_t part) const;
  // Returns what names them.
  Result<std::string> WriteParts(const std::string& text, Epoch epoch, Deadline deadline);
  void RemovePartsBefore(Epoch epoch);
  Status Refused(const etcdserverpb::TxnResponse& answer, const std::string& head = "",
                 bool is_repeated = false, bool requires_dead = false);
  Status RequireDead(const std::vector<DeadProcess>& dead, Deadline deadline,
                     etcdserverpb::TxnRequest* request);
  Status Unknown(const Status& why);

  etcd::Client& etcd_;
  const std::string prefix_;
  const std::string key_;
  const std::int64_t election_;
  const std::uint32_t lease_ms_;
  const std::size_t part_bytes_;
  std::int64_t revision_ = 0;  // Of the state that was seen last; 0: none is there.
  Epoch saved_;
  bool has_parts_ = false;
  std::atomic<bool> must_reload_{false};
};

}  // namespace tidepool::daemon
