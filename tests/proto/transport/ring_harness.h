// Shared parts of the tests of same-node connections: a worker that listens and echoes, workers
// that connect to it, and children made by fork (no code here uses UCX).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "proto/transport/ring_worker.h"
#include "tests/proto/transport/harness.h"

namespace tidepool::transport {

// A folder for sockets, gone with its owner. Short: a socket's path has 107 characters at most.
class SocketFolder {
 public:
  SocketFolder();
  ~SocketFolder();
  SocketFolder(const SocketFolder&) = delete;
  SocketFolder& operator=(const SocketFolder&) = delete;
  const std::string& path() const { return path_; }
  std::vector<std::string> Names() const;

 private:
  std::string path_;
};

std::unique_ptr<RingWorker> MakeRingWorker(const RingSettings& settings, Receiver* receiver);

// A connecting worker, and its received frames.
struct RingClient {
  explicit RingClient(const std::string& address);
  // Sends a frame and waits for its echo.
  bool Echoes(std::uint64_t number, std::size_t size, const std::function<void()>& meanwhile);

  BufferPool pool;
  RecordingReceiver receiver;
  std::unique_ptr<RingWorker> worker;
  Endpoint* endpoint = nullptr;
};

// A daemon's side: answers each frame by itself, to the connection of the worker that sent it. A
// frame begins with a number that has the client's index in its top 16 bits.
struct RingServer {
  explicit RingServer(const RingSettings& settings);
  void Introduce(const std::string& address) { addresses.push_back(address); }
  void Progress() { worker->Progress(); }

  BufferPool pool;
  RecordingReceiver receiver;
  std::unique_ptr<RingWorker> worker;
  std::vector<std::string> addresses;  // Index = client.
  std::vector<Endpoint*> endpoints;    // Endpoints of the connections; null until the first frame.
  bool echoes_all = true;              // False: echoes only frames of MakeFrame.
};

// A child process that runs `role` and ends. Killed and reaped by the destructor.
class ForkedChild {
 public:
  explicit ForkedChild(const std::function<void()>& role);
  ~ForkedChild();
  ForkedChild(const ForkedChild&) = delete;
  ForkedChild& operator=(const ForkedChild&) = delete;
  void Signal(int signal) const;
  void Kill();

 private:
  pid_t pid_;
};

}  // namespace tidepool::transport
