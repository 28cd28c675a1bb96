#include "proto/cluster_file/cluster_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "proto/base/limits.h"
#include "proto/cluster_file/file_io.h"
#include "proto/cluster_file/random.h"

namespace tidepool::cluster_file {
namespace {

using Json = nlohmann::json;

constexpr const char* kMunge = "munge";
constexpr std::size_t kFileBytesMax = 4 << 20;  // 1,024 nodes take 0.2 MiB.

Status Damaged(const std::string& path, const std::string& what) {
  return Status(StatusCode::kInvalidArgument,
                "the connection file '" + path + "' is damaged: " + what,
                "remove it if its service has ended, or name another one with --cluster");
}

// The member `name`, if it is there and a text.
std::string TextOf(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Returns the member `name` as a number up to `most`, or `otherwise` if it is no such number.
std::uint32_t NumberOf(const Json& object, const char* name, std::uint64_t most,
                       std::uint32_t otherwise) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_unsigned()) return otherwise;
  const auto value = found->get<std::uint64_t>();
  return value <= most ? static_cast<std::uint32_t>(value) : otherwise;
}

Result<std::vector<FileNode>> ParseNodes(const Json& json, const std::string& path) {
  const auto found = json.find("nodes");
  if (found == json.end() || !found->is_array() || found->empty() ||
      found->size() > limits::kNodesMax) {
    return Damaged(path, "'nodes' is not a list of 1 to " + std::to_string(limits::kNodesMax));
  }
  std::vector<FileNode> nodes;
  for (const Json& entry : *found) {
    if (!entry.is_object()) return Damaged(path, "a node is not an object");
    FileNode node{TextOf(entry, "uuid"), TextOf(entry, "control_address"), TextOf(entry, "host")};
    if (!IsUuid(node.uuid) || node.control_address.empty()) {
      return Damaged(path, "node " + std::to_string(nodes.size()) + " lacks uuid or address");
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

// `path` as it stands in a file in `folder`, and back.
std::string Within(const std::string& folder, const std::string& path) {
  return path.compare(0, folder.size() + 1, folder + "/") == 0 ? path.substr(folder.size() + 1)
                                                               : path;
}
std::string Beyond(const std::string& folder, const std::string& path) {
  return path.empty() || path.front() == '/' ? path : folder + "/" + path;
}

bool FlagOf(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

// Damage here must not lead to a plain connection.
Result<FileTls> ParseTls(const Json& json, const std::string& path) {
  FileTls tls;
  const auto found = json.find("tls");
  if (found == json.end()) return tls;
  if (!found->is_object()) return Damaged(path, "'tls' is not an object");
  tls.ca = TextOf(*found, "ca");
  if (tls.ca.empty()) return Damaged(path, "'tls' has no 'ca'");
  tls.name = TextOf(*found, "name");
  tls.file = Beyond(FolderOf(path), TextOf(*found, "file"));
  tls.mutual = FlagOf(*found, "mutual");
  return tls;
}

std::string WithoutEnding(const std::string& path) {
  constexpr std::string_view kEnding = ".json";
  const bool ends = path.size() > kEnding.size() &&
                    path.compare(path.size() - kEnding.size(), kEnding.size(), kEnding) == 0;
  return ends ? path.substr(0, path.size() - kEnding.size()) : path;
}

}  // namespace

std::string Serialize(const ClusterFile& file, const std::string& path) {
  const std::string folder = FolderOf(path);
  Json nodes = Json::array();
  for (const FileNode& node : file.nodes) {
    nodes.push_back({{"node_id", nodes.size()},
                     {"uuid", node.uuid},
                     {"control_address", node.control_address},
                     {"host", node.host}});
  }
  Json json = {{"format", ClusterFile::kFormat},
               {"cluster_uuid", file.cluster_uuid},
               {"job_id", file.job_id},
               {"nodes_expected", file.nodes_expected},
               {"coordinator", file.coordinator},
               {"insecure", file.insecure},
               {"nodes", nodes}};
  if (file.munge) {
    json["auth"] = kMunge;
  } else {
    json["token_file"] = Within(folder, file.token_file);
  }
  if (!file.tls.ca.empty()) {
    json["tls"] = {{"ca", file.tls.ca},
                   {"name", file.tls.name},
                   {"file", Within(folder, file.tls.file)},
                   {"mutual", file.tls.mutual}};
  }
  // Bytes that are not UTF-8 (an odd host name) are replaced rather than thrown at.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<ClusterFile> Parse(std::string_view text, const std::string& path) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Damaged(path, "it is not a JSON object");
  const std::uint32_t format = NumberOf(json, "format", 1'000'000, 0);
  if (format == 0) return Damaged(path, "it has no 'format'");
  if (format > ClusterFile::kFormat) {
    return Status(StatusCode::kUnimplemented,
                  "the connection file '" + path + "' has format " + std::to_string(format) +
                      ", this program knows " + std::to_string(ClusterFile::kFormat),
                  "use the version of tidepool that the daemons run");
  }
  ClusterFile file;
  file.cluster_uuid = TextOf(json, "cluster_uuid");
  if (!IsUuid(file.cluster_uuid)) return Damaged(path, "'cluster_uuid' is not a UUID");
  file.job_id = TextOf(json, "job_id");
  file.nodes_expected = NumberOf(json, "nodes_expected", limits::kNodesMax, 0);
  if (file.nodes_expected == 0) return Damaged(path, "'nodes_expected' is not a number of nodes");
  file.munge = TextOf(json, "auth") == kMunge;
  file.token_file = TextOf(json, "token_file");
  if (file.token_file.empty() && !file.munge) return Damaged(path, "it has no 'token_file'");
  file.token_file = Beyond(FolderOf(path), file.token_file);
  file.insecure = FlagOf(json, "insecure");
  auto tls = ParseTls(json, path);
  if (!tls.ok()) return tls.status();
  file.tls = *std::move(tls);
  auto nodes = ParseNodes(json, path);
  if (!nodes.ok()) return nodes.status();
  file.nodes = *std::move(nodes);
  file.coordinator = NumberOf(json, "coordinator", file.nodes.size() - 1, limits::kNodesMax);
  if (file.coordinator == limits::kNodesMax) return Damaged(path, "'coordinator' is not a node");
  return file;
}

Result<ClusterFile> Read(const std::string& path) {
  auto text = ReadSmallFile(path, kFileBytesMax);
  if (!text.ok()) return text.status();
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return FileReadError("read", path, errno);
  if ((info.st_uid != geteuid() && info.st_uid != 0) || (info.st_mode & 022) != 0) {
    return Status(StatusCode::kPermissionDenied,
                  "the connection file '" + path + "' could have been written by another user",
                  "it must belong to you and be writable by you alone: chmod 600 " + path);
  }
  return Parse(*text, path);
}

std::string TokenPathFor(const std::string& path, const std::string& cluster_uuid) {
  return SecretPathFor(path, cluster_uuid, "token");
}

std::string SecretPathFor(const std::string& path, const std::string& cluster_uuid,
                          const std::string& ending) {
  return WithoutEnding(path) + "." + cluster_uuid.substr(0, 8) + "." + ending;
}

std::string DataFolderFor(const std::string& path) { return WithoutEnding(path) + ".d"; }

}  // namespace tidepool::cluster_file
