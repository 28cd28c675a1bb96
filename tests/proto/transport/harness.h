// Shared parts of the transport's tests: receivers that record, pumping until a condition holds,
// and child processes (started by fork and exec: UCX must never be used across a bare fork).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/transport/ucx_transport.h"

namespace tidepool::transport {

inline constexpr std::uint64_t kTestDeadlineMs = 60'000;  // Generous: the machine may be loaded.

std::string ToHex(std::string_view bytes);
std::string FromHex(std::string_view hex);

// A context on loopback; fails the test when UCX does not start.
std::unique_ptr<Context> MakeLoopback(bool workers_move = false);
std::unique_ptr<Worker> MakeWorkerOf(Context* context, Receiver* receiver);

// A buffer of `size` bytes that carry `number` first (if they fit) and a pattern made of it behind.
FrameBufferPtr MakeFrame(BufferPool* pool, std::uint64_t number, std::size_t size);
// The number of a frame made by MakeFrame; nothing if its pattern is damaged.
std::optional<std::uint64_t> CheckFrame(Bytes frame);

// Records events; the hooks run inside the callbacks.
class RecordingReceiver : public Receiver {
 public:
  void OnFrame(Bytes frame) override;
  void OnPeerLost(Endpoint* endpoint, const Status& why) override;

  std::function<void(Bytes)> on_frame;
  std::function<void(Endpoint*)> on_lost;
  std::size_t frames = 0;
  std::size_t damaged = 0;
  std::vector<std::uint64_t> numbers;
  std::vector<std::size_t> sizes;
  std::vector<Endpoint*> lost;
};

// Progresses all workers until `done`; false when the deadline passed first.
bool PumpUntil(const std::vector<Worker*>& workers, const std::function<bool()>& done,
               std::uint64_t timeout_ms = kTestDeadlineMs);

// A child process with pipes to its stdin and from its stdout. Killed and reaped by the destructor.
class Child {
 public:
  // `environment` is put over this process's own. argv[0] is looked up in PATH.
  explicit Child(std::vector<std::string> argv,
                 const std::map<std::string, std::string>& environment = {});
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  void WriteLine(const std::string& line);
  // Returns the next line without its newline; `idle` is called while there is none. Returns no
  // value at the end of the output or after the deadline.
  std::optional<std::string> ReadLine(const std::function<void()>& idle = {});
  // Sends `signal` and, unless it only stops or continues, reaps.
  void Kill(int signal);
  // Waits for the end; the status as waitpid gives it, nothing after the deadline.
  std::optional<int> Wait();

 private:
  pid_t pid_ = -1;
  int stdin_fd_ = -1;
  int stdout_fd_ = -1;
  std::string pending_;
};

// The helper program of these tests (peer.cc).
std::string PeerProgram();

}  // namespace tidepool::transport
