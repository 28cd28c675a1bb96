// Peers that die, stop or send junk, and the worker that served them.
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>
#include <set>

#include "proto/base/clock.h"
#include "proto/transport/settings.h"
#include "proto/transport/ucx_worker.h"
#include "tests/proto/transport/harness.h"

namespace tidepool::transport {
namespace {

// A server that echoes to the endpoint whose number is a frame's top 16 bits. A bystander, a worker
// with its own context, must be served whatever happens to other peers.
class Server {
 public:
  Server() {
    at_server.on_frame = [this](Bytes frame) { Answer(frame); };
    to_bystander = *worker->Connect(bystander->Address());
    to_server = *bystander->Connect(worker->Address());
    endpoints.push_back(to_bystander);
  }

  void Answer(Bytes frame) {
    at_server.numbers.clear();
    at_server.sizes.clear();
    if (frame.size() < 8) return;
    const std::size_t who = LoadUnaligned<std::uint64_t>(frame.data()) >> 48;
    if (who >= endpoints.size() || endpoints[who] == nullptr || !endpoints[who]->alive()) return;
    FrameBufferPtr answer = pool.Take();
    answer->set_size(frame.size());
    std::memcpy(answer->data(), frame.data(), frame.size());
    (void)worker->Send(endpoints[who], std::move(answer));
  }

  // Makes a round trip of the bystander, of `size` bytes.
  bool BystanderIsServed(std::size_t size = 1'000) {
    const std::size_t before = at_bystander.frames;
    if (!bystander->Send(to_server, MakeFrame(&pool, 77, size)).ok()) return false;
    return PumpUntil(all(), [&] { return at_bystander.frames == before + 1; }) &&
           at_bystander.damaged == 0;
  }

  // Starts a flooding client, connected both ways and in mid-traffic. Its endpoint is
  // endpoints[0]'s successor at the place that is returned.
  std::size_t StartFlood(std::unique_ptr<Child>* child) {
    *child = std::make_unique<Child>(
        std::vector<std::string>{PeerProgram(), "flood", ToHex(worker->Address())},
        std::map<std::string, std::string>{{"UCX_LOG_LEVEL", "fatal"}});
    const auto address = (*child)->ReadLine(idle());
    REQUIRE(address.has_value());
    auto endpoint = worker->Connect(FromHex(*address));
    REQUIRE(endpoint.ok());
    endpoints.push_back(*endpoint);
    (*child)->WriteLine(std::to_string(endpoints.size() - 1));
    REQUIRE((*child)->ReadLine(idle()) == "up");
    return endpoints.size() - 1;
  }

  std::function<void()> idle() {
    return [this] {
      for (Worker* each : all()) each->Progress();
    };
  }
  std::vector<Worker*> all() { return {worker.get(), bystander.get()}; }

  BufferPool pool;
  RecordingReceiver at_server;
  RecordingReceiver at_bystander;
  std::unique_ptr<Context> context = MakeLoopback();
  std::unique_ptr<Context> other_context = MakeLoopback();
  std::unique_ptr<Worker> worker = MakeWorkerOf(context.get(), &at_server);
  std::unique_ptr<Worker> bystander = MakeWorkerOf(other_context.get(), &at_bystander);
  Endpoint* to_bystander = nullptr;
  Endpoint* to_server = nullptr;
  std::vector<Endpoint*> endpoints;  // By number; null once closed.
};

void KillClients(int kills, int at_once) {
  const auto seed = static_cast<unsigned>(std::random_device()());
  INFO("seed " << seed);
  std::mt19937 random(seed);
  Server server;
  REQUIRE(server.BystanderIsServed());
  for (int killed = 0; killed < kills; killed += at_once) {
    INFO("kill " << killed);
    std::vector<std::unique_ptr<Child>> children(static_cast<std::size_t>(at_once));
    std::set<Endpoint*> theirs;
    const std::size_t first = server.endpoints.size();
    for (auto& child : children) theirs.insert(server.endpoints[server.StartFlood(&child)]);
    // Some more traffic, so that the kill hits different moments of it.
    const std::size_t goal = server.at_server.frames + random() % 50;
    REQUIRE(PumpUntil(server.all(), [&] { return server.at_server.frames >= goal; }));
    for (auto& child : children) child->Kill(SIGKILL);
    server.at_server.lost.clear();
    REQUIRE(PumpUntil(server.all(), [&] { return server.at_server.lost.size() >= theirs.size(); }));
    CHECK(std::set<Endpoint*>(server.at_server.lost.begin(), server.at_server.lost.end()) ==
          theirs);
    CHECK(server.at_server.lost.size() == theirs.size());  // Each was reported once.
    for (std::size_t i = first; i < server.endpoints.size(); ++i) {
      server.worker->Close(std::exchange(server.endpoints[i], nullptr));
    }
    REQUIRE(server.BystanderIsServed(FrameBuffer::kCapacity));
  }
  REQUIRE(PumpUntil(server.all(), [&] {
    return server.worker->sends_in_flight() + server.bystander->sends_in_flight() == 0;
  }));
  CHECK(server.pool.free_count() == server.pool.made());
}

// TCP ports on which this process listens.
std::vector<int> ListeningPorts() {
  std::set<std::string> inodes;
  DIR* dir = opendir("/proc/self/fd");
  REQUIRE(dir != nullptr);
  while (const dirent* entry = readdir(dir)) {
    char target[64] = {};
    const std::string path = std::string("/proc/self/fd/") + entry->d_name;
    if (readlink(path.c_str(), target, sizeof target - 1) > 8 &&
        std::strncmp(target, "socket:[", 8) == 0) {
      inodes.insert(std::string(target + 8, std::strcspn(target + 8, "]")));
    }
  }
  closedir(dir);
  std::vector<int> ports;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
      char state[8];
      char inode[32];
      unsigned port = 0;
      if (std::sscanf(line.c_str(), " %*d: %*[0-9A-F]:%X %*s %7s %*s %*s %*s %*s %*s %31s", &port,
                      state, inode) == 3 &&
          std::string(state) == "0A" && inodes.count(inode) != 0) {
        ports.push_back(static_cast<int>(port));
      }
    }
  }
  return ports;
}

