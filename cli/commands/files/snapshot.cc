#include "cli/commands/files/snapshot.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <utility>

#include "cli/commands/data/record_call.h"
#include "cli/commands/data/scan_records.h"
#include "cli/commands/files/image_calls.h"
#include "cli/commands/files/snapshot_manifest.h"
#include "cli/invocation.h"
#include "cli/text.h"
#include "proto/base/clock.h"
#include "proto/base/kind.h"
#include "proto/base/limits.h"
#include "proto/cluster_file/file_io.h"
#include "proto/cluster_file/random.h"
#include "proto/manifest/content_hash.h"
#include "proto/stage/survey.h"
#include "tidepool/v1/cluster.grpc.pb.h"
#include "tidepool/v1/namespaces.grpc.pb.h"

namespace tidepool::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kReadBytes = 1024 * 1024;
constexpr std::uint64_t kLateFilesMs = 5'000;
constexpr std::chrono::milliseconds kLateFilesInterval{10};

std::uint64_t WallMs() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

Result<std::string> RealPath(const std::string& folder) {
  char resolved[PATH_MAX];
  if (realpath(folder.c_str(), resolved) != nullptr) return std::string(resolved);
  return cluster_file::FileReadError("open the folder", folder, errno);
}

// The directory of a snapshot that is being made. Unless it is kept all that is in it goes again.
class NewFolder {
 public:
  static Result<std::unique_ptr<NewFolder>> Make(const std::string& folder) {
    std::error_code error;
    const bool made = fs::create_directories(folder, error);
    if (error) return cluster_file::FileError("make the folder", folder, error.value());
    const Result<std::string> path = RealPath(folder);
    if (!path.ok()) return path.status();
    const bool empty = fs::is_empty(*path, error);
    if (error) return cluster_file::FileReadError("open the folder", folder, error.value());
    if (!empty) {
      return Status(StatusCode::kAlreadyExists, Quote(folder) + " is not empty",
                    "give a folder that is not there yet, or remove what is in it");
    }
    std::unique_ptr<NewFolder> made_folder(new NewFolder(*path, made));
    TP_RETURN_IF_ERROR(made_folder->MakeProbe());
    return made_folder;
  }
  ~NewFolder() {
    // Comes first, so that no daemon begins another image (WriteImagesRequest.probe_file).
    unlink((path_ + "/" + probe_).c_str());
    if (!kept_) Remove();
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const std::string& path() const { return path_; }
  // By which the nodes prove that they see the same folder.
  const std::string& probe() const { return probe_; }
  void Keep() {
    kept_ = true;
    RemoveUnfinished();
  }

 private:
  NewFolder(std::string path, bool made) : path_(std::move(path)), made_(made) {}

  Status MakeProbe() {
    probe_ = ".tidepool-snapshot-" + cluster_file::RandomHex(8);
    const std::string path = path_ + "/" + probe_;
    const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    return file.is_open() ? OkStatus()
                          : cluster_file::FileError("write into the folder", path_, errno);
  }
  // A daemon with a cancelled call may still make a file, which it removes itself.
  void Remove() const {
    const Deadline deadline = Deadline::AfterMs(kLateFilesMs);
    for (;;) {
      const bool others = RemoveImages();
      if (!made_ || others || rmdir(path_.c_str()) == 0 || errno != ENOTEMPTY) return;
      if (deadline.Passed()) return;
      std::this_thread::sleep_for(kLateFilesInterval);
    }
  }
  // A daemon that died has left the image behind that it was writing.
  void RemoveUnfinished() const {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(path_, error)) {
      const std::string name = entry.path().filename();
      if (name.starts_with("part-") && name.ends_with(".tmp")) unlink(entry.path().c_str());
    }
  }
  // Returns whether anything else is there.
  bool RemoveImages() const {
    std::error_code error;
    bool others = false;
    for (const auto& entry : fs::directory_iterator(path_, error)) {
      const std::string name = entry.path().filename();
      if (!name.starts_with("part-")) {
        others = true;
      } else {
        unlink(entry.path().c_str());
      }
    }
    return others;
  }

