// Shared parts of the staging tests: a cluster with a namespace, waits for jobs, comparison of
// trees.
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/integration/harness.h"
#include "tests/support/scratch_directory.h"
#include "tidepool/v1/bulk.grpc.pb.h"
#include "tidepool/v1/data.grpc.pb.h"
#include "tidepool/v1/staging.grpc.pb.h"

namespace tidepool::testing {

inline constexpr auto kIn = v1::StartStageRequest::DIRECTION_IN;
inline constexpr auto kOut = v1::StartStageRequest::DIRECTION_OUT;

struct StageOptions {
  bool checksum = false;
  bool incomplete_ok = false;
  std::string probe = "made";  // "made": a file is made; else as given.
};

class StagingCluster {
 public:
  explicit StagingCluster(TestClusterOptions options);

  TestCluster& cluster() { return cluster_; }

  v1::StartStageRequest Request(v1::StartStageRequest::Direction direction,
                                const std::string& space, const std::string& directory,
                                const StageOptions& options = {});
  grpc::Status Start(const v1::StartStageRequest& request, v1::StartStageResponse* response,
                     std::size_t node = 0);
  // Until the job is done.
  v1::StageProgress Watch(const std::string& job, std::size_t node = 0);
  // Start and Watch; the call must succeed, the job need not.
  v1::StageProgress Run(v1::StartStageRequest::Direction direction, const std::string& space,
                        const std::string& directory, const StageOptions& options = {});

  // `on_loss`: behaviour of a node that comes back without its data; empty: the default, "error".
  void CreateNamespace(const std::string& name, const std::string& on_loss = "");
  void Put(const std::string& space, const std::string& key, const std::string& value);
  // Returns "<none>" if the key is absent.
  std::string Get(const std::string& space, const std::string& key);
  void Delete(const std::string& space, const std::string& key);
  std::vector<std::string> Keys(const std::string& space, bool internal = false);
  std::uint64_t Length(const std::string& space);
  // Names of the namespaces that stopping would lose, as Admin.CheckStop says.
  std::vector<std::string> Unsaved();

 private:
  std::unique_ptr<v1::Staging::Stub> Staging(std::size_t node) {
    return v1::Staging::NewStub(cluster_.channel(node));
  }
  TestCluster cluster_;
};

// Makes a tree with all kinds of entries: odd names, empty files and directories, links,
// permissions, times in nanoseconds, set-id bits. `many`: number of further small files.
void MakeOddTree(const test::ScratchDirectory& tree, int many);

// "" if the trees are equal in names, types, contents, modes, mtimes and link targets.
std::string Difference(const test::ScratchDirectory& a, const test::ScratchDirectory& b);

// Returns all failures in a string.
std::string Failures(const v1::StageProgress& progress);

}  // namespace tidepool::testing
