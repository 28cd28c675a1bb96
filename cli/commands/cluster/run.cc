#include "cli/commands/cluster/run.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "cli/commands/cluster/start.h"
#include "cli/commands/cluster/stop.h"
#include "cli/exit_codes.h"
#include "cli/held_signals.h"
#include "cli/invocation.h"
#include "cli/slurm_job.h"
#include "cli/spawn.h"
#include "cli/step.h"
#include "cli/text.h"
#include "cli/walltime.h"
#include "proto/base/clock.h"
#include "proto/cluster_file/file_io.h"
#include "proto/cluster_file/find.h"
#include "tidepool/v1/cluster.grpc.pb.h"

extern char** environ;

namespace tidepool::cli {
namespace {

// Time for the end of this process, between SIGTERM and SIGKILL to a whole job.
constexpr std::uint64_t kFarewellMs = 5'000;
// Time between SIGTERM and SIGKILL if no batch system says it.
constexpr std::uint64_t kKillWaitMsDefault = 30'000;
// Part of the walltime for stopping the daemons.
constexpr std::uint64_t kStopMs = 5'000;
// Time for the program to end by itself.
constexpr std::uint64_t kGraceMs = 5'000;
constexpr std::uint64_t kAskEveryMs = 5'000;
constexpr std::uint64_t kLookEveryMs = 200;
// Time until the next attempt to save a failed namespace.
constexpr std::uint64_t kRetryMs = 1'500;
constexpr int kRoundsMax = 3;
constexpr std::uint64_t kAskTimeoutMs = 3'000;

// Part of `kill_wait_ms` for which daemons wait for this process.
std::uint64_t LingerMs(std::uint64_t kill_wait_ms) {
  return std::max(kill_wait_ms / 2, kill_wait_ms - std::min(kill_wait_ms, kFarewellMs));
}

std::uint64_t NowMs() { return Clock::Real().WallMs(); }

// Starts a child in this process group, so that signals of a terminal reach it too. Its standard
// output becomes `stdout_fd`.
Result<pid_t> Spawn(const std::vector<std::string>& command, const std::string& cluster_file,
                    const sigset_t& mask, int stdout_fd = 1) {
  const std::string variable = "TIDEPOOL_CLUSTER=" + cluster_file;
  std::vector<char*> environment = {const_cast<char*>(variable.c_str())};
  for (char** each = environ; *each != nullptr; ++each) {
    if (std::strncmp(*each, "TIDEPOOL_CLUSTER=", 17) != 0) environment.push_back(*each);
  }
  environment.push_back(nullptr);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &mask);
  // kvctl itself ignores the signal; a program of the user does not expect that.
  sigset_t by_default;
  sigemptyset(&by_default);
  sigaddset(&by_default, SIGXFSZ);
  posix_spawnattr_setsigdefault(&attributes, &by_default);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, stdout_fd, 1);
  pid_t pid = 0;
  const int error =
      posix_spawnp(&pid, words[0], &files, &attributes, words.data(), environment.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error == 0) return pid;
  return Status(error == ENOENT ? StatusCode::kNotFound : StatusCode::kPermissionDenied,
                "cannot run " + Quote(command[0]) + ": " + std::strerror(error));
}

// Refuses a missing program before any daemon starts.
Status CheckProgram(const std::string& program) {
  const auto path = FindInPath(program);
  std::error_code error;
  const bool is_file = path.ok() && std::filesystem::is_regular_file(*path, error);
  if (is_file && access(path->c_str(), X_OK) == 0) return OkStatus();
  if (is_file) {
    return Status(StatusCode::kPermissionDenied,
                  "cannot run " + Quote(program) + ": " + std::strerror(errno),
                  "make it executable: chmod +x");
  }
  return Status(StatusCode::kNotFound,
                "cannot run " + Quote(program) + ": there is no such program",
                "what stands behind -- is the program and its arguments");
}

class Runner {
 public:
  explicit Runner(Invocation& run) : run_(run) {}