  const std::string path_;
  const bool made_;
  std::string probe_;
  bool kept_ = false;
};

Result<v1::NamespaceMap> Describe(Channel& channel, const std::string& name) {
  v1::DescribeNamespaceRequest request;
  request.set_name(name);
  v1::DescribeNamespaceResponse response;
  TP_RETURN_IF_ERROR(
      channel.Call<v1::Namespaces>(&v1::Namespaces::Stub::Describe, request, &response));
  return response.namespace_();
}

struct Node {
  std::uint32_t id = 0;
  std::uint32_t cores = 0;
  std::string address;
};
struct Nodes {
  std::string cluster_uuid;
  std::vector<Node> up;

  bool IsUp(std::uint32_t id) const {
    return std::any_of(up.begin(), up.end(), [id](const Node& node) { return node.id == id; });
  }
};

Result<Nodes> NodesOf(Channel& channel) {
  v1::StatusResponse status;
  TP_RETURN_IF_ERROR(channel.Call<v1::Cluster>(&v1::Cluster::Stub::Status, {}, &status));
  Nodes nodes;
  nodes.cluster_uuid = status.cluster_uuid();
  for (const auto& entry : status.nodes()) {
    const v1::Node& node = entry.node();
    if (node.state() != v1::NODE_STATE_UP) continue;
    nodes.up.push_back({node.node_id(), node.cores(), node.control_address()});
  }
  return nodes;
}

Status StartPart(Channel& channel, const Node& node, ImageCalls* calls, ImageCalls::Open open) {
  auto connected = channel.ConnectTo(node.address);
  if (!connected.ok()) return connected.status();
  calls->Start(node.id, *std::move(connected), std::move(open));
  return OkStatus();
}

// Unavailable data of a namespace, by node.
class Gaps {
 public:
  // `failed`: nodes with streams that ended too early.
  Gaps(const v1::NamespaceMap& space, const Nodes& nodes,
       const std::map<std::uint32_t, Status>& failed)
      : space_(space), nodes_(nodes), failed_(failed) {}

  // kOk: the owner can give the partition.
  Status Check(const v1::Partition& partition) const {
    const std::string owner = "node " + std::to_string(partition.node_id());
    if (partition.state() == v1::PARTITION_STATE_LOST) {
      return Status(StatusCode::kDataLoss, "its data was lost with an earlier daemon of the node",
                    "go on with what is left: kvctl namespace accept-loss " + space_.name());
    }
    if (!nodes_.IsUp(partition.node_id())) {
      return Status(StatusCode::kUnavailable,
                    owner + ", which has partitions of " + Quote(space_.name()) + ", is not up",
                    "see: kvctl status");
    }
    const auto failed = failed_.find(partition.node_id());
    return failed == failed_.end() ? OkStatus() : failed->second;
  }
  void Add(const v1::Partition& partition, const Status& why) {
    gaps_.partitions = static_cast<std::uint32_t>(space_.partitions_size());
    v1::MissingPart part;
    part.set_node_id(partition.node_id());
    part.set_node("node " + std::to_string(partition.node_id()));
    part.set_partitions(1);
    part.set_code(static_cast<std::uint32_t>(why.code()));
    part.set_why(std::string(why.what()));
    gaps_.Add(part);
    if (first_.ok()) first_ = why;
  }
  const ScanGaps& list() const { return gaps_; }
  const Status& first() const { return first_; }

 private:
  const v1::NamespaceMap& space_;
  const Nodes& nodes_;
  const std::map<std::uint32_t, Status>& failed_;
  ScanGaps gaps_;
  Status first_;
};

