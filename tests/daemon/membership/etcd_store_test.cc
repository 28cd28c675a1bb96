// Properties of etcd as a store: only the elected node changes the state, and several may try.
#include "daemon/membership/etcd_store.h"

#include <catch2/catch.hpp>

#include "tests/daemon/membership/etcd_place.h"
#include "tests/daemon/membership/example_state.h"

namespace tidepool::daemon {
namespace {

using testing::TestEtcd;
using testing::WaitUntil;

Epoch EpochIn(EtcdPlace* place) {
  const auto loaded = place->OpenFor(0)->Load();
  INFO(loaded.status().ToString());
  REQUIRE(loaded.ok());
  return loaded->has_value() ? (*loaded)->map.epoch : Epoch(0);
}

TEST_CASE("ACoordinatorThatIsNotElectedAnyMoreChangesNothing") {
  EtcdPlace place;
  const std::int64_t first = place.Elect();
  const auto former = place.OpenFor(first);
  REQUIRE(former->Save(ExampleState(1), Epoch(0)).ok());
  place.session().Resign(EtcdPatience());
  CHECK(place.session().election() == 0);
  const std::int64_t second = place.Elect();
  CHECK(second > first);
  const auto present = place.OpenFor(second);
  REQUIRE(present->Load().ok());

  // It has seen the newest state, and only its election is over.
  const Status late = former->Save(ExampleState(2), Epoch(1));
  CHECK(late == StatusCode::kUnavailable);
  CHECK(late.what().find("not the coordinator any more") != std::string::npos);
  CHECK(EpochIn(&place) == Epoch(1));
  CHECK(former->Retire() == StatusCode::kUnavailable);
  CHECK(EpochIn(&place) == Epoch(1));

  REQUIRE(present->Save(ExampleState(2), Epoch(1)).ok());
  CHECK(former->Save(ExampleState(3), Epoch(1)) == StatusCode::kUnavailable);
  CHECK(EpochIn(&place) == Epoch(2));
}

TEST_CASE("NorDoesItLeavePartsOfALargeState") {
  EtcdPlace place;
  const auto former = place.OpenFor(place.Elect(), 100);
  REQUIRE(former->Save(ExampleState(1), Epoch(0)).ok());
  place.session().Resign(EtcdPatience());
  const auto present = place.OpenFor(place.Elect(), 100);
  REQUIRE(present->Load().ok());
  REQUIRE(present->Save(ExampleState(2), Epoch(1)).ok());
  CHECK(former->Save(ExampleState(2), Epoch(1)) == StatusCode::kUnavailable);
  CHECK(EpochIn(&place) == Epoch(2));
  // Keys of the newest state only.
  const std::string keys =
      TestEtcd::Shared().Ctl({"get", "--prefix", "--keys-only", place.prefix() + "/state/"});
  CHECK(keys.find("/00000000000000000002/") != std::string::npos);
  CHECK(keys.find("/00000000000000000001/") == std::string::npos);
}

TEST_CASE("TheHeadOfAStateInPartsNamesOneSaveOnly") {
  EtcdPlace places[2];
  std::string heads[2];
  for (int i = 0; i < 2; ++i) {
    REQUIRE(places[i].OpenFor(places[i].Elect(), 100)->Save(ExampleState(1), Epoch(0)).ok());
    heads[i] = TestEtcd::Shared().Ctl({"get", "--print-value-only", places[i].prefix() + "/state"});
    CHECK(heads[i].find("parts 1 ") != std::string::npos);
  }
  CHECK(heads[0] != heads[1]);
}

TEST_CASE("AStateThatSomebodyElseHasWrittenIsNotOverwritten") {
  EtcdPlace place;
  const auto store = place.Open();
  REQUIRE(store->Save(ExampleState(1), Epoch(0)).ok());
  REQUIRE(TestEtcd::Shared().Ctl({"put", place.prefix() + "/state", "by hand"}).find("OK") == 0);
  CHECK(store->Save(ExampleState(2), Epoch(1)) == StatusCode::kAborted);
  CHECK(store->must_reload());
  const auto loaded = place.OpenFor(0)->Load();
  CHECK(loaded.code() == StatusCode::kDataLoss);
  CHECK(loaded.status().what().find(place.prefix()) != std::string::npos);
}

TEST_CASE("WithoutEtcdEveryCallEndsAndSaysSo") {
  TestEtcd etcd;
  EtcdPlace place(etcd, 1500);
  const auto store = place.Open();
  REQUIRE(store->Save(ExampleState(1), Epoch(0)).ok());
  etcd.Suspend(0);
  const Status unknown = store->Save(ExampleState(2), Epoch(1));
  CHECK(unknown == StatusCode::kUnknown);
  CHECK(unknown.what().find(etcd.endpoints()) != std::string::npos);
  // Until it has been looked at again, nothing more is saved.
  CHECK(store->must_reload());
  CHECK(store->Save(ExampleState(2), Epoch(1)) == StatusCode::kUnavailable);
  CHECK_FALSE(place.OpenFor(0)->Load().ok());
  etcd.Resume(0);
  etcd.WaitHealthy();
  const Epoch there = EpochIn(&place);
  CHECK((there == Epoch(1) || there == Epoch(2)));
  etcd.Kill(0);
  const auto dead = place.OpenFor(0)->Load();
  CHECK((dead.code() == StatusCode::kUnavailable || dead.code() == StatusCode::kDeadlineExceeded));
}

TEST_CASE("OfSeveralCandidatesOneIsElected") {
  EtcdPlace place;
  Lease leases[3];
  std::vector<std::unique_ptr<EtcdSession>> sessions;
  int elected = 0;
  for (Lease& lease : leases) {
    sessions.push_back(place.NewSession(&lease, cluster_file::MakeUuid()));
    REQUIRE(sessions.back()->Begin(EtcdPatience()).ok());
    REQUIRE(sessions.back()->Campaign(EtcdPatience()).ok());
    elected += sessions.back()->election() != 0 ? 1 : 0;
  }
  CHECK(elected == 1);
  REQUIRE(sessions[0]->Announce("127.0.0.1:1", EtcdPatience()).ok());
  CHECK(sessions[1]->Announce("127.0.0.1:2", EtcdPatience()) == StatusCode::kAborted);
  const auto who = sessions[2]->Elected(EtcdPatience());
  REQUIRE(who.ok());
  REQUIRE(who->has_value());
  CHECK((*who)->address == "127.0.0.1:1");
  sessions[0]->End(EtcdPatience());  // With the lease the election goes.
  REQUIRE(sessions[1]->Campaign(EtcdPatience()).ok());
  CHECK(sessions[1]->election() > (*who)->revision);
}

TEST_CASE("ACampaignWhoseAnswerWasLostIsWonAllTheSame") {
  EtcdPlace place;
  Lease lease;
  const std::string uuid = cluster_file::MakeUuid();
  const auto session = place.NewSession(&lease, uuid);
  REQUIRE(session->Begin(EtcdPatience()).ok());
  const auto node = place.client().Get(NodeKey(place.prefix(), uuid), EtcdPatience());
  REQUIRE((node.ok() && node->has_value()));
  etcdserverpb::TxnRequest request;
  *request.add_success() =
      etcd::Put(CoordinatorKey(place.prefix()), "as campaigns do", (*node)->lease);
  REQUIRE(place.client().Txn(request, EtcdPatience()).ok());
  CHECK(session->election() == 0);
  const auto elected = session->Follow(EtcdPatience());
  REQUIRE((elected.ok() && elected->has_value()));
  CHECK(session->election() == (*elected)->revision);
  CHECK(session->Announce("127.0.0.1:1", EtcdPatience()).ok());
  // And lost when its key is gone, though the lease is not.
  REQUIRE(place.client()
              .Txn(
                  [&] {
                    etcdserverpb::TxnRequest removal;
                    *removal.add_success() = etcd::Delete(CoordinatorKey(place.prefix()));
                    return removal;
                  }(),
                  EtcdPatience())
              .ok());
  REQUIRE(session->Follow(EtcdPatience()).ok());
  CHECK(session->election() == 0);
}

// The other members have ended the lease meanwhile.
TEST_CASE("ALeaderOfEtcdThatWakesUpRenewsNoLeaseThatIsGone") {
  TestEtcd etcd(3);
  const std::size_t leader = etcd.Leader();
  EtcdPlace place({etcd.endpoint_list()[leader]}, 1000);
  EtcdPlace others({etcd.endpoint_list()[(leader + 1) % 3], etcd.endpoint_list()[(leader + 2) % 3]},
                   1000);
  Lease lease;
  const std::string uuid = cluster_file::MakeUuid();
  const auto session = place.NewSession(&lease, uuid);
  const auto now_ns = [] { return Clock::Real().MonotonicNs(); };
  REQUIRE(session->Begin(EtcdPatience()).ok());
  session->OnAnswered(now_ns());
  CHECK(WaitUntil([&] { return lease.ValidAt(now_ns()); }));
  const std::string key = NodeKey(place.prefix(), uuid);
  const auto before = others.client().Get(key, EtcdPatience());
  REQUIRE((before.ok() && before->has_value()));
  etcd.Suspend(leader);
  CHECK(WaitUntil([&] {
    const auto found = others.client().Get(key, Deadline::AfterMs(1000));
    return found.ok() && !found->has_value();
  }));
  CHECK_FALSE(lease.ValidAt(now_ns()));
  etcd.Resume(leader);
  bool has_served = false;
  CHECK(WaitUntil([&] {
    has_served = has_served || lease.ValidAt(now_ns());
    const auto found = others.client().Get(key, Deadline::AfterMs(1000));
    return found.ok() && found->has_value() && (*found)->lease != (*before)->lease;
  }));
  CHECK_FALSE(has_served);
}

TEST_CASE("ANodeServesOnlyAfterACoordinatorHasAnsweredItAndWhileEtcdRenews") {
  TestEtcd etcd;
  EtcdPlace place(etcd, 1000);
  Lease lease;
  const auto session = place.NewSession(&lease, cluster_file::MakeUuid());
  const auto now_ns = [] { return Clock::Real().MonotonicNs(); };
  REQUIRE(session->Begin(EtcdPatience()).ok());
  CHECK_FALSE(lease.ValidAt(now_ns()));
  const std::uint64_t before_ns = now_ns();
  session->OnAnswered(before_ns);
  CHECK(WaitUntil([&] { return lease.until_ns() > before_ns + 1'000'000'000; }));
  etcd.Suspend(0);
  CHECK(WaitUntil([&] { return !lease.ValidAt(now_ns()); }));
  CHECK(session->CheckReached() == StatusCode::kUnavailable);
  // It comes back before etcd has ended the lease, or after. After the end it requests another
  // lease, and serves when a coordinator has answered again.
  etcd.Resume(0);
  CHECK(WaitUntil([&] {
    session->OnAnswered(now_ns());
    return session->CheckReached().ok() && lease.ValidAt(now_ns());
  }));
}

TEST_CASE("ALeaseThatEtcdHasLetGoIsAskedForAnewAndServesNothingByItself") {
  EtcdPlace place;
  Lease lease;
  const std::string uuid = cluster_file::MakeUuid();
  const auto session = place.NewSession(&lease, uuid);
  REQUIRE(session->Begin(EtcdPatience()).ok());
  REQUIRE(session->Campaign(EtcdPatience()).ok());
  const std::int64_t election = session->election();
  CHECK(election != 0);
  TestEtcd& etcd = TestEtcd::Shared();
  const std::string key = NodeKey(place.prefix(), uuid);
  const auto before = place.client().Get(key, EtcdPatience());
  REQUIRE((before.ok() && before->has_value()));
  // As if this process had been paused for longer than its lease.
  const std::string shown = etcd.Ctl({"lease", "list"});
  bool is_gone = false;
  for (std::size_t at = 0; !is_gone && at < shown.size();) {
    const std::size_t end = std::min(shown.find('\n', at), shown.size());
    const std::string id = shown.substr(at, end - at);
    at = end + 1;
    if (id.find_first_not_of("0123456789abcdef") != std::string::npos || id.empty()) continue;
    if (etcd.Ctl({"lease", "timetolive", "--keys", id}).find(key) == std::string::npos) continue;
    is_gone = !etcd.Ctl({"lease", "revoke", id}).empty();
  }
  REQUIRE(is_gone);
  CHECK(WaitUntil([&] {
    const auto now = place.client().Get(key, EtcdPatience());
    return now.ok() && now->has_value() && (*now)->create_revision > (*before)->create_revision;
  }));
  CHECK(session->election() == 0);
  CHECK_FALSE(lease.ValidAt(Clock::Real().MonotonicNs()));
}

TEST_CASE("TheOlderProcessOfANodeIsFenced") {
  EtcdPlace place(TestEtcd::Shared(), 1000);
  const std::string uuid = cluster_file::MakeUuid();
  Lease leases[2];
  const auto newer = place.NewSession(&leases[0], uuid, 2);
  REQUIRE(newer->Begin(EtcdPatience()).ok());
  const Status refused = place.NewSession(&leases[1], uuid, 1)->Begin(EtcdPatience());
  CHECK(refused == StatusCode::kFailedPrecondition);
  CHECK(refused.what().find("incarnation 2, not 1") != std::string::npos);
  const auto newest = place.NewSession(&leases[1], uuid, 3);
  CHECK(newest->Begin(EtcdPatience()).ok());
}

TEST_CASE("EndpointsThatAreNoneAreRefusedByName") {
  for (const std::string endpoint : {"", "127.0.0.1:2379", "http://", "http://host", "ftp://h:1"}) {
    const Status refused = etcd::Client::CheckEndpoints({endpoint}, false);
    CHECK(refused == StatusCode::kInvalidArgument);
    CHECK(refused.what().find("'" + endpoint + "'") != std::string::npos);
  }
  CHECK_FALSE(etcd::Client::CheckEndpoints({}, false).ok());
  CHECK(etcd::Client::CheckEndpoints({"https://host:2379"}, false).remedy().find("--etcd-ca") !=
        std::string::npos);
  CHECK(etcd::Client::CheckEndpoints({"https://host:2379", "http://[::1]:1"}, true).ok());
}

}  // namespace
}  // namespace tidepool::daemon
