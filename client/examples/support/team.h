// The processes of a run: their ranks and their meetings, through the cluster itself.
#pragma once

#include <tidepool/tidepool.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace support {

struct Place {
  std::string program;  // Its name, with which the names of the run's namespaces begin.
  int rank = 0;
  int size = 1;
  std::string run;        // Equal for all processes of the run, and different from other runs.
  bool launched = false;  // By srun, mpirun, or by Launch(),
  bool by_us = false;     // the last of these.
};

// Finds the place in the environment of Launch(), of mpirun (Open MPI, PMIx, PMI), of srun, in this
// order: an mpirun in a batch script hands Slurm's variables on, which name the script. `run`: the
// option, may be empty.
// Errors: kInvalidArgument (several tasks, and nothing names their run).
tidepool::Result<Place> FindPlace(const std::string& program, const std::string& run);

// Starts `size` processes of this program with equal arguments and huge pages for their heaps, and
// waits for them. When a process fails or is killed, the rest of them are ended too. Returns 0, or
// the exit code of the first failed process; 1 for a killed process, which is printed.
int Launch(int size, const Place& place, char** argv);

// Returns the name of a namespace of the run: PROGRAM/RUN/WHAT.
std::string NameOf(const Place& place, std::string_view what);
// Checks before a run that no earlier run, killed or under way, has left namespaces of its name.
// Errors: kAlreadyExists, and the errors of Client::List.
tidepool::Status CheckUnused(tidepool::Client& client, const Place& place);
// Drops all namespaces that a run has left.
void DropRun(tidepool::Client& client, const Place& place);

// A process in its team. Not thread-safe.
class Team {
 public:
  // Errors: as Client::OpenOrCreate.
  static tidepool::Result<Team> Join(tidepool::Client& client, const Place& place,
                                     std::chrono::seconds silence);

  int rank() const { return place_.rank; }
  int size() const { return place_.size; }
  // The name of a namespace of this run.
  std::string NameOf(std::string_view what) const { return support::NameOf(place_, what); }

  // Reports that this process lives. Call it often; it sends once a second.
  // Errors: kAborted: another process has reported a failure.
  tidepool::Status Beat();
  // Waits until all processes have come to `point`. Each point is used once.
  // Errors: kAborted (another process has failed; the text is its own), kUnavailable (a process is
  // silent; the text names it), and the errors of a FetchAdd.
  tidepool::Status Meet(std::string_view point);
  // Ends the use of the team: reports it to the first process, which waits for all processes.
  // Errors: see Meet.
  tidepool::Status Leave();
  // Adds to the sum over all processes. Each process calls it once for a `name`, and then meets the
  // team.
  tidepool::Status Add(std::string_view name, std::uint64_t number);
  tidepool::Result<std::uint64_t> Sum(std::string_view name);
  // Both, and the meeting between them: the sum, at every process.
  tidepool::Result<std::uint64_t> SumOfAll(std::string_view name, std::uint64_t number);
  // Reports that this process gives up.
  void Fail(const tidepool::Status& why);

 private:
  using Map = tidepool::HashMap<std::string, std::string>;
  using Counters = tidepool::HashMap<std::string, std::int64_t>;
  using Time = std::chrono::steady_clock::time_point;
  struct Heard {
    std::string beat;
    Time when;
  };

  Team(Map words, tidepool::BytesMap counters, Place place, std::chrono::seconds silence)
      : words_(std::move(words)),
        counters_(std::move(counters)),
        place_(std::move(place)),
        silence_(silence) {}
  tidepool::Status WaitFor(std::string_view point);
  tidepool::Status CheckOthers(std::string_view point);
  tidepool::Status Arrive(std::string_view point, std::int64_t* before);

  Map words_;
  tidepool::BytesMap counters_;  // Counters in the same namespace.
  Place place_;
  std::chrono::seconds silence_;
  std::uint64_t beats_ = 0;
  Time beaten_{};
  std::map<int, Heard> heard_;
};

}  // namespace support