// Checks that each partition has an image under its present owner, or is absent with its node.
// Otherwise partitions have moved meanwhile. Fills in the manifest's absent partitions.
Status CheckComplete(const v1::NamespaceMap& space, Gaps* gaps, SnapshotManifest* manifest) {
  const Status moved(StatusCode::kAborted, "partitions of it were moved or split meanwhile",
                     "run the same command again");
  auto file = manifest->files.begin();
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(space.partitions_size()); ++i) {
    const v1::Partition& partition = space.partitions(static_cast<int>(i));
    if (file != manifest->files.end() && file->partition() == i) {
      // If a partition's node has come back meanwhile, the term is new and the image is good.
      if (file->term() != partition.term() && gaps->Check(partition).ok()) return moved;
      ++file;
      continue;
    }
    const Status why = gaps->Check(partition);
    if (why.ok()) return moved;
    gaps->Add(partition, why);
    manifest->missing.push_back(i);
  }
  if (file != manifest->files.end()) return moved;
  return manifest->files.empty() ? gaps->first() : OkStatus();
}

// Returns options for an equal namespace on another cluster, which places its partitions itself. An
// ordered namespace gets its present ranges as split keys; other kinds keep their options.
v1::NamespaceOptions OptionsOf(const v1::NamespaceMap& space) {
  v1::NamespaceOptions options = space.options();
  options.clear_home();
  if (space.kind() != v1::KIND_ORDERED) return options;
  options.clear_partitions();
  options.clear_split_keys();
  std::set<std::string> begins;
  for (const v1::Partition& partition : space.partitions()) begins.insert(partition.begin());
  for (const std::string& begin : begins) {
    if (!begin.empty()) options.add_split_keys(begin);
  }
  return options;
}

Json Summary(const SnapshotManifest& manifest, const std::string& folder) {
  Json result = {{"namespace", manifest.name},
                 {"partitions", manifest.files.size()},
                 {"partitions_missing", manifest.missing.size()},
                 {"bytes", manifest.bytes()}};
  SetBytes(&result, "directory", folder);
  return result;
}

std::string SizeOf(const SnapshotManifest& manifest) {
  return std::to_string(manifest.files.size()) + " partitions, " + FormatBytes(manifest.bytes());
}

std::string LackText(const SnapshotManifest& manifest) {
  return "the snapshot lacks " + std::to_string(manifest.missing.size()) + " of " +
         std::to_string(manifest.partitions()) + " partitions of " + Quote(manifest.name);
}

// Has each node that is up write its images. A node that fails is in `failed` then.
Status WriteParts(Invocation& run, Channel& channel, const v1::NamespaceMap& space,
                  const Nodes& nodes, const v1::WriteImagesRequest& request,
                  std::vector<v1::ImageFile>* files, std::map<std::uint32_t, Status>* failed) {
  std::set<std::uint32_t> owners;
  for (const v1::Partition& partition : space.partitions()) owners.insert(partition.node_id());
  ImageCalls calls(run.out, ImageCalls::NodeFailure::kGoOn);
  for (const Node& node : nodes.up) {
    if (!owners.contains(node.id)) continue;
    const Status started = StartPart(
        channel, node, &calls, [&request](v1::Snapshots::Stub& stub, grpc::ClientContext* call) {
          return stub.WriteImages(call, request);
        });
    if (!started.ok() && !stage::IsOfNode(started.code())) return started;
    if (!started.ok()) failed->emplace(node.id, started);
  }
  TP_RETURN_IF_ERROR(calls.Wait("writing", 0, static_cast<std::size_t>(space.partitions_size())));
  *files = calls.files();
  failed->insert(calls.failed_nodes().begin(), calls.failed_nodes().end());
  return OkStatus();
}

