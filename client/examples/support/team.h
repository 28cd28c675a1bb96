// The processes of one run: who they are, and how they wait for each other, through the cluster
// itself.
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
  std::string run;        // The same for all processes of the run, and no other's.
  bool launched = false;  // By srun, mpirun, or by Launch(),
  bool by_us = false;     // the last of these.
};

// Finds the place in the environment of Launch(), of mpirun (Open MPI, PMIx, PMI), of srun, in this
// order: an mpirun in a batch script hands Slurm's variables on, which name the script. `run`: the
// option, may be empty.
// Errors: kInvalidArgument (several tasks, and nothing names their run).
tidepool::Result<Place> FindPlace(const std::string& program, const std::string& run);

// Starts `size` processes of this program with the same arguments, and huge pages for their heaps,
// and waits for them. When one fails or is killed the others are ended too. Returns: 0, or the exit
// code of the first that failed; 1 for one that was killed, which is printed.
int Launch(int size, const Place& place, char** argv);

// Of a namespace of the run: PROGRAM/RUN/WHAT.
std::string NameOf(const Place& place, std::string_view what);
// Before a run is begun: an earlier one, killed or under way, has left no namespaces of its name.
// Errors: kAlreadyExists; as Client::List.
tidepool::Status CheckUnused(tidepool::Client& client, const Place& place);
// Drops all namespaces that a run has left.
void DropRun(tidepool::Client& client, const Place& place);

// One process among the others. Not thread-safe.
class Team {
 public:
  // Errors: as Client::OpenOrCreate.
  static tidepool::Result<Team> Join(tidepool::Client& client, const Place& place,
                                     std::chrono::seconds silence);

  int rank() const { return place_.rank; }
  int size() const { return place_.size; }
  // The name of a namespace of this run.
  std::string NameOf(std::string_view what) const { return support::NameOf(place_, what); }

  // Tells the others that this process lives; to be called often, sends once a second.
  // Errors: kAborted: another one has failed, and said so.
  tidepool::Status Beat();
  // Waits until all have come to `point`, each of which is used once.
  // Errors: kAborted (another one has failed; the text is its own), kUnavailable (one is silent;
  // the text names it), and those of a FetchAdd.
  tidepool::Status Meet(std::string_view point);
  // For the last thing: tells the first process that this one needs the team no more; there, waits
  // for all others. As Meet.
  tidepool::Status Leave();
  // The sum over all processes; each calls it once for a `name`, and then meets the others.
  tidepool::Status Add(std::string_view name, std::uint64_t number);
  tidepool::Result<std::uint64_t> Sum(std::string_view name);
  // Both, and the meeting between them: the sum, at every process.
  tidepool::Result<std::uint64_t> SumOfAll(std::string_view name, std::uint64_t number);
  // Tells the others that this process gives up.
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
  tidepool::BytesMap counters_;  // Of the same namespace.
  Place place_;
  std::chrono::seconds silence_;
  std::uint64_t beats_ = 0;
  Time beaten_{};
  std::map<int, Heard> heard_;
};

}  // namespace support
