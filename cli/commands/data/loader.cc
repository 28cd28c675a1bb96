#include "cli/commands/data/loader.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "cli/commands/data/large_value.h"
#include "cli/commands/data/record_call.h"
#include "cli/commands/retry.h"
#include "proto/base/thread.h"
#include "tidepool/v1/bulk.grpc.pb.h"

namespace tidepool::cli {
namespace {

constexpr std::size_t kBatchRecords = 512;
constexpr std::size_t kBatchBytes = 1024 * 1024;
constexpr std::size_t kBatchesUnacknowledged = 8;
}  // namespace

// A call of Bulk.Load. A thread takes the answers: the daemon may wait until an answer is taken,
// and a client that only writes would then wait for ever. Without a thread the call is cancelled,
// and Finish reports the reason.
class Loader::Stream {
 public:
  explicit Stream(Channel& channel)
      : channel_(channel),
        guard_((channel.PrepareStream(&context_), &context_), channel.stall_ms()),
        stub_(v1::Bulk::NewStub(channel.grpc_channel())),
        stream_(stub_->Load(&context_)) {
    guard_.SetWaiting(false);
    begun_ = StartThread("the answers of a load", &reader_, [this] { ReadAnswers(); });
    if (begun_.ok()) return;
    context_.TryCancel();
    ended_ = true;
  }

  ~Stream() {
    if (!finished_) context_.TryCancel();
    if (reader_.joinable()) reader_.join();
    if (!finished_) (void)stream_->Finish();
  }

  bool Write(const v1::LoadRequest& request) {
    {
      const std::lock_guard lock(mutex_);
      ++unanswered_;
      guard_.SetWaiting(true);
    }
    return stream_->Write(request);
  }

  std::vector<v1::LoadResponse> TakeAnswers() {
    const std::lock_guard lock(mutex_);
    return std::exchange(answers_, {});
  }

  // False once the stream has ended and every answer was taken.
  bool WaitForAnswer() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ || !answers_.empty(); });
    return !answers_.empty();
  }

  // After the last Write, or once it returned false.
  Status Finish() {
    guard_.SetWaiting(true);
    stream_->WritesDone();
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return ended_; });
    }
    finished_ = true;
    const Status end = channel_.StreamEnd(stream_->Finish(), guard_);
    return begun_.ok() ? end : begun_;
  }

 private:
  void ReadAnswers() {
    v1::LoadResponse answer;
    while (stream_->Read(&answer)) {
      const std::lock_guard lock(mutex_);
      // With everything answered it is our input that takes its time.
      guard_.SetWaiting(--unanswered_ > 0);
      answers_.push_back(std::move(answer));
      changed_.notify_one();
    }
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_one();
  }

  Channel& channel_;
  grpc::ClientContext context_;
  StallGuard guard_;
  std::unique_ptr<v1::Bulk::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::LoadRequest, v1::LoadResponse>> stream_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<v1::LoadResponse> answers_;
  std::int64_t unanswered_ = 0;
  bool ended_ = false;
  bool finished_ = false;
  Status begun_;
  std::thread reader_;
};

Loader::Loader(Channel& channel, std::string space) : channel_(channel), space_(std::move(space)) {}

Loader::~Loader() = default;

void Loader::AddFailure(std::uint64_t line, std::string what) {
  ++failed_;
  if (failures_.size() < kFailuresKept) failures_.push_back({line, std::move(what)});
}

Status Loader::Add(v1::Record record, std::uint64_t line) {
  if (record.value().size() > kMessageValueBytesMax) return AddLarge(record, line);
  open_.bytes += record.key().size() + record.value().size();
  open_.lines.push_back(line);
  *open_.request.add_records() = std::move(record);
  if (open_.lines.size() < kBatchRecords && open_.bytes < kBatchBytes) return OkStatus();
  TP_RETURN_IF_ERROR(Send());
  return WaitFor(kBatchesUnacknowledged);
}

Status Loader::AddLarge(const v1::Record& record, std::uint64_t line) {
  // Its key may be in a batch that is on its way.
  TP_RETURN_IF_ERROR(Send());
  TP_RETURN_IF_ERROR(WaitFor(0));
  v1::WriteValueRequest::Start start;
  start.set_namespace_(space_);
  start.set_key(record.key());
  start.set_total_bytes(record.value().size());
  start.set_value_kind(record.value_kind());
  if (record.ttl_ms() != 0) start.set_ttl_ms(record.ttl_ms());
  // Putting it twice does no harm.
  const auto written = Retried([&] {
    std::string_view rest = record.value();
    return WriteLargeValue(channel_, start, [&]() -> Result<std::string_view> {
      const std::string_view part = rest.substr(0, kLargeValuePartBytes);
      rest.remove_prefix(part.size());
      return part;
    });
  });
  if (written.ok()) {
    ++loaded_;
    return OkStatus();
  }
  if (IsRetryable(written.code())) return written.status();
  AddFailure(line, written.status().ToString());
  return OkStatus();
}

Status Loader::Send() {
  if (open_.lines.empty()) return OkStatus();
  open_.request.set_namespace_(space_);
  open_.request.set_batch(++batches_);
  unacknowledged_.push_back(std::exchange(open_, {}));
  if (stream_ == nullptr) return Reopen(OkStatus());
  if (stream_->Write(unacknowledged_.back().request)) return OkStatus();
  TakeAcknowledged();
  return Reopen(stream_->Finish());
}

Status Loader::Reopen(const Status& why) {
  Status reason = why;
  for (;;) {
    if (!reason.ok() && !IsRetryable(reason.code())) return reason;
    if (++attempts_ > kAttemptsMax) {
      return reason.ok() ? Status(StatusCode::kUnavailable, "the daemon ends the stream too early")
                         : reason;
    }
    if (attempts_ > 1) std::this_thread::sleep_for(kRetryDelay);
    stream_ = nullptr;
    stream_ = std::make_unique<Stream>(channel_);
    const bool sent =
        std::all_of(unacknowledged_.begin(), unacknowledged_.end(),
                    [&](const Batch& batch) { return stream_->Write(batch.request); });
    if (sent) return OkStatus();
    reason = stream_->Finish();
    TakeAcknowledged();
  }
}

void Loader::TakeAcknowledged() {
  for (const v1::LoadResponse& answer : stream_->TakeAnswers()) {
    // Answers come in order, so an earlier stream has answered the batches before it.
    while (!unacknowledged_.empty() && unacknowledged_.front().request.batch() <= answer.batch()) {
      const Batch& batch = unacknowledged_.front();
      if (batch.request.batch() == answer.batch()) {
        loaded_ += answer.records_loaded();
        for (const auto& failure : answer.failures()) {
          const bool known = failure.index() < batch.lines.size();
          AddFailure(known ? batch.lines[failure.index()] : 0, failure.status().message());
        }
      }
      unacknowledged_.pop_front();
      attempts_ = 0;
    }
  }
}

Status Loader::WaitFor(std::size_t batches) {
  for (;;) {
    if (stream_ != nullptr) TakeAcknowledged();
    if (unacknowledged_.size() <= batches) return OkStatus();
    if (!stream_->WaitForAnswer()) TP_RETURN_IF_ERROR(Reopen(stream_->Finish()));
  }
}

Status Loader::Finish() {
  TP_RETURN_IF_ERROR(Send());
  TP_RETURN_IF_ERROR(WaitFor(0));
  return stream_ == nullptr ? OkStatus() : stream_->Finish();
}

}  // namespace tidepool::cli
