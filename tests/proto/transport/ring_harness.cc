#include "tests/proto/transport/ring_harness.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <utility>

namespace tidepool::transport {

SocketFolder::SocketFolder() {
  char name[] = "/tmp/tidepool-ring-XXXXXX";
  if (mkdtemp(name) == nullptr) throw std::runtime_error("no folder for sockets");
  path_ = name;
}

SocketFolder::~SocketFolder() { std::filesystem::remove_all(path_); }

std::vector<std::string> SocketFolder::Names() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    names.push_back(entry.path().filename());
  }
  return names;
}

std::unique_ptr<RingWorker> MakeRingWorker(const RingSettings& settings, Receiver* receiver) {
  auto worker = RingWorker::Create(settings, receiver);
  if (!worker.ok()) throw std::runtime_error(worker.status().ToString());
  return *std::move(worker);
}

RingClient::RingClient(const std::string& address) : worker(MakeRingWorker({}, &receiver)) {
  auto connected = worker->Connect(address);
  if (!connected.ok()) throw std::runtime_error(connected.status().ToString());
  endpoint = *connected;
}

bool RingClient::Echoes(std::uint64_t number, std::size_t size,
                        const std::function<void()>& meanwhile) {
  const std::size_t before = receiver.frames;
  if (!worker->Send(endpoint, MakeFrame(&pool, number, size)).ok()) return false;
  const bool came = PumpUntil({worker.get()}, [&] {
    meanwhile();
    return receiver.frames > before || !receiver.lost.empty();
  });
  return came && receiver.frames == before + 1 && receiver.numbers.back() == number &&
         receiver.sizes.back() == size && receiver.damaged == 0;
}

RingServer::RingServer(const RingSettings& settings) : worker(MakeRingWorker(settings, &receiver)) {
  receiver.on_frame = [this](Bytes frame) {
    const std::size_t which =
        frame.size() < 8 ? 0 : LoadUnaligned<std::uint64_t>(frame.data()) >> 48;
    if (which >= addresses.size() || (!echoes_all && !CheckFrame(frame).has_value())) return;
    endpoints.resize(addresses.size());
    if (endpoints[which] == nullptr) {
      auto back = worker->Connect(addresses[which]);
      if (!back.ok()) return;
      endpoints[which] = *back;
    }
    FrameBufferPtr answer = pool.Take();
    answer->set_size(frame.size());
    std::copy(frame.begin(), frame.end(), answer->data());
    (void)worker->Send(endpoints[which], std::move(answer));  // A lost peer is noticed elsewhere.
  };
  receiver.on_lost = [this](Endpoint* endpoint) {
    for (Endpoint*& each : endpoints) {
      if (each == endpoint) each = nullptr;
    }
    worker->Close(endpoint);
  };
}

ForkedChild::ForkedChild(const std::function<void()>& role) : pid_(fork()) {
  if (pid_ < 0) throw std::runtime_error("fork");
  if (pid_ > 0) return;
  try {
    role();
  } catch (...) {
    _exit(1);
  }
  _exit(0);
}

ForkedChild::~ForkedChild() { Kill(); }

void ForkedChild::Signal(int signal) const { kill(pid_, signal); }

void ForkedChild::Kill() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(std::exchange(pid_, -1), nullptr, 0);
}

}  // namespace tidepool::transport
