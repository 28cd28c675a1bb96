#include "storage/nvm/volume.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include "storage/device/device_io.h"
#include "storage/nvm/crc32c.h"
#include "tests/storage/device/temporary_folder.h"
#include "tests/storage/nvm/samples.h"
#include "tests/support/ordinary_user.h"
#include "tests/support/skip.h"

namespace tidepool::storage {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

class Directories {
 public:
  explicit Directories(std::size_t count = 1) {
    for (std::size_t i = 0; i < count; ++i) {
      options.directories.push_back(folder_ / std::to_string(i));
      std::filesystem::create_directory(options.directories.back());
    }
    options.layout = test::SmallLayout(2);
    options.node = *ParseUuid("3f2b8c1e-9d4a-4c6f-8a51-0d7e6b2c9f10");
    options.host = "node7";
    options.bytes = kMiB;
  }
  std::string path(std::size_t index) const { return options.directories[index]; }
  std::string file(std::size_t index = 0) const { return path(index) + "/tidepool.nvm"; }

  std::unique_ptr<Volume> Open() {
    auto volume = Volume::Open(options);
    INFO(volume.status().ToString());
    REQUIRE(volume.ok());
    ++options.incarnation;
    return *std::move(volume);
  }
  // Returns the refusal, which must contain `word` and a remedy.
  StatusCode Refused(const std::string& word) {
    const auto volume = Volume::Open(options);
    INFO(volume.status().ToString());
    CHECK(volume.status().ToString().find(word) != std::string::npos);
    CHECK_FALSE(volume.status().remedy().empty());
    CHECK(volume.status().ToString().find('\n') == std::string::npos);
    return volume.code();
  }

  VolumeOptions options;

