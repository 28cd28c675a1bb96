// A contender of the spill bench in a process of its own.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tests/bench/spill/contender.h"
#include "tests/bench/spill/memory_group.h"

namespace tidepool::bench {

// Must be made before this process has threads. Not thread-safe. The bench ends when a contender
// does.
class ContenderProcess {
 public:
  // `make` runs in the child, which enters `group` first, if there is one.
  ContenderProcess(std::string name, std::optional<MemoryGroup> group,
                   const std::function<std::unique_ptr<Contender>()>& make);
  ~ContenderProcess();
  ContenderProcess(const ContenderProcess&) = delete;
  ContenderProcess& operator=(const ContenderProcess&) = delete;

  const std::string& name() const { return name_; }
  SpillResult Do(const SpillOrder& order);
  // What it may have taken at most so far, by its cgroup or else by itself.
  double memory_bytes_max() const;

 private:
  const std::string name_;
  std::optional<MemoryGroup> group_;
  int socket_ = -1;
  pid_t pid_ = -1;
  double memory_bytes_max_ = 0;
};

}  // namespace tidepool::bench
