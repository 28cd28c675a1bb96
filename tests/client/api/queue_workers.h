// Processes that work on a queue, are killed and replaced, and write down their work.
#pragma once

#include <catch2/catch.hpp>
#include <csignal>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/integration/harness.h"
#include "tidepool/bytes_queue.h"

namespace tidepool::testing {

// Pushes into either kind of queue. All priorities are equal, so the order is the order of arrival.
inline Result<ItemId> PushTo(const BytesQueue& queue, std::string_view value) {
  return queue.Push(value);
}
inline Result<ItemId> PushTo(const BytesPriorityQueue& queue, std::string_view value) {
  return queue.Push(7, value);
}

// Returns the lines written so far. The last line of a killed process may be cut.
inline std::vector<std::string> LinesOf(const Process& process) {
  std::istringstream output(process.Output());
  std::vector<std::string> lines;
  for (std::string line; std::getline(output, line) && !output.eof();) lines.push_back(line);
  return lines;
}

// They pop under a lease, write the item down and ack it (queue_client's "work").
class QueueWorkers {
 public:
  QueueWorkers(const TestCluster& cluster, std::string queue, std::string lease_ms, int count)
      : cluster_(cluster), queue_(std::move(queue)), lease_ms_(std::move(lease_ms)) {
    for (int i = 0; i < count; ++i) workers_.push_back(Run());
  }

  std::size_t LinesWritten(int worker) const { return LinesOf(*workers_.at(At(worker))).size(); }
  void KillAndReplace(int worker) {
    Kill(workers_.at(At(worker)).get());
    workers_.at(At(worker)) = Run();
  }
  // Kills all and checks that no item was done twice. How many were done.
  int End() {
    for (auto& worker : workers_) Kill(worker.get());
    done_.erase("ready");
    for (const auto& [value, times] : done_) {
      INFO(value);
      CHECK(times == 1);
    }
    return static_cast<int>(done_.size());
  }

 private:
  static std::size_t At(int worker) { return static_cast<std::size_t>(worker); }
  std::unique_ptr<Process> Run() {
    const std::string stem = cluster_.folder() + "/worker-" + std::to_string(started_++);
    return std::make_unique<Process>(
        std::vector<std::string>{ProgramPath("queue_client"), cluster_.file(), queue_, "work",
                                 lease_ms_},
        std::vector<std::string>{}, stem);
  }
  void Kill(Process* worker) {
    worker->Signal(SIGKILL);
    worker->Wait();
    for (const std::string& line : LinesOf(*worker)) ++done_[line];
  }

  const TestCluster& cluster_;
  const std::string queue_;
  const std::string lease_ms_;
  std::vector<std::unique_ptr<Process>> workers_;
  std::map<std::string, int> done_;
  int started_ = 0;
};

}  // namespace tidepool::testing