  Status Prepare();
  Status Run();

 private:
  Status FindOutTheEnd();
  Status Start();
  Result<bool> StageIn();
  Status RunCommand();
  void TellCommand(pid_t pid, int signal);
  void WaitForItsSteps();
  std::vector<std::string> NewSteps() const;
  Status Save();
  Result<ExitCode> SaveOne(const StageSpec& spec);
  Result<ExitCode> StageOutOne(const StageSpec& spec, const std::vector<std::string>& options);
  bool IsTriedAgain(ExitCode ended, int round) const;
  void WaitForRetry();
  void WarnOfTheRest();
  Status Stop();
  void RemoveFiles() const;
  // Bytes of the namespaces that are to be staged out; the last known number if no node answers.
  std::uint64_t BytesToSave();
  bool MustSaveNow();
  void SignalCame(int signal);

  Invocation& run_;
  HeldSignals signals_;
  const std::optional<SlurmJob> job_ = SlurmJob::OfThisProcess();
  std::vector<StageSpec> in_;
  std::vector<StageSpec> out_;
  std::vector<std::string> command_;
  std::string file_;
  Walltime walltime_;
  std::uint64_t kill_wait_ms_ = kKillWaitMsDefault;
  std::set<std::string> steps_before_;  // The command's.
  std::uint64_t asked_at_ms_ = 0;
  std::uint64_t bytes_to_save_ = 0;
  std::string ended_early_;  // Why the program was ended; empty: it ended by itself.
  // Data that is not saved by then may be lost. 0: there is time.
  std::uint64_t saved_until_ms_ = 0;
  std::uint64_t killed_at_ms_ = 0;  // By the batch system. 0: there is time.
  int exit_code_ = 0;
  std::vector<StageSpec> to_save_;
  std::vector<std::string> saved_;
  std::vector<std::string> saved_in_part_;
  std::vector<std::string> unsaved_;
};

std::string Listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

Status Runner::Prepare() {
  if (run_.out.json()) {
    return Status(StatusCode::kInvalidArgument, "run has no --json",
                  "standard output is the program's; for the cluster see kvctl status --json");
  }
  auto in = StageInSpecs(run_.args);
  if (!in.ok()) return in.status();
  auto out = StageOutSpecs(run_.args);
  if (!out.ok()) return out.status();
  in_ = *std::move(in);
  out_ = *std::move(out);
  command_ = run_.args.All("COMMAND");
  TP_RETURN_IF_ERROR(CheckProgram(command_[0]));
  std::error_code error;
  // Now, rather than when hours of work are to be saved there.
  for (const StageSpec& spec : out_) {
    std::filesystem::create_directories(spec.directory, error);
    if (error) return cluster_file::FileError("make the folder", spec.directory, error.value());
  }
  auto file =
      cluster_file::PathForDaemon(run_.args.Text("--cluster"), cluster_file::ProcessEnvironment());
  if (!file.ok()) return file.status();
  file_ = std::filesystem::absolute(*file, error).string();
  return FindOutTheEnd();
}

Status Runner::FindOutTheEnd() {
  if (job_.has_value()) kill_wait_ms_ = job_->KillWaitMs();
  if (run_.args.Has("--deadline")) {
    const auto end_ms = ParseDeadlineMs(run_.args.Text("--deadline"));
    if (!end_ms.ok()) return end_ms.status();
    walltime_.end_ms = *end_ms;
  } else if (job_.has_value()) {
    walltime_.end_ms = job_->EndMs();
  }
  if (walltime_.end_ms == 0 || out_.empty()) return OkStatus();
  for (const StageSpec& spec : out_) {
    const auto speed = MeasureWriting(spec.directory);
    if (!speed.ok()) return speed.status();
    if (&spec == &out_.front() || *speed < walltime_.bytes_per_second) {
      walltime_.bytes_per_second = *speed;
    }
  }
  const std::uint64_t now_ms = NowMs();
  const std::uint64_t left_ms = walltime_.end_ms > now_ms ? walltime_.end_ms - now_ms : 0;
  const double rate = walltime_.bytes_per_second * Walltime::kShare;
  run_.out.Note("the walltime ends in " + FormatDurationMs(left_ms) + "; " + Quote(command_[0]) +
                " is ended in time to save at " + FormatBytes(static_cast<std::uint64_t>(rate)) +
                "/s, half of what was measured, with " + FormatDurationMs(Walltime::kMarginMs) +
                " to spare");
  return OkStatus();
}

