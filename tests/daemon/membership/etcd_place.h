// Keys of a test's own in a real etcd, with a session that is elected there.
#pragma once

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "daemon/membership/etcd_session.h"
#include "daemon/membership/etcd_store.h"
#include "proto/cluster_file/random.h"
#include "tests/integration/etcd_harness.h"

namespace tidepool::daemon {

inline constexpr std::uint64_t kEtcdPatienceMs = 20'000;

inline Deadline EtcdPatience() { return Deadline::AfterMs(kEtcdPatienceMs); }

class EtcdPlace {
 public:
  // A lease that no slow machine lets run out, unless a test wants that.
  explicit EtcdPlace(testing::TestEtcd& etcd = testing::TestEtcd::Shared(),
                     std::uint32_t lease_ms = 60'000)
      : EtcdPlace(etcd.endpoint_list(), lease_ms) {}
  EtcdPlace(const std::vector<std::string>& endpoints, std::uint32_t lease_ms)
      : lease_ms_(lease_ms) {
    auto made = etcd::Client::Create(endpoints, ChannelSecurity());
    REQUIRE(made.ok());
    client_ = *std::move(made);
  }

  std::unique_ptr<EtcdSession> NewSession(Lease* lease, const std::string& uuid,
                                          std::uint64_t incarnation = 1) {
    EtcdSessionOptions options;
    options.prefix = prefix_;
    options.uuid = uuid;
    options.incarnation = incarnation;
    options.lease_ms = lease_ms_;
    options.heartbeat_ms = 50;
    options.fenced = [this](const Status& why) { fenced = why; };
    return std::make_unique<EtcdSession>(client_.get(), lease, std::move(options));
  }
  // The election of this place's own session, which is begun at the first call.
  std::int64_t Elect() {
    if (session_ == nullptr) {
      session_ = NewSession(&lease_, cluster_file::MakeUuid());
      REQUIRE(session_->Begin(EtcdPatience()).ok());
    }
    const auto elected = session_->Campaign(EtcdPatience());
    INFO(elected.status().ToString());
    REQUIRE(elected.ok());
    REQUIRE(session_->election() != 0);
    return session_->election();
  }
  std::unique_ptr<EtcdStore> Open(std::size_t part_bytes = 1 << 20) {
    return OpenFor(Elect(), part_bytes);
  }
  std::unique_ptr<EtcdStore> OpenFor(std::int64_t election, std::size_t part_bytes = 1 << 20) {
    return std::make_unique<EtcdStore>(client_.get(), prefix_, election, lease_ms_, part_bytes);
  }
  EtcdSession& session() { return *session_; }
  etcd::Client& client() { return *client_; }
  const std::string& prefix() const { return prefix_; }

  Status fenced;  // Written by a session's thread: read it when that has ended.

 private:
  const std::uint32_t lease_ms_;
  const std::string prefix_ = "/test/" + cluster_file::MakeUuid();
  std::unique_ptr<etcd::Client> client_;
  Lease lease_;
  std::unique_ptr<EtcdSession> session_;
};

}  // namespace tidepool::daemon
