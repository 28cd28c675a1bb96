#include "daemon/node/lease_guard.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "daemon/membership/etcd_session.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

extern char** environ;

namespace tidepool::daemon {
namespace {

using GuardJson = nlohmann::json;

// The guard's end of the socket.
constexpr int kGuardSocket = 3;
constexpr useconds_t kReapUs = 1'000;
constexpr std::uint64_t kReapMs = 1'000;

Status NoGuard(int error) {
  return Status(StatusCode::kResourceExhausted,
                std::string("cannot start kvd-guard: ") + std::strerror(error),
                "raise ulimit -u and ulimit -n");
}

// The last data from the parent.
struct Watched {
  std::vector<std::string> endpoints;
  ChannelSecurity security;
  std::int64_t lease = 0;
};

// Takes a line. The first line holds the way to etcd, each later line a lease.
void TakeLine(std::string_view line, Watched* watched) {
  const GuardJson json = GuardJson::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return;
  if (const auto lease = json.find("lease"); lease != json.end() && lease->is_number_integer()) {
    watched->lease = lease->get<std::int64_t>();
  }
  const auto take_text = [&](const char* name, std::string* to) {
    const auto found = json.find(name);
    if (found != json.end() && found->is_string()) *to = found->get<std::string>();
  };
  take_text("ca", &watched->security.tls_ca);
  take_text("name", &watched->security.tls_name);
  take_text("cert", &watched->security.tls_cert);
  take_text("key", &watched->security.tls_key);
  const auto endpoints = json.find("endpoints");
  if (endpoints == json.end() || !endpoints->is_array()) return;
  for (const GuardJson& each : *endpoints) {
    if (each.is_string()) watched->endpoints.push_back(each.get<std::string>());
  }
}

// Reads until the parent's end.
Watched ReadToTheEnd(int socket) {
  Watched watched;
  std::string unread;
  char bytes[4096];
  for (;;) {
    const ssize_t got = read(socket, bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return watched;
    unread.append(bytes, static_cast<std::size_t>(got));
    for (std::size_t end = unread.find('\n'); end != std::string::npos; end = unread.find('\n')) {
      TakeLine(std::string_view(unread).substr(0, end), &watched);
      unread.erase(0, end + 1);
    }
  }
}

}  // namespace

Result<std::unique_ptr<LeaseGuard>> LeaseGuard::Start(const std::vector<std::string>& endpoints,
                                                      const ChannelSecurity& security) {
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return NoGuard(errno);
  std::unique_ptr<LeaseGuard> guard(new LeaseGuard());
  guard->socket_ = UniqueFd(ends[0]);
  const UniqueFd theirs(ends[1]);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  // dup2 to itself would leave the descriptor to be closed by exec.
  posix_spawn_file_actions_adddup2(&files, theirs.get(), 0);
  posix_spawn_file_actions_adddup2(&files, 0, kGuardSocket);
  for (const int standard : {0, 1, 2}) {
    posix_spawn_file_actions_addopen(&files, standard, "/dev/null", O_RDWR, 0);
  }
  posix_spawn_file_actions_addclosefrom_np(&files, kGuardSocket + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
  std::string name = kProgramName;
  char* const arguments[] = {name.data(), nullptr};
  const int error =
      posix_spawn(&guard->pid_, "/proc/self/exe", &files, &attributes, arguments, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) {
    guard->pid_ = -1;
    return NoGuard(error);
  }
  const GuardJson json = {{"endpoints", endpoints},
                          {"ca", security.tls_ca},
                          {"name", security.tls_name},
                          {"cert", security.tls_cert},
                          {"key", security.tls_key}};
  guard->Send(json.dump(-1, ' ', false, GuardJson::error_handler_t::replace) + "\n");
  return guard;
}

LeaseGuard::~LeaseGuard() {
  if (pid_ < 0) return;
  Watch(0);
  socket_.Reset();
  const Deadline deadline = Deadline::AfterMs(kReapMs);
  while (waitpid(pid_, nullptr, WNOHANG) == 0) {
    if (deadline.Passed()) kill(pid_, SIGKILL);
    usleep(kReapUs);
  }
}

void LeaseGuard::Watch(std::int64_t lease) { Send(GuardJson({{"lease", lease}}).dump() + "\n"); }

void LeaseGuard::Send(const std::string& line) {
  const std::lock_guard lock(mutex_);
  std::size_t sent = 0;
  while (!is_lost_ && sent < line.size()) {
    const ssize_t count =
        send(socket_.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      // A rest without its line's end would spoil the next line.
      is_lost_ = true;
      log::Warn(std::string("kvd-guard is lost, so that a kill of this daemon is noticed only when "
                            "its lease runs out: ") +
                std::strerror(errno));
      break;
    }
    sent += static_cast<std::size_t>(count);
  }
}

bool IsLeaseGuard(int argc, char** argv) {
  return argc == 1 && std::string_view(argv[0]) == LeaseGuard::kProgramName;
}

int RunLeaseGuard() {
  prctl(PR_SET_NAME, LeaseGuard::kProgramName);
  if (chdir("/") != 0) return 1;  // The daemon's folder stays free to be unmounted.
  signal(SIGPIPE, SIG_IGN);
  const Watched watched = ReadToTheEnd(kGuardSocket);
  if (watched.lease == 0) return 0;
  auto client = etcd::Client::Create(watched.endpoints, watched.security);
  if (!client.ok()) return 1;
  return (*client)->RevokeLease(watched.lease, Deadline::AfterMs(LeaseGuard::kEndMs)).ok() ? 0 : 1;
}

}  // namespace tidepool::daemon