Status Runner::Start() {
  std::vector<std::string> words = {"start"};
  for (const Option& option : WhereOptions()) {
    const std::string name(option.name);
    if (!run_.args.Has(name)) continue;
    words.push_back(run_.args.Text(name).empty() ? name : name + "=" + run_.args.Text(name));
  }
  // Allows the program's data to be saved when a batch system ends the whole job at once.
  if (!out_.empty()) {
    words.insert(words.end(), {"--", "--linger-ms", std::to_string(LingerMs(kill_wait_ms_))});
  }
  return RunStep(run_, file_, words);
}

// Stages in with processes of their own: staging may take hours, and a user who requests the end
// should not wait for it. False: the program must not begin.
Result<bool> Runner::StageIn() {
  for (const StageSpec& spec : in_) {
    if (signals_.EndAsked()) break;
    std::vector<std::string> words = {"/proc/self/exe", "stage", "in", spec.directory, spec.space};
    if (run_.insecure()) words.emplace_back("--insecure");
    const Result<pid_t> pid = Spawn(words, file_, signals_.before_and_notices(), /*stdout_fd=*/2);
    if (!pid.ok()) return pid.status();
    std::optional<int> code;
    while (!(code = ChildExitCode(*pid)).has_value()) {
      if (signals_.EndAsked(kLookEveryMs)) kill(*pid, SIGTERM);
    }
    if (*code != 0 && !signals_.EndAsked()) {
      exit_code_ = *code;
      run_.out.Note("not staged in: " + spec.directory + "; " + Quote(command_[0]) + " is not run");
      return false;
    }
  }
  return true;
}

std::uint64_t Runner::BytesToSave() {
  if (NowMs() < asked_at_ms_ + kAskEveryMs) return bytes_to_save_;
  asked_at_ms_ = NowMs();
  const auto channel = Channel::Connect({.cluster = file_,
                                         .timeout_ms = kAskTimeoutMs,
                                         .timeout_given = true,
                                         .insecure = run_.insecure()});
  v1::StatusResponse status;
  if (!channel.ok() ||
      !(*channel)->Call<v1::Cluster>(&v1::Cluster::Stub::Status, {}, &status).ok()) {
    return bytes_to_save_;
  }
  bytes_to_save_ = 0;
  for (const auto& space : status.namespaces()) {
    const bool is_saved = std::any_of(out_.begin(), out_.end(), [&](const StageSpec& spec) {
      return spec.space == space.name();
    });
    if (is_saved) bytes_to_save_ += space.live_bytes();
  }
  return bytes_to_save_;
}

bool Runner::MustSaveNow() {
  if (walltime_.end_ms == 0 || out_.empty()) return false;
  const std::uint64_t bytes = BytesToSave();
  if (NowMs() < walltime_.SaveAtMs(bytes)) return false;
  if (job_.has_value() && !run_.args.Has("--deadline")) {
    // Perhaps it was extended meanwhile.
    const std::uint64_t end_ms = job_->EndMs();
    if (end_ms > walltime_.end_ms) {
      walltime_.end_ms = end_ms;
      return false;
    }
  }
  const std::uint64_t now_ms = NowMs();
  const std::uint64_t left_ms = walltime_.end_ms > now_ms ? walltime_.end_ms - now_ms : 0;
  ended_early_ = "the walltime ends in " + FormatDurationMs(left_ms) + ", and writing " +
                 FormatBytes(bytes) + " may take " + FormatDurationMs(walltime_.SavingMs(bytes));
  killed_at_ms_ = walltime_.end_ms + kill_wait_ms_;
  saved_until_ms_ = walltime_.end_ms - std::min(walltime_.end_ms, kStopMs);
  return true;
}

