#include "tests/proto/transport/harness.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "proto/base/clock.h"

extern char** environ;

namespace tidepool::transport {

std::string ToHex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

std::string FromHex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

std::unique_ptr<Context> MakeLoopback(bool workers_move) {
  UcxSettings settings;
  settings.workers_move_between_threads = workers_move;
  auto context = MakeUcxContext(settings);
  if (!context.ok()) throw std::runtime_error(context.status().ToString());
  return std::move(*context);
}

std::unique_ptr<Worker> MakeWorkerOf(Context* context, Receiver* receiver) {
  auto worker = context->MakeWorker(receiver);
  if (!worker.ok()) throw std::runtime_error(worker.status().ToString());
  return std::move(*worker);
}

namespace {
std::byte Pattern(std::uint64_t number, std::size_t i) {
  return static_cast<std::byte>(number * 31 + i * 7 + (i >> 8));
}
}  // namespace

FrameBufferPtr MakeFrame(BufferPool* pool, std::uint64_t number, std::size_t size) {
  FrameBufferPtr frame = pool->Take();
  frame->set_size(size);
  for (std::size_t i = 0; i < size; ++i) frame->data()[i] = Pattern(number, i);
  if (size >= sizeof number) std::memcpy(frame->data(), &number, sizeof number);
  return frame;
}

std::optional<std::uint64_t> CheckFrame(Bytes frame) {
  if (frame.size() < sizeof(std::uint64_t)) return std::nullopt;
  const auto number = LoadUnaligned<std::uint64_t>(frame.data());
  for (std::size_t i = sizeof number; i < frame.size(); ++i) {
    if (frame[i] != Pattern(number, i)) return std::nullopt;
  }
  return number;
}

void RecordingReceiver::OnFrame(Bytes frame) {
  ++frames;
  sizes.push_back(frame.size());
  if (frame.size() >= sizeof(std::uint64_t)) {
    const auto number = CheckFrame(frame);
    if (number.has_value()) {
      numbers.push_back(*number);
    } else {
      ++damaged;
    }
  }
  if (on_frame) on_frame(frame);
}

void RecordingReceiver::OnPeerLost(Endpoint* endpoint, const Status&) {
  lost.push_back(endpoint);
  if (on_lost) on_lost(endpoint);
}

bool PumpUntil(const std::vector<Worker*>& workers, const std::function<bool()>& done,
               std::uint64_t timeout_ms) {
  const Deadline deadline = Deadline::AfterMs(timeout_ms);
  while (!done()) {
    unsigned events = 0;
    for (Worker* worker : workers) events += worker->Progress();
    if (events == 0) {
      if (deadline.Passed()) return false;
      sched_yield();
    }
  }
  return true;
}

Child::Child(std::vector<std::string> argv, const std::map<std::string, std::string>& environment) {
  int in[2];
  int out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  std::vector<char*> args;
  for (std::string& arg : argv) args.push_back(arg.data());
  args.push_back(nullptr);
  std::vector<std::string> variables;
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
  for (char** v = environ; *v != nullptr; ++v) {
    const std::string name = std::string(*v).substr(0, std::strcspn(*v, "="));
    if (environment.count(name) == 0) variables.push_back(*v);
  }
  std::vector<char*> env;
  for (std::string& variable : variables) env.push_back(variable.data());
  env.push_back(nullptr);
  const int error = posix_spawnp(&pid_, args[0], &actions, nullptr, args.data(), env.data());
  posix_spawn_file_actions_destroy(&actions);
  close(in[0]);
  close(out[1]);
  stdin_fd_ = in[1];
  stdout_fd_ = out[0];
  if (error != 0) {
    pid_ = -1;
    throw std::runtime_error("cannot start " + argv[0] + ": " + std::strerror(error));
  }
}

Child::~Child() {
  if (pid_ > 0) Kill(SIGKILL);
  close(stdin_fd_);
  close(stdout_fd_);
}

void Child::WriteLine(const std::string& line) {
  const std::string text = line + "\n";
  if (write(stdin_fd_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    throw std::runtime_error("the child does not read");
  }
}

std::optional<std::string> Child::ReadLine(const std::function<void()>& idle) {
  const Deadline deadline = Deadline::AfterMs(kTestDeadlineMs);
  for (;;) {
    const std::size_t end = pending_.find('\n');
    if (end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return line;
    }
    pollfd ready{stdout_fd_, POLLIN, 0};
    const int n = poll(&ready, 1, idle ? 0 : 100);
    if (n > 0) {
      char text[4096];
      const ssize_t bytes = read(stdout_fd_, text, sizeof text);
      if (bytes <= 0) return std::nullopt;
      pending_.append(text, static_cast<std::size_t>(bytes));
    } else {
      if (deadline.Passed()) return std::nullopt;
      if (idle) idle();
    }
  }
}

void Child::Kill(int signal) {
  if (pid_ <= 0) return;
  kill(pid_, signal);
  if (signal == SIGSTOP || signal == SIGCONT) return;
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

std::optional<int> Child::Wait() {
  const Deadline deadline = Deadline::AfterMs(kTestDeadlineMs);
  int status = 0;
  while (waitpid(pid_, &status, WNOHANG) == 0) {
    if (deadline.Passed()) return std::nullopt;
    poll(nullptr, 0, 1);
  }
  pid_ = -1;
  return status;
}

std::string PeerProgram() {
  char path[4096];
  const ssize_t bytes = readlink("/proc/self/exe", path, sizeof path);
  if (bytes <= 0) throw std::runtime_error("no /proc/self/exe");
  const std::string self(path, static_cast<std::size_t>(bytes));
  return self.substr(0, self.rfind('/')) + "/transport_peer";
}

}  // namespace tidepool::transport
