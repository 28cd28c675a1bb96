#include "tests/bench/bench_process.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "proto/base/clock.h"

namespace tidepool::bench {
namespace {

// Between fork and exec only calls that are safe there.
[[noreturn]] void BecomeChild(const std::vector<char*>& argv, int output) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  dup2(output, STDOUT_FILENO);
  execvp(argv[0], argv.data());
  _exit(127);
}

Result<pid_t> Spawn(const std::vector<std::string>& command, int output) {
  std::vector<char*> argv;
  for (const auto& part : command) argv.push_back(const_cast<char*>(part.c_str()));
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid < 0) return Status(StatusCode::kResourceExhausted, "cannot start " + command[0]);
  if (pid == 0) BecomeChild(argv, output);
  return pid;
}

}  // namespace

Result<BenchProcess> BenchProcess::Start(const std::vector<std::string>& command,
                                         const std::string& output) {
  const int fd = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return Status(StatusCode::kPermissionDenied, "cannot write " + output);
  const auto pid = Spawn(command, fd);
  close(fd);
  if (!pid.ok()) return pid.status();
  return BenchProcess(*pid);
}

BenchProcess::BenchProcess(BenchProcess&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}

BenchProcess& BenchProcess::operator=(BenchProcess&& other) noexcept {
  Stop(SIGTERM);
  pid_ = std::exchange(other.pid_, -1);
  return *this;
}

BenchProcess::~BenchProcess() { Stop(SIGTERM); }

void BenchProcess::Stop(int signal) {
  if (pid_ < 0) return;
  kill(pid_, signal);
  const Deadline deadline = Deadline::AfterMs(60'000);
  while (Running()) {
    if (deadline.Passed()) kill(pid_, SIGKILL);
    usleep(2'000);
  }
  pid_ = -1;
}

bool BenchProcess::Running() {
  if (pid_ < 0) return false;
  if (waitpid(pid_, nullptr, WNOHANG) == 0) return true;
  pid_ = -1;
  return false;
}

std::uint64_t BenchProcess::CpuNs() const {
  clockid_t clock = 0;
  timespec time{};
  if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec);
}

Result<std::string> RunAndRead(const std::vector<std::string>& command) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return Status(StatusCode::kResourceExhausted, "no pipe");
  }
  const auto pid = Spawn(command, ends[1]);
  close(ends[1]);
  std::string text;
  std::array<char, 4096> piece{};
  for (ssize_t bytes = 0; pid.ok() && (bytes = read(ends[0], piece.data(), piece.size())) > 0;) {
    text.append(piece.data(), static_cast<std::size_t>(bytes));
  }
  close(ends[0]);
  if (!pid.ok()) return pid.status();
  int status = 0;
  waitpid(*pid, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return Status(StatusCode::kInternal, command[0] + " failed", "is it installed?");
  }
  return text;
}

int FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  (void)bind(fd, reinterpret_cast<sockaddr*>(&address), bytes);
  (void)getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes);
  close(fd);
  return ntohs(address.sin_port);
}

void Print(const Row& row) {
  std::printf(
      "{\"row\": \"%s\", \"value\": %.6g, \"unit\": \"%s\", \"peer\": \"%s\", "
      "\"peer_value\": %.6g, \"ratio\": %.4g, \"goal\": \"%s\", \"met\": %s%s%s}\n",
      row.row.c_str(), row.value, row.unit.c_str(), row.peer.c_str(), row.peer_value, row.ratio,
      row.goal.c_str(), row.met ? "true" : "false", row.details.empty() ? "" : ", ",
      row.details.c_str());
  std::fflush(stdout);
}

double MedianOf(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace tidepool::bench
