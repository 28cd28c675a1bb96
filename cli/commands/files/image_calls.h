// The streams of a snapshot or a restore: all nodes do their parts at the same time. A failed
// stream ends the other streams, unless they are useful without it.
//
//   snapshot -> [ImageCalls] -> gRPC Snapshots => each node
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cli/channel.h"
#include "cli/progress.h"
#include "tidepool/v1/snapshots.grpc.pb.h"

namespace tidepool::cli {

// Thread-safety: used by a single thread.
class ImageCalls {
 public:
  using Stream = std::unique_ptr<grpc::ClientReader<v1::ImagesProgress>>;
  using Open = std::function<Stream(v1::Snapshots::Stub&, grpc::ClientContext*)>;

  // kGoOn: the other streams go on when a node does not answer or cannot read its data. Other
  // failures end all streams.
  enum class NodeFailure { kEndAll, kGoOn };

  ImageCalls(Output& out, NodeFailure on_failure) : bar_(out), on_failure_(on_failure) {}
  ~ImageCalls();
  ImageCalls(const ImageCalls&) = delete;
  ImageCalls& operator=(const ImageCalls&) = delete;

  // Begins the part of node `node`. If no thread can start, the part fails, and Wait reports it.
  void Start(std::uint32_t node, std::unique_ptr<Channel> channel, Open open);
  // Shows progress until all parts have ended. Returns the first failure, with its node.
  Status Wait(const std::string& phase, std::uint64_t bytes_total, std::size_t files_total);
  // The files that are complete, in no order; after Wait.
  const std::vector<v1::ImageFile>& files() const { return files_; }
  // With kGoOn: the nodes that failed, and why; after Wait.
  const std::map<std::uint32_t, Status>& failed_nodes() const { return failed_nodes_; }

 private:
  struct Part {
    std::uint32_t node = 0;
    std::unique_ptr<Channel> channel;
    Open open;
    grpc::ClientContext context;
    std::thread thread;
    // Guarded by mutex_:
    std::uint64_t bytes_done = 0;
    bool over = false;
  };

  Status Read(Part* part);
  void OnEnd(Part* part, const Status& status);
  void CancelAll();

  ProgressBar bar_;
  const NodeFailure on_failure_;
  std::vector<std::unique_ptr<Part>> parts_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<v1::ImageFile> files_;
  std::map<std::uint32_t, Status> failed_nodes_;
  Status failure_;
};

}  // namespace tidepool::cli
