#include "cli/commands/run.h"

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>

#include "cli/commands/start.h"
#include "cli/invocation.h"
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

// Of a batch system that ends the job: daemons wait so long for what `run` does then. Slurm kills
// after KillWait, 30 s by default.
constexpr std::uint64_t kLingerMs = 25'000;
// What the program has to end by itself.
constexpr std::uint64_t kGraceMs = 5'000;
constexpr std::uint64_t kAskEveryMs = 5'000;
constexpr std::uint64_t kAskTimeoutMs = 3'000;

std::uint64_t NowMs() { return Clock::Real().WallMs(); }

// SIGINT, SIGTERM and SIGHUP wait until they are asked for, from this object's making on: a signal
// must not end this process while it holds a cluster. Made before any thread.
class HeldSignals {
 public:
  HeldSignals() {
    sigemptyset(&held_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&held_, signal);
    pthread_sigmask(SIG_BLOCK, &held_, &before_);
  }
  ~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  // The next one, SIGCHLD included; 0 if none comes in time.
  int Next(std::uint64_t timeout_ms) const {
    const timespec time = {static_cast<time_t>(timeout_ms / 1000),
                           static_cast<long>(timeout_ms % 1000 * 1'000'000)};
    const int signal = sigtimedwait(&held_, nullptr, &time);
    return signal > 0 ? signal : 0;
  }
  // Whether the user, or the batch system, has asked to end.
  bool EndAsked() {
    for (int signal = Next(0); signal != 0; signal = Next(0)) {
      if (signal != SIGCHLD) end_asked_ = true;
    }
    return end_asked_;
  }

  const sigset_t& before() const { return before_; }

 private:
  sigset_t held_;
  sigset_t before_;
  bool end_asked_ = false;
};

// The program, a child in this process group: what a terminal sends reaches it, too.
Result<pid_t> Spawn(const std::vector<std::string>& command, const std::string& cluster_file,
                    const sigset_t& mask) {
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
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t pid = 0;
  const int error =
      posix_spawnp(&pid, words[0], nullptr, &attributes, words.data(), environment.data());
  posix_spawnattr_destroy(&attributes);
  if (error == 0) return pid;
  return Status(error == ENOENT ? StatusCode::kNotFound : StatusCode::kPermissionDenied,
                "cannot run " + Quote(command[0]) + ": " + std::strerror(error));
}

class Runner {
 public:
  explicit Runner(Invocation& run) : run_(run) {}

  Status Prepare();
  Status Run();

 private:
  Status Start();
  Status StageIn();
  Status RunCommand();
  Status Save();
  Status Stop();
  // Of the namespaces that are to be staged out; what was known last if nobody answers.
  std::uint64_t BytesToSave();
  bool MustSaveNow();

  Invocation& run_;
  HeldSignals signals_;
  std::vector<StageSpec> in_;
  std::vector<StageSpec> out_;
  std::vector<std::string> command_;
  std::string file_;
  Walltime walltime_;
  std::uint64_t asked_at_ms_ = 0;
  std::uint64_t bytes_to_save_ = 0;
  std::string ended_early_;  // Why the program was ended; empty: it ended by itself.
  int exit_code_ = 0;
  std::vector<std::string> unsaved_;
};

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
  auto end_ms = EndOfWalltimeMs(run_.args.Text("--deadline"));
  if (!end_ms.ok()) return end_ms.status();
  walltime_.end_ms = *end_ms;
  if (walltime_.end_ms == 0 || out_.empty()) return OkStatus();
  for (const StageSpec& spec : out_) {
    const auto speed = MeasureWriting(spec.directory);
    if (!speed.ok()) return speed.status();
    if (&spec == &out_.front() || *speed < walltime_.bytes_per_second) {
      walltime_.bytes_per_second = *speed;
    }
  }
  return OkStatus();
}

Status Runner::Start() {
  std::vector<std::string> words = {"start"};
  for (const Option& option : WhereOptions()) {
    const std::string name(option.name);
    if (!run_.args.Has(name)) continue;
    words.push_back(run_.args.Text(name).empty() ? name : name + "=" + run_.args.Text(name));
  }
  // So that what the program leaves can be saved when a batch system ends all of the job at once.
  if (!out_.empty()) words.insert(words.end(), {"--", "--linger-ms", std::to_string(kLingerMs)});
  return RunStep(run_, file_, words);
}