void Runner::SignalCame(int signal) {
  ended_early_ = std::string("signal ") + strsignal(signal);
  if (!job_.has_value()) return;
  killed_at_ms_ = NowMs() + kill_wait_ms_;
  saved_until_ms_ = NowMs() + LingerMs(kill_wait_ms_);
}

std::vector<std::string> Runner::NewSteps() const {
  std::vector<std::string> steps;
  if (!job_.has_value()) return steps;
  for (const SlurmJob::Step& step : job_->Steps()) {
    if (step.name.starts_with(kDaemonStep) || steps_before_.contains(step.id)) continue;
    steps.push_back(step.id);
  }
  return steps;
}

// Its job steps, too: srun itself would kill them at SIGTERM, and if a script is the command, srun
// would not even hear of it.
void Runner::TellCommand(pid_t pid, int signal) {
  for (const std::string& step : NewSteps()) {
    job_->Signal(step, signal == SIGKILL ? "KILL" : "TERM");
  }
  if (signal == SIGKILL || !IsProgramAlive(pid, "srun")) kill(pid, signal);
}

void Runner::WaitForItsSteps() {
  const std::uint64_t until_ms = NowMs() + kGraceMs;
  while (!NewSteps().empty()) {
    if (NowMs() >= until_ms) {
      for (const std::string& step : NewSteps()) job_->Signal(step, "KILL");
      return;
    }
    signals_.Next(kLookEveryMs);
  }
}

Status Runner::RunCommand() {
  if (signals_.EndAsked()) {
    ended_early_ = "a signal came before the program began";
    run_.out.Note(ended_early_);
    exit_code_ = HeldSignals::ExitCode();
    return OkStatus();
  }
  if (job_.has_value()) {
    for (const SlurmJob::Step& step : job_->Steps()) steps_before_.insert(step.id);
  }
  const Result<pid_t> pid = Spawn(command_, file_, signals_.before());
  if (!pid.ok()) return pid.status();
  std::uint64_t kill_at_ms = 0;
  for (;;) {
    if (const auto code = ChildExitCode(*pid)) {
      exit_code_ = *code;
      // A signal for all of a job may end the program before this process has seen its own.
      while (const int signal = signals_.Next(0)) {
        if (HeldSignals::AsksForEnd(signal) && ended_early_.empty()) SignalCame(signal);
      }
      if (!ended_early_.empty()) WaitForItsSteps();
      return OkStatus();
    }
    if (kill_at_ms != 0 && NowMs() >= kill_at_ms) {
      run_.out.Note(Quote(command_[0]) + " does not end: killed");
      TellCommand(*pid, SIGKILL);
      kill_at_ms = NowMs() + kGraceMs;
    }
    const int signal = signals_.Next(kLookEveryMs);
    // A batch system announces the end by these signals; only the program knows their meaning.
    if (HeldSignals::IsNotice(signal)) kill(*pid, signal);
    if (!ended_early_.empty()) continue;
    if (HeldSignals::AsksForEnd(signal)) SignalCame(signal);
    if (ended_early_.empty() && !MustSaveNow()) continue;
    run_.out.Note(ended_early_ + ": ending " + Quote(command_[0]));
    kill_at_ms = NowMs() + kGraceMs;
    TellCommand(*pid, signal == SIGINT ? SIGINT : SIGTERM);
  }
}

// While there is time to say it. It is tried all the same.
void Runner::WarnOfTheRest() {
  if (saved_until_ms_ == 0 || NowMs() < saved_until_ms_) return;
  saved_until_ms_ = 0;
  std::vector<std::string> rest = unsaved_;
  for (const StageSpec& spec : to_save_) rest.push_back(spec.space);
  run_.out.Note("time is out; saved: " + (saved_.empty() ? "nothing" : Listed(saved_)) +
                "; not saved so far, and lost if all is killed now: " + Listed(rest));
}

