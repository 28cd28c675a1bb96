#include "tests/integration/staging_fixture.h"

#include <fcntl.h>
#include <grpcpp/channel.h>
#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>

#include "proto/base/unique_fd.h"
#include "proto/file_tree/tree_walk.h"
#include "tidepool/v1/admin.grpc.pb.h"
#include "tidepool/v1/bulk.grpc.pb.h"
#include "tidepool/v1/common.pb.h"
#include "tidepool/v1/data.grpc.pb.h"
#include "tidepool/v1/namespaces.grpc.pb.h"
#include "tidepool/v1/staging.pb.h"

namespace tidepool::testing {

StagingCluster::StagingCluster(TestClusterOptions options) : cluster_(std::move(options)) {}

v1::StartStageRequest StagingCluster::Request(v1::StartStageRequest::Direction direction,
                                              const std::string& space,
                                              const std::string& directory,
                                              const StageOptions& options) {
  v1::StartStageRequest request;
  request.set_direction(direction);
  request.set_namespace_(space);
  request.set_directory(directory);
  request.set_checksum(options.checksum);
  request.set_incomplete_ok(options.incomplete_ok);
  request.set_probe_file(options.probe);
  if (options.probe == "made") {
    request.set_probe_file(".tidepool-stage-probe-of-test");
    std::ofstream(directory + "/" + request.probe_file()) << "probe";
  }
  return request;
}

grpc::Status StagingCluster::Start(const v1::StartStageRequest& request,
                                   v1::StartStageResponse* response, std::size_t node) {
  grpc::ClientContext call;
  cluster_.Prepare(&call);
  return Staging(node)->Start(&call, request, response);
}

v1::StageProgress StagingCluster::Watch(const std::string& job, std::size_t node) {
  grpc::ClientContext call;
  cluster_.Prepare(&call, 120'000);
  v1::WatchStageRequest request;
  request.set_job(job);
  auto stream = Staging(node)->Watch(&call, request);
  v1::StageProgress progress;
  while (stream->Read(&progress)) {
  }
  const grpc::Status ended = stream->Finish();
  INFO(ended.error_message());
  REQUIRE(ended.ok());
  REQUIRE(progress.done());
  return progress;
}

v1::StageProgress StagingCluster::Run(v1::StartStageRequest::Direction direction,
                                      const std::string& space, const std::string& directory,
                                      const StageOptions& options) {
  const v1::StartStageRequest request = Request(direction, space, directory, options);
  v1::StartStageResponse response;
  const grpc::Status started = Start(request, &response);
  INFO(started.error_message());
  REQUIRE(started.ok());
  REQUIRE(response.blind_nodes_size() == 0);
  // The job has removed the probe.
  CHECK((request.probe_file().empty() ||
         !std::filesystem::exists(directory + "/" + request.probe_file())));
  return Watch(response.job());
}

void StagingCluster::CreateNamespace(const std::string& name, const std::string& on_loss) {
  grpc::ClientContext call;
  cluster_.Prepare(&call);
  v1::CreateNamespaceRequest request;
  request.set_name(name);
  request.set_kind(v1::KIND_HASH);
  request.mutable_options()->set_on_loss(on_loss);
  v1::CreateNamespaceResponse response;
  const auto stub = v1::Namespaces::NewStub(cluster_.channel(0));
  const grpc::Status status = stub->Create(&call, request, &response);
  INFO(status.error_message());
  REQUIRE(status.ok());
}

void StagingCluster::Put(const std::string& space, const std::string& key,
                         const std::string& value) {
  grpc::ClientContext call;
  cluster_.Prepare(&call);
  v1::PutRequest request;
  request.set_namespace_(space);
  request.set_key(key);
  request.set_value(value);
  v1::PutResponse response;
  const grpc::Status status =
      v1::Data::NewStub(cluster_.channel(0))->Put(&call, request, &response);
  INFO(status.error_message());
  REQUIRE(status.ok());
}

std::string StagingCluster::Get(const std::string& space, const std::string& key) {
  grpc::ClientContext call;
  cluster_.Prepare(&call);
  v1::GetRequest request;
  request.set_namespace_(space);
  request.set_key(key);
  v1::GetResponse response;
  const grpc::Status status =
      v1::Data::NewStub(cluster_.channel(0))->Get(&call, request, &response);
  if (status.error_code() == grpc::StatusCode::NOT_FOUND) return "<none>";
  INFO(status.error_message());
  REQUIRE(status.ok());
  return response.record().value();
}

void StagingCluster::Delete(const std::string& space, const std::string& key) {
  grpc::ClientContext call;
  cluster_.Prepare(&call);
  v1::DeleteRequest request;
  request.set_namespace_(space);
  request.set_key(key);
  v1::DeleteResponse response;
  REQUIRE(v1::Data::NewStub(cluster_.channel(0))->Delete(&call, request, &response).ok());
}

std::vector<std::string> StagingCluster::Keys(const std::string& space, bool internal) {
  grpc::ClientContext call;
  cluster_.Prepare(&call, 60'000);
  v1::ScanRequest request;
  request.set_namespace_(space);
  request.set_keys_only(true);
  request.set_include_internal(internal);
  const auto stub = v1::Bulk::NewStub(cluster_.channel(0));
  auto stream = stub->Scan(&call, request);
  std::vector<std::string> keys;
  v1::ScanResponse response;
  while (stream->Read(&response)) {
    for (const v1::Record& record : response.records()) keys.push_back(record.key());
  }
  REQUIRE(stream->Finish().ok());
  std::sort(keys.begin(), keys.end());
  return keys;
}

std::uint64_t StagingCluster::Length(const std::string& space) {
  grpc::ClientContext call;
  cluster_.Prepare(&call);
  v1::LengthRequest request;
  request.set_namespace_(space);
  v1::LengthResponse response;
  REQUIRE(v1::Data::NewStub(cluster_.channel(0))->Length(&call, request, &response).ok());
  return response.records();
}

std::vector<std::string> StagingCluster::Unsaved() {
  grpc::ClientContext call;
  cluster_.Prepare(&call);
  v1::CheckStopRequest request;
  request.set_cluster(true);
  v1::CheckStopResponse response;
  REQUIRE(v1::Admin::NewStub(cluster_.channel(0))->CheckStop(&call, request, &response).ok());
  std::vector<std::string> names;
  for (const auto& loss : response.losses()) names.push_back(loss.namespace_());
  return names;
}

void MakeOddTree(const test::ScratchDirectory& tree, int many) {
  tree.Write("empty", "");
  tree.Write("text", "some text\n");
  tree.Write("run1/a.txt", "a");
  tree.Write("run1/deeper/and/deeper/b.txt", std::string(70'000, 'b'));
  tree.Write("medium", std::string(3'000'000, 'm'));
  tree.Write("new\nline", "n");
  tree.Write("bytes\xff\xfe\x01", "not UTF-8");
  tree.Write("-rf", "dash");
  tree.Write("{tag}/in{side}", "tags");
  tree.Write(" ", "blank");
  tree.Write(std::string(255, 'l'), "long");
  tree.Write("read-only", "r");
  tree.Write("set-id", "s");
  std::filesystem::create_directories(tree / "nothing/at/all");
  std::filesystem::create_symlink("run1/a.txt", tree / "link");
  std::filesystem::create_symlink("/nowhere/at/all", tree / "dangling");
  std::filesystem::create_directory_symlink("run1", tree / "link-to-directory");
  std::filesystem::create_symlink("..", tree / "run1/up");
  for (int i = 0; i < many; ++i) {
    tree.Write("many/" + std::to_string(i % 10) + "/" + std::to_string(i),
               std::string(static_cast<std::size_t>(i % 50), 'x'));
  }
  chmod((tree / "read-only").c_str(), 0400);
  chmod((tree / "set-id").c_str(), 06755);
  chmod((tree / "nothing/at").c_str(), 0555);
  chmod((tree / "run1").c_str(), 0700);
  const timespec old[2] = {{0, UTIME_OMIT}, {1'234'567'890, 123'456'789}};
  utimensat(AT_FDCWD, (tree / "text").c_str(), old, 0);
  utimensat(AT_FDCWD, (tree / "link").c_str(), old, AT_SYMLINK_NOFOLLOW);
  utimensat(AT_FDCWD, (tree / "nothing").c_str(), old, 0);
  const timespec before_1970[2] = {{0, UTIME_OMIT}, {-5, 1}};
  utimensat(AT_FDCWD, (tree / "empty").c_str(), before_1970, 0);
  utimensat(AT_FDCWD, tree.path().c_str(), old, 0);
}

std::string Difference(const test::ScratchDirectory& a, const test::ScratchDirectory& b) {
  const auto list = [](const test::ScratchDirectory& tree) {
    std::map<std::string, std::string> lines;
    const UniqueFd root(open(tree.path().c_str(), O_RDONLY | O_DIRECTORY));
    file_tree::WalkTree(root.get(),
                        {[&](file_tree::FoundFile found) {
                           lines[found.path] =
                               "type " + std::to_string(static_cast<int>(found.type)) + " mode " +
                               std::to_string(found.mode) + " size " + std::to_string(found.size) +
                               " mtime " + std::to_string(found.mtime.seconds) + "." +
                               std::to_string(found.mtime.nanoseconds) + " -> " + found.link_target;
                           return true;
                         },
                         [&](std::string_view path, const Status& why) {
                           lines[std::string(path)] = why.ToString();
                         }});
    return lines;
  };
  const auto left = list(a);
  const auto right = list(b);
  for (const auto& [path, line] : left) {
    const auto found = right.find(path);
    if (found == right.end()) return "missing: " + path;
    if (found->second != line) return path + ": " + line + " became " + found->second;
  }
  for (const auto& [path, line] : right) {
    if (!left.contains(path)) return "too much: " + path;
  }
  const std::string command =
      "diff -r --no-dereference " + a.path().string() + " " + b.path().string();
  return std::system(command.c_str()) == 0 ? "" : "diff -r differs";
}

std::string Failures(const v1::StageProgress& progress) {
  std::string all = progress.message();
  for (const std::string& failure : progress.failures()) all += "\n" + failure;
  return all;
}

}  // namespace tidepool::testing