Status Runner::StageIn() {
  for (const StageSpec& spec : in_) {
    if (signals_.EndAsked()) break;
    TP_RETURN_IF_ERROR(RunStep(run_, file_, {"stage", "in", spec.directory, spec.space}));
  }
  return OkStatus();
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
  const std::uint64_t left_ms = walltime_.end_ms > NowMs() ? walltime_.end_ms - NowMs() : 0;
  ended_early_ = "the walltime ends in " + FormatDurationMs(left_ms) + ", and writing " +
                 FormatBytes(bytes) + " may take " + FormatDurationMs(walltime_.SavingMs(bytes));
  return true;
}

Status Runner::RunCommand() {
  if (signals_.EndAsked()) {
    ended_early_ = "a signal came before the program began";
    exit_code_ = 128 + SIGTERM;
    return OkStatus();
  }
  const Result<pid_t> pid = Spawn(command_, file_, signals_.before());
  if (!pid.ok()) return pid.status();
  std::uint64_t kill_at_ms = 0;
  constexpr std::uint64_t kLookEveryMs = 500;
  for (;;) {
    if (const auto code = ChildExitCode(*pid)) {
      exit_code_ = *code;
      return OkStatus();
    }
    if (kill_at_ms != 0 && NowMs() >= kill_at_ms) {
      run_.out.Note(Quote(command_[0]) + " does not end: killed");
      kill(*pid, SIGKILL);
      kill_at_ms = NowMs() + kGraceMs;
    }
    const int signal = signals_.Next(kLookEveryMs);
    if (signal != 0 && signal != SIGCHLD && ended_early_.empty()) {
      ended_early_ = std::string("signal ") + strsignal(signal);
      kill(*pid, signal == SIGINT ? SIGINT : SIGTERM);
    } else if (ended_early_.empty() && MustSaveNow()) {
      kill(*pid, SIGTERM);
    }
    if (ended_early_.empty() || kill_at_ms != 0) continue;
    run_.out.Note(ended_early_ + ": ending " + Quote(command_[0]));
    kill_at_ms = NowMs() + kGraceMs;
  }
}

Status Runner::Save() {
  Status failure;
  for (const StageSpec& spec : out_) {
    const Status saved = RunStep(run_, file_, {"stage", "out", spec.space, spec.directory});
    if (saved.ok()) continue;
    if (failure.ok()) failure = saved;
    unsaved_.push_back(spec.space);
  }
  return failure;
}

// Also if something was lost: what the user wanted to keep was named, and is written.
Status Runner::Stop() { return RunStep(run_, file_, {"stop", "--discard"}); }

Status Runner::Run() {
  TP_RETURN_IF_ERROR(Start());
  Status ended = StageIn();
  if (ended.ok()) ended = RunCommand();
  const Status saved = ended.ok() ? Save() : OkStatus();
  if (!saved.ok()) {
    std::string names;
    for (const std::string& name : unsaved_) names += (names.empty() ? "" : ", ") + name;
    return Status(
        saved.code(), "not staged out: " + names + " (" + std::string(saved.what()) + ")",
        "the daemons still run, with all data: kvctl --cluster " + file_ + " stage out, then stop");
  }
  const Status stopped = Stop();
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
                     "(default: SLURM_JOB_END_TIME)"});
  return {
      {"run",
       "run a program with a cluster of its own",
       "Starts daemons as kvctl start does, stages in, runs COMMAND with TIDEPOOL_CLUSTER set, "
       "stages "
       "out, stops the daemons, and ends with COMMAND's exit code. Namespaces that --stage-out "
       "does "
       "not name are gone then, but for durable ones. When the walltime is about to end, as "
       "measured by how fast the directories of --stage-out take data, or at SIGTERM, it ends "
       "COMMAND (SIGTERM, 5 s later SIGKILL) and saves what is to be saved. If that fails the "
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