Status CreateSnapshot(Invocation& run) {
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  const Result<v1::NamespaceMap> space = Describe(**channel, run.args.Text("NAMESPACE"));
  if (!space.ok()) return space.status();
  const Result<Nodes> nodes = NodesOf(**channel);
  if (!nodes.ok()) return nodes.status();
  Result<std::unique_ptr<NewFolder>> folder = NewFolder::Make(run.args.Text("DIRECTORY"));
  if (!folder.ok()) return folder.status();

  v1::WriteImagesRequest request;
  request.set_namespace_(space->name());
  request.set_namespace_id(space->namespace_id());
  request.set_directory((*folder)->path());
  request.set_probe_file((*folder)->probe());
  request.set_partial_ok(run.args.Has("--partial"));
  std::map<std::uint32_t, Status> failed;
  std::vector<v1::ImageFile> files;
  TP_RETURN_IF_ERROR(WriteParts(run, **channel, *space, *nodes, request, &files, &failed));

  SnapshotManifest manifest;
  manifest.files = std::move(files);
  std::sort(manifest.files.begin(), manifest.files.end(),
            [](const auto& a, const auto& b) { return a.partition() < b.partition(); });
  // This channel may lead to a failed node. Other nodes know the map too.
  const Result<Channel*> living = failed.empty() ? channel : run.Reconnect();
  if (!living.ok()) return living.status();
  const Result<v1::NamespaceMap> after = Describe(**living, space->name());
  if (!after.ok()) return after.status();
  const Result<Nodes> nodes_after = NodesOf(**living);
  if (!nodes_after.ok()) return nodes_after.status();
  Gaps gaps(*after, *nodes_after, failed);
  TP_RETURN_IF_ERROR(CheckComplete(*after, &gaps, &manifest));
  manifest.name = space->name();
  manifest.kind = space->kind();
  manifest.options = OptionsOf(*after);
  manifest.cluster_uuid = nodes->cluster_uuid;
  manifest.made_at_ms = WallMs();
  TP_RETURN_IF_ERROR(WriteManifest((*folder)->path(), manifest));
  (*folder)->Keep();
  run.out.Result(Summary(manifest, (*folder)->path()), "snapshot of " + manifest.name + ": " +
                                                           SizeOf(manifest) + " in " +
                                                           ForTerminal((*folder)->path()));
  if (manifest.missing.empty()) return OkStatus();
  run.out.SetPartial();
  for (const v1::MissingPart& part : gaps.list().missing) {
    run.out.Note("missing: " + stage::Text(part, gaps.list().partitions));
  }
  return Status(gaps.first().code(), LackText(manifest),
                "kvctl snapshot restore --partial brings back what is in it");
}

// Looks at sizes only: contents are checked as they are read.
Status CheckSizes(const std::string& folder, const SnapshotManifest& manifest) {
  for (const v1::ImageFile& file : manifest.files) {
    const std::string path = folder + "/" + file.name();
    struct stat info {};
    if (stat(path.c_str(), &info) != 0) return cluster_file::FileReadError("read", path, errno);
    if (!S_ISREG(info.st_mode) || static_cast<std::uint64_t>(info.st_size) != file.bytes()) {
      return Status(StatusCode::kDataLoss, Quote(path) + " has not the size that the manifest says",
                    "use another snapshot");
    }
  }
  return OkStatus();
}

Result<SnapshotManifest> Open(const std::string& folder) {
  Result<SnapshotManifest> manifest = ReadManifest(folder);
  if (manifest.ok()) TP_RETURN_IF_ERROR(CheckSizes(folder, *manifest));
  return manifest;
}

// Every core of a larger cluster is to have its share.
void Widen(const std::vector<Node>& nodes, const SnapshotManifest& manifest,
           v1::NamespaceOptions* options) {
  if (manifest.kind != v1::KIND_HASH) return;
  std::uint32_t partitions = 0;
  for (const Node& node : nodes) partitions += node.cores * limits::kPartitionsPerCoreDefault;
  partitions = std::min<std::uint32_t>(partitions, limits::kPartitionsPerNamespaceMax);
  options->set_partitions(std::max(partitions, options->partitions()));
}

// The largest first, each to the node that has the least.
void ShareFiles(const SnapshotManifest& manifest, std::vector<v1::LoadImagesRequest>* requests) {
  std::vector<v1::ImageFile> files = manifest.files;
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.bytes() > b.bytes(); });
  std::vector<std::uint64_t> bytes(requests->size());
  for (v1::ImageFile& file : files) {
    const auto least =
        static_cast<std::size_t>(std::min_element(bytes.begin(), bytes.end()) - bytes.begin());
    bytes[least] += file.bytes();
    *(*requests)[least].add_files() = std::move(file);
  }
}

