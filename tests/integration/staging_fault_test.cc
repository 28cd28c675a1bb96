// Staging when callers and daemons die, and when files cannot be read.
#include <fcntl.h>
#include <grpcpp/channel.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>

#include "proto/base/status.h"
#include "tests/integration/staging_fixture.h"
#include "tidepool/v1/cluster.pb.h"
#include "tidepool/v1/staging.grpc.pb.h"

namespace tidepool::testing {
namespace {

TestClusterOptions ThreeNodes() {
  TestClusterOptions options;
  options.nodes = 3;
  options.memory = "128MiB";
  options.lease_ms = 5'000;
  return options;
}

// Makes a source; each of three daemons owns about a third of it.
void Fill(const test::ScratchDirectory& source) {
  for (int i = 0; i < 2'000; ++i) source.Write("f" + std::to_string(i), "content");
}

TEST_CASE("AJobGoesOnWithoutItsCallerWhoMayComeBack") {
  StagingCluster staging(ThreeNodes());
  staging.CreateNamespace("tree");
  const test::ScratchDirectory source;
  Fill(source);
  const auto request = staging.Request(kIn, "tree", source.path(), {.probe = ""});
  // A daemon stands still, so that the job cannot end before the caller is gone.
  v1::StartStageResponse started;
  REQUIRE(staging.Start(request, &started).ok());
  staging.cluster().Suspend(1);
  {
    // The caller is killed: its stream breaks without a word.
    grpc::ClientContext call;
    staging.cluster().Prepare(&call);
    v1::WatchStageRequest watch;
    watch.set_job(started.job());
    const auto stub = v1::Staging::NewStub(staging.cluster().channel(0));
    auto stream = stub->Watch(&call, watch);
    v1::StageProgress progress;
    REQUIRE(stream->Read(&progress));
    call.TryCancel();
    (void)stream->Finish();
  }
  v1::StartStageResponse again;
  const grpc::Status status = staging.Start(request, &again);
  staging.cluster().Resume(1);
  const v1::StageProgress end = staging.Watch(started.job());
  INFO(Failures(end));
  CHECK(end.code() == 0);
  CHECK(end.files_done() == 2'000);
  // The job may have ended before the daemon stood still. Then this is a new job that moves
  // nothing.
  REQUIRE(status.ok());
  if (again.attached()) {
    CHECK(again.job() == started.job());
  } else {
    CHECK(staging.Watch(again.job()).files_done() == 0);
  }
}

TEST_CASE("ADaemonThatIsKilledFailsTheJobByName") {
  StagingCluster staging(ThreeNodes());
  staging.CreateNamespace("tree");
  const test::ScratchDirectory source;
  Fill(source);
  const std::size_t victim = staging.cluster().coordinator_index() == 2 ? 1 : 2;
  const std::size_t asked = staging.cluster().coordinator_index();
  const auto request = staging.Request(kIn, "tree", source.path(), {.probe = ""});
  v1::StartStageResponse started;
  REQUIRE(staging.Start(request, &started, asked).ok());
  const std::string name = "node " + std::to_string(staging.cluster().node_id(victim));
  staging.cluster().Kill(victim);
  const v1::StageProgress end = staging.Watch(started.job(), asked);
  INFO(Failures(end));
  if (end.code() == 0) {
    // It was done before the kill: the next job cannot be.
    v1::StartStageResponse again;
    const grpc::Status status = staging.Start(request, &again, asked);
    if (status.ok() && !again.job().empty()) {
      const v1::StageProgress second = staging.Watch(again.job(), asked);
      CHECK(second.code() == static_cast<std::uint32_t>(StatusCode::kUnavailable));
      CHECK(Failures(second).find(name) != std::string::npos);
    } else {
      CHECK(status.error_code() == grpc::StatusCode::UNAVAILABLE);
      CHECK(status.error_message().find(name) != std::string::npos);
    }
  } else {
    // A change that was under way at that moment is honestly unknown.
    const auto code = static_cast<StatusCode>(end.code());
    INFO(end.message());
    CHECK((code == StatusCode::kUnavailable || code == StatusCode::kUnknown));
    CHECK((Failures(end) + end.message()).find(name) != std::string::npos);
  }
}

// Starts the job and watches it until some files are done and some are not. Returns "" if it ended
// before.
std::string StartAndReachTheMiddle(StagingCluster& staging, const v1::StartStageRequest& request,
                                   std::size_t asked) {
  v1::StartStageResponse started;
  REQUIRE(staging.Start(request, &started, asked).ok());
  grpc::ClientContext call;
  staging.cluster().Prepare(&call, kPatienceMs);
  v1::WatchStageRequest watch;
  watch.set_job(started.job());
  const auto stub = v1::Staging::NewStub(staging.cluster().channel(asked));
  const auto stream = stub->Watch(&call, watch);
  v1::StageProgress progress;
  bool middle = false;
  while (!middle && stream->Read(&progress)) {
    if (progress.done()) break;
    // At most half: each daemon has some left to do.
    middle = progress.files_done() > 0 && progress.files_done() * 2 < progress.files_total();
  }
  call.TryCancel();
  (void)stream->Finish();
  return middle ? started.job() : "";
}

// Kills `victim` in the middle of a job, which must then fail and name it. `prepare` makes work for
// a job and returns its request. If a job ends before its middle was seen, another follows.
void KillInTheMiddle(StagingCluster& staging,
                     const std::function<v1::StartStageRequest(int)>& prepare, std::size_t asked,
                     std::size_t victim) {
  constexpr int kAttempts = 5;
  const std::string name = "node " + std::to_string(staging.cluster().node_id(victim));
  std::string job;
  for (int attempt = 0; attempt < kAttempts && job.empty(); ++attempt) {
    job = StartAndReachTheMiddle(staging, prepare(attempt), asked);
  }
  REQUIRE(!job.empty());
  staging.cluster().Kill(victim);
  const v1::StageProgress end = staging.Watch(job, asked);
  INFO(Failures(end) << end.message());
  REQUIRE(end.code() != 0);
  // The job loses a node, and never the claim that this node kept.
  CHECK(end.code() != static_cast<std::uint32_t>(StatusCode::kAborted));
  CHECK((Failures(end) + end.message()).find(name) != std::string::npos);
}

// Enough that a job takes a second, with five reports of progress.
constexpr int kManyFiles = 30'000;

TEST_CASE("WhatAKilledDaemonLeftOfAStageInIsFinishedByASecondRun") {
  StagingCluster staging(ThreeNodes());
  staging.CreateNamespace("tree", "empty");
  const test::ScratchDirectory source;
  const test::ScratchDirectory target;
  MakeOddTree(source, 0);
  const std::size_t asked = staging.cluster().coordinator_index();
  const std::size_t victim = asked == 2 ? 1 : 2;
  const auto request = staging.Request(kIn, "tree", source.path(), {.probe = ""});
  const auto more = [&](int attempt) {
    const std::string folder = "more" + std::to_string(attempt) + "/";
    for (int i = 0; i < kManyFiles; ++i) source.Write(folder + std::to_string(i), "content");
    return request;
  };
  KillInTheMiddle(staging, more, asked, victim);
  // Not a word of success while it is incomplete.
  v1::StartStageResponse refused;
  CHECK(staging.Start(request, &refused, asked).error_code() == grpc::StatusCode::UNAVAILABLE);

  staging.cluster().Start(victim);
  REQUIRE(staging.cluster().WaitForNodeState(victim, v1::NODE_STATE_UP, asked));
  const v1::StageProgress again = staging.Run(kIn, "tree", source.path(), {.probe = ""});
  INFO(Failures(again) << again.message());
  REQUIRE(again.code() == 0);
  CHECK(again.files_skipped() > 0);  // Files on the other nodes.
  const v1::StageProgress out = staging.Run(kOut, "tree", target.path());
  INFO(Failures(out) << out.message());
  REQUIRE(out.code() == 0);
  CHECK(Difference(source, target).empty());
}

TEST_CASE("WhatAKilledDaemonLeftOfAStageOutIsFinishedByASecondRun") {
  StagingCluster staging(ThreeNodes());
  staging.CreateNamespace("tree", "empty");
  const test::ScratchDirectory source;
  const test::ScratchDirectory target;
  MakeOddTree(source, kManyFiles);
  REQUIRE(staging.Run(kIn, "tree", source.path(), {.probe = ""}).code() == 0);
  const std::size_t asked = staging.cluster().coordinator_index();
  const std::size_t victim = asked == 2 ? 1 : 2;
  const auto clear = [&](int /*attempt*/) {
    for (const auto& entry : std::filesystem::directory_iterator(target.path())) {
      std::filesystem::remove_all(entry.path());
    }
    return staging.Request(kOut, "tree", target.path());
  };
  KillInTheMiddle(staging, clear, asked, victim);

  staging.cluster().Start(victim);
  REQUIRE(staging.cluster().WaitForNodeState(victim, v1::NODE_STATE_UP, asked));
  // Its memory is lost. A stage-out of the rest would look complete.
  const v1::StageProgress less = staging.Run(kOut, "tree", target.path());
  CHECK(less.code() == static_cast<std::uint32_t>(StatusCode::kDataLoss));
  const v1::StageProgress in = staging.Run(kIn, "tree", source.path(), {.probe = ""});
  INFO(Failures(in) << in.message());
  REQUIRE(in.code() == 0);
  CHECK(in.files_skipped() > 0);
  const v1::StageProgress out = staging.Run(kOut, "tree", target.path());
  INFO(Failures(out) << out.message());
  REQUIRE(out.code() == 0);
  CHECK(out.files_skipped() > 0);
  CHECK(Difference(source, target).empty());
}

std::size_t NamesOfStaging(const test::ScratchDirectory& tree) {
  std::size_t names = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(tree.path())) {
    if (entry.path().filename().string().rfind(".tidepool-stage-", 0) == 0) ++names;
  }
  return names;
}

TEST_CASE("ADaemonThatIsKilledInAStageOutLeavesNoHalfFiles") {
  StagingCluster staging(ThreeNodes());
  staging.CreateNamespace("tree");
  const test::ScratchDirectory source;
  const test::ScratchDirectory target;
  Fill(source);
  REQUIRE(staging.Run(kIn, "tree", source.path(), {.probe = ""}).code() == 0);
  const std::size_t asked = staging.cluster().coordinator_index();
  v1::StartStageResponse started;
  REQUIRE(staging.Start(staging.Request(kOut, "tree", target.path()), &started, asked).ok());
  staging.cluster().Kill(asked == 2 ? 1 : 2);
  const v1::StageProgress end = staging.Watch(started.job(), asked);
  INFO(Failures(end));
  // Every file that has its name is complete, whatever the moment of the kill.
  CHECK((end.code() != 0 || end.files_done() == 2'000));
  CHECK(NamesOfStaging(target) == 0);
  for (const auto& entry : std::filesystem::directory_iterator(target.path())) {
    CHECK(target.Read(entry.path().filename().string()) == "content");
  }
}

TEST_CASE("ACancelledJobSaysSo") {
  StagingCluster staging(ThreeNodes());
  staging.CreateNamespace("tree");
  const test::ScratchDirectory source;
  Fill(source);
  v1::StartStageResponse started;
  REQUIRE(staging.Start(staging.Request(kIn, "tree", source.path(), {.probe = ""}), &started).ok());
  grpc::ClientContext call;
  staging.cluster().Prepare(&call);
  v1::CancelStageRequest cancel;
  cancel.set_job(started.job());
  v1::CancelStageResponse cancelled;
  const auto stub = v1::Staging::NewStub(staging.cluster().channel(0));
  REQUIRE(stub->Cancel(&call, cancel, &cancelled).ok());
  const v1::StageProgress end = staging.Watch(started.job());
  CHECK((end.code() == static_cast<std::uint32_t>(StatusCode::kCancelled) || end.code() == 0));
  // Finished files stay; the next run does the rest.
  const v1::StageProgress next = staging.Run(kIn, "tree", source.path(), {.probe = ""});
  INFO(Failures(next));
  CHECK(next.code() == 0);
  CHECK(next.files_done() + next.files_skipped() == 2'000);
}

TEST_CASE("AFileThatCannotBeReadFailsByNameAndTheOthersGoOn") {
  // Root reads everything, unless the daemons are started without that right.
  prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE);
  prctl(PR_CAPBSET_DROP, CAP_DAC_READ_SEARCH);
  TestClusterOptions options;
  options.memory = "128MiB";
  StagingCluster staging(options);
  staging.CreateNamespace("tree");
  const test::ScratchDirectory source;
  source.Write("good", "1");
  source.Write("secret", "2");
  source.Write("closed/inside", "3");
  chmod((source / "secret").c_str(), 0000);
  chmod((source / "closed").c_str(), 0000);
  const v1::StageProgress in = staging.Run(kIn, "tree", source.path());
  CHECK(in.code() == static_cast<std::uint32_t>(StatusCode::kPermissionDenied));
  CHECK(in.failures_total() == 2);
  CHECK(Failures(in).find("secret: ") != std::string::npos);
  CHECK(Failures(in).find("closed: ") != std::string::npos);
  CHECK(staging.Get("tree", "good") == "1");
  chmod((source / "closed").c_str(), 0700);
}

// Asks each node until the owner of the namespace's mark answers. `keeper`: the node that did.
v1::ClaimStageResponse Claim(StagingCluster& staging, const v1::ClaimStageRequest& request,
                             std::size_t* keeper = nullptr) {
  for (std::size_t node = 0; node < staging.cluster().size(); ++node) {
    grpc::ClientContext call;
    staging.cluster().Prepare(&call);
    v1::ClaimStageResponse response;
    const auto stub = v1::Staging::NewStub(staging.cluster().channel(node));
    if (!stub->Claim(&call, request, &response).ok()) continue;
    if (keeper != nullptr) *keeper = node;
    return response;
  }
  FAIL("nobody owns the mark");
  return {};
}

// Runs a job as soon as no other job runs.
v1::StageProgress RunWhenFree(StagingCluster& staging, const v1::StartStageRequest& request) {
  v1::StartStageResponse started;
  REQUIRE(WaitUntil([&] {
    const grpc::Status status = staging.Start(request, &started);
    return status.ok() || status.error_code() != grpc::StatusCode::FAILED_PRECONDITION;
  }));
  return staging.Watch(started.job());
}

TEST_CASE("ARunnerThatFallsSilentIsForgottenAndUntilThenNamed") {
  StagingCluster staging(ThreeNodes());
  staging.CreateNamespace("tree");
  const test::ScratchDirectory source;
  source.Write("f", "content");
  v1::StartStageRequest request = staging.Request(kIn, "tree", source.path(), {.probe = ""});
  v1::ClaimStageRequest claim;
  claim.set_job("00000000000000aa");
  *claim.mutable_request() = request;
  claim.set_host("elsewhere");
  REQUIRE(Claim(staging, claim).granted());
  const Deadline began = Deadline::AfterMs(kPatienceMs);
  for (std::size_t node = 0; node < 3; ++node) {
    v1::StartStageResponse started;
    const grpc::Status status = staging.Start(request, &started, node);
    CHECK(status.error_code() == grpc::StatusCode::FAILED_PRECONDITION);
    CHECK(status.error_message().find("00000000000000aa") != std::string::npos);
    CHECK(status.error_message().find("elsewhere") != std::string::npos);
  }
  CHECK(Failures(RunWhenFree(staging, request)).empty());
  const std::uint64_t waited_ms = kPatienceMs - began.LeftNs() / 1'000'000;
  CHECK(waited_ms > 5'000);
  // It has lost the claim for good, although no job has it now.
  claim.set_renew(true);
  claim.set_held_ms(kPatienceMs);
  CHECK_FALSE(Claim(staging, claim).granted());
  // The claim was no record, and no change that stopping would lose.
  CHECK(staging.Length("tree") == 1);
  CHECK(staging.Unsaved().empty());
  for (const std::string& key : staging.Keys("tree", true)) {
    CHECK(key.find("00aa") == std::string::npos);
  }
}

TEST_CASE("AStageOutKeepsItsClaimWhenTheNodeDiesThatKeptIt") {
  StagingCluster staging(ThreeNodes());
  staging.CreateNamespace("tree");
  v1::ClaimStageRequest claim;
  claim.set_job("00000000000000aa");
  claim.mutable_request()->set_namespace_("tree");
  claim.mutable_request()->set_direction(kOut);
  claim.set_host("elsewhere");
  std::size_t keeper = 0;
  REQUIRE(Claim(staging, claim, &keeper).granted());
  staging.cluster().Kill(keeper);
  // A new keeper learns the claim, and the time that the job has run.
  claim.set_renew(true);
  claim.set_mark_is_missing(true);
  claim.set_held_ms(5'000);
  REQUIRE(Claim(staging, claim).granted());
  v1::ClaimStageRequest other = claim;
  other.set_job("00000000000000bb");
  other.set_renew(false);
  const v1::ClaimStageResponse refused = Claim(staging, other);
  CHECK_FALSE(refused.granted());
  CHECK(refused.holder().job() == "00000000000000aa");
}

TEST_CASE("AJobIsFoundFromEveryNodeAndAnotherIsRefused") {
  StagingCluster staging(ThreeNodes());
  bool seen_other = false;
  bool seen_same = false;
  for (int files = 5'000; files <= 80'000 && !(seen_other && seen_same); files *= 4) {
    const std::string space = "tree" + std::to_string(files);
    staging.CreateNamespace(space);
    const test::ScratchDirectory source;
    for (int i = 0; i < files; ++i) source.Write("f" + std::to_string(i), "content");
    const auto request = staging.Request(kIn, space, source.path(), {.probe = ""});
    auto different = request;
    different.set_checksum(true);
    v1::StartStageResponse first;
    REQUIRE(staging.Start(request, &first, 0).ok());
    v1::StartStageResponse same;
    const grpc::Status found = staging.Start(request, &same, 1);
    v1::StartStageResponse other;
    const grpc::Status refused = staging.Start(different, &other, 2);
    INFO(found.error_message() << " / " << refused.error_message());
    REQUIRE(found.ok());
    // Each may have come after the first job's end; then it is a new job.
    if (same.attached()) {
      seen_same = true;
      CHECK(same.job() == first.job());
      CHECK(same.control_address() == staging.cluster().address(0));
    }
    if (refused.error_code() == grpc::StatusCode::FAILED_PRECONDITION) {
      seen_other = true;
      const std::string& running = same.job();
      CHECK(refused.error_message().find(running) != std::string::npos);
    } else {
      REQUIRE(refused.ok());
      CHECK(staging.Watch(other.job(), 2).code() == 0);
    }
    CHECK(staging.Watch(first.job(), 0).files_done() == static_cast<std::uint64_t>(files));
    if (!same.attached()) CHECK(staging.Watch(same.job(), 1).code() == 0);
  }
  CHECK(seen_other);
  CHECK(seen_same);
}

}  // namespace
}  // namespace tidepool::testing
