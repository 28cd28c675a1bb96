#include "daemon/membership/etcd_session.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "proto/base/log.h"
#include "proto/base/thread.h"

namespace tidepool::daemon {
namespace {

using Json = nlohmann::json;

// Long leases, of minutes, are for long pauses of daemons; what ends one does not wait so long.
constexpr std::uint64_t kCallMsMax = 5000;

// etcd counts whole seconds. A quarter of one more at least than the node's own lease, since the
// two clocks may differ: 5 % of the default lease.
std::int64_t TtlSeconds(std::uint32_t lease_ms) { return (lease_ms + 250 + 999) / 1000; }

std::string TextOf(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::uint64_t NumberOf(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

bool FlagOf(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_boolean() && found->get<bool>();
}

// Bytes that are no such value give an object without members: nobody, nowhere.
Json ParseValue(const std::string& text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : Json::object();
}

std::string ValueOf(const std::string& uuid, std::uint64_t incarnation,
                    const std::string& address) {
  const Json json = {{"uuid", uuid}, {"incarnation", incarnation}, {"address", address}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

ElectedNode ElectedOf(const etcd::Entry& entry) {
  const Json json = ParseValue(entry.value);
  return {TextOf(json, "uuid"), NumberOf(json, "incarnation"), TextOf(json, "address"),
          entry.create_revision};
}

std::optional<ElectedNode> ElectedOf(const std::optional<etcd::Entry>& entry) {
  if (!entry.has_value()) return std::nullopt;
  return ElectedOf(*entry);
}

}  // namespace

std::uint64_t EtcdCallMs(std::uint32_t lease_ms) {
  return std::min<std::uint64_t>(lease_ms, kCallMsMax);
}

std::string CoordinatorKey(const std::string& prefix) { return prefix + "/coordinator"; }

std::string NodeKey(const std::string& prefix, const std::string& uuid) {
  return prefix + "/nodes/" + uuid;
}

std::uint64_t IncarnationOf(const etcd::Entry& entry) {
  return NumberOf(ParseValue(entry.value), "incarnation");
}

std::string EndOfPrefix(std::string prefix) {
  ++prefix.back();  // A letter or "/" in all uses: never the last byte there is.
  return prefix;
}

EtcdSession::EtcdSession(etcd::Client* etcd, Lease* lease, EtcdSessionOptions options)
    : etcd_(*etcd), node_lease_(*lease), options_(std::move(options)) {}

EtcdSession::~EtcdSession() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (renewals_.joinable()) renewals_.join();
}

bool EtcdSession::SleepMs(std::uint64_t ms) {
  std::unique_lock lock(mutex_);
  return !wake_.wait_for(lock, std::chrono::milliseconds(ms), [this] { return stopping_; });
}

Status EtcdSession::Begin(Deadline deadline) {
  TP_RETURN_IF_ERROR(Grant(deadline));
  return StartThread("the lease of etcd", &renewals_, [this] { RunRenewals(); });
}

Status EtcdSession::Grant(Deadline deadline) {
  const std::uint64_t sent_ns = Clock::Real().MonotonicNs();
  const auto lease = etcd_.GrantLease(TtlSeconds(options_.lease_ms), deadline);
  if (!lease.ok()) return lease.status();
  if (lease->ttl_s < TtlSeconds(options_.lease_ms)) {
    return Status(StatusCode::kInternal,
                  "etcd grants leases of " + std::to_string(lease->ttl_s) + " s where " +
                      std::to_string(TtlSeconds(options_.lease_ms)) + " s are asked for");
  }
  if (options_.watch_lease) options_.watch_lease(lease->id);
  TP_RETURN_IF_ERROR(PutNodeKey(lease->id, deadline));
  const std::lock_guard lock(mutex_);
  lease_ = lease->id;
  begun_ns_ = sent_ns;
  renewed_ns_ = sent_ns;
  may_serve_ = false;
  election_ = 0;
  failure_ = OkStatus();
  return OkStatus();
}

// The key of an earlier process of this node may still be there, on a lease of its own.
Status EtcdSession::PutNodeKey(std::int64_t lease, Deadline deadline) {
  const std::string key = NodeKey(options_.prefix, options_.uuid);
  while (true) {
    auto found = etcd_.Get(key, deadline);
    if (!found.ok()) return found.status();
    const std::uint64_t there = found->has_value() ? IncarnationOf(**found) : 0;
    if (there > options_.incarnation) {
      return Status(StatusCode::kFailedPrecondition,
                    "this node has been started again since: incarnation " + std::to_string(there) +
                        ", not " + std::to_string(options_.incarnation),
                    "only the newest process of a node may serve");
    }
    bool joined = false;
    {
      const std::lock_guard lock(mutex_);
      joined = joined_;
    }
    const Json value = {{"incarnation", options_.incarnation}, {"joined", joined}};
    etcdserverpb::TxnRequest request;
    *request.add_compare() =
        etcd::KeyWasChangedAt(key, found->has_value() ? (*found)->mod_revision : 0);
    *request.add_success() = etcd::Put(key, value.dump(), lease);
    auto answer = etcd_.Txn(request, deadline);
    if (!answer.ok()) return answer.status();
    if (answer->succeeded()) {
      const std::lock_guard lock(mutex_);
      has_told_joined_ = joined == joined_;
      return OkStatus();
    }
    // Changed meanwhile, maybe by this very call when its answer was lost: look again.
    if (deadline.Passed()) {
      return Status(StatusCode::kDeadlineExceeded, "the key '" + key + "' in etcd keeps changing",
                    "does another daemon run with the identity of this one?");
    }
  }
}

void EtcdSession::End(Deadline deadline) {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (renewals_.joinable()) renewals_.join();
  node_lease_.Revoke();
  std::int64_t lease = 0;
  {
    const std::lock_guard lock(mutex_);
    std::swap(lease, lease_);
    election_ = 0;
  }
  if (lease == 0) return;
  const Status revoked = etcd_.RevokeLease(lease, deadline);
  if (revoked.ok() && options_.watch_lease) options_.watch_lease(0);
  if (!revoked.ok()) log::Warn("etcd has not heard that this node ends: " + revoked.ToString());
}

void EtcdSession::Extend() {
  if (may_serve_) node_lease_.ExtendTo(renewed_ns_ + options_.lease_ms * 1'000'000ull);
}

void EtcdSession::OnAnswered(std::uint64_t sent_ns) {
  const std::lock_guard lock(mutex_);
  if (lease_ == 0 || sent_ns < begun_ns_) return;
  may_serve_ = true;
  Extend();
}

void EtcdSession::MarkJoined(Deadline deadline) {
  std::int64_t lease = 0;
  {
    const std::lock_guard lock(mutex_);
    joined_ = true;
    has_told_joined_ = false;
    lease = lease_;
  }
  if (lease == 0) return;
  const Status told = PutNodeKey(lease, deadline);
  if (!told.ok()) log::Warn("etcd has not heard yet that this node has joined: " + told.ToString());
}

Result<bool> EtcdSession::KeepAlive(std::int64_t lease, Deadline deadline) {
  const auto renewal = etcd_.KeepAlive(lease, deadline);
  if (!renewal.ok()) return renewal.status();
  if (!renewal->is_alive) return false;
  const auto key = etcd_.Get(NodeKey(options_.prefix, options_.uuid), deadline);
  if (!key.ok()) return key.status();
  if (!key->has_value() || (*key)->lease != lease) return false;
  if ((*key)->raft_term != renewal->raft_term) {
    return Status(StatusCode::kUnavailable, "etcd's leader has changed since it renewed the lease");
  }
  return true;
}

void EtcdSession::RunRenewals() {
  while (SleepMs(options_.heartbeat_ms)) Renew();
}

void EtcdSession::Renew() {
  std::int64_t lease = 0;
  {
    const std::lock_guard lock(mutex_);
    lease = lease_;
  }
  const std::uint64_t sent_ns = Clock::Real().MonotonicNs();
  // Two in the time of a lease, so that one may be lost.
  const Deadline deadline = Deadline::AfterMs(EtcdCallMs(options_.lease_ms) / 2);
  Result<bool> renewed = lease == 0 ? Result<bool>(false) : KeepAlive(lease, deadline);
  Status failure = renewed.ok() ? OkStatus() : renewed.status();
  if (renewed.ok() && !*renewed) {
    // What hung on it is gone. This process begins anew, as nobody's coordinator.
    {
      const std::lock_guard lock(mutex_);
      if (lease_ != 0) log::Warn("etcd has let this node's lease go; asking for another one");
      lease_ = 0;
      election_ = 0;
      may_serve_ = false;
    }
    failure = Grant(deadline);
    if (failure == StatusCode::kFailedPrecondition) {
      node_lease_.Revoke();
      log::Error("this node may not serve any more: " + failure.ToString());
      options_.fenced(failure);
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      return;
    }
  }
  std::unique_lock lock(mutex_);
  if (failure.ok() != is_reached_) {
    is_reached_ = failure.ok();
    if (is_reached_) {
      log::Info("etcd is reached again");
    } else {
      log::Warn("this node's lease is not renewed; it serves until that runs out: " +
                failure.ToString());
    }
  }
  failure_ = failure;
  if (!failure.ok() || lease_ == 0) return;
  if (lease_ == lease) renewed_ns_ = sent_ns;
  Extend();
  if (has_told_joined_) return;
  const std::int64_t renewed_lease = lease_;
  lock.unlock();
  (void)PutNodeKey(renewed_lease, deadline);  // Else with the next renewal.
}

Result<std::optional<ElectedNode>> EtcdSession::Elected(Deadline deadline) {
  const auto entry = etcd_.Get(CoordinatorKey(options_.prefix), deadline);
  if (!entry.ok()) return entry.status();
  return ElectedOf(*entry);
}

Result<std::optional<ElectedNode>> EtcdSession::Follow(Deadline deadline) {
  const auto entry = etcd_.Get(CoordinatorKey(options_.prefix), deadline);
  if (!entry.ok()) return entry.status();
  const std::lock_guard lock(mutex_);
  const bool is_this = entry->has_value() && lease_ != 0 && (*entry)->lease == lease_;
  election_ = is_this ? (*entry)->create_revision : 0;
  return ElectedOf(*entry);
}

Result<bool> EtcdSession::OthersHaveJoined(const std::vector<std::string>& uuids,
                                           Deadline deadline) {
  for (const std::string& uuid : uuids) {
    if (uuid == options_.uuid) continue;
    auto entry = etcd_.Get(NodeKey(options_.prefix, uuid), deadline);
    if (!entry.ok()) return entry.status();
    if (entry->has_value() && FlagOf(ParseValue((*entry)->value), "joined")) return true;
  }
  return false;
}

Result<std::optional<ElectedNode>> EtcdSession::Campaign(Deadline deadline) {
  const std::string key = CoordinatorKey(options_.prefix);
  std::int64_t lease = 0;
  {
    const std::lock_guard lock(mutex_);
    lease = lease_;
  }
  if (lease == 0) return Elected(deadline);
  etcdserverpb::TxnRequest request;
  *request.add_compare() = etcd::KeyWasCreatedAt(key, 0);
  *request.add_success() = etcd::Put(key, ValueOf(options_.uuid, options_.incarnation, ""), lease);
  *request.add_success() = etcd::Read(key);
  *request.add_failure() = etcd::Read(key);
  auto answer = etcd_.Txn(request, deadline);
  if (!answer.ok()) return answer.status();
  auto elected = ElectedOf(etcd::EntryOf(*answer, answer->succeeded() ? 1 : 0));
  // Also if it was this call, sent a second time, that found the key of its first.
  const bool is_this = elected.has_value() && elected->uuid == options_.uuid &&
                       elected->incarnation == options_.incarnation;
  const std::lock_guard lock(mutex_);
  if (is_this && lease_ == lease) election_ = elected->revision;
  return elected;
}

Status EtcdSession::Announce(const std::string& address, Deadline deadline) {
  const std::string key = CoordinatorKey(options_.prefix);
  std::int64_t lease = 0;
  std::int64_t election = 0;
  {
    const std::lock_guard lock(mutex_);
    lease = lease_;
    election = election_;
  }
  if (lease != 0 && election != 0) {
    etcdserverpb::TxnRequest request;
    *request.add_compare() = etcd::KeyWasCreatedAt(key, election);
    *request.add_success() =
        etcd::Put(key, ValueOf(options_.uuid, options_.incarnation, address), lease);
    auto answer = etcd_.Txn(request, deadline);
    if (!answer.ok()) return answer.status();
    if (answer->succeeded()) return OkStatus();
  }
  return Status(StatusCode::kAborted, "this node is not the coordinator any more");
}

Status EtcdSession::Dismiss(const ElectedNode& elected, Deadline deadline) {
  const std::string key = CoordinatorKey(options_.prefix);
  etcdserverpb::TxnRequest request;
  *request.add_compare() = etcd::KeyWasCreatedAt(key, elected.revision);
  *request.add_success() = etcd::Delete(key);
  return etcd_.Txn(request, deadline).status();
}

void EtcdSession::Resign(Deadline deadline) {
  const std::string key = CoordinatorKey(options_.prefix);
  std::int64_t election = 0;
  {
    const std::lock_guard lock(mutex_);
    std::swap(election, election_);
  }
  if (election == 0) return;
  etcdserverpb::TxnRequest request;
  *request.add_compare() = etcd::KeyWasCreatedAt(key, election);
  *request.add_success() = etcd::Delete(key);
  const auto answer = etcd_.Txn(request, deadline);
  if (!answer.ok()) {
    log::Warn("etcd has not heard that this node resigns: " + answer.status().ToString());
  }
}

std::int64_t EtcdSession::election() const {
  const std::lock_guard lock(mutex_);
  const std::uint64_t until_ns = renewed_ns_ + options_.lease_ms * 1'000'000ull;
  return Clock::Real().MonotonicNs() < until_ns ? election_ : 0;
}

Status EtcdSession::CheckReached() const {
  const std::lock_guard lock(mutex_);
  const std::uint64_t silent_ns = Clock::Real().MonotonicNs() - renewed_ns_;
  if (silent_ns < options_.lease_ms * 1'000'000ull) return OkStatus();
  return Status(StatusCode::kUnavailable,
                etcd_.Describe() + " has not renewed this node's lease for " +
                    std::to_string(silent_ns / 1'000'000'000) + " s: it serves no data" +
                    (failure_.ok() ? std::string() : "; " + std::string(failure_.what())),
                "see: etcdctl endpoint health");
}

std::string EtcdSession::Describe() const {
  return etcd_.Describe() + " below '" + options_.prefix + "'";
}

}  // namespace tidepool::daemon
