#include "proto/cluster_file/loss_record.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "proto/cluster_file/random.h"
#include "tests/integration/harness.h"

namespace tidepool::cluster_file {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

LossRecord Sample(std::uint64_t at_ms) {
  return {MakeUuid(), MakeUuid(), "node7", "SIGTERM", at_ms, {{"inputs", 12, 3400}, {"a'b", 1, 0}}};
}

TEST_CASE("ARecordIsTakenOnceAndLeavesNoFolder") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/c.json";
  const LossRecord late = Sample(2000);
  const LossRecord early = Sample(1000);
  REQUIRE(WriteLossRecord(path, late).ok());
  REQUIRE(WriteLossRecord(path, early).ok());
  CHECK(TakeLossRecords(path) == std::vector<LossRecord>{early, late});
  CHECK(TakeLossRecords(path).empty());
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("OtherFilesOfTheDataFolderStay") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/c.json";
  REQUIRE(WriteLossRecord(path, Sample(1)).ok());
  fs::create_directory(folder.path() + "/c.d/logs");
  CHECK(TakeLossRecords(path).size() == 1);
  CHECK(fs::exists(folder.path() + "/c.d/logs"));
  CHECK_FALSE(fs::exists(folder.path() + "/c.d/lost"));
}

TEST_CASE("DamagedRecordsGoUnseen") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/c.json";
  fs::create_directories(folder.path() + "/c.d/lost");
  int number = 0;
  for (const char* const text :
       {"", "{", "[]", "{\"lost\": 3}", "{\"lost\": []}", "{\"lost\": [1]}",
        "{\"reason\": 4, \"lost\": [{\"records\": -1}]}"}) {
    std::ofstream(folder.path() + "/c.d/lost/" + std::to_string(number++) + ".json") << text;
  }
  CHECK(TakeLossRecords(path).size() == 1);  // The last is a record without names.
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("ALossIsSaidInOneLine") {
  CHECK(LossText({{"inputs", 12, 3400}, {"jobs", 1, 9}}) ==
        "'inputs' (12 records, 3400 bytes), 'jobs' (1 record, 9 bytes)");
  CHECK(LossText(std::vector<LostNamespace>(12, {"n", 1, 1})).find("and 2 more namespaces") !=
        std::string::npos);
}

}  // namespace
}  // namespace tidepool::cluster_file
