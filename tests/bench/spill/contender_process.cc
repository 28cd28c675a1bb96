#include "tests/bench/spill/contender_process.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace tidepool::bench {
namespace {

[[noreturn]] void Serve(int socket, const std::function<std::unique_ptr<Contender>()>& make) {
  {
    const std::unique_ptr<Contender> contender = make();
    SpillOrder order;
    while (read(socket, &order, sizeof order) == sizeof order) {
      const SpillResult result = contender->Do(order);
      if (send(socket, &result, sizeof result, MSG_NOSIGNAL) != sizeof result) break;
    }
  }
  // Without what this program would do at its end: it is the bench's, not the contender's.
  _exit(0);
}

}  // namespace

ContenderProcess::ContenderProcess(std::string name, std::optional<MemoryGroup> group,
                                   const std::function<std::unique_ptr<Contender>()>& make)
    : name_(std::move(name)), group_(std::move(group)) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0 ||
      (pid_ = fork()) < 0) {
    std::perror("spill_bench: cannot start a contender");
    std::exit(1);
  }
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, ("spill-" + name_).c_str());
    close(ends[0]);
    if (group_.has_value()) {
      if (const Status entered = group_->Enter(); !entered.ok()) {
        std::fprintf(stderr, "spill_bench: %s\n", entered.ToString().c_str());
        _exit(1);
      }
    }
    Serve(ends[1], make);
  }
  close(ends[1]);
  socket_ = ends[0];
}

ContenderProcess::~ContenderProcess() {
  // Contenders that were started later hold copies of it: closing alone would tell nobody.
  shutdown(socket_, SHUT_RDWR);
  close(socket_);
  waitpid(pid_, nullptr, 0);
}

SpillResult ContenderProcess::Do(const SpillOrder& order) {
  SpillResult result;
  if (send(socket_, &order, sizeof order, MSG_NOSIGNAL) != sizeof order ||
      read(socket_, &result, sizeof result) != sizeof result) {
    std::fprintf(stderr, "spill_bench: %s has ended%s\n", name_.c_str(),
                 group_.has_value() ? " (its memory is limited: see dmesg)" : "");
    std::exit(1);
  }
  if (result.wrong > 0) {
    std::fprintf(stderr, "spill_bench: %s gave %.0f wrong answers\n", name_.c_str(), result.wrong);
    std::exit(1);
  }
  memory_bytes_max_ = std::max(memory_bytes_max_, result.memory_bytes_max);
  return result;
}

double ContenderProcess::memory_bytes_max() const {
  const double of_group = group_.has_value() ? static_cast<double>(group_->BytesMax()) : 0;
  return of_group > 0 ? of_group : memory_bytes_max_;
}

}  // namespace tidepool::bench
