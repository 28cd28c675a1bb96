#include "client/examples/support/team.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

namespace support {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using tidepool::Status;
using tidepool::StatusCode;

constexpr milliseconds kBeat{1'000};
constexpr char kRankVariable[] = "TEAM_RANK";
constexpr char kSizeVariable[] = "TEAM_PROCESSES";
constexpr char kRunVariable[] = "TEAM_RUN";

std::optional<int> NumberOf(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return std::nullopt;
  char* end = nullptr;
  const long number = std::strtol(text, &end, 10);
  if (*end != '\0' || number < 0 || number > 1'000'000) return std::nullopt;
  return static_cast<int>(number);
}

std::string TextOf(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? std::string() : std::string(text);
}

// Names of namespaces are of letters, digits and ._/-
std::string Named(std::string text) {
  for (char& c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '-') c = '_';
  }
  return text.substr(0, 100);
}

std::string MadeUpRun() {
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return std::to_string(getpid()) + "-" + std::to_string(now);
}

void SayCannotStart(int rank, const Place& place) {
  std::fprintf(stderr, "%s: cannot start process %d: %s\n", place.program.c_str(), rank,
               std::strerror(errno));
}

// The number of processes that PMIx alone does not name. Open MPI before 5 has a variable of its
// own, srun has that of the step.
std::optional<int> SizeOfPmix() {
  for (const char* const variable :
       {"OMPI_COMM_WORLD_SIZE", "PMIX_SIZE", "PRTE_JOB_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    if (const auto size = NumberOf(variable)) return size;
  }
  return std::nullopt;
}

// Returns a name that all processes of an mpirun share and no other run has.
std::string RunOfMpi() {
  for (const char* const variable : {"PMIX_NAMESPACE", "PMI_ID_NAMESPACE", "PMI_JOBID"}) {
    if (const std::string text = TextOf(variable); !text.empty()) return text;
  }
  return {};
}

// An mpirun inside of a Slurm job hands the variables of the batch script on, in which each process
// has rank 0. The variables of MPI launchers hold whatever Slurm says.
template <typename Take>
bool TakeFromMpi(const Take& take) {
  return take("OMPI_COMM_WORLD_RANK", NumberOf("OMPI_COMM_WORLD_SIZE"), RunOfMpi()) ||
         take("PMIX_RANK", SizeOfPmix(), RunOfMpi()) ||
         take("PMI_RANK", NumberOf("PMI_SIZE"), RunOfMpi());
}

// A batch script has a rank, too, but no step of its own.
template <typename Take>
bool TakeFromSlurm(const Take& take) {
  const std::string step = TextOf("SLURM_STEP_ID");
  return !step.empty() && take("SLURM_PROCID", NumberOf("SLURM_STEP_NUM_TASKS"),
                               "slurm-" + TextOf("SLURM_JOB_ID") + "." + step);
}

[[noreturn]] void RunAs(int rank, int size, const Place& place, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  setenv(kRankVariable, std::to_string(rank).c_str(), 1);
  setenv(kSizeVariable, std::to_string(size).c_str(), 1);
  setenv(kRunVariable, place.run.c_str(), 1);
  // glibc reads it before main. A value that the user has set stays.
  setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1", 0);
  execv("/proc/self/exe", argv);
  SayCannotStart(rank, place);
  _exit(127);
}

}  // namespace

std::string NameOf(const Place& place, std::string_view what) {
  return place.program + "/" + place.run + "/" + std::string(what);
}

Status CheckUnused(tidepool::Client& client, const Place& place) {
  const auto spaces = client.List();
  if (!spaces.ok()) return spaces.status();
  const std::string prefix = NameOf(place, "");
  for (const tidepool::NamespaceInfo& space : *spaces) {
    if (!space.name.starts_with(prefix)) continue;
    return Status(StatusCode::kAlreadyExists,
                  "a run of this name is under way, or was killed and has left " + space.name,
                  "choose another --run, or drop the namespaces whose names begin with " + prefix);
  }
  return {};
}

void DropRun(tidepool::Client& client, const Place& place) {
  const auto spaces = client.List();
  if (!spaces.ok()) return;  // Then they cannot be dropped either.
  const std::string prefix = NameOf(place, "");
  for (const tidepool::NamespaceInfo& space : *spaces) {
    // A namespace that is gone already is fine.
    if (space.name.starts_with(prefix)) (void)client.Drop(space.name);
  }
}

tidepool::Result<Place> FindPlace(const std::string& program, const std::string& run) {
  Place place;
  place.program = program;
  const auto take = [&](const char* rank, const std::optional<int>& size, std::string name) {
    const auto r = NumberOf(rank);
    if (!r.has_value() || !size.has_value() || *size < 1 || *r >= *size) return false;
    place = {program, *r,
             *size,   Named(run.empty() ? std::move(name) : run),
             true,    std::string_view(rank) == kRankVariable};
    return true;
  };
  const bool found = take(kRankVariable, NumberOf(kSizeVariable), TextOf(kRunVariable)) ||
                     TakeFromMpi(take) || TakeFromSlurm(take);
  if (!found) place.run = Named(run.empty() ? MadeUpRun() : run);
  if (place.run.empty()) {
    return Status(StatusCode::kInvalidArgument,
                  std::to_string(place.size) + " tasks, and nothing names their run",
                  "give all of them the same --run NAME");
  }
  return place;
}

int Launch(int size, const Place& place, char** argv) {
  std::vector<pid_t> processes;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) RunAs(rank, size, place, argv);
    if (pid < 0) {
      SayCannotStart(rank, place);
      for (const pid_t started : processes) kill(started, SIGTERM);
      return 1;
    }
    processes.push_back(pid);
  }
  int result = 0;
  for (int left = size; left > 0; --left) {
    int status = 0;
    const pid_t ended = waitpid(-1, &status, 0);
    const auto found = std::find(processes.begin(), processes.end(), ended);
    if (found == processes.end()) continue;
    *found = -1;
    if (result != 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) continue;
    if (WIFSIGNALED(status)) {
      std::fprintf(stderr, "%s: process %d of %d was killed by signal %d; nothing was written\n",
                   place.program.c_str(), static_cast<int>(found - processes.begin()), size,
                   WTERMSIG(status));
    }
    result = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    for (const pid_t other : processes) {
      if (other > 0) kill(other, SIGTERM);
    }
  }
  return result;
}

