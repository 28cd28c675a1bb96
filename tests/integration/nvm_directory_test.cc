// Real daemons with --nvm-dir: their files, their refusals, and their status.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "tests/integration/harness.h"
#include "tests/integration/loop_disk.h"
#include "tests/support/ordinary_user.h"
#include "tests/support/skip.h"
#include "tidepool/v1/cluster.pb.h"

namespace tidepool::testing {
namespace {

namespace fs = std::filesystem;

// Directories on the build's disk: /tmp may be memory without direct I/O.
class Disk {
 public:
  Disk() {
    std::string pattern = "nvm_test.XXXXXX";
    REQUIRE(mkdtemp(pattern.data()) != nullptr);
    path_ = fs::absolute(pattern).string();
    for (const char* name : {"a", "b", "run"}) fs::create_directory(path_ + "/" + name);
  }
  ~Disk() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  std::unique_ptr<Process> Start(std::vector<std::string> flags) {
    std::vector<std::string> arguments = user_command_;
    arguments.insert(arguments.end(), {ProgramPath("kvd"), "--memory=64MiB"});
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return std::make_unique<Process>(arguments,
                                     std::vector<std::string>{"XDG_RUNTIME_DIR=" + path_ + "/run"},
                                     path_ + "/kvd-" + std::to_string(++started_));
  }
  // From now on daemons have no rights of root.
  void RunAsOrdinaryUser() {
    test::GiveToOrdinaryUser(path_);
    user_command_ = test::OrdinaryUserCommand();
  }
  // A daemon that serves and then ends in good order.
  void RunOnce(std::vector<std::string> flags) {
    const auto daemon = Start(std::move(flags));
    const bool is_ready = WaitUntil([&] { return daemon->Output().find("kvd ready") == 0; });
    INFO(daemon->Errors());
    REQUIRE(is_ready);
    daemon->Signal(SIGTERM);
    REQUIRE(daemon->Wait() == 0);
  }
  // Checks for a line that has `says`, and for this exit code.
  void CheckRefused(std::vector<std::string> flags, const std::string& says, int exit_code = 1) {
    const auto daemon = Start(std::move(flags));
    CHECK(daemon->Wait() == exit_code);
    const std::string errors = daemon->Errors();
    INFO(errors);
    const std::size_t line = errors.rfind("kvd: ");
    REQUIRE(line != std::string::npos);
    CHECK(errors.find(says, line) != std::string::npos);
    CHECK(errors.find('\n', line) == errors.size() - 1);
    CHECK(errors.find(" (", line) != std::string::npos);  // The remedy.
  }