int ConnectTo(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

// A stranger with UCX, but without the project's frames.
class Stranger {
 public:
  explicit Stranger(std::string_view wrapped_address) {
    ucp_config_t* config = nullptr;
    REQUIRE(ucp_config_read(nullptr, nullptr, &config) == UCS_OK);
    for (const UcxSetting& row : UcxSettingsTable({})) {
      ucp_config_modify(config, NameOf(row).c_str(), row.value.c_str());
    }
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_AM;
    REQUIRE(ucp_init(&params, config, &context_) == UCS_OK);
    ucp_config_release(config);
    ucp_worker_params_t worker_params{};
    REQUIRE(ucp_worker_create(context_, &worker_params, &worker_) == UCS_OK);
    std::string_view raw;
    REQUIRE(UnwrapAddress(wrapped_address, &raw).ok());
    const std::string aligned(raw);
    ucp_ep_params_t ep{};
    ep.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
    ep.address = reinterpret_cast<const ucp_address_t*>(aligned.data());
    ep.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    REQUIRE(ucp_ep_create(worker_, &ep, &endpoint_) == UCS_OK);
  }
  ~Stranger() {
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    ucp_ep_close_nbx(endpoint_, &param);
    ucp_worker_destroy(worker_);
    ucp_cleanup(context_);
  }

  // Sends and drives both sides until the send is complete, whatever its status.
  void Send(unsigned id, std::string_view header, const std::string& data, unsigned flags,
            const std::function<void()>& idle) {
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = flags;
    const ucs_status_ptr_t request = ucp_am_send_nbx(endpoint_, id, header.data(), header.size(),
                                                     data.data(), data.size(), &param);
    if (!UCS_PTR_IS_PTR(request)) return;
    const Deadline deadline = Deadline::AfterMs(kTestDeadlineMs);
    while (ucp_request_check_status(request) == UCS_INPROGRESS && !deadline.Passed()) {
      ucp_worker_progress(worker_);
      idle();
    }
    CHECK(ucp_request_check_status(request) != UCS_INPROGRESS);
    ucp_request_free(request);
  }

 private:
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
};

// Captures the output of this process during its life.
class CapturedOutput {
 public:
  CapturedOutput() : file_(std::tmpfile()), stdout_(dup(STDOUT_FILENO)) {
    std::fflush(stdout);
    dup2(fileno(file_), STDOUT_FILENO);
  }
  ~CapturedOutput() {
    std::fflush(stdout);
    dup2(stdout_, STDOUT_FILENO);
    close(stdout_);
    std::fclose(file_);
  }
  CapturedOutput(const CapturedOutput&) = delete;
  CapturedOutput& operator=(const CapturedOutput&) = delete;

  std::string Text() const {
    std::fflush(stdout);
    std::string text(4096, '\0');
    const ssize_t bytes = pread(fileno(file_), text.data(), text.size(), 0);
    text.resize(bytes < 0 ? 0 : static_cast<std::size_t>(bytes));
    return text;
  }

 private:
  std::FILE* file_;
  int stdout_;
};

}  // namespace

TEST_CASE("FiftyKilledClientsAreNoticedAndTheBystanderIsServed") { KillClients(50, 1); }

TEST_CASE("ThreeHundredKilledClientsAreNoticedAndTheBystanderIsServed", "[.][storm]") {
  KillClients(200, 1);
  KillClients(100, 4);
}

