#include "proto/cluster_file/find.h"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>

#include "proto/cluster_file/random.h"
#include "tests/integration/harness.h"

namespace tidepool::cluster_file {
namespace {

using testing::TemporaryFolder;
using Variables = std::map<std::string, std::string>;

Environment With(Variables variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end() || found->second.empty()) return std::nullopt;
    return found->second;
  };
}

// Makes a file whose job id names its place.
std::string Make(const std::string& path, const std::string& mark) {
  ClusterFile file;
  file.cluster_uuid = MakeUuid();
  file.job_id = mark;
  file.token_file = "t";
  file.nodes = {{MakeUuid(), "127.0.0.1:1", "host"}};
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << Serialize(file, path);
  chmod(path.c_str(), 0600);
  chmod(std::filesystem::path(path).parent_path().c_str(), 0700);
  return path;
}

// The working folder of the process, given back at the end.
class WorkingFolder {
 public:
  explicit WorkingFolder(const std::string& path) : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(path);
  }
  ~WorkingFolder() { std::filesystem::current_path(before_); }

 private:
  std::filesystem::path before_;
};

TEST_CASE("TheFirstOfThePlacesWins") {
  const TemporaryFolder folder;
  const WorkingFolder here(folder.path());
  const std::string& root = folder.path();
  std::filesystem::create_directory(root + "/run");
  Variables variables = {{"XDG_RUNTIME_DIR", root + "/run"},
                         {"SLURM_SUBMIT_DIR", root + "/submit"},
                         {"SLURM_JOB_ID", "12"}};
  CHECK(Find("", With(variables)).code() == StatusCode::kNotFound);

  Make(root + "/run/tidepool/cluster.json", "service");
  CHECK(Find("", With(variables))->file.job_id == "service");
  Make(root + "/tidepool-cluster.json", "working");
  CHECK(Find("", With(variables))->file.job_id == "working");
  Make(root + "/submit/tidepool-12.json", "job");
  CHECK(Find("", With(variables))->file.job_id == "job");
  variables["TIDEPOOL_CLUSTER"] = Make(root + "/v/v.json", "variable");
  CHECK(Find("", With(variables))->file.job_id == "variable");
  const auto by_flag = Find(Make(root + "/f/f.json", "flag"), With(variables));
  CHECK(by_flag->file.job_id == "flag");
  CHECK(by_flag->why == "--cluster");
}

TEST_CASE("ANamedFileMustExist") {
  const TemporaryFolder folder;
  Make(folder.path() + "/run/tidepool/cluster.json", "service");
  const Variables variables = {{"XDG_RUNTIME_DIR", folder.path() + "/run"}};
  const auto found = Find(folder.path() + "/none.json", With(variables));
  CHECK(found.code() == StatusCode::kNotFound);
  CHECK(found.status().what().find("none.json") != std::string::npos);
}

TEST_CASE("NothingFoundNamesAllPlaces") {
  const TemporaryFolder folder;
  const WorkingFolder here(folder.path());
  const auto found = Find("", With({{"XDG_RUNTIME_DIR", folder.path()}}));
  REQUIRE(found.code() == StatusCode::kNotFound);
  CHECK(found.status().what().find("tidepool-cluster.json") != std::string::npos);
  CHECK(found.status().what().find(folder.path() + "/tidepool/cluster.json") != std::string::npos);
  CHECK(found.status().remedy().find("kvd") != std::string::npos);
  CHECK(found.status().remedy().find("kvctl start --local") != std::string::npos);
}

TEST_CASE("ADamagedFileIsNotPassedOver") {
  const TemporaryFolder folder;
  const WorkingFolder here(folder.path());
  std::ofstream(folder.path() + "/tidepool-cluster.json") << "{";
  chmod((folder.path() + "/tidepool-cluster.json").c_str(), 0600);
  Make(folder.path() + "/run/tidepool/cluster.json", "service");
  CHECK(Find("", With({{"XDG_RUNTIME_DIR", folder.path() + "/run"}})).code() ==
        StatusCode::kInvalidArgument);
}

TEST_CASE("ADaemonsDefaultIsTheJobsFileInAJob") {
  const TemporaryFolder folder;
  const Variables job = {{"SLURM_SUBMIT_DIR", "/s"}, {"SLURM_JOB_ID", "7"}};
  CHECK(*PathForDaemon("", With(job)) == "/s/tidepool-7.json");
  CHECK(*PathForDaemon("f.json", With(job)) == "f.json");
}

TEST_CASE("TheUsersServiceFolderIsMadeForItsOwnerOnly") {
  const TemporaryFolder folder;
  const auto path = PathForDaemon("", With({{"TMPDIR", folder.path()}}));
  REQUIRE(path.ok());
  const std::string made = folder.path() + "/tidepool-" + std::to_string(geteuid());
  CHECK(*path == made + "/cluster.json");
  struct stat info {};
  REQUIRE(stat(made.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0700);
}

TEST_CASE("ARuntimeFolderThatIsGoneIsPassedOverByDaemonsAndClients") {
  const TemporaryFolder folder;
  const WorkingFolder here(folder.path());
  const Environment environment =
      With({{"XDG_RUNTIME_DIR", folder.path() + "/gone"}, {"TMPDIR", folder.path()}});
  const auto path = PathForDaemon("", environment);
  REQUIRE(path.ok());
  CHECK(*path == folder.path() + "/tidepool-" + std::to_string(geteuid()) + "/cluster.json");
  Make(*path, "service");
  const auto found = Find("", environment);
  REQUIRE(found.ok());
  CHECK(found->file.job_id == "service");
}

TEST_CASE("AServiceFolderThatIsOpenToOthersIsRefused") {
  const TemporaryFolder folder;
  const std::string planted = folder.path() + "/tidepool-" + std::to_string(geteuid());
  REQUIRE(mkdir(planted.c_str(), 0777) == 0);
  chmod(planted.c_str(), 0777);
  const Environment environment = With({{"TMPDIR", folder.path()}});
  CHECK(PathForDaemon("", environment).code() == StatusCode::kPermissionDenied);
  CHECK(Find("", environment).code() == StatusCode::kPermissionDenied);
}

TEST_CASE("AServiceFolderThatIsALinkIsRefused") {
  const TemporaryFolder folder;
  const std::string planted = folder.path() + "/tidepool-" + std::to_string(geteuid());
  REQUIRE(mkdir((folder.path() + "/x").c_str(), 0700) == 0);
  REQUIRE(symlink((folder.path() + "/x").c_str(), planted.c_str()) == 0);
  CHECK(PathForDaemon("", With({{"TMPDIR", folder.path()}})).code() ==
        StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace tidepool::cluster_file
