#include "proto/cluster_file/find.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <vector>

#include "proto/cluster_file/file_io.h"
#include "proto/cluster_file/places.h"

namespace tidepool::cluster_file {
namespace {

constexpr const char* kFileInWorkingFolder = "tidepool-cluster.json";

// In a folder that everybody may write to (/tmp), another user may have made it first.
Status CheckOwnFolder(const std::string& folder) {
  struct stat info {};
  if (lstat(folder.c_str(), &info) != 0) return FileError("use the folder", folder, errno);
  if (S_ISDIR(info.st_mode) && info.st_uid == geteuid() && (info.st_mode & 077) == 0) {
    return OkStatus();
  }
  return Status(StatusCode::kPermissionDenied,
                "'" + folder + "' is not a folder of yours that is closed to others",
                "chmod 700 " + folder + " if it is yours; else set XDG_RUNTIME_DIR or --cluster");
}

bool IsFolder(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

Environment ProcessEnvironment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr || *value == '\0') return std::nullopt;
    return std::string(value);
  };
}

Result<std::string> UserServicePath(const Environment& environment, bool make_folder) {
  std::string folder;
  // The variable outlives the login of its folder: in a batch job, under su, in screen.
  if (const auto runtime = environment("XDG_RUNTIME_DIR"); runtime && IsFolder(*runtime)) {
    folder = *runtime + "/tidepool";
  } else {
    folder = environment("TMPDIR").value_or("/tmp") + "/tidepool-" + std::to_string(geteuid());
  }
  if (make_folder && mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return FileError("make the folder", folder, errno);
  }
  const Status owned = CheckOwnFolder(folder);
  if (!owned.ok() && (make_folder || owned.code() != StatusCode::kNotFound)) return owned;
  return folder + "/cluster.json";
}

std::optional<std::string> JobPath(const Environment& environment) {
  const auto folder = environment("SLURM_SUBMIT_DIR");
  const auto job = environment("SLURM_JOB_ID");
  if (!folder || !job) return std::nullopt;
  return *folder + "/tidepool-" + *job + ".json";
}

std::string JobId(const Environment& environment) {
  return environment("SLURM_JOB_ID").value_or("");
}

Result<std::string> PathForDaemon(const std::string& flag, const Environment& environment) {
  if (!flag.empty()) return flag;
  if (const auto variable = environment("TIDEPOOL_CLUSTER")) return *variable;
  if (const auto job = JobPath(environment)) return *job;
  return UserServicePath(environment, /*make_folder=*/true);
}

Result<std::vector<Place>> PlacesOf(const std::string& flag, const Environment& environment) {
  if (!flag.empty()) return std::vector<Place>{{flag, "--cluster"}};
  if (const auto variable = environment("TIDEPOOL_CLUSTER")) {
    return std::vector<Place>{{*variable, "TIDEPOOL_CLUSTER"}};
  }
  std::vector<Place> places;
  if (const auto job = JobPath(environment)) places.push_back({*job, "the Slurm job's"});
  places.push_back({kFileInWorkingFolder, "in the working folder"});
  auto user_service = UserServicePath(environment, /*make_folder=*/false);
  if (!user_service.ok()) return user_service.status();
  places.push_back({*std::move(user_service), "your default service"});
  return places;
}

Result<Found> Find(const std::string& flag, const Environment& environment) {
  auto places = PlacesOf(flag, environment);
  if (!places.ok()) return places.status();
  const bool must_exist = !flag.empty() || environment("TIDEPOOL_CLUSTER").has_value();
  std::string tried;
  for (Place& place : *places) {
    auto file = Read(place.path);
    if (file.ok()) return Found{std::move(place.path), std::move(place.why), *std::move(file)};
    if (file.code() != StatusCode::kNotFound) return file.status();
    tried += (tried.empty() ? "" : ", ") + place.path + " (" + place.why + ")";
  }
  return Status(
      StatusCode::kNotFound,
      must_exist ? "there is no connection file " + tried : "no service found; looked for " + tried,
      "start one (kvctl start --local, or kvd), or name its connection file with --cluster");
}

bool InsecureAllowed(const Environment& environment) {
  const auto value = environment("TIDEPOOL_INSECURE");
  return value == "true" || value == "1" || value == "yes" || value == "on";
}

}  // namespace tidepool::cluster_file
