// Ends this process's lease in etcd at once when the process is killed: a child process, kvd-guard,
// holds one end of a socket whose other end the kernel closes with its parent.
//
//   bootstrap -> [node/lease_guard] => kvd-guard -> etcd/client
//   membership/etcd_session -' (its present lease)
//
// Rules:
//   1. The guard ends a lease only after the parent's end: the kernel closes a descriptor after the
//      last thread of a process has left user mode. Silence is no end.
//   2. The guard is a child, so the process that was started stays the daemon. It has a session of
//      its own and takes no signal, so what ends the daemon's process group leaves it alone.
//   3. The guard outlives its parent by kEndMs at most, and ends at once after a clean end.
//
// A daemon without a guard works: others then notice its death when its lease runs out.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "proto/base/channel_security.h"
#include "proto/base/result.h"
#include "proto/base/unique_fd.h"

namespace tidepool::daemon {

// Thread-safe.
class LeaseGuard {
 public:
  static constexpr const char* kProgramName = "kvd-guard";
  static constexpr std::uint64_t kEndMs = 5'000;

  // Starts this program again as the guard. `endpoints`, `security`: as etcd::Client::Create.
  // Errors: kResourceExhausted (no process, no descriptor).
  static Result<std::unique_ptr<LeaseGuard>> Start(const std::vector<std::string>& endpoints,
                                                   const ChannelSecurity& security);
  // Ends the guard, which leaves the lease alone.
  ~LeaseGuard();
  LeaseGuard(const LeaseGuard&) = delete;
  LeaseGuard& operator=(const LeaseGuard&) = delete;

  // Names the lease to end; 0: none.
  void Watch(std::int64_t lease);
  pid_t pid() const { return pid_; }

 private:
  LeaseGuard() = default;
  void Send(const std::string& line);

  std::mutex mutex_;
  UniqueFd socket_;
  pid_t pid_ = -1;
  bool is_lost_ = false;  // The guard does not take what it is sent.
};

// True if this program was started as the guard.
bool IsLeaseGuard(int argc, char** argv);
// Runs the guard until its parent has ended. Returns the exit code of the process.
int RunLeaseGuard();

}  // namespace tidepool::daemon
