// The streams of a snapshot or a restore: each node does its part, all at once, and one that fails
// ends the others.
//
//   snapshot -> [ImageCalls] -> gRPC Snapshots => each node
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cli/channel.h"
#include "cli/progress.h"
#include "tidepool/v1/snapshots.grpc.pb.h"

namespace tidepool::cli {

// Used by one thread.
class ImageCalls {
 public:
  using Stream = std::unique_ptr<grpc::ClientReader<v1::ImagesProgress>>;
  using Open = std::function<Stream(v1::Snapshots::Stub&, grpc::ClientContext*)>;

  explicit ImageCalls(Output& out) : bar_(out) {}
  ~ImageCalls();
  ImageCalls(const ImageCalls&) = delete;
  ImageCalls& operator=(const ImageCalls&) = delete;

  // Begins the part of node `node`.
  void Start(std::uint32_t node, std::unique_ptr<Channel> channel, Open open);
  // Shows progress until all parts have ended. Returns the first failure, with its node.
  Status Wait(const std::string& phase, std::uint64_t bytes_total, std::size_t files_total);
  // The files that are complete, in no order; after Wait.
  const std::vector<v1::ImageFile>& files() const { return files_; }

 private:
  struct Part {
    std::uint32_t node = 0;
    std::unique_ptr<Channel> channel;
    Open open;
    grpc::ClientContext context;
    std::thread thread;
    // Of mutex_:
    std::uint64_t bytes_done = 0;
    bool over = false;
  };

  void Run(Part* part);
  Status Read(Part* part);
  void CancelAll();

  ProgressBar bar_;
  std::vector<std::unique_ptr<Part>> parts_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<v1::ImageFile> files_;
  Status failure_;
};

}  // namespace tidepool::cli
