// The processes of figures_own, their phases and what their tests share. Not thread-safe.
#pragma once

#include <tidepool/tidepool.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/examples/support/program.h"

namespace tidepool::figures {

// The command line's.
struct Options {
  support::ProgramOptions program;
  std::string test = "table";
  std::string way = "direct";
  std::string kind = "hash";
  std::uint64_t operations = 100'000;  // Of each process.
  std::uint64_t entries = 100'000;     // In the table whose look-ups are measured.
  std::size_t value_bytes = 8;
  std::size_t batch = 64;
  std::uint32_t partitions = 0;
  int runs = 5;
  bool insert_only = false;
  std::vector<int> daemons;  // Their process ids.
};

// One run of a phase, of all processes.
struct Sample {
  double operations = 0;
  double seconds = 0;  // From the first one's beginning to the last one's end, as the baselines'.
  double cpu_us = 0;
  double daemon_cpu_us = 0;
  double calls = 0;
};

// The processes of the run, and the phases that they have measured.
class Bench {
 public:
  // `options` and `team` outlive it.
  static Result<Bench> Make(const Options& options, Client& for_team, support::Team* team);

  const Options& options() const { return options_; }
  Client& client() { return client_; }
  support::Team& team() { return *team_; }
  std::uint64_t rank() const { return static_cast<std::uint64_t>(team_->rank()); }
  std::uint64_t size() const { return static_cast<std::uint64_t>(team_->size()); }
  Status Meet() { return team_->Meet("point-" + std::to_string(points_++)); }

  // Runs a phase of `operations` of this process. All processes call it.
  Status Phase(const std::string& name, std::uint64_t operations,
               const std::function<Status()>& work);
  // One line for each phase, by the process of rank 0.
  void Print() const;

 private:
  using Numbers = HashMap<std::string, std::int64_t>;

  Bench(const Options& options, Client client, Numbers numbers, support::Team* team)
      : options_(options), client_(std::move(client)), numbers_(std::move(numbers)), team_(team) {}

  // Of the processes' numbers, at all of them.
  Result<std::int64_t> Greatest(const std::string& name, std::int64_t number);
  double DaemonSeconds() const;

  const Options& options_;
  Client client_;
  Numbers numbers_;
  support::Team* team_;
  std::uint64_t points_ = 0;
  std::map<std::string, std::vector<Sample>> samples_;
};

// The keys of a process, each once, and the same in another order.
struct Keys {
  std::vector<std::uint64_t> in_order;
  std::vector<std::uint64_t> mixed;

  Keys(std::uint64_t rank, std::uint64_t size, std::uint64_t count);
};

// Makes a namespace of this run anew for all processes, or opens it.
template <typename T>
Result<T> Renewed(Bench& bench, const std::string& what, NamespaceOptions options) {
  const std::string name = bench.team().NameOf(what);
  if (Status status = bench.Meet(); !status.ok()) return status;
  if (bench.rank() == 0) (void)bench.client().Drop(name);  // The first time there is none.
  if (Status status = bench.Meet(); !status.ok()) return status;
  return bench.client().OpenOrCreate<T>(name, options);
}

inline Status Wrong(const std::string& what) { return Status(StatusCode::kDataLoss, what); }

inline std::string_view Bytes(const std::uint64_t& number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

// Into `memory`, as the baselines read. Errors: as GetInto, kDataLoss.
Status Gets(const BytesMap& map, const std::vector<std::uint64_t>& keys, std::string* memory);

// So that connections are there before the first phase. Its keys reach each partition.
Status WarmUp(Bench& bench);

// The tests of --test. All processes call them.
Status RunTable(Bench& bench);
Status RunLookUps(Bench& bench);
Status RunQueues(Bench& bench);
Status RunKinds(Bench& bench);
Status RunValues(Bench& bench);
Status RunMemcpy(Bench& bench);

}  // namespace tidepool::figures