// Saves in the given order, so the most important namespace comes first. A namespace without an
// answer is tried again after the others: a node that hangs must not cost the data of other nodes.
Status Runner::Save() {
  Status failure;
  to_save_ = out_;
  for (int round = 1; !to_save_.empty(); ++round) {
    if (round > 1) WaitForRetry();
    for (auto each = to_save_.begin(); each != to_save_.end();) {
      const Result<ExitCode> ended = SaveOne(*each);
      if (!ended.ok()) return ended.status();
      if (IsTriedAgain(*ended, round)) {
        ++each;
        continue;
      }
      if (*ended == ExitCode::kOk) {
        saved_.push_back(each->space);
      } else if (*ended == ExitCode::kNotFound && (exit_code_ != 0 || !ended_early_.empty())) {
        // A successful program has made all its namespaces, or the name is wrong.
        run_.out.Note("nothing to save: " + Quote(command_[0]) + " has not made " + each->space);
      } else {
        (*ended == ExitCode::kPartial ? saved_in_part_ : unsaved_).push_back(each->space);
        if (failure.ok()) {
          failure = Status(StatusCode::kUnavailable, "kvctl stage out ended with " +
                                                         std::to_string(static_cast<int>(*ended)));
        }
      }
      each = to_save_.erase(each);
    }
  }
  const bool is_worth_a_word = !ended_early_.empty() || !failure.ok();
  if (is_worth_a_word && !saved_.empty()) run_.out.Note("saved: " + Listed(saved_));
  if (!saved_in_part_.empty()) run_.out.SetPartial();
  return failure;
}

// A node that hangs may come back until all is killed, and the remaining time has no other use. A
// node that is gone rarely comes back. After a partial save only the rest is moved.
bool Runner::IsTriedAgain(ExitCode ended, int round) const {
  if (killed_at_ms_ == 0 || NowMs() >= killed_at_ms_) return false;
  const bool is_gone = ended == ExitCode::kUnreachable || ended == ExitCode::kPartial;
  return ended == ExitCode::kTimeout || (is_gone && round < kRoundsMax);
}

void Runner::WaitForRetry() {
  for (const std::uint64_t until_ms = NowMs() + kRetryMs; NowMs() < until_ms;) {
    signals_.Next(kLookEveryMs);
    WarnOfTheRest();
  }
}

// All of it; where a crash or a broken stage-in has taken something the rest, which is a part.
Result<ExitCode> Runner::SaveOne(const StageSpec& spec) {
  const Result<ExitCode> whole = StageOutOne(spec, {});
  if (!whole.ok() || *whole != ExitCode::kFailed) return whole;
  const Result<ExitCode> rest = StageOutOne(spec, {"--partial", "--incomplete"});
  if (!rest.ok()) return rest;
  return *rest == ExitCode::kOk ? ExitCode::kPartial : *rest;
}

// Stages out in its own process, so that this process watches the time.
Result<ExitCode> Runner::StageOutOne(const StageSpec& spec,
                                     const std::vector<std::string>& options) {
  std::vector<std::string> words = {"/proc/self/exe", "stage", "out", spec.space, spec.directory};
  words.insert(words.end(), options.begin(), options.end());
  if (run_.insecure()) words.emplace_back("--insecure");
  // The signal that ends the job must not end the staging.
  const Result<pid_t> pid = Spawn(words, file_, signals_.held(), /*stdout_fd=*/2);
  if (!pid.ok()) return pid.status();
  std::optional<int> code;
  while (!(code = ChildExitCode(*pid)).has_value()) {
    signals_.Next(kLookEveryMs);
    WarnOfTheRest();
  }
  return static_cast<ExitCode>(*code);
}