TEST_CASE("ASendToALostPeerIsUnavailableAndTheBufferComesBack") {
  Server server;
  std::unique_ptr<Child> child;
  Endpoint* victim = server.endpoints[server.StartFlood(&child)];
  child->Kill(SIGKILL);
  REQUIRE(PumpUntil(server.all(), [&] { return !victim->alive(); }));
  CHECK(server.worker->Send(victim, MakeFrame(&server.pool, 1, 1'000)) == StatusCode::kUnavailable);
  CHECK(server.worker->Describe(victim) == "lost");
  REQUIRE(PumpUntil(server.all(), [&] { return server.worker->sends_in_flight() == 0; }));
  CHECK(server.pool.free_count() == server.pool.made());
  CHECK(server.at_server.lost == std::vector<Endpoint*>{victim});
}

TEST_CASE("AnEndpointMayBeClosedAndAnotherMadeInsideOnPeerLost") {
  Server server;
  std::unique_ptr<Child> child;
  const std::size_t victim = server.StartFlood(&child);
  Endpoint* fresh = nullptr;
  server.at_server.on_lost = [&](Endpoint* endpoint) {
    server.worker->Close(endpoint);
    server.endpoints[victim] = nullptr;
    fresh = *server.worker->Connect(server.bystander->Address());
  };
  child->Kill(SIGKILL);
  REQUIRE(PumpUntil(server.all(), [&] { return fresh != nullptr; }));
  CHECK(fresh->alive());
  REQUIRE(server.worker->Send(fresh, MakeFrame(&server.pool, 5, 100)).ok());
  REQUIRE(PumpUntil(server.all(), [&] { return server.at_bystander.frames == 1; }));
  CHECK(server.BystanderIsServed());
}

TEST_CASE("APeerThatWasNeverThereIsReportedLost") {
  Server server;
  std::string address;
  {
    RecordingReceiver receiver;
    address = MakeWorkerOf(server.context.get(), &receiver)->Address();
  }
  auto endpoint = server.worker->Connect(address);
  if (endpoint.ok()) {  // Loopback may refuse at once or later.
    (void)server.worker->Send(*endpoint, MakeFrame(&server.pool, 1, 100));
    REQUIRE(PumpUntil(server.all(), [&] { return server.at_server.lost.size() == 1; }));
    CHECK(server.at_server.lost.front() == *endpoint);
  } else {
    CHECK(endpoint.code() == StatusCode::kUnavailable);
  }
  CHECK(server.BystanderIsServed());
}

TEST_CASE("AConnectionThatIsRefusedPrintsNothing") {
  Server server;
  std::string address;
  {
    RecordingReceiver receiver;
    address = MakeWorkerOf(server.context.get(), &receiver)->Address();
  }
  const CapturedOutput output;
  auto endpoint = server.worker->Connect(address);
  if (endpoint.ok()) {
    (void)server.worker->Send(*endpoint, MakeFrame(&server.pool, 1, 100));
    REQUIRE(PumpUntil(server.all(), [&] { return server.at_server.lost.size() == 1; }));
  }
  CHECK(output.Text().empty());
}

TEST_CASE("AClosedEndpointIsNotReportedLost") {
  Server server;
  std::unique_ptr<Child> child;
  const std::size_t victim = server.StartFlood(&child);
  server.worker->Close(std::exchange(server.endpoints[victim], nullptr));
  child->Kill(SIGKILL);
  for (int i = 0; i < 20; ++i) REQUIRE(server.BystanderIsServed());
  CHECK(server.at_server.lost.empty());
}

TEST_CASE("FramesToAStoppedPeerAreGivenBackWhenTheEndpointIsClosed") {
  Server server;
  std::unique_ptr<Child> child;
  const std::size_t victim = server.StartFlood(&child);
  child->Kill(SIGSTOP);
  for (std::uint64_t i = 0; i < 400; ++i) {  // 24 MB: more than the sockets take.
    REQUIRE(server.worker
                ->Send(server.endpoints[victim], MakeFrame(&server.pool, i, FrameBuffer::kCapacity))
                .ok());
  }
  REQUIRE(server.BystanderIsServed());
  REQUIRE(server.worker->sends_in_flight() > 0);
  server.worker->Close(std::exchange(server.endpoints[victim], nullptr));
  REQUIRE(PumpUntil(server.all(), [&] { return server.worker->sends_in_flight() == 0; }));
  CHECK(server.pool.free_count() == server.pool.made());
  CHECK(server.BystanderIsServed());
}

// UCX 1.13.1 handles "the peer has closed" and "the socket takes more bytes" of an event one after
// the other. The first frees the connection that the second then uses.
TEST_CASE("APeerThatReadsAndClosesAfterItsBlockedEndpointWasClosedHurtsNobody") {
  for (int round = 0; round < 30; ++round) {
    Server server;
    RecordingReceiver at_slow;
    auto slow_context = MakeLoopback();
    auto slow = MakeWorkerOf(slow_context.get(), &at_slow);
    Endpoint* to_server = *slow->Connect(server.worker->Address());
    Endpoint* to_slow = *server.worker->Connect(slow->Address());
    std::vector<Worker*> everyone = server.all();
    everyone.push_back(slow.get());
    REQUIRE(slow->Send(to_server, MakeFrame(&server.pool, 1ull << 63, 100)).ok());
    REQUIRE(server.worker->Send(to_slow, MakeFrame(&server.pool, 1, 100)).ok());
    REQUIRE(PumpUntil(everyone, [&] { return at_slow.frames == 1; }));
    std::size_t sent = 1;
    for (; to_slow->bytes_in_flight() < (1 << 20); ++sent) {
      REQUIRE(server.worker->Send(to_slow, MakeFrame(&server.pool, sent, 60'000)).ok());
      server.worker->Progress();
    }
    server.worker->Close(to_slow);
    server.worker->Progress();
    // It reads whatever the kernel holds, and goes.
    for (int i = 0; i < 2'000; ++i) slow->Progress();
    slow->Close(to_server);
    for (int i = 0; i < 100; ++i) slow->Progress();
    for (int i = 0; i < 200; ++i) server.worker->Progress();
    CHECK(server.BystanderIsServed());
    slow.reset();
    CHECK(server.BystanderIsServed());
    REQUIRE(PumpUntil(server.all(), [&] { return server.worker->sends_in_flight() == 0; }));
  }
}

TEST_CASE("AWorkerThatIsDestroyedGivesBackTheFramesOfAStoppedPeer") {
  Server server;
  std::unique_ptr<Child> child;
  const std::size_t victim = server.StartFlood(&child);
  child->Kill(SIGSTOP);
  for (std::uint64_t i = 0; i < 400; ++i) {
    (void)server.worker->Send(server.endpoints[victim],
                              MakeFrame(&server.pool, i, FrameBuffer::kCapacity));
  }
  REQUIRE(server.worker->sends_in_flight() > 0);
  server.worker.reset();
  server.bystander.reset();
  CHECK(server.pool.free_count() == server.pool.made());
}

TEST_CASE("JunkOnTheTcpPortIsSurvived") {
  const auto seed = static_cast<unsigned>(std::random_device()());
  INFO("seed " << seed);
  std::mt19937 random(seed);
  Server server;
  const auto ports = ListeningPorts();
  REQUIRE_FALSE(ports.empty());
  std::vector<std::string> messages = {"",
                                       "\n",
                                       "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                                       "SSH-2.0-OpenSSH_9.2\r\n",
                                       std::string(200, '\0'),
                                       std::string(100'000, 'x')};
  for (int i = 0; i < 40; ++i) {
    std::string bytes(1 + random() % 2'000, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    messages.push_back(std::move(bytes));
  }
  for (const int port : ports) {
    for (const std::string& message : messages) {
      const int fd = ConnectTo(port);
      REQUIRE(fd >= 0);
      (void)send(fd, message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      CHECK(server.BystanderIsServed());
      close(fd);
      CHECK(server.BystanderIsServed());
    }
  }
  CHECK(server.at_server.lost.empty());
}

TEST_CASE("MessagesThatAreNotFramesAreDropped") {
  Server server;
  std::vector<std::string> got;
  server.at_server.on_frame = [&](Bytes frame) { got.emplace_back(AsText(frame)); };
  {
    Stranger stranger(server.worker->Address());
    const auto idle = server.idle();
    constexpr unsigned kFrameId = 0;
    stranger.Send(kFrameId, "header", "data", UCP_AM_SEND_FLAG_EAGER, idle);
    stranger.Send(kFrameId, "", std::string(FrameBuffer::kCapacity + 1, 'x'),
                  UCP_AM_SEND_FLAG_EAGER, idle);
    stranger.Send(kFrameId, "", std::string(1 << 20, 'x'), UCP_AM_SEND_FLAG_EAGER, idle);
    stranger.Send(kFrameId, "", std::string(1'000, 'x'), UCP_AM_SEND_FLAG_RNDV, idle);
    stranger.Send(kFrameId, "", std::string(1 << 20, 'x'), UCP_AM_SEND_FLAG_RNDV, idle);
    // Other ids are not tried: UCX 1.13.1 reads behind its own table before it checks them.
    stranger.Send(kFrameId, "", "a frame", UCP_AM_SEND_FLAG_EAGER, idle);
    REQUIRE(PumpUntil(server.all(), [&] { return !got.empty(); }));
  }
  CHECK(got == std::vector<std::string>{"a frame"});
}

}  // namespace tidepool::transport