 private:
  test::TemporaryFolder folder_;
};

TEST_CASE("AVolumeIsMadeAtTheFirstStartAndKeptAtTheNext") {
  Directories made;
  Uuid device;
  {
    const auto volume = made.Open();
    CHECK(volume->found(0).clean_stop);
    CHECK(volume->found(0).incarnation == 0);
    device = volume->found(0).device;
    CHECK(volume->usage().devices[0].bytes == kMiB);
    CHECK(std::filesystem::file_size(made.file()) == kMiB);
    CHECK(volume->Close().ok());
  }
  made.options.bytes = 0;  // The present size.
  const auto volume = made.Open();
  CHECK(volume->found(0).device == device);
  CHECK(volume->found(0).clean_stop);
  CHECK(volume->found(0).incarnation == 1);
  CHECK(volume->found(0).generation == 3);  // Made, opened, closed.
  CHECK(volume->usage().slots_used == 0);
}

TEST_CASE("AStopWithoutCloseIsSeenAtTheNextStart") {
  Directories made;
  made.Open();
  const auto volume = made.Open();
  CHECK_FALSE(volume->found(0).clean_stop);
  CHECK(volume->Close().ok());
  CHECK(volume->Close().ok());  // Again changes nothing.
}

TEST_CASE("ItsSpaceIsReservedAtTheStart") {
  Directories made;
  const auto volume = made.Open();
  struct stat info {};
  REQUIRE(stat(made.file().c_str(), &info) == 0);
  CHECK(static_cast<std::uint64_t>(info.st_blocks) * 512 >= kMiB);
  CHECK((info.st_mode & 0777) == 0600);
}

TEST_CASE("SlotsLieOnTheDevicesInTurnsAndHoldWhatIsWritten") {
  Directories made(3);
  auto volume = made.Open();
  const std::uint64_t slot_bytes = volume->slot_bytes();
  std::set<std::pair<std::size_t, std::uint64_t>> places;
  std::vector<std::uint64_t> slots;
  for (std::uint64_t slot = volume->AllocateSlot(); slot != kNoSlot;
       slot = volume->AllocateSlot()) {
    const SlotPlace place = volume->Place(slot);
    REQUIRE(place.device == slot % 3);
    REQUIRE(place.offset % kDeviceBlockBytes == 0);
    REQUIRE(place.offset >= volume->layout(place.device).slots_begin);
    REQUIRE(place.offset + slot_bytes <= volume->device(place.device).bytes());
    REQUIRE(places.insert({place.device, place.offset}).second);
    slots.push_back(slot);
  }
  CHECK(slots.size() == volume->usage().slots);
  CHECK(volume->usage().slots_used == slots.size());
  BlockBuffer block(slot_bytes);
  for (const std::uint64_t slot : slots) {
    const SlotPlace place = volume->Place(slot);
    const auto queue = *volume->device(place.device).OpenQueue(1);
    StoreUnaligned(block.data(), slot);
    REQUIRE(WriteBlocks(queue.get(), place.offset, block.bytes()).ok());
  }
  for (const std::uint64_t slot : slots) {
    const SlotPlace place = volume->Place(slot);
    const auto queue = *volume->device(place.device).OpenQueue(1);
    REQUIRE(ReadBlocks(queue.get(), place.offset, block.bytes()).ok());
    REQUIRE(LoadUnaligned<std::uint64_t>(block.data()) == slot);
    volume->FreeSlot(slot);
  }
  CHECK(volume->usage().slots_used == 0);
  CHECK(volume->Close().ok());
  volume.reset();
  // Writes into slots do not touch the identity of the devices.
  CHECK(made.Open()->found(2).clean_stop);
}

TEST_CASE("TheCatalogAndTheClusterOutliveAStart") {
  Directories made(2);
  const Uuid cluster = RandomUuid();
  {
    const auto volume = made.Open();
    CHECK(volume->ReadCatalog()->empty());
    REQUIRE(volume->WriteCatalog(AsBytes("what there is")).ok());
    REQUIRE(volume->RememberCluster(cluster).ok());
    REQUIRE(volume->Update(1,
                           [](Superblock& superblock) {
                             superblock.checkpoints[1][0] = {7, 8};
                           })
                .ok());
  }
  const auto volume = made.Open();
  CHECK(AsText(*volume->ReadCatalog()) == "what there is");
  CHECK(volume->found(0).cluster == cluster);
  CHECK(volume->found(1).cluster == cluster);
  CHECK(volume->found(1).checkpoints[1][0] == CheckpointAddress{7, 8});
}

TEST_CASE("ADirectoryThatIsMissingIsRefused") {
  Directories made;
  made.options.directories[0] += "/missing";
  CHECK(made.Refused("is not there") == StatusCode::kNotFound);
  CHECK_FALSE(std::filesystem::exists(made.options.directories[0]));
}

TEST_CASE("AFileIsNoDirectory") {
  Directories made;
  made.options.directories[0] += "/file";
  std::ofstream(made.options.directories[0]) << "x";
  CHECK(made.Refused("no directory") == StatusCode::kFailedPrecondition);
}

TEST_CASE("ADirectoryThatMayNotBeWrittenIsRefused", "[machine]") {
  Directories made;
  tidepool::test::GiveToOrdinaryUser(std::filesystem::path(made.path(0)).parent_path());
  if (!tidepool::test::AsOrdinaryUser::MayUse(made.path(0))) {
    TIDEPOOL_SKIP("the build lies below a folder that only root may enter");
  }
  const tidepool::test::AsOrdinaryUser user;
  REQUIRE(chmod(made.path(0).c_str(), 0500) == 0);
  CHECK(made.Refused("cannot make") == StatusCode::kPermissionDenied);
  REQUIRE(chmod(made.path(0).c_str(), 0) == 0);
  CHECK(made.Refused("cannot open") == StatusCode::kPermissionDenied);
  chmod(made.path(0).c_str(), 0700);
}

TEST_CASE("TooSmallASizeIsRefusedWithTheLeast") {
  Directories made;
  made.options.layout = LayoutOptions();
  made.options.bytes = 20 * kMiB;
  CHECK(made.Refused("at least 36MiB") == StatusCode::kInvalidArgument);
  CHECK_FALSE(std::filesystem::exists(made.file()));
  made.options.bytes = 36 * kMiB;
  made.Open();
}

TEST_CASE("MoreThanTheFileSystemHasIsRefusedAndLeavesNothing") {
  Directories made(2);
  made.options.bytes = std::filesystem::space(made.path(0)).available + (10ull << 30);
  CHECK(made.Refused("cannot reserve " + std::to_string(made.options.bytes) + " bytes") ==
        StatusCode::kResourceExhausted);
  for (std::size_t i = 0; i < 2; ++i) CHECK(std::filesystem::is_empty(made.path(i)));
}

TEST_CASE("WithoutASizeTheDefaultIsTakenWithinWhatIsFree") {
  Directories made;
  made.options.bytes = 0;
  made.options.bytes_default = 3 * kMiB;
  CHECK(made.Open()->usage().devices[0].bytes == 3 * kMiB);
}

TEST_CASE("ADirectoryInUseIsRefused") {
  Directories made;
  const auto volume = made.Open();
  CHECK(made.Refused("another daemon") == StatusCode::kAborted);
}

TEST_CASE("ADirectoryNamedTwiceIsRefused") {
  Directories made(2);
  made.options.directories[1] = made.path(0) + "/../0/";
  CHECK(made.Refused("twice") == StatusCode::kInvalidArgument);
}

TEST_CASE("AFileThatIsNotOursIsRefusedAndLeftAlone") {
  Directories made;
  const std::string text(10'000, 'x');
  std::ofstream(made.file()) << text;
  CHECK(made.Refused("not a file of Tidepool") == StatusCode::kFailedPrecondition);
  std::ifstream file(made.file());
  CHECK(std::string(std::istreambuf_iterator<char>(file), {}) == text);
  std::ofstream(made.file(), std::ios::trunc).flush();
  CHECK(made.Refused("it is empty") == StatusCode::kFailedPrecondition);
  std::filesystem::remove(made.file());
  std::filesystem::create_directory(made.file());
  CHECK(made.Refused("no regular file") == StatusCode::kFailedPrecondition);
}

// Changes the file's newest superblock, as a program of its own would.
void Rewrite(const std::string& path, void (*change)(Superblock&)) {
  const int file = open(path.c_str(), O_RDWR);
  REQUIRE(file >= 0);
  std::vector<std::byte> blocks(2 * kDeviceBlockBytes);
  REQUIRE(pread(file, blocks.data(), blocks.size(), 0) == 8192);
  for (std::size_t at : {std::size_t{0}, kDeviceBlockBytes}) {
    auto superblock = DecodeSuperblock(Bytes(blocks).subspan(at, kDeviceBlockBytes));
    if (!superblock.ok()) continue;
    change(*superblock);
    EncodeSuperblock(*superblock, MutableBytes(blocks).subspan(at, kDeviceBlockBytes));
  }
  REQUIRE(pwrite(file, blocks.data(), blocks.size(), 0) == 8192);
  close(file);
}

TEST_CASE("ADirectoryThatMovedOrAHostThatWasRenamedIsSaid") {
  Directories made(2);
  made.options.directories.pop_back();
  made.Open();
  CHECK(made.Open()->Moves("node7").empty());
  const std::string other = made.path(0) + "/../1";
  std::filesystem::rename(made.file(), other + "/tidepool.nvm");
  made.options.directories[0] = other;
  made.options.host = "node8";
  {
    const auto moved = made.Open();
    REQUIRE(moved->Moves("node8").size() == 1);
    CHECK(moved->Moves("node8")[0].find("host node7") != std::string::npos);
    CHECK(moved->Moves("node8")[0].find("-> host node8") != std::string::npos);
  }
  CHECK(made.Open()->Moves("node8").empty());
}

TEST_CASE("AnOlderStateOfADeviceNeedsAdopt") {
  Directories made;
  made.Open();
  const std::string older = made.file() + ".older";
  std::filesystem::copy(made.file(), older);
  made.Open();
  made.options.incarnation_seen = made.options.incarnation - 1;
  std::filesystem::rename(older, made.file());
  CHECK(made.Refused("--adopt") == StatusCode::kFailedPrecondition);
  CHECK(Volume::OpenForReading(made.options.directories).ok());
  CHECK((*Volume::OpenForReading(made.options.directories))->CheckStart(made.options).code() ==
        StatusCode::kFailedPrecondition);
  made.options.adopt = true;
  made.Open();
}

TEST_CASE("TheFileOfAnotherNodeIsRefused") {
  Directories made;
  made.Open();
  made.options.node = RandomUuid();
  CHECK(made.Refused("belongs to node 3f2b8c1e") == StatusCode::kFailedPrecondition);
}

TEST_CASE("AnotherCountOfCoresIsRefused") {
  Directories made;
  made.Open();
  made.options.layout.cores = 3;
  CHECK(made.Refused("give --cores 2") == StatusCode::kFailedPrecondition);
}

TEST_CASE("AnotherSizeThanTheFileHasIsRefused") {
  Directories made;
  made.Open();
  made.options.bytes = 2 * kMiB;
  CHECK(made.Refused("leave --nvm-size out") == StatusCode::kFailedPrecondition);
}

TEST_CASE("AnotherListOfDirectoriesIsRefused") {
  Directories made(2);
  made.Open();
  const VolumeOptions both = made.options;
  made.options.directories.pop_back();
  CHECK(made.Refused("device 1 of 2") == StatusCode::kFailedPrecondition);
  made.options.directories = {both.directories[1], both.directories[0]};
  CHECK(made.Refused("device 2 of 2") == StatusCode::kFailedPrecondition);
  made.options = both;
  std::filesystem::remove(made.file(1));
  CHECK(made.Refused("is missing, but") == StatusCode::kFailedPrecondition);
}

TEST_CASE("AnIdentityOlderThanTheDataIsRefused") {
  Directories made;
  made.options.incarnation = 9;
  made.Open();
  made.options.incarnation = 9;
  CHECK(made.Refused("older than its data") == StatusCode::kFailedPrecondition);
}

TEST_CASE("AnotherFormatIsRefused") {
  Directories made;
  made.Open();
  const int file = open(made.file().c_str(), O_RDWR);
  std::vector<std::byte> block(kDeviceBlockBytes);
  REQUIRE(pread(file, block.data(), block.size(), 0) == 4096);
  StoreUnaligned(block.data() + 8, std::uint32_t{9});
  StoreUnaligned(block.data() + 12, std::uint32_t{0});
  StoreUnaligned(block.data() + 12, Crc32c(block));
  REQUIRE(pwrite(file, block.data(), block.size(), 0) == 4096);
  close(file);
  CHECK(made.Refused("format 9") == StatusCode::kFailedPrecondition);
}

TEST_CASE("ADamagedOrCutOffFileIsRefused") {
  Directories made;
  made.Open();
  REQUIRE(truncate(made.file().c_str(), kMiB / 2) == 0);
  CHECK(made.Refused("was cut off") == StatusCode::kDataLoss);
  const int file = open(made.file().c_str(), O_RDWR);
  const std::byte noise[1]{std::byte{0xee}};
  REQUIRE(pwrite(file, noise, 1, 300) == 1);
  REQUIRE(pwrite(file, noise, 1, 4396) == 1);
  close(file);
  CHECK(made.Refused("damaged") == StatusCode::kDataLoss);
}

TEST_CASE("FilesOfAFirstStartThatWasInterruptedAreMadeAgain") {
  Directories made(2);
  made.Open();
  // As if the power had failed between the two names: the first device was formatted, and never
  // used.
  Rewrite(made.file(0), [](Superblock& superblock) {
    superblock.generation = 1;
    superblock.incarnation = 0;
  });
  std::filesystem::rename(made.file(1), made.file(1) + ".new");
  const auto volume = made.Open();
  CHECK(volume->found(0).volume == volume->found(1).volume);
  CHECK_FALSE(std::filesystem::exists(made.file(1) + ".new"));
}

}  // namespace
}  // namespace tidepool::storage
