// What etcd knows of this process while it lives: a lease, a key that says so, and, where it was
// elected, the key of the coordinator. All three end together.
//
//   daemon/node/node -> [membership/etcd_session] -> etcd/client
//                            '-> Lease (the node's right to serve), etcd_store (its saves are
//                                conditional on the election)
//
// Rules:
//   1. The node's lease counts from when a renewal was *sent*, etcd's from when it came there, and
//      etcd's is 250 ms longer at least: when etcd lets it go, this node has stopped to serve.
//   2. Once etcd has let it go, the node serves again only after a coordinator has answered it:
//      what was its own may have become another's.
//   3. Who holds the coordinator's key is the coordinator. It is made only where it is not, it
//      hangs on the lease, and its creation revision numbers the election: of no two are they
//      equal.
//   4. A renewal counts only if the node's key is read afterwards, in the same term of etcd's own
//      leader: a former leader that was stopped, and wakes up, renews what its successor let go.
//
//   <prefix>/coordinator   {"uuid", "incarnation", "address"}; "" while it is starting
//   <prefix>/nodes/<uuid>  {"incarnation", "joined"}
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "daemon/core/lease.h"
#include "daemon/etcd/client.h"
#include "proto/base/clock.h"
#include "proto/base/result.h"

namespace tidepool::daemon {

// Who is the coordinator, by etcd.
struct ElectedNode {
  std::string uuid;
  std::uint64_t incarnation = 0;
  std::string address;        // Of its control port; empty: it does not serve yet.
  std::int64_t revision = 0;  // Of the election.

  friend bool operator==(const ElectedNode&, const ElectedNode&) = default;
};

struct EtcdSessionOptions {
  std::string prefix;  // Of all keys of the cluster, without "/" at its end.
  std::string uuid;
  std::uint64_t incarnation = 0;
  std::uint32_t lease_ms = 5000;
  std::uint32_t heartbeat_ms = 1000;
  // Another process of this node is in etcd, with a greater incarnation: this one must end. Called
  // once, on the session's thread.
  std::function<void(const Status&)> fenced;
  // Called with each new lease, before anything hangs on it, and with 0 after its end. May be
  // empty.
  std::function<void(std::int64_t lease)> watch_lease;
};

// Of one call to etcd, where its caller names no other: a lease, or less than a long one.
std::uint64_t EtcdCallMs(std::uint32_t lease_ms);
std::string CoordinatorKey(const std::string& prefix);
std::string NodeKey(const std::string& prefix, const std::string& uuid);
// Of the value of a node's key; 0: it is no such value.
std::uint64_t IncarnationOf(const etcd::Entry& entry);
// "a" -> "b": behind all keys that begin so.
std::string EndOfPrefix(std::string prefix);

// Thread-safe. Begin once; End (or the destructor, which leaves the lease to run out) ends its
// thread.
class EtcdSession {
 public:
  // Both must outlive it.
  EtcdSession(etcd::Client* etcd, Lease* lease, EtcdSessionOptions options);
  ~EtcdSession();
  EtcdSession(const EtcdSession&) = delete;
  EtcdSession& operator=(const EtcdSession&) = delete;

  // Errors: those of etcd::Client; kFailedPrecondition (a process with a greater incarnation).
  Status Begin(Deadline deadline);
  // Gives the lease back, and with it the election: another is elected at once.
  void End(Deadline deadline);

  // A coordinator has answered what was sent then, so the map that came with it was no older: the
  // node may serve for as long as the lease is renewed, until it is lost.
  void OnAnswered(std::uint64_t sent_ns);
  // This node is a member: it may be elected while it runs, so a daemon that starts leaves it to
  // it. etcd hears of it at once, or with a later renewal.
  void MarkJoined(Deadline deadline);

  // Errors: those of etcd::Client. Nothing: nobody is elected.
  Result<std::optional<ElectedNode>> Elected(Deadline deadline);
  // The same, and election() is then what etcd says: this node may have been elected by a campaign
  // whose answer was lost, or its key have been removed by hand. For the one thread that campaigns.
  Result<std::optional<ElectedNode>> Follow(Deadline deadline);
  // Whether some other member that has joined is there, so that one of these may be elected.
  Result<bool> OthersHaveJoined(const std::vector<std::string>& uuids, Deadline deadline);
  // Tries to be elected. Returns who is, this node or another.
  Result<std::optional<ElectedNode>> Campaign(Deadline deadline);
  // Says where the coordinator, this node, serves. Errors: kAborted (it is not elected any more).
  Status Announce(const std::string& address, Deadline deadline);
  // Ends the election of another process, which is known to be gone.
  Status Dismiss(const ElectedNode& elected, Deadline deadline);
  // Gives the election back, not the lease.
  void Resign(Deadline deadline);

  // The election that this node has won, as long as its lease, counted as in rule 1, has not run
  // out; else 0.
  std::int64_t election() const;

  // kOk, or kUnavailable: etcd has not renewed the lease for longer than it lasts.
  Status CheckReached() const;
  std::string Describe() const;

 private:
  Status Grant(Deadline deadline);  // A new lease and the node's key.
  Status PutNodeKey(std::int64_t lease, Deadline deadline);
  Result<bool> KeepAlive(std::int64_t lease, Deadline deadline);  // By rule 4.
  void RunRenewals();
  void Renew();
  void Extend();  // Under mutex_.
  bool SleepMs(std::uint64_t ms);

  etcd::Client& etcd_;
  Lease& node_lease_;
  const EtcdSessionOptions options_;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::int64_t lease_ = 0;        // etcd's number of it; 0: none.
  std::uint64_t begun_ns_ = 0;    // When this lease was asked for.
  std::uint64_t renewed_ns_ = 0;  // When the last renewal that was answered was sent.
  bool may_serve_ = false;        // Rule 2.
  bool joined_ = false;
  bool has_told_joined_ = true;  // That etcd knows joined_.
  std::int64_t election_ = 0;    // Won with this lease; 0: none.
  bool is_reached_ = true;       // To log changes only.
  Status failure_;               // Of the last renewal.
  std::thread renewals_;
};

}  // namespace tidepool::daemon