tidepool::Result<Team> Team::Join(tidepool::Client& client, const Place& place,
                                  std::chrono::seconds silence) {
  const std::string name = support::NameOf(place, "team");
  auto words = client.OpenOrCreate<Map>(name, {.partitions = 1});
  if (!words.ok()) return words.status();
  auto counters = client.Open<tidepool::BytesMap>(name);
  if (!counters.ok()) return counters.status();
  return Team(*std::move(words), *std::move(counters), place, silence);
}

Status Team::Beat() {
  const Time now = steady_clock::now();
  if (size() == 1 || now < beaten_ + kBeat) return {};
  beaten_ = now;
  const auto put = words_.Put("beat-" + std::to_string(rank()), std::to_string(++beats_));
  if (!put.ok()) return put.status();
  const auto failed = words_.Get("failed");
  if (failed.ok()) return Status(StatusCode::kAborted, *failed);
  return failed.code() == StatusCode::kNotFound ? Status() : failed.status();
}

// Names a process that has not come to `point` and has been silent for too long.
Status Team::CheckOthers(std::string_view point) {
  const Time now = steady_clock::now();
  for (int other = 0; other < size(); ++other) {
    if (other == rank()) continue;
    const auto beat = words_.Get("beat-" + std::to_string(other));
    if (!beat.ok() && beat.code() != StatusCode::kNotFound) return beat.status();
    const std::string text = beat.ok() ? *beat : std::string();
    Heard& heard = heard_[other];
    if (heard.when == Time() || heard.beat != text) {
      heard = {text, now};
    } else if (now > heard.when + silence_) {
      return Status(StatusCode::kUnavailable,
                    "process " + std::to_string(other) + " of " + std::to_string(size()) +
                        " is silent since " + std::to_string(silence_.count()) +
                        " s, waited for at '" + std::string(point) + "'",
                    "it was killed or never started; start all of them again");
    }
  }
  return {};
}

// The last process at a point puts the point's word. The other processes wait for it at its owner.
Status Team::Arrive(std::string_view point, std::int64_t* before) {
  const auto come = counters_.FetchAdd("at-" + std::string(point), 1);
  if (!come.ok()) return come.status();
  *before = *come;
  if (*come + 1 != size()) return {};
  return words_.Put("met-" + std::string(point), "").status();
}

Status Team::Meet(std::string_view point) {
  if (size() == 1) return {};
  std::int64_t before = 0;
  if (Status status = Arrive(point, &before); !status.ok()) return status;
  if (before >= size()) {
    return Status(StatusCode::kAlreadyExists,
                  "more than " + std::to_string(size()) + " processes came to '" +
                      std::string(point) + "': a run of this name has left its tables",
                  "choose another --run, or drop the namespaces whose names begin with " +
                      support::NameOf(place_, ""));
  }
  return before + 1 == size() ? Status() : WaitFor(point);
}

Status Team::Leave() {
  if (size() == 1) return {};
  std::int64_t before = 0;
  if (Status status = Arrive("leave", &before); !status.ok()) return status;
  return rank() == 0 ? WaitFor("leave") : Status();
}

// Until all have come.
Status Team::WaitFor(std::string_view point) {
  const std::string word = "met-" + std::string(point);
  for (heard_.clear();;) {
    const auto met = words_.WaitForKey(word, {.timeout = kBeat});
    if (met.ok()) return {};
    if (met.code() != StatusCode::kDeadlineExceeded) return met.status();
    if (Status status = Beat(); !status.ok()) return status;
    if (Status status = CheckOthers(point); !status.ok()) return status;
  }
}

Status Team::Add(std::string_view name, std::uint64_t number) {
  return counters_.FetchAdd("sum-" + std::string(name), static_cast<std::int64_t>(number)).status();
}

tidepool::Result<std::uint64_t> Team::Sum(std::string_view name) {
  const auto sum = counters_.FetchAdd("sum-" + std::string(name), 0);
  if (!sum.ok()) return sum.status();
  return static_cast<std::uint64_t>(*sum);
}

tidepool::Result<std::uint64_t> Team::SumOfAll(std::string_view name, std::uint64_t number) {
  if (size() == 1) return number;
  if (Status status = Add(name, number); !status.ok()) return status;
  if (Status status = Meet("sum-" + std::string(name)); !status.ok()) return status;
  return Sum(name);
}

void Team::Fail(const Status& why) {
  if (size() == 1 || why.code() == StatusCode::kAborted) return;
  (void)words_.Put("failed", "process " + std::to_string(rank()) + " failed: " + why.ToString());
}

}  // namespace support
