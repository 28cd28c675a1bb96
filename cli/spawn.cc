#include "cli/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <thread>

#include "cli/text.h"
#include "proto/base/clock.h"
#include "proto/cluster_file/file_io.h"

extern char** environ;

namespace tidepool::cli {
namespace {

constexpr const char* kDaemon = "kvd";

std::string FirstLine(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

Status SpawnError(const std::string& program, int error) {
  StatusCode code = StatusCode::kInternal;
  if (error == ENOENT) code = StatusCode::kNotFound;
  if (error == EACCES) code = StatusCode::kPermissionDenied;
  if (error == EAGAIN || error == ENOMEM) code = StatusCode::kResourceExhausted;
  return Status(code, "cannot start " + program + ": " + std::strerror(error));
}

}  // namespace

Result<std::string> FindDaemonProgram() {
  if (const char* given = std::getenv("TIDEPOOL_KVD"); given != nullptr && *given != '\0') {
    if (access(given, X_OK) == 0) return std::string(given);
    return Status(StatusCode::kNotFound, "TIDEPOOL_KVD names no program: " + Quote(given));
  }
  std::array<char, 4096> self{};
  const ssize_t bytes = readlink("/proc/self/exe", self.data(), self.size() - 1);
  const std::string folder =
      bytes > 0 ? cluster_file::FolderOf(std::string(self.data(), static_cast<std::size_t>(bytes)))
                : ".";
  const std::string program = folder + "/" + kDaemon;
  if (access(program.c_str(), X_OK) == 0) return program;
  return Status(StatusCode::kNotFound, "there is no kvd beside kvctl in " + folder,
                "build or install it there, or name it in TIDEPOOL_KVD");
}

Result<pid_t> SpawnDetached(const std::string& program, const std::vector<std::string>& arguments,
                            const std::string& log) {
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  // A pipe of whoever called kvctl would stay open for as long as the daemon lives.
  posix_spawn_file_actions_addclosefrom_np(&files, 3);

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t all;
  sigset_t none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, program.c_str(), &files, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) return SpawnError(program, error);
  return pid;
}

Result<std::string> OutputOf(const std::vector<std::string>& command, std::uint64_t timeout_ms) {
  auto program = FindInPath(command.front());
  if (!program.ok()) return program.status();
  const UniqueFd output(memfd_create("output", 0));
  if (!output.is_open()) return SpawnError(command.front(), errno);
  // The child opens it by this name before its descriptors are closed.
  const std::string path = "/proc/self/fd/" + std::to_string(output.get());
  const auto pid = SpawnDetached(*program, {command.begin() + 1, command.end()}, path);
  if (!pid.ok()) return pid.status();
  const Deadline deadline = Deadline::AfterMs(timeout_ms);
  constexpr std::chrono::milliseconds kPollEvery{2};
  std::optional<int> code;
  while (!(code = ChildExitCode(*pid)).has_value() && !deadline.Passed()) {
    std::this_thread::sleep_for(kPollEvery);
  }
  if (!code.has_value()) {
    kill(*pid, SIGKILL);
    waitpid(*pid, nullptr, 0);
    return Status(StatusCode::kUnavailable, command.front() + " takes too long");
  }
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (*code == 0) return text.str();
  return Status(StatusCode::kUnavailable, command.front() + " fails: " + LastLine(path));
}

Result<std::string> FindInPath(const std::string& program) {
  if (program.find('/') != std::string::npos) return program;
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + program;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return Status(StatusCode::kNotFound, "there is no program " + Quote(program) + " in PATH");
}

bool ChildHasEnded(pid_t pid) { return ChildExitCode(pid).has_value(); }

std::string EndText(int code) {
  if (code < 128) return "exit code " + std::to_string(code);
  const char* const name = sigabbrev_np(code - 128);
  const std::string number = std::to_string(code - 128);
  return name == nullptr ? "signal " + number : std::string("SIG") + name;
}

std::optional<int> ChildExitCode(pid_t pid) {
  int status = 0;
  if (waitpid(pid, &status, WNOHANG) != pid) return std::nullopt;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool IsDaemonAlive(pid_t pid) { return IsProgramAlive(pid, kDaemon); }

bool IsProgramAlive(pid_t pid, const std::string& program) {
  if (pid <= 0 || (kill(pid, 0) != 0 && errno == ESRCH)) return false;
  // Another program may have the number by now, or a process that ended and was not waited for.
  const std::string folder = "/proc/" + std::to_string(pid);
  if (FirstLine(folder + "/stat").find("(" + program + ") ") == std::string::npos) {
    return false;
  }
  // The first thread of an ending process may be gone while another thread still holds its port.
  std::error_code error;
  std::filesystem::directory_iterator thread(folder + "/task", error);
  for (; !error && thread != std::filesystem::directory_iterator(); thread.increment(error)) {
    const std::string stat = FirstLine(thread->path() / "stat");
    const std::size_t state = stat.rfind(") ");  // Behind a name, which may be anything.
    if (state != std::string::npos && stat[state + 2] != 'Z' && stat[state + 2] != 'X') return true;
  }
  return false;
}

std::vector<std::string> LastLines(const std::string& path, std::size_t count) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    if (lines.size() == count) lines.erase(lines.begin());
    lines.push_back(line);
  }
  return lines;
}

std::string LastLine(const std::string& path) {
  const auto lines = LastLines(path, 1);
  return lines.empty() ? "" : lines.front();
}

std::string ReasonIn(const std::string& log) {
  const std::string last = LastLine(log);
  // Slurm's agent on a node, which could not start it: "slurmstepd-n1: error: execve(): ...".
  const bool of_step = last.starts_with("slurmstepd") && last.find(": error: ") != last.npos;
  return last.starts_with("kvd: ") || of_step ? last : "";
}

}  // namespace tidepool::cli
