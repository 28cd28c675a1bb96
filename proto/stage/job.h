// A stage-in or stage-out on its coordinator, a daemon or kvctl: lists the files, hands each mover
// its files, and finishes steps that need the whole.
//
//   daemon/staging/job, or kvctl -> [job] -> movers -> part_link; cluster
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>

#include "proto/base/clock.h"
#include "proto/stage/cluster.h"
#include "proto/stage/job_claim.h"
#include "tidepool/v1/staging.pb.h"

namespace tidepool::stage {

// Limit of failures, and of warnings.
inline constexpr int kFailuresKeptMax = 100;

// Progress of a job. Thread-safe.
class JobState {
 public:
  JobState(std::string job, const Clock& clock, bool strict = false)
      : clock_(clock), start_ns_(clock.MonotonicNs()), strict_(strict) {
    progress_.set_job(std::move(job));
    progress_.set_phase("starting");
  }

  void SetPhase(std::string_view phase);
  void AddTotal(std::uint64_t files, std::uint64_t bytes);
  void AddDone(const v1::RunPartProgress& progress);
  void AddFailure(std::string_view path, const Status& why);
  void AddFailure(std::string_view path, StatusCode code, std::string_view why);
  // Names a file or property that the job leaves out. With `strict` it counts as a failure.
  void AddWarning(std::string_view about, StatusCode code, std::string_view what);
  // Adds a line about a property that the job does not keep. `strict` makes no failure of it.
  void AddRemark(std::string text);
  void SetStale(std::uint64_t files);
  void SetTreeHash(std::string hash);
  // Sets the unavailable parts, and the namespace's number of partitions.
  void SetMissing(const Survey& survey);
  // Forgets all but the id, the time and the request to cancel: the job begins anew.
  void Restart();
  // Ends the job with `status`, or if OK with the result of its failures and missing parts.
  void End(const Status& status);

  std::uint64_t failures() const;
  v1::StageProgress Snapshot() const;
  // Returns when the job has ended or the time is over.
  bool WaitDone(std::uint64_t timeout_ms) const;

  void Cancel() { cancelled_.store(true); }
  bool cancelled() const { return cancelled_.load(); }

 private:
  std::string MissingText() const;  // Under mutex_.

  const Clock& clock_;
  const std::uint64_t start_ns_;
  const bool strict_;
  std::atomic<bool> cancelled_{false};
  mutable std::mutex mutex_;
  mutable std::condition_variable done_;
  v1::StageProgress progress_;
  StatusCode first_failure_ = StatusCode::kOk;
};

// Environment of a running job.
struct JobContext {
  std::string job;
  v1::StartStageRequest request;
  const Cluster* cluster = nullptr;
  JobState* state = nullptr;
  JobClaim* claim = nullptr;  // Taken; released before the state ends.
};

// Runs a job to the end. Failures of single files are in the state; other errors are returned.
Status RunStageIn(const JobContext& context);
Status RunStageOut(const JobContext& context);

// Runs the job of the request and ends the state. Returns the final status of the state.
Status RunJob(const JobContext& context);

// Writes the mark of a namespace at a job's begin: a stage-in is under way, or the totals do not
// hold for now. Returns the mark before. A stage-out without a mark writes no mark either: see
// StageOut::List.
Result<manifest::Mark> BeginMark(const JobContext& context, bool stage_in, bool* existed);

// Makes a name for a job: 16 hexadecimal digits.
std::string RandomJobId();

}  // namespace tidepool::stage