// Each to the node that has the partition of the same number.
Status GiveToOwners(const SnapshotManifest& manifest, const Nodes& nodes,
                    const v1::NamespaceMap& space, std::vector<v1::LoadImagesRequest>* requests) {
  if (manifest.partitions() != static_cast<std::size_t>(space.partitions_size())) {
    return Status(StatusCode::kDataLoss,
                  "the manifest has not a file for each partition of its options",
                  "use another snapshot");
  }
  for (const v1::ImageFile& file : manifest.files) {
    const std::uint32_t owner = space.partitions(static_cast<int>(file.partition())).node_id();
    const auto node = std::find_if(nodes.up.begin(), nodes.up.end(),
                                   [&](const Node& each) { return each.id == owner; });
    if (node == nodes.up.end()) {
      return Status(StatusCode::kUnavailable, "node " + std::to_string(owner) + " has just come",
                    "run the same command again");
    }
    *(*requests)[static_cast<std::size_t>(node - nodes.up.begin())].add_files() = file;
  }
  return OkStatus();
}

Status LoadAll(Invocation& run, Channel& channel, const Nodes& nodes, const std::string& folder,
               const SnapshotManifest& manifest, const v1::NamespaceMap& space) {
  const bool has_keys = manifest.kind == v1::KIND_HASH || manifest.kind == v1::KIND_ORDERED;
  std::vector<v1::LoadImagesRequest> requests(nodes.up.size());
  if (has_keys) {
    ShareFiles(manifest, &requests);
  } else {
    TP_RETURN_IF_ERROR(GiveToOwners(manifest, nodes, space, &requests));
  }
  ImageCalls calls(run.out, ImageCalls::NodeFailure::kEndAll);
  for (std::size_t i = 0; i < nodes.up.size(); ++i) {
    if (requests[i].files().empty()) continue;
    requests[i].set_namespace_(space.name());
    requests[i].set_namespace_id(space.namespace_id());
    requests[i].set_directory(folder);
    TP_RETURN_IF_ERROR(
        StartPart(channel, nodes.up[i], &calls,
                  [request = requests[i]](v1::Snapshots::Stub& stub, grpc::ClientContext* call) {
                    return stub.LoadImages(call, request);
                  }));
  }
  return calls.Wait("restoring", manifest.bytes(), manifest.files.size());
}

Status Restore(Invocation& run) {
  const Result<std::string> folder = RealPath(run.args.Text("DIRECTORY"));
  if (!folder.ok()) return folder.status();
  const Result<SnapshotManifest> manifest = Open(*folder);
  if (!manifest.ok()) return manifest.status();
  if (!manifest->missing.empty() && !run.args.Has("--partial")) {
    return Status(StatusCode::kDataLoss, LackText(*manifest) + ": their nodes were gone",
                  "give --partial to restore what is in it");
  }
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  const Result<Nodes> nodes = NodesOf(**channel);
  if (!nodes.ok()) return nodes.status();
  const std::string& given = run.args.Text("NAMESPACE");
  v1::CreateNamespaceRequest create;
  create.set_name(given.empty() ? manifest->name : given);
  create.set_kind(manifest->kind);
  *create.mutable_options() = manifest->options;
  Widen(nodes->up, *manifest, create.mutable_options());
  const Status exists(StatusCode::kAlreadyExists,
                      "a namespace " + Quote(create.name()) + " exists already",
                      "give another name: kvctl snapshot restore DIRECTORY NAMESPACE");
  const Result<v1::NamespaceMap> before = Describe(**channel, create.name());
  if (before.ok()) return exists;
  if (before.code() != StatusCode::kNotFound) return before.status();
  v1::CreateNamespaceResponse created;
  TP_RETURN_IF_ERROR(
      (*channel)->Call<v1::Namespaces>(&v1::Namespaces::Stub::Create, create, &created));
  // Another process was faster.
  if (!created.created()) return exists;
  if (const Status status =
          LoadAll(run, **channel, *nodes, *folder, *manifest, created.namespace_());
      !status.ok()) {
    v1::DropNamespaceRequest drop;
    drop.set_name(create.name());
    v1::DropNamespaceResponse dropped;
    const Status gone =
        (*channel)->Call<v1::Namespaces>(&v1::Namespaces::Stub::Drop, drop, &dropped);
    if (gone.ok() || gone.code() == StatusCode::kNotFound) return status;
    run.out.Note("the namespace " + Quote(create.name()) +
                 ", of which not all was restored, cannot be dropped: " + gone.ToString());
    return status;
  }
  Json result = Summary(*manifest, *folder);
  result["namespace"] = create.name();
  run.out.Result(result, "restored " + create.name() + ": " + SizeOf(*manifest) + " from " +
                             ForTerminal(*folder));
  return OkStatus();
}

