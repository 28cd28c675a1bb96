#include "daemon/staging/job.h"

#include <chrono>
#include <utility>

#include "proto/base/log.h"
#include "proto/file_tree/beneath.h"
#include "proto/manifest/keys.h"

namespace tidepool::daemon::staging {

void JobState::SetPhase(std::string_view phase) {
  const std::lock_guard lock(mutex_);
  progress_.set_phase(std::string(phase));
}

void JobState::AddTotal(std::uint64_t files, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  progress_.set_files_total(progress_.files_total() + files);
  progress_.set_bytes_total(progress_.bytes_total() + bytes);
}

void JobState::AddDone(const v1::RunPartProgress& progress) {
  {
    const std::lock_guard lock(mutex_);
    progress_.set_files_done(progress_.files_done() + progress.files_done());
    progress_.set_files_skipped(progress_.files_skipped() + progress.files_skipped());
    progress_.set_bytes_done(progress_.bytes_done() + progress.bytes_done());
    progress_.set_bytes_skipped(progress_.bytes_skipped() + progress.bytes_skipped());
  }
  for (const v1::StageFailure& failure : progress.failures()) {
    AddFailure(failure.path(), static_cast<StatusCode>(failure.code()), failure.why());
  }
}

void JobState::AddFailure(std::string_view path, const Status& why) {
  AddFailure(path, why.code(), why.ToString());
}

void JobState::AddFailure(std::string_view path, StatusCode code, std::string_view why) {
  const std::lock_guard lock(mutex_);
  if (first_failure_ == StatusCode::kOk) first_failure_ = code;
  progress_.set_failures_total(progress_.failures_total() + 1);
  if (progress_.failures_size() >= kFailuresKeptMax) return;
  progress_.add_failures(file_tree::Printable(path) + ": " + file_tree::Printable(why));
}

void JobState::SetTreeHash(std::string hash) {
  const std::lock_guard lock(mutex_);
  progress_.set_tree_hash(std::move(hash));
}

void JobState::End(const Status& status) {
  const std::lock_guard lock(mutex_);
  StatusCode code = status.code();
  std::string message = status.ok() ? "" : status.ToString();
  if (progress_.failures_total() > 0 && status.ok()) {
    code = first_failure_;
    message =
        std::to_string(progress_.failures_total()) + " failed; the first: " + progress_.failures(0);
  }
  progress_.set_code(static_cast<std::uint32_t>(code));
  progress_.set_message(std::move(message));
  progress_.set_elapsed_ms((clock_.MonotonicNs() - start_ns_) / 1'000'000);
  progress_.set_phase("done");
  progress_.set_done(true);
  done_.notify_all();
}

std::uint64_t JobState::failures() const {
  const std::lock_guard lock(mutex_);
  return progress_.failures_total();
}

v1::StageProgress JobState::Snapshot() const {
  const std::lock_guard lock(mutex_);
  v1::StageProgress progress = progress_;
  if (!progress.done()) progress.set_elapsed_ms((clock_.MonotonicNs() - start_ns_) / 1'000'000);
  return progress;
}

bool JobState::WaitDone(std::uint64_t timeout_ms) const {
  std::unique_lock lock(mutex_);
  return done_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                        [&] { return progress_.done(); });
}

Result<manifest::Mark> BeginMark(const JobContext& context, bool stage_in) {
  bool exists = false;
  auto before = context.view->GetMark(&exists);
  if (!before.ok()) return before.status();
  manifest::Mark now = *before;
  now.exact = false;
  if (stage_in) {
    now.complete = false;
    now.source = context.request.directory();
  }
  now.written_ms = Clock::Real().WallMs();
  TP_RETURN_IF_ERROR(context.view->Put(manifest::MarkKey(), manifest::EncodeMark(now)));
  // Without a mark there are no entries that it could describe.
  if (!exists) before->exact = false;
  return before;
}

Job::Job(std::string id, v1::StartStageRequest request, RequestRouter* router, SavedRegistry* saved,
         std::shared_ptr<const placement::Namespace> space)
    : id_(std::move(id)),
      request_(std::move(request)),
      view_(router, saved, std::move(space)),
      state_(id_, Clock::Real()),
      thread_([this] { Run(); }) {}

Job::~Job() {
  state_.Cancel();
  thread_.join();
}

void Job::Run() {
  const bool in = request_.direction() == v1::StartStageRequest::DIRECTION_IN;
  const std::string what = std::string(in ? "stage in " : "stage out ") + id_ + " of '" +
                           request_.namespace_() + "' and " + request_.directory();
  log::Info(what + " begins");
  const JobContext context{id_, request_, &view_, &state_};
  Status status = in ? RunStageIn(context) : RunStageOut(context);
  if (state_.cancelled()) status = Status(StatusCode::kCancelled, "the job was cancelled");
  state_.End(status);
  const v1::StageProgress end = state_.Snapshot();
  log::Info(what + " ends: " + std::to_string(end.files_done()) + " files moved, " +
            std::to_string(end.files_skipped()) + " there already, " +
            std::to_string(end.failures_total()) + " failed. " + end.message());
}

}  // namespace tidepool::daemon::staging
