// Directories in and out of real daemons.
#include <grpcpp/client_context.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <thread>

#include "proto/base/key_hash.h"
#include "proto/base/status.h"
#include "proto/convert/staged_keys.h"
#include "proto/manifest/entry.h"
#include "proto/manifest/keys.h"
#include "tests/integration/staging_fixture.h"
#include "tests/support/skip.h"
#include "tidepool/v1/staging.pb.h"

namespace tidepool::testing {
namespace {

using Strings = std::vector<std::string>;

TestClusterOptions Nodes(std::uint32_t nodes, const char* memory = "256MiB") {
  TestClusterOptions options;
  options.nodes = nodes;
  options.cores = nodes == 1 ? 2 : 1;
  options.memory = memory;
  options.lease_ms = 5'000;
  return options;
}

StatusCode CodeOf(const v1::StageProgress& progress) {
  return static_cast<StatusCode>(progress.code());
}

void MakeLargeFile(const std::filesystem::path& path, std::uint64_t mebibytes, char first) {
  std::ofstream file(path, std::ios::binary);
  for (std::uint64_t i = 0; i < mebibytes; ++i) {
    file << std::string(1 << 20, static_cast<char>(first + static_cast<char>(i % 64)));
  }
  file << "end";
}

void CheckRoundTrip(std::uint32_t nodes) {
  StagingCluster staging(Nodes(nodes));
  staging.CreateNamespace("tree");
  const test::ScratchDirectory source;
  const test::ScratchDirectory target;
  MakeOddTree(source, 1'500);
  MakeLargeFile(source / "run1/large", 130, 'A');
  chmod((source / "run1/large").c_str(), 0640);

  const v1::StageProgress in = staging.Run(kIn, "tree", source.path(), {.probe = ""});
  INFO(Failures(in));
  REQUIRE(CodeOf(in) == StatusCode::kOk);
  CHECK(in.files_done() == in.files_total());
  CHECK(in.files_total() == 1'500 + 18);
  CHECK(in.bytes_done() == in.bytes_total());
  CHECK(staging.Get("tree", "run1/a.txt") == "a");
  CHECK(staging.Get("tree", "new\nline") == "n");

  const v1::StageProgress out = staging.Run(kOut, "tree", target.path());
  INFO(Failures(out));
  REQUIRE(CodeOf(out) == StatusCode::kOk);
  CHECK(Difference(source, target) == "");
  CHECK(out.tree_hash() == in.tree_hash());
  CHECK(out.tree_hash().size() == 32);
  CHECK(out.files_done() == in.files_total());

  SECTION("a second run moves nothing, either way") {
    const v1::StageProgress again = staging.Run(kIn, "tree", source.path(), {.probe = ""});
    CHECK(Failures(again) == "");
    CHECK(again.files_done() == 0);
    CHECK(again.bytes_done() == 0);
    CHECK(again.files_skipped() == in.files_total());
    CHECK(again.tree_hash() == in.tree_hash());
    const v1::StageProgress back = staging.Run(kOut, "tree", target.path());
    CHECK(Failures(back) == "");
    CHECK(back.files_done() == 0);
    CHECK(back.files_skipped() == in.files_total());
    CHECK(Difference(source, target) == "");
  }
  SECTION("with checksum too") {
    const v1::StageProgress again =
        staging.Run(kIn, "tree", source.path(), {.checksum = true, .probe = ""});
    CHECK(Failures(again) == "");
    CHECK(again.files_done() == 0);
    const v1::StageProgress back = staging.Run(kOut, "tree", target.path(), {.checksum = true});
    CHECK(Failures(back) == "");
    CHECK(back.files_done() == 0);
  }
  SECTION("a large file that became small leaves no parts behind") {
    source.Write("run1/large", "small now");
    const v1::StageProgress again = staging.Run(kIn, "tree", source.path(), {.probe = ""});
    CHECK(Failures(again) == "");
    CHECK(again.files_done() == 1);
    CHECK(staging.Get("tree", "run1/large") == "small now");
    for (const std::string& key : staging.Keys("tree", true)) {
      if (!manifest::IsManifestKey(key)) CHECK(key.find('\0') == std::string::npos);
    }
    CHECK(staging.Run(kOut, "tree", target.path()).files_done() == 1);
    CHECK(Difference(source, target) == "");
  }
}

TEST_CASE("ATreeWithAllOdditiesComesBackFromOneNode") { CheckRoundTrip(1); }
TEST_CASE("ATreeWithAllOdditiesComesBackFromThreeNodes") { CheckRoundTrip(3); }

TEST_CASE("OnlyWhatChangedIsMoved") {
  StagingCluster staging(Nodes(1));
  staging.CreateNamespace("tree");
  const test::ScratchDirectory source;
  const test::ScratchDirectory target;
  for (int i = 0; i < 100; ++i) source.Write("f" + std::to_string(i), "before");
  REQUIRE(Failures(staging.Run(kIn, "tree", source.path())).empty());
  REQUIRE(Failures(staging.Run(kOut, "tree", target.path())).empty());

  SECTION("a changed file, a new one and one with another mode") {
    source.Write("f7", "another size");
    source.Write("new/file", "x");
    chmod((source / "f8").c_str(), 0600);
    const v1::StageProgress in = staging.Run(kIn, "tree", source.path());
    CHECK(Failures(in) == "");
    CHECK(in.files_done() == 2);  // A mode alone moves no content.
    CHECK(Failures(staging.Run(kOut, "tree", target.path())).empty());
    CHECK(Difference(source, target) == "");
  }
  SECTION("content that changed behind an unchanged size and time is seen with checksum only") {
    const auto time = std::filesystem::last_write_time(source / "f7");
    source.Write("f7", "BEFORE");
    std::filesystem::last_write_time(source / "f7", time);
    CHECK(staging.Run(kIn, "tree", source.path()).files_done() == 0);
    CHECK(staging.Run(kIn, "tree", source.path(), {.checksum = true}).files_done() == 1);
    CHECK(staging.Get("tree", "f7") == "BEFORE");
    CHECK(staging.Run(kOut, "tree", target.path(), {.checksum = true}).files_done() == 1);
    CHECK(target.Read("f7") == "BEFORE");
  }
  SECTION("a target that somebody changed is put right") {
    target.Write("f3", "scribble");
    std::filesystem::remove(target / "f4");
    CHECK(staging.Run(kOut, "tree", target.path()).files_done() == 2);
    CHECK(Difference(source, target) == "");
  }
  SECTION("what was written and deleted by key counts, what left the source stays") {
    staging.Put("tree", "f1", "by key");
    staging.Put("tree", "by/program", "result");
    staging.Delete("tree", "f2");
    std::filesystem::remove(source / "f5");
    std::filesystem::remove_all(target.path());
    std::filesystem::create_directory(target.path());
    CHECK(Failures(staging.Run(kOut, "tree", target.path())).empty());
    CHECK(target.Read("f1") == "by key");
    CHECK(target.Read("by/program") == "result");
    CHECK_FALSE(std::filesystem::exists(target / "f2"));
    CHECK(std::filesystem::exists(target / "f5"));
    CHECK(staging.Run(kOut, "tree", target.path()).files_done() == 0);
    // The source has the last word at the next stage-in.
    CHECK(staging.Run(kIn, "tree", source.path()).files_done() == 2);
    CHECK(staging.Get("tree", "f1") == "before");
    CHECK(staging.Get("tree", "f2") == "before");
  }
  SECTION("files that became directories and links, and the other way round") {
    std::filesystem::remove(source / "f1");
    source.Write("f1/inside", "x");
    std::filesystem::remove(source / "f2");
    std::filesystem::create_symlink("f3", source / "f2");
    CHECK(Failures(staging.Run(kIn, "tree", source.path())).empty());
    CHECK(staging.Get("tree", "f1") == "<none>");
    const test::ScratchDirectory fresh;
    CHECK(Failures(staging.Run(kOut, "tree", fresh.path())).empty());
    CHECK(Difference(source, fresh) == "");
    // Into the old target: a file stands where a directory must be, and is not removed.
    const v1::StageProgress out = staging.Run(kOut, "tree", target.path());
    CHECK(CodeOf(out) == StatusCode::kFailedPrecondition);
    CHECK(Failures(out).find("f1") != std::string::npos);
  }
}

TEST_CASE("UsersSeeFilesAndNotWhatStagingKeeps") {
  StagingCluster staging(Nodes(1));
  staging.CreateNamespace("tree");
  const test::ScratchDirectory source;
  source.Write("a", "1");
  source.Write("d/b", "2");
  std::filesystem::create_symlink("a", source / "l");
  MakeLargeFile(source / "large", 65, 'a');
  staging.Put("tree", "own", "x");
  REQUIRE(Failures(staging.Run(kIn, "tree", source.path())).empty());
  CHECK(staging.Keys("tree") == Strings{"a", "d/b", std::string("large\0file", 10), "own"});
  CHECK(staging.Length("tree") == 4);
  // Entries of ., a, d, d/b, l, large; two parts with an entry each; the mark.
  CHECK(staging.Keys("tree", true).size() == 4 + 6 + 4 + 1);
}

TEST_CASE("AFileThatChangesWhileItIsStagedInFailsByName") {
  StagingCluster staging(Nodes(1));
  staging.CreateNamespace("tree");
  const test::ScratchDirectory source;
  for (int i = 0; i < 300; ++i) source.Write("f" + std::to_string(i), "x");
  // Its reading must last longer than the scheduler may keep the writer away on a busy machine.
  source.Write("restless", std::string(60'000'000, 'r'));
  std::atomic<bool> stop{false};
  std::atomic<bool> started{false};
  std::thread writer([&] {
    for (std::int64_t i = 1; !stop; ++i) {
      const timespec times[2] = {{0, UTIME_OMIT}, {1'000'000'000 + i, 0}};
      utimensat(AT_FDCWD, (source / "restless").c_str(), times, 0);
      started = true;
    }
  });
  while (!started) std::this_thread::yield();
  const v1::StageProgress in = staging.Run(kIn, "tree", source.path());
  stop = true;
  writer.join();
  CHECK(CodeOf(in) == StatusCode::kFailedPrecondition);
  REQUIRE(in.failures_total() == 1);
  CHECK(in.failures(0).rfind("restless: ", 0) == 0);
  CHECK(in.files_done() == 300);
  CHECK(staging.Get("tree", "restless") == "<none>");

  SECTION("and stage-out refuses what is incomplete until it is asked for") {
    const test::ScratchDirectory target;
    const v1::StageProgress out = staging.Run(kOut, "tree", target.path());
    CHECK(CodeOf(out) == StatusCode::kFailedPrecondition);
    CHECK(out.message().find(source.path().string()) != std::string::npos);
    CHECK(Failures(staging.Run(kOut, "tree", target.path(), {.incomplete_ok = true})).empty());
    CHECK(std::filesystem::exists(target / "f299"));
  }
  SECTION("and the next stage-in moves the rest") {
    const v1::StageProgress again = staging.Run(kIn, "tree", source.path());
    CHECK(Failures(again) == "");
    CHECK(again.files_done() == 1);
  }
}

TEST_CASE("NothingIsWrittenOutsideTheTarget") {
  StagingCluster staging(Nodes(1));
  staging.CreateNamespace("tree");
  const test::ScratchDirectory around;
  const test::ScratchDirectory outside;
  std::filesystem::create_directory(around / "target");
  std::filesystem::create_directory_symlink(outside.path(), around / "target/way");
  staging.Put("tree", "good", "1");
  staging.Put("tree", "../escaped", "x");
  staging.Put("tree", "d/../../escaped", "x");
  staging.Put("tree", outside.path().string() + "/absolute", "x");
  staging.Put("tree", "way/through", "x");
  staging.Put("tree", std::string("n\0ul", 4), "x");
  staging.Put("tree", "", "x");
  staging.Put("tree", ".tidepool-stage-x", "x");
  // Planted in the manifest: a link and a directory that a daemon never lists.
  manifest::Entry link;
  link.type = manifest::EntryType::kSymlink;
  link.mode = 0777;
  link.link_target = outside.path();
  staging.Put("tree", manifest::ManifestKey("../planted"), manifest::EncodeEntry(link));
  manifest::Entry directory;
  directory.type = manifest::EntryType::kDirectory;
  directory.mode = 0755;
  staging.Put("tree", manifest::ManifestKey("way/directory"), manifest::EncodeEntry(directory));
  // A link that the manifest itself makes, and a file below it.
  staging.Put("tree", manifest::ManifestKey("made"), manifest::EncodeEntry(link));
  staging.Put("tree", "made/below", "x");

  // No stage-in has written a mark here, which by itself would end the job.
  CHECK(CodeOf(staging.Run(kOut, "tree", around / "target")) == StatusCode::kDataLoss);
  const v1::StageProgress out =
      staging.Run(kOut, "tree", around / "target", {.incomplete_ok = true});
  CHECK(CodeOf(out) != StatusCode::kOk);
  const std::string failures = Failures(out);
  for (const char* name : {"../escaped", "d/../../escaped", "/absolute", "way/through", "n\\x00ul",
                           ".tidepool-stage-x", "../planted", "way/directory", "made/below"}) {
    INFO(failures);
    CHECK(failures.find(name) != std::string::npos);
  }
  CHECK(std::filesystem::is_empty(outside.path()));
  CHECK(around.Read("target/good") == "1");
  std::size_t names = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(around.path())) {
    ++names;
  }
  CHECK(names == 1);
}

TEST_CASE("ATargetThatIsFullFailsByNameAndLeavesNoHalfFiles", "[machine]") {
  const test::ScratchDirectory target;
  if (mount("tmpfs", target.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
    TIDEPOOL_SKIP("no right to mount a small file system here");
  }
  {
    StagingCluster staging(Nodes(1));
    staging.CreateNamespace("tree");
    staging.Put("tree", "fits", "x");
    staging.Put("tree", "too-large", std::string(1'000'000, 'x'));
    staging.Put("tree", "too-large-2", std::string(1'000'000, 'x'));
    const v1::StageProgress out = staging.Run(kOut, "tree", target.path());
    CHECK(CodeOf(out) == StatusCode::kResourceExhausted);
    CHECK(Failures(out).find("too-large") != std::string::npos);
    CHECK(staging.Unsaved() == Strings{"tree"});
    for (const auto& entry : std::filesystem::directory_iterator(target.path())) {
      CHECK(entry.path().filename().string().rfind(".tidepool", 0) != 0);
    }
  }
  umount(target.path().c_str());
}

TEST_CASE("AStoreThatIsFullFailsTheFilesThatDoNotFit") {
  StagingCluster staging(Nodes(1, "64MiB"));
  staging.CreateNamespace("tree");
  const test::ScratchDirectory source;
  for (int i = 0; i < 30; ++i) {
    source.Write("f" + std::to_string(i), std::string(4'000'000, 'x'));
  }
  const v1::StageProgress in = staging.Run(kIn, "tree", source.path());
  CHECK(CodeOf(in) == StatusCode::kResourceExhausted);
  CHECK(in.failures_total() > 0);
  CHECK(in.failures_total() + in.files_done() == 30);
  CHECK(Failures(in).find("--memory") != std::string::npos);
}

// Returns keys of parts and of their manifest entries.
Strings PartKeys(StagingCluster& staging) {
  Strings parts;
  for (const std::string& key : staging.Keys("tree", true)) {
    const std::string_view about =
        manifest::IsManifestKey(key) ? manifest::AboutOf(key) : std::string_view(key);
    if (convert::ParseStagedKey(about).role == convert::StagedRole::kPart) parts.push_back(key);
  }
  return parts;
}

TEST_CASE("PartsOfAnInterruptedLargeFileGoWithTheNextStageInOfIt") {
  // The store has no room for the first part, of 64 MiB, but takes the second: an interrupted
  // stage-in.
  StagingCluster staging({.nodes = 1, .memory = "64MiB"});
  staging.CreateNamespace("tree");
  const test::ScratchDirectory source;
  source.Write("large", std::string(std::size_t{65} << 20, 'x'));
  REQUIRE(staging.Run(kIn, "tree", source.path()).code() ==
          static_cast<std::uint32_t>(StatusCode::kResourceExhausted));
  const Strings first = PartKeys(staging);
  REQUIRE(!first.empty());
  SECTION("none while the file is still the same: the next run goes on with them") {
    CHECK(staging.Run(kIn, "tree", source.path()).code() != 0);
    CHECK(PartKeys(staging) == first);
  }
  SECTION("all when it is small now") {
    source.Write("large", "small now");
    const v1::StageProgress in = staging.Run(kIn, "tree", source.path());
    INFO(Failures(in));
    CHECK(in.code() == 0);
    CHECK(PartKeys(staging).empty());
    CHECK(staging.Get("tree", "large") == "small now");
  }
  SECTION("all when it has another content, although that fails too") {
    std::filesystem::last_write_time(
        source / "large",
        std::filesystem::last_write_time(source / "large") - std::chrono::hours(1));
    CHECK(staging.Run(kIn, "tree", source.path()).code() != 0);
    const Strings now = PartKeys(staging);
    CHECK(now.size() == first.size());
    for (const std::string& key : first) CHECK(std::count(now.begin(), now.end(), key) == 0);
  }
  SECTION("none that the source does not have: somebody else may be bringing them") {
    std::filesystem::remove(source / "large");
    source.Write("other", "1");
    CHECK(staging.Run(kIn, "tree", source.path()).code() == 0);
    CHECK(PartKeys(staging) == first);
  }
}

TEST_CASE("ManyFailuresAreAllCountedAndTheFirstNamed") {
  StagingCluster staging(Nodes(3));
  staging.CreateNamespace("tree");
  const test::ScratchDirectory target;
  target.Write("way", "a file where a directory must be");
  for (int i = 0; i < 900; ++i) staging.Put("tree", "way/" + std::to_string(i), "x");
  staging.Put("tree", "good", "1");
  const v1::StageProgress out = staging.Run(kOut, "tree", target.path());
  CHECK(CodeOf(out) == StatusCode::kFailedPrecondition);
  CHECK(out.failures_total() == 901);  // The directory itself, too.
  CHECK(out.failures_size() == 100);
  CHECK(out.files_done() == 1);
  CHECK(target.Read("way") == "a file where a directory must be");
}

TEST_CASE("StoppingLosesNothingThatWasStaged") {
  StagingCluster staging(Nodes(3));
  staging.CreateNamespace("tree");
  const test::ScratchDirectory source;
  const test::ScratchDirectory target;
  for (int i = 0; i < 50; ++i) source.Write("f" + std::to_string(i), "x");
  CHECK(staging.Unsaved().empty());
  REQUIRE(Failures(staging.Run(kIn, "tree", source.path())).empty());
  // The source has it all.
  CHECK(staging.Unsaved().empty());
  staging.Put("tree", "result", "new");
  CHECK(staging.Unsaved() == Strings{"tree"});
  REQUIRE(Failures(staging.Run(kOut, "tree", target.path())).empty());
  CHECK(staging.Unsaved().empty());
  staging.Delete("tree", "result");
  CHECK(staging.Unsaved() == Strings{"tree"});
  // Staging other files in does not save records that only the namespace has.
  REQUIRE(Failures(staging.Run(kOut, "tree", target.path())).empty());
  staging.Put("tree", "result", "newer");
  REQUIRE(Failures(staging.Run(kIn, "tree", source.path())).empty());
  CHECK(staging.Unsaved() == Strings{"tree"});
}

TEST_CASE("AnotherNodeThatDoesNotSeeTheDirectoryIsNamed") {
  StagingCluster staging(Nodes(1));
  staging.CreateNamespace("tree");
  const test::ScratchDirectory target;
  v1::StartStageResponse response;
  const auto request =
      staging.Request(kOut, "tree", target.path(), {.probe = ".tidepool-stage-not-there"});
  REQUIRE(staging.Start(request, &response).ok());
  CHECK(response.job().empty());
  CHECK(response.blind_nodes_size() == 1);
}

TEST_CASE("RequestsThatMakeNoSenseAreRefused") {
  StagingCluster staging(Nodes(1));
  staging.CreateNamespace("tree");
  const test::ScratchDirectory target;
  const auto refused = [&](v1::StartStageRequest request) {
    v1::StartStageResponse response;
    return staging.Start(request, &response).error_code();
  };
  const v1::StartStageRequest good = staging.Request(kOut, "tree", target.path());
  v1::StartStageRequest bad = good;
  bad.set_direction(v1::StartStageRequest::DIRECTION_UNSPECIFIED);
  CHECK(refused(bad) == grpc::StatusCode::INVALID_ARGUMENT);
  bad = good;
  bad.set_directory("relative");
  CHECK(refused(bad) == grpc::StatusCode::INVALID_ARGUMENT);
  bad = good;
  bad.set_probe_file("../x");
  CHECK(refused(bad) == grpc::StatusCode::INVALID_ARGUMENT);
  bad = good;
  bad.clear_probe_file();
  CHECK(refused(bad) == grpc::StatusCode::INVALID_ARGUMENT);
  bad = good;
  bad.set_namespace_("unheard-of");
  CHECK(refused(bad) == grpc::StatusCode::NOT_FOUND);
  bad = good;
  bad.set_direction(kIn);
  bad.clear_probe_file();
  bad.set_directory("/no/such/directory");
  CHECK(refused(bad) == grpc::StatusCode::NOT_FOUND);
}

}  // namespace
}  // namespace tidepool::testing