Status CheckContent(const std::string& folder, const v1::ImageFile& file) {
  const std::string path = folder + "/" + file.name();
  const UniqueFd opened(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!opened.is_open()) return cluster_file::FileReadError("read", path, errno);
  std::vector<std::byte> room(kReadBytes);
  manifest::ContentHash hash;
  for (;;) {
    const ssize_t got = read(opened.get(), room.data(), room.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return cluster_file::FileReadError("read", path, errno);
    if (got == 0) break;
    hash.Add(Bytes(room).first(static_cast<std::size_t>(got)));
  }
  if (hash.Finish().Hex() == file.hash()) return OkStatus();
  return Status(StatusCode::kDataLoss,
                Quote(path) + " is not what was written: the checksum differs",
                "use another snapshot");
}

Status Check(Invocation& run) {
  const std::string& folder = run.args.Text("DIRECTORY");
  const Result<SnapshotManifest> manifest = Open(folder);
  if (!manifest.ok()) return manifest.status();
  for (const v1::ImageFile& file : manifest->files) {
    TP_RETURN_IF_ERROR(CheckContent(folder, file));
  }
  run.out.Result(ToJson(*manifest), "all of the snapshot of " + manifest->name +
                                        " is as it was written: " + SizeOf(*manifest));
  return OkStatus();
}

}  // namespace

std::vector<Verb> SnapshotVerbs() {
  const Parameter directory = {"DIRECTORY", "where kvctl snapshot create has put it"};
  return {
      {"snapshot create",
       "write all of a namespace into a directory, while it is used",
       "The daemons write the files, so DIRECTORY must be on a file system that all nodes share. "
       "Each partition is in it as it was at one moment, different ones at moments that differ by "
       "the time that the command takes: where that matters let nobody write meanwhile. Of a queue "
       "all items are in it, those under a lease too, as if they were never delivered. What was "
       "not completed, for whatever reason, has no manifest.json and is refused by restore. "
       "Partitions of a node that is dead are missing: the snapshot has the others, the command "
       "names the node and ends with exit code 6, and restore wants --partial.",
       {NamespaceParameter(), {"DIRECTORY", "is made; if it is there it must be empty"}},
       {{"--partial", "", "also of a durable namespace that has lost something in a crash"}},
       {{"kvctl snapshot create particles /scratch/step-100", ""}},
       CreateSnapshot,
       "backup checkpoint save"},
      {"snapshot restore",
       "make a namespace of a snapshot",
       "On a cluster of any number of nodes, with the kind and options that it had. Times to live "
       "go on with what was left of them when the snapshot was taken; versions, and ids and counts "
       "of deliveries of a queue's items, begin anew: each is ready, in its order. "
       "Checksums are verified, and unless all is well the namespace is dropped again.",
       {directory, {"NAMESPACE", "its name, if not the one that it had; must not exist", 0, 1}},
       {{"--partial", "", "also a snapshot that lacks partitions, whose nodes were gone"}},
       {{"kvctl snapshot restore /scratch/step-100", ""},
        {"kvctl snapshot restore /scratch/step-100 before", "beside the one it was taken of"}},
       Restore,
       "recover"},
      {"snapshot check",
       "verify the checksums of a snapshot",
       "Needs no cluster. With --json it prints the manifest.",
       {directory},
       {},
       {{"kvctl snapshot check /scratch/step-100", ""}},
       Check,
       "verify"},
  };
}

}  // namespace tidepool::cli
