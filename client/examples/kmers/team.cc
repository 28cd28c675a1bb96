#include "client/examples/kmers/team.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

namespace kmers {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using tidepool::Status;
using tidepool::StatusCode;

constexpr milliseconds kBeat{1'000};
constexpr milliseconds kPoll{20};
constexpr char kRankVariable[] = "KMERS_RANK";
constexpr char kSizeVariable[] = "KMERS_PROCESSES";
constexpr char kRunVariable[] = "KMERS_RUN";

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

[[noreturn]] void RunAs(int rank, int size, const std::string& run, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  setenv(kRankVariable, std::to_string(rank).c_str(), 1);
  setenv(kSizeVariable, std::to_string(size).c_str(), 1);
  setenv(kRunVariable, run.c_str(), 1);
  execv("/proc/self/exe", argv);
  std::fprintf(stderr, "kmers: cannot start process %d: %s\n", rank, std::strerror(errno));
  _exit(127);
}

}  // namespace

std::string TableName(const std::string& run) { return "kmers/" + run + "/table"; }
std::string TeamName(const std::string& run) { return "kmers/" + run + "/team"; }

void DropRun(tidepool::Client& client, const std::string& run) {
  // What is not there any more need not go.
  (void)client.Drop(TableName(run));
  (void)client.Drop(TeamName(run));
}

tidepool::Result<Place> FindPlace(const std::string& run) {
  Place place;
  const auto take = [&](const char* rank, const char* size, std::string name) {
    const auto r = NumberOf(rank);
    const auto n = NumberOf(size);
    if (!r.has_value() || !n.has_value() || *n < 1 || *r >= *n) return false;
    place = {*r, *n, Named(run.empty() ? std::move(name) : run), true,
             std::string_view(rank) == kRankVariable};
    return true;
  };
  const std::string step = TextOf("SLURM_STEP_ID");
  const bool found =
      take(kRankVariable, kSizeVariable, TextOf(kRunVariable)) ||
      // A batch script has a rank too, but no step of its own.
      (!step.empty() && take("SLURM_PROCID", "SLURM_STEP_NUM_TASKS",
                             "slurm-" + TextOf("SLURM_JOB_ID") + "." + step)) ||
      take("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", TextOf("PMIX_NAMESPACE")) ||
      take("PMI_RANK", "PMI_SIZE", TextOf("PMI_ID_NAMESPACE"));
  if (!found) place.run = Named(run.empty() ? MadeUpRun() : run);
  if (place.run.empty()) {
    return Status(StatusCode::kInvalidArgument,
                  std::to_string(place.size) + " tasks, and nothing names their run",
                  "give all of them the same --run NAME");
  }
  return place;
}

int Launch(int size, const std::string& run, char** argv) {
  std::vector<pid_t> processes;
  for (int rank = 0; rank < size; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) RunAs(rank, size, run, argv);
    if (pid < 0) {
      std::fprintf(stderr, "kmers: cannot start process %d: %s\n", rank, std::strerror(errno));
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
      std::fprintf(stderr, "kmers: process %d of %d was killed by signal %d; nothing was written\n",
                   static_cast<int>(found - processes.begin()), size, WTERMSIG(status));
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
  auto words = client.OpenOrCreate<Map>(TeamName(place.run), {.partitions = 1});
  if (!words.ok()) return words.status();
  auto counters = client.Open<tidepool::BytesMap>(TeamName(place.run));
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

// Names one that has not come to `point` and has not been heard of for too long.
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

Status Team::Meet(std::string_view point) {
  if (size() == 1) return {};
  const auto come = counters_.FetchAdd("at-" + std::string(point), 1);
  if (!come.ok()) return come.status();
  if (*come >= size()) {
    return Status(StatusCode::kAlreadyExists,
                  "more than " + std::to_string(size()) + " processes came to '" +
                      std::string(point) + "': a run of this name has left its tables",
                  "choose another --run, or drop the namespaces whose names begin with " +
                      TeamName(place_.run));
  }
  return WaitFor(point);
}

Status Team::Leave() {
  if (size() == 1) return {};
  const auto come = counters_.FetchAdd("at-leave", 1);
  if (!come.ok()) return come.status();
  return rank() == 0 ? WaitFor("leave") : Status();
}

// Until all have come.
Status Team::WaitFor(std::string_view point) {
  for (heard_.clear();;) {
    const auto there = counters_.FetchAdd("at-" + std::string(point), 0);
    if (!there.ok()) return there.status();
    if (*there >= size()) return {};
    if (steady_clock::now() >= beaten_ + kBeat) {
      if (Status status = Beat(); !status.ok()) return status;
      if (Status status = CheckOthers(point); !status.ok()) return status;
    }
    std::this_thread::sleep_for(kPoll);
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

void Team::Fail(const Status& why) {
  if (size() == 1 || why.code() == StatusCode::kAborted) return;
  (void)words_.Put("failed", "process " + std::to_string(rank()) + " failed: " + why.ToString());
}

}  // namespace kmers