// Stops even if data was lost: the user named the data to save, and it is written. Kills daemons of
// this machine that do not stop.
Status Runner::Stop() {
  const Status stopped = RunStep(run_, file_, {"stop", "--discard"});
  if (stopped.ok()) return stopped;
  const std::size_t killed = KillLaunched(file_);
  if (killed == 0) return stopped;
  RemoveFiles();
  return Status(stopped.code(), std::string(stopped.what()) + "; killed " + std::to_string(killed) +
                                    (killed == 1 ? " daemon" : " daemons") + " of this machine");
}

// Removes the files that a stopping daemon removes.
void Runner::RemoveFiles() const {
  std::error_code error;
  const auto cluster = cluster_file::Read(file_);
  if (cluster.ok()) {
    for (const std::string& file : {cluster->token_file, cluster->tls.file}) {
      if (!file.empty()) std::filesystem::remove(file, error);
    }
  }
  std::filesystem::remove(file_, error);
  RemoveFolderOf(file_);
}

Status Runner::Run() {
  if (const Status started = Start(); !started.ok()) {
    run_.out.EndWith(HeldSignals::ExitCode());
    return started;
  }
  const Result<bool> staged = StageIn();
  const Status ended = !staged.ok() ? staged.status() : *staged ? RunCommand() : OkStatus();
  const Status saved = staged.ok() && *staged && ended.ok() ? Save() : OkStatus();
  if (!saved.ok()) {
    std::string text = unsaved_.empty() ? "" : "not staged out: " + Listed(unsaved_);
    if (!saved_in_part_.empty()) {
      text += (text.empty() ? "" : "; ") + ("staged out only in part: " + Listed(saved_in_part_));
    }
    return Status(saved.code(), text + " (" + std::string(saved.what()) + ")",
                  "the daemons still run, with their data: kvctl --cluster " + file_ +
                      " stage out, then stop");
  }
  const Status stopped = Stop();
  if (!ended.ok() && !stopped.ok()) run_.out.Note(stopped.what());
  TP_RETURN_IF_ERROR(ended);
  TP_RETURN_IF_ERROR(stopped);
  run_.out.EndWith(exit_code_);
  return OkStatus();
}

Status RunProgram(Invocation& run) {
  Runner runner(run);
  TP_RETURN_IF_ERROR(runner.Prepare());
  return runner.Run();
}

}  // namespace

std::vector<Verb> RunVerbs() {
  std::vector<Option> options = WhereOptions();
  options.push_back({"--stage-in", "DIR:NS",
                     "copy this directory into a namespace before COMMAND runs; may be repeated",
                     true});
  options.push_back(
      {"--stage-out", "NS:DIR",
       "write this namespace into a directory when COMMAND has ended; may be repeated", true});
  options.push_back({"--deadline", "TIME",
                     "when the machine is taken away: a duration from now, or seconds since 1970 "
                     "(default: the end of the Slurm job)"});
  return {
      {"run",
       "run a program with a cluster of its own",
       "Starts daemons as kvctl start does, stages in, runs COMMAND with TIDEPOOL_CLUSTER set, "
       "stages out, stops the daemons, and ends with COMMAND's exit code. Namespaces that "
       "--stage-out does not name are gone then, but for durable ones. When the walltime is about "
       "to end, as measured by how fast the directories of --stage-out take data, or at SIGTERM, "
       "it ends COMMAND and its job steps (SIGTERM, 5 s later SIGKILL) and saves what is to be "
       "saved, in the order of --stage-out: name first what matters most. What a node that hangs "
       "has is tried again behind the others, until all is killed. What a dead node had is "
       "missing: "
       "the rest is saved, and run ends with exit code 6. If something could not be saved the "
       "daemons go on.",
       {{"COMMAND", "the program and its arguments, behind --", 1, Parameter::kAnyNumber}},
       options,
       {{"kvctl run --local --stage-in ~/data:inputs --stage-out results:out -- ./analysis", ""},
        {"kvctl run --memory 50% --stage-out results:$SCRATCH/out -- srun ./simulate",
         "in a Slurm job"}},
       RunProgram,
       "exec"},
  };
}

}  // namespace tidepool::cli