 private:
  std::string path_;
  std::vector<std::string> user_command_;
  int started_ = 0;
};

std::vector<std::string> EntriesOf(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

TEST_CASE("ADaemonMakesItsDevicesAndFindsThemAgain") {
  Disk disk;
  const std::vector<std::string> flags = {"--nvm-dir=" + disk / "a" + "," + disk / "b",
                                          "--nvm-size=40MiB"};
  disk.RunOnce(flags);
  CHECK(fs::file_size(disk / "a/tidepool.nvm") == 40 << 20);
  CHECK(fs::file_size(disk / "b/tidepool.nvm") == 40 << 20);
  // The node keeps its identity, which lies in the first directory.
  CHECK(fs::exists(disk / "a/identity.json"));
  disk.RunOnce(flags);
  disk.RunOnce({flags[0]});  // With their present size.
}

TEST_CASE("WithoutASizeADeviceHasFourTimesTheMemory") {
  Disk disk;
  disk.RunOnce({"--nvm-dir=" + disk / "a"});
  CHECK(fs::file_size(disk / "a/tidepool.nvm") == 256 << 20);
}

TEST_CASE("AKilledDaemonLeavesDevicesThatTheNextOneOpens") {
  TestCluster cluster({.start = false});
  Disk disk;
  const std::vector<std::string> flags = {"--nvm-dir=" + disk / "a", "--nvm-size=40MiB"};
  for (int round = 0; round < 3; ++round) {
    cluster.Start(0, flags);
    cluster.WaitReady();
    cluster.Kill(0);
  }
  cluster.Start(0, flags);
  cluster.WaitReady();
  CHECK(cluster.Terminate(0) == 0);
}

TEST_CASE("StatusShowsTheDevicesOfEachNode") {
  Disk disk;
  TestCluster cluster(
      {.flags = {"--nvm-dir=" + disk / "a" + "," + disk / "b", "--nvm-size=64MiB"}});
  const v1::StatusResponse status = cluster.StatusFrom(0);
  REQUIRE(status.nodes(0).status().devices_size() == 2);
  const v1::DeviceStatus& device = status.nodes(0).status().devices(1);
  CHECK(device.medium() == "file");
  CHECK(device.description() == disk / "b/tidepool.nvm (file, O_DIRECT, io_uring)");
  CHECK(device.bytes() == 64 << 20);
  CHECK(device.used_bytes() <= device.bytes());
}

TEST_CASE("PersistentMemoryIsMappedWherePmdkReportsIt") {
  Disk disk;
  TestCluster cluster({.flags = {"--nvm-dir=" + disk / "a", "--nvm-size=64MiB"},
                       .environment = {"PMEM2_FORCE_GRANULARITY=CACHE_LINE"}});
  const v1::StatusResponse status = cluster.StatusFrom(0);
  REQUIRE(status.nodes(0).status().devices_size() == 1);
  CHECK(status.nodes(0).status().devices(0).medium() == "dax");
}

TEST_CASE("ADirectoryThatIsNotThereIsRefused") {
  Disk disk;
  disk.CheckRefused({"--nvm-dir=" + disk / "c"}, "is not there");
  CHECK_FALSE(fs::exists(disk / "c"));
  disk.CheckRefused({"--nvm-dir=" + disk / "a" + "," + disk / "c"}, "is not there");
  std::ofstream(disk / "file") << "x";
  disk.CheckRefused({"--nvm-dir=" + disk / "file"}, "is no directory");
}

TEST_CASE("ADirectoryWithoutPermissionIsRefused", "[machine]") {
  Disk disk;
  disk.RunAsOrdinaryUser();
  if (!test::AsOrdinaryUser::MayUse(ProgramPath("kvd")) ||
      !test::AsOrdinaryUser::MayUse(disk / "a")) {
    TIDEPOOL_SKIP("the build lies below a folder that only root may enter");
  }
  fs::permissions(disk / "b", fs::perms::owner_read | fs::perms::owner_exec);
  disk.CheckRefused({"--nvm-dir=" + disk / "a" + "," + disk / "b"}, "Permission denied");
}

TEST_CASE("TooLittleForADeviceIsRefused") {
  Disk disk;
  disk.CheckRefused({"--nvm-dir=" + disk / "a", "--nvm-size=30MiB"}, "at least 36MiB", 2);
  disk.CheckRefused({"--nvm-dir=" + disk / "a", "--nvm-size=60MiB", "--cores=2"}, "at least 70MiB",
                    2);
  disk.CheckRefused({"--nvm-dir=" + disk / "a", "--nvm-size=900T"}, "MiB) are free");
  CHECK_FALSE(fs::exists(disk / "a/tidepool.nvm"));
  CHECK_FALSE(fs::exists(disk / "a/tidepool.nvm.new"));
}

TEST_CASE("AFileThatIsNotOursIsRefused") {
  Disk disk;
  std::ofstream(disk / "a/tidepool.nvm") << std::string(100'000, 'x');
  disk.CheckRefused({"--nvm-dir=" + disk / "a"}, "is not a file of Tidepool");
}

TEST_CASE("DirectoriesInUseAreRefused") {
  Disk disk;
  const auto first = disk.Start({"--nvm-dir=" + disk / "a", "--data-dir=" + disk / "d1"});
  REQUIRE(WaitUntil([&] { return first->Output().find("kvd ready") == 0; }));
  disk.CheckRefused(
      {"--nvm-dir=" + disk / "a", "--data-dir=" + disk / "d2", "--cluster=" + disk / "other.json"},
      "another daemon uses the directory");
  first->Signal(SIGTERM);
  CHECK(first->Wait() == 0);
}

TEST_CASE("DevicesOfAnotherNodeOrListOrCountOfCoresAreRefused") {
  Disk disk;
  const std::string both = "--nvm-dir=" + disk / "a" + "," + disk / "b";
  disk.RunOnce({both, "--nvm-size=80MiB"});
  disk.CheckRefused({both, "--data-dir=" + disk / "d"}, "belongs to node");
  disk.CheckRefused({"--nvm-dir=" + disk / "a"}, "device 1 of 2");
  disk.CheckRefused({both, "--cores=2"}, "give --cores 1");
  disk.CheckRefused({both, "--nvm-size=90MiB"}, "leave --nvm-size out");
  disk.RunOnce({both});  // None of these has damaged it.
}

TEST_CASE("AnotherFormatIsRefused") {
  Disk disk;
  disk.RunOnce({"--nvm-dir=" + disk / "a", "--nvm-size=40MiB"});
  // A block of format 9, made by the rule that holds for all: zeros, magic, format, checksum.
  std::string block(4096, '\0');
  block.replace(0, 8, "TIDENVM\n");
  block[8] = 9;
  const std::uint32_t crc = 0xb0a15c61;
  block.replace(12, 4, std::string(reinterpret_cast<const char*>(&crc), 4));
  std::fstream file(disk / "a/tidepool.nvm", std::ios::in | std::ios::out | std::ios::binary);
  file.write(block.data(), 4096);
  file.close();
  disk.CheckRefused({"--nvm-dir=" + disk / "a"}, "format 9");
}

TEST_CASE("ACopiedDirectoryIsRefusedWithoutAdopt") {
  Disk disk;
  disk.RunOnce({"--nvm-dir=" + disk / "a", "--nvm-size=40MiB"});
  fs::copy_file(disk / "a/tidepool.nvm", disk / "b/tidepool.nvm");
  fs::copy_file(disk / "a/identity.json", disk / "b/identity.json");
  disk.CheckRefused({"--nvm-dir=" + disk / "b"}, "is a copy");
  disk.RunOnce({"--nvm-dir=" + disk / "b", "--adopt"});
}

TEST_CASE("ADeviceThatWasMovedIsUsed") {
  Disk disk;
  disk.RunOnce({"--nvm-dir=" + disk / "a", "--data-dir=" + disk / "d", "--nvm-size=40MiB"});
  fs::copy_file(disk / "a/tidepool.nvm", disk / "b/tidepool.nvm");
  disk.RunOnce({"--nvm-dir=" + disk / "b", "--data-dir=" + disk / "d"});
  // Its old data is older than the device in use.
  disk.CheckRefused({"--nvm-dir=" + disk / "a", "--data-dir=" + disk / "d"}, "has used it since");
}

TEST_CASE("ADaemonStartsOnAFullDiskThatHasItsData", "[machine]") {
  const LoopDisk small(128 << 20);
  if (!small.mounted()) TIDEPOOL_SKIP(LoopDisk::kLacks);
  Disk disk;
  const std::vector<std::string> flags = {"--nvm-dir=" + small.path(), "--nvm-size=40MiB"};
  disk.RunOnce(flags);
  small.Fill();
  for (int round = 0; round < 3; ++round) disk.RunOnce({flags[0]});
  fs::remove(small.path() + "/other");
  disk.RunOnce({flags[0]});
}

TEST_CASE("AFullFileSystemIsRefusedAndLeftAsItWas", "[machine]") {
  const LoopDisk small(64 << 20);
  if (!small.mounted()) TIDEPOOL_SKIP(LoopDisk::kLacks);
  Disk disk;
  const auto free_bytes = fs::space(small.path()).available;
  disk.CheckRefused({"--nvm-dir=" + small.path(), "--nvm-size=100MiB"},
                    "cannot reserve 104857600 bytes (100MiB) in '" + small.path() + "': ");
  // Not even for a moment was anything taken: identity, lock and file are as if never there.
  CHECK(EntriesOf(small.path()) == std::vector<std::string>{"lost+found"});
  CHECK(fs::space(small.path()).available == free_bytes);
  // By default 80 % of the free space, if that suffices.
  disk.RunOnce({"--nvm-dir=" + small.path()});
  const auto made = fs::file_size(small.path() + "/tidepool.nvm");
  CHECK(made >= 36 << 20);
  CHECK(made < 56 << 20);
  fs::remove(small.path() + "/tidepool.nvm");
  std::ofstream(small.path() + "/other") << std::string(30 << 20, 'x');
  disk.CheckRefused({"--nvm-dir=" + small.path()}, "by default a fifth is left free");
}

// A shared disk is not filled to the last byte.
TEST_CASE("APartOfTheFileSystemStaysFree", "[machine]") {
  const LoopDisk small(64 << 20);
  if (!small.mounted()) TIDEPOOL_SKIP(LoopDisk::kLacks);
  Disk disk;
  const auto before = fs::space(small.path());
  const std::string all = std::to_string(before.available / 4096 * 4096);
  disk.CheckRefused({"--nvm-dir=" + small.path(), "--nvm-size=" + all}, "stay free for others");
  CHECK(fs::space(small.path()).available == before.available);
  const auto most = (before.available - before.capacity / 20 - (1 << 20)) / 4096 * 4096;
  disk.RunOnce({"--nvm-dir=" + small.path(), "--nvm-size=" + std::to_string(most)});
  CHECK(fs::space(small.path()).available >= before.capacity / 20 - (1 << 20));
}

TEST_CASE("TwoDirectoriesOfOneFullFileSystemLeaveNothing", "[machine]") {
  const LoopDisk small(128 << 20);
  if (!small.mounted()) TIDEPOOL_SKIP(LoopDisk::kLacks);
  fs::create_directory(small.path() + "/a");
  fs::create_directory(small.path() + "/b");
  Disk disk;
  const auto free_bytes = fs::space(small.path()).available;
  disk.CheckRefused({"--nvm-dir=" + small.path() + "/a," + small.path() + "/b", "--nvm-size=70MiB"},
                    "cannot reserve 73400320 bytes");
  CHECK(fs::is_empty(small.path() + "/a"));
  CHECK(fs::is_empty(small.path() + "/b"));
  CHECK(fs::space(small.path()).available == free_bytes);
}

}  // namespace
}  // namespace tidepool::testing
