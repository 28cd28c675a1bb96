#include "proto/stage/job.h"

#include <sys/random.h>

#include <chrono>
#include <cstdio>
#include <utility>

#include "proto/base/check.h"
#include "proto/file_tree/beneath.h"
#include "proto/manifest/keys.h"

namespace tidepool::stage {

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
    progress_.set_removed(progress_.removed() + progress.removed());
  }
  for (const v1::StageFailure& warning : progress.warnings()) {
    AddWarning(warning.path(), static_cast<StatusCode>(warning.code()), warning.why());
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

void JobState::AddWarning(std::string_view about, StatusCode code, std::string_view what) {
  if (strict_) return AddFailure(about, code, what);
  const std::lock_guard lock(mutex_);
  progress_.set_warnings_total(progress_.warnings_total() + 1);
  if (progress_.warnings_size() >= kFailuresKeptMax) return;
  progress_.add_warnings((about.empty() ? "" : file_tree::Printable(about) + ": ") +
                         file_tree::Printable(what));
}

void JobState::AddRemark(std::string text) {
  const std::lock_guard lock(mutex_);
  progress_.add_remarks(std::move(text));
}

void JobState::SetStale(std::uint64_t files) {
  const std::lock_guard lock(mutex_);
  progress_.set_stale(files);
}

void JobState::SetTreeHash(std::string hash) {
  const std::lock_guard lock(mutex_);
  progress_.set_tree_hash(std::move(hash));
}

void JobState::SetMissing(const Survey& survey) {
  const std::lock_guard lock(mutex_);
  progress_.clear_missing();
  for (const Survey::Missing& missing : survey.missing()) {
    *progress_.add_missing() = ToProto(missing);
  }
  progress_.set_partitions(survey.partitions());
}

void JobState::Restart() {
  const std::lock_guard lock(mutex_);
  v1::StageProgress progress;
  progress.set_job(progress_.job());
  progress.set_phase("starting again");
  progress_ = std::move(progress);
  first_failure_ = StatusCode::kOk;
}

void JobState::End(const Status& status) {
  const std::lock_guard lock(mutex_);
  StatusCode code = status.code();
  std::string message = status.ok() ? "" : file_tree::Printable(status.ToString());
  if (progress_.failures_total() > 0 && status.ok()) {
    code = first_failure_;
    message =
        std::to_string(progress_.failures_total()) + " failed; the first: " + progress_.failures(0);
  }
  if (progress_.missing_size() > 0 && code == StatusCode::kOk) {
    code = static_cast<StatusCode>(progress_.missing(0).code());
    message = MissingText();
  }
  progress_.set_code(static_cast<std::uint32_t>(code));
  progress_.set_message(std::move(message));
  progress_.set_elapsed_ms((clock_.MonotonicNs() - start_ns_) / 1'000'000);
  progress_.set_phase("done");
  progress_.set_done(true);
  done_.notify_all();
}

std::string JobState::MissingText() const {
  std::uint32_t partitions = 0;
  for (const v1::MissingPart& part : progress_.missing()) partitions += part.partitions();
  return std::to_string(partitions) + " of " + std::to_string(progress_.partitions()) +
         " partitions could not be had, the first of " + progress_.missing(0).node() +
         "; the rest is written";
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

Result<manifest::Mark> BeginMark(const JobContext& context, bool stage_in, bool* existed) {
  auto before = context.cluster->GetMark(existed);
  if (!before.ok()) return before.status();
  // Without a mark there are no totals that could be wrong.
  if (!*existed) before->exact = false;
  if (!*existed && !stage_in) return before;
  manifest::Mark now = *before;
  now.exact = false;
  if (stage_in) {
    now.complete = false;
    now.source = context.request.directory();
  }
  now.written_ms = Clock::Real().WallMs();
  TP_RETURN_IF_ERROR(context.cluster->Put(manifest::MarkKey(), manifest::EncodeMark(now)));
  return before;
}

Status RunJob(const JobContext& context) {
  const bool in = context.request.direction() == v1::StartStageRequest::DIRECTION_IN;
  Status status = in ? RunStageIn(context) : RunStageOut(context);
  if (context.state->cancelled()) {
    const Status lost = context.claim->Check();
    status = lost.ok() ? Status(StatusCode::kCancelled, "the job was cancelled") : lost;
  }
  // Whoever sees the end may begin the next job.
  context.claim->Release();
  context.state->End(status);
  return status;
}

std::string RandomJobId() {
  std::uint64_t id = 0;
  TP_CHECK(getrandom(&id, sizeof id, 0) == sizeof id);
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(id));
  return text;
}

}  // namespace tidepool::stage
