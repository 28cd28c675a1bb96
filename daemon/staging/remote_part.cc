#include "daemon/staging/remote_part.h"

#include <grpcpp/client_context.h>

#include <atomic>
#include <chrono>
#include <utility>

#include "proto/base/thread.h"
#include "proto/convert/grpc_status.h"
#include "proto/stage/cluster.h"
#include "tidepool/v1/staging.grpc.pb.h"

namespace tidepool::daemon::staging {
namespace {

constexpr int kItemsPerMessageMax = 256;
constexpr std::size_t kBytesPerMessageMax = 1024 * 1024;

class RemotePart final : public stage::PartLink {
 public:
  RemotePart(const RequestRouter& router, const placement::Node& node,
             const v1::RunPartStart& start, Report report, std::function<void()> ended)
      : name_(stage::Describe(node)), report_(std::move(report)), ended_(std::move(ended)) {
    router.context().authorize(call_);
    stub_ = v1::Staging::NewStub(router.context().channel(node));
    stream_ = stub_->RunPart(&call_);
    v1::RunPartRequest first;
    *first.mutable_start() = start;
    open_ = stream_->Write(first);
    Heard();
  }
  // Errors: kResourceExhausted (no thread); the call is cancelled then.
  Status Begin() {
    Status begun = StartThread("a part of a staging job", &watchdog_, [this] { Watch(); });
    if (begun.ok()) {
      begun = StartThread("a part of a staging job", &reader_, [this] { Read(); });
    }
    if (!begun.ok()) call_.TryCancel();
    return begun;
  }
  ~RemotePart() override {
    Cancel();
    if (!finished_) (void)Wait();
  }

  bool Send(std::vector<v1::StageItem> items) override {
    v1::RunPartRequest request;
    std::size_t bytes = 0;
    for (v1::StageItem& item : items) {
      bytes += item.path().size() + item.entry().size();
      *request.add_items() = std::move(item);
      if (request.items_size() == kItemsPerMessageMax || bytes >= kBytesPerMessageMax) {
        open_ = open_ && stream_->Write(request);
        request.Clear();
        bytes = 0;
      }
    }
    if (request.items_size() > 0) open_ = open_ && stream_->Write(request);
    return open_;
  }
  void Close() override {
    if (!closed_.exchange(true)) stream_->WritesDone();
  }
  void Cancel() override { call_.TryCancel(); }

  Status Wait() override {
    if (reader_.joinable()) {
      reader_.join();
    } else {
      how_ = stream_->Finish();  // Begin has cancelled the call.
    }
    finished_ = true;
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
      wake_.notify_all();
    }
    if (watchdog_.joinable()) watchdog_.join();
    if (silent_) {
      return Status(StatusCode::kUnavailable,
                    name_ + " said nothing for " + std::to_string(kSilenceMsMax / 1000) + " s",
                    "see: kvctl status");
    }
    TP_RETURN_IF_ERROR(convert::FromGrpc(how_, name_));
    if (done_) return OkStatus();
    return Status(StatusCode::kUnavailable, name_ + " ended its part before it was done",
                  "see: kvctl status");
  }

 private:
  void Heard() { heard_ns_.store(Clock::Real().MonotonicNs()); }

  void Read() {
    v1::RunPartProgress progress;
    while (stream_->Read(&progress)) {
      Heard();
      done_ = progress.done();
      report_(progress);
    }
    // Finish comes before other threads hear of the end and cancel the rest: a cancelled call
    // forgets its cause.
    how_ = stream_->Finish();
    ended_();
  }

  // Ends a call to a node that hangs, also during a Write.
  void Watch() {
    std::unique_lock lock(mutex_);
    while (!over_) {
      wake_.wait_for(lock, std::chrono::milliseconds(500));
      const std::uint64_t silent_ns = Clock::Real().MonotonicNs() - heard_ns_.load();
      if (!over_ && silent_ns > kSilenceMsMax * 1'000'000) {
        silent_ = true;
        call_.TryCancel();
      }
    }
  }

  const std::string name_;
  const Report report_;
  const std::function<void()> ended_;
  grpc::ClientContext call_;
  std::unique_ptr<v1::Staging::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::RunPartRequest, v1::RunPartProgress>> stream_;
  bool open_ = false;
  std::atomic<bool> closed_{false};
  bool done_ = false;
  grpc::Status how_;  // How the call ended; set by the reader.
  bool finished_ = false;
  std::atomic<bool> silent_{false};
  std::atomic<std::uint64_t> heard_ns_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  bool over_ = false;
  std::thread reader_;
  std::thread watchdog_;
};

}  // namespace

Result<std::unique_ptr<stage::PartLink>> OpenRemotePart(const RequestRouter& router,
                                                        const placement::Node& node,
                                                        const v1::RunPartStart& start,
                                                        stage::PartLink::Report report,
                                                        std::function<void()> ended) {
  auto part =
      std::make_unique<RemotePart>(router, node, start, std::move(report), std::move(ended));
  TP_RETURN_IF_ERROR(part->Begin());
  return std::unique_ptr<stage::PartLink>(std::move(part));
}

}  // namespace tidepool::daemon::staging
