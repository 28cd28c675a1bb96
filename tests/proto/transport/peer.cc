// The other process of the transport's tests: a role per run, a line of text per message.
//
//   echo                    prints its address; answers each frame to the endpoint whose number is
//                           the frame's top 16 bits; "connect HEX" on stdin adds an endpoint
//   flood HEX               prints its address, reads its id, then sends without end, 16 in flight;
//                           prints "up" after 20 answers
//   self N                  N round trips of 64 B and one of 60 KiB between two workers of its
//                           own (for strace); prints the lanes
//   idle N                  one frame over each of N endpoints between two workers of its own, a
//                           getppid() as a mark for strace, then nothing for two seconds and a half
//   rendezvous [NAME...]    moves 1 MiB by bare UCX with the settings of the table, without NAMEs
//   thresholds [NAME...]    prints the protocol of bare UCX for each size, same settings
//   descriptors             connects until it is refused for lack of descriptors, prints that, then
//                           raises the limit and prints whether new connections work again
//   self-connection         connects to a worker that has ended, from its very port, again and
//                           again; prints the connections and the refused connections to itself.
//                           Sets the source ports of its network namespace
//   misuse                  two threads use one worker: ends by SIGABRT in debug builds
//   environment             enters UCX's environment, prints its content
//   plain                   prints it without entering it
//   worker                  makes a worker
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <set>
#include <string>
#include <thread>

#include "proto/transport/process_environment.h"
#include "proto/transport/self_connection.h"
#include "proto/transport/settings.h"
#include "tests/proto/transport/harness.h"

namespace tidepool::transport {
namespace {

void Say(const std::string& line) {
  std::cout << line << std::endl;  // Flushed: the test waits for it.
}

bool StdinHasLine() {
  pollfd ready{STDIN_FILENO, POLLIN, 0};
  return poll(&ready, 1, 0) > 0;
}

int Echo() {
  BufferPool pool;
  auto context = MakeLoopback();
  RecordingReceiver receiver;
  std::vector<Endpoint*> endpoints;
  auto worker = MakeWorkerOf(context.get(), &receiver);
  receiver.on_frame = [&](Bytes frame) {
    receiver.sizes.clear();
    receiver.numbers.clear();
    const std::size_t which =
        frame.size() < 8 ? 0 : LoadUnaligned<std::uint64_t>(frame.data()) >> 48;
    if (which >= endpoints.size() || !endpoints[which]->alive()) return;
    FrameBufferPtr answer = pool.Take();
    answer->set_size(frame.size());
    if (!frame.empty()) std::memcpy(answer->data(), frame.data(), frame.size());
    (void)worker->Send(endpoints[which], std::move(answer));  // A lost peer is noticed elsewhere.
  };
  Say(ToHex(worker->Address()));
  for (;;) {
    if (worker->Progress() != 0) continue;
    if (!StdinHasLine()) {
      sched_yield();
      continue;
    }
    std::string word;
    std::string hex;
    if (!(std::cin >> word >> hex)) return 0;
    auto endpoint = worker->Connect(FromHex(hex));
    if (!endpoint.ok()) return 1;
    endpoints.push_back(*endpoint);
    Say("connected");
  }
}

int Flood(const std::string& server) {
  BufferPool pool;
  auto context = MakeLoopback();
  RecordingReceiver receiver;
  std::size_t answers = 0;
  receiver.on_frame = [&](Bytes) {
    ++answers;
    receiver.sizes.clear();
    receiver.numbers.clear();
  };
  auto worker = MakeWorkerOf(context.get(), &receiver);
  Say(ToHex(worker->Address()));
  std::uint64_t id = 0;
  std::cin >> id;
  auto endpoint = worker->Connect(FromHex(server));
  if (!endpoint.ok()) return 1;
  bool is_up = false;
  for (std::uint64_t sent = 0;;) {
    while (sent - answers < 16 && (*endpoint)->alive()) {
      const std::size_t size = sent % 3 == 0 ? FrameBuffer::kCapacity : 8 * 1024;
      (void)worker->Send(*endpoint, MakeFrame(&pool, id << 48 | sent, size));
      ++sent;
    }
    if (worker->Progress() == 0) sched_yield();
    if (!is_up && answers > 20) {
      is_up = true;
      Say("up");
    }
  }
}

int PingPong(Worker* worker, Endpoint* to, RecordingReceiver* receiver, BufferPool* pool,
             const std::vector<Worker*>& workers, std::size_t rounds) {
  for (std::size_t i = 0; i <= rounds; ++i) {
    const std::size_t size = i == rounds ? FrameBuffer::kCapacity : 64;
    if (!worker->Send(to, MakeFrame(pool, i, size)).ok()) return 1;
    if (!PumpUntil(workers, [&] { return receiver->frames > i; })) return 2;
  }
  if (receiver->damaged != 0) return 3;
  Say(worker->Describe(to));
  return 0;
}

int Self(std::size_t rounds) {
  BufferPool pool;
  auto context = MakeLoopback();
  RecordingReceiver here;
  RecordingReceiver there;
  auto worker = MakeWorkerOf(context.get(), &here);
  auto echo = MakeWorkerOf(context.get(), &there);
  auto to = worker->Connect(echo->Address());
  auto back = echo->Connect(worker->Address());
  if (!to.ok() || !back.ok()) return 1;
  there.on_frame = [&](Bytes frame) {
    (void)echo->Send(*back, MakeFrame(&pool, *CheckFrame(frame), frame.size()));
  };
  return PingPong(worker.get(), *to, &here, &pool, {worker.get(), echo.get()}, rounds);
}

int Idle(std::size_t endpoints) {
  BufferPool pool;
  auto context = MakeLoopback();
  RecordingReceiver here;
  RecordingReceiver there;
  auto worker = MakeWorkerOf(context.get(), &here);
  auto target = MakeWorkerOf(context.get(), &there);
  for (std::size_t i = 0; i < endpoints; ++i) {
    auto to = worker->Connect(target->Address());
    if (!to.ok() || !worker->Send(*to, MakeFrame(&pool, i, 64)).ok()) return 1;
  }
  const std::vector<Worker*> workers = {worker.get(), target.get()};
  if (!PumpUntil(workers, [&] { return there.frames == endpoints; })) return 2;
  (void)getppid();
  (void)PumpUntil(
      workers, [] { return false; }, 2'500);
  Say("idle");
  return 0;
}

// Bare UCX, no error handling mode: the only way in which UCX 1.13 uses TCP put at all.
struct Rendezvous {
  ucp_worker_h sender = nullptr;
  ucp_worker_h receiver = nullptr;
  std::vector<char> source = std::vector<char>(1 << 20, 'x');
  std::vector<char> target = std::vector<char>(1 << 20);
  bool is_done = false;
};

ucs_status_t OnRendezvous(void* arg, const void*, std::size_t, void* data, std::size_t bytes,
                          const ucp_am_recv_param_t*) {
  auto* state = static_cast<Rendezvous*>(arg);
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.user_data = state;
  param.cb.recv_am = [](void* request, ucs_status_t, std::size_t, void* user) {
    static_cast<Rendezvous*>(user)->is_done = true;
    ucp_request_free(request);
  };
  ucp_am_recv_data_nbx(state->receiver, data, state->target.data(), bytes, &param);
  return UCS_INPROGRESS;
}

// Starts sender and receiver of bare UCX, by the settings of the table except for the named
// settings.
bool Start(const std::vector<std::string>& without, ucp_err_handling_mode_t mode, Rendezvous* state,
           ucp_ep_h* endpoint) {
  ucp_config_t* config = nullptr;
  if (ucp_config_read(nullptr, nullptr, &config) != UCS_OK) return false;
  for (const UcxSetting& row : UcxSettingsTable({})) {
    bool is_left_out = false;
    for (const std::string& name : without) is_left_out |= name == row.name;
    if (is_left_out) continue;
    ucp_config_modify(config, NameOf(row).c_str(), row.value.c_str());
  }
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM;
  ucp_context_h context = nullptr;
  if (ucp_init(&params, config, &context) != UCS_OK) return false;
  ucp_worker_params_t worker_params{};
  ucp_worker_create(context, &worker_params, &state->sender);
  ucp_worker_create(context, &worker_params, &state->receiver);
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = 1;
  handler.cb = OnRendezvous;
  handler.arg = state;
  ucp_worker_set_am_recv_handler(state->receiver, &handler);
  ucp_address_t* address = nullptr;
  std::size_t bytes = 0;
  ucp_worker_get_address(state->receiver, &address, &bytes);
  ucp_ep_params_t ep_params{};
  ep_params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
  ep_params.address = address;
  ep_params.err_mode = mode;
  return ucp_ep_create(state->sender, &ep_params, endpoint) == UCS_OK;
}

int MoveByRendezvous(const std::vector<std::string>& without) {
  Rendezvous state;
  ucp_ep_h endpoint = nullptr;
  if (!Start(without, UCP_ERR_HANDLING_MODE_NONE, &state, &endpoint)) return 1;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_RNDV;
  ucp_am_send_nbx(endpoint, 1, nullptr, 0, state.source.data(), state.source.size(), &param);
  while (!state.is_done) {
    ucp_worker_progress(state.sender);
    ucp_worker_progress(state.receiver);
  }
  Say(state.source == state.target ? "moved" : "damaged");
  _exit(0);  // The rest does not concern the test.
}

int PrintThresholds(const std::vector<std::string>& without) {
  Rendezvous state;
  ucp_ep_h endpoint = nullptr;
  if (!Start(without, UCP_ERR_HANDLING_MODE_PEER, &state, &endpoint)) return 1;
  std::FILE* file = std::tmpfile();
  ucp_ep_print_info(endpoint, file);
  std::rewind(file);
  char line[512];
  while (std::fgets(line, sizeof line, file) != nullptr) {
    if (const char* at = std::strstr(line, "am_send: ")) std::cout << at << std::flush;
  }
  _exit(0);
}

int UseUpDescriptors() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = 200;
  setrlimit(RLIMIT_NOFILE, &limit);
  BufferPool pool;
  auto context = MakeLoopback();
  RecordingReceiver receiver;
  RecordingReceiver ignored;
  auto server = MakeWorkerOf(context.get(), &receiver);
  std::vector<std::unique_ptr<Worker>> peers;
  const auto add_peer = [&]() -> Status {
    auto peer = context->MakeWorker(&ignored);
    if (!peer.ok()) return peer.status();
    peers.push_back(std::move(*peer));
    auto endpoint = peers.back()->Connect(server->Address());
    if (!endpoint.ok()) return endpoint.status();
    const std::size_t goal = receiver.frames + 1;
    TP_RETURN_IF_ERROR(peers.back()->Send(*endpoint, MakeFrame(&pool, 0, 64)));
    return PumpUntil({server.get(), peers.back().get()}, [&] { return receiver.frames == goal; })
               ? OkStatus()
               : Status(StatusCode::kDeadlineExceeded, "the frame did not arrive");
  };
  Status status;
  while (status.ok()) status = add_peer();
  Say(std::string(StatusCodeName(status.code())));
  if (RaiseDescriptorLimit() <= 200) return 1;
  Say(std::string(StatusCodeName(add_peer().code())));
  return 0;
}

// TCP ports on which processes of this network namespace listen.
std::set<int> ListeningPortsHere() {
  std::set<int> ports;
  std::ifstream table("/proc/self/net/tcp");
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    unsigned port = 0;
    unsigned state = 0;
    // "  0: 0100007F:9C41 00000000:0000 0A ...": state 10 is LISTEN.
    const bool is_row = std::sscanf(line.c_str(), "%*d: %*x:%x %*x:%*x %x", &port, &state) == 2;
    if (is_row && state == 10) ports.insert(static_cast<int>(port));
  }
  return ports;
}

bool SetSourcePorts(int first, int last) {
  std::ofstream range("/proc/sys/net/ipv4/ip_local_port_range");
  range << first << " " << last << std::flush;
  return range.good();
}

// In a network namespace of its own: connects to a worker that has ended, from its very port.
int ConnectWithSelf() {
  if (!SetSourcePorts(40'000, 44'003)) return 1;  // UCX chooses from the upper half of these.
  BufferPool pool;
  auto context = MakeLoopback();
  RecordingReceiver receiver;
  auto ended = MakeWorkerOf(context.get(), &receiver);
  const std::string address = ended->Address();
  const std::set<int> ports = ListeningPortsHere();
  ended.reset();
  if (ports.empty()) return 2;
  auto worker = MakeWorkerOf(context.get(), &receiver);
  std::size_t connections = 0;
  for (const int port : ports) {
    if (!SetSourcePorts(port, port)) return 1;
    for (int i = 0; i < 20; ++i) {
      ++connections;
      auto endpoint = worker->Connect(address);
      if (!endpoint.ok()) continue;
      (void)worker->Send(*endpoint, MakeFrame(&pool, 1, 64));
      const std::size_t lost = receiver.lost.size();
      if (!PumpUntil({worker.get()}, [&] { return receiver.lost.size() > lost; })) return 3;
      worker->Close(*endpoint);
    }
  }
  Say(std::string("connections ") + std::to_string(connections));
  Say(std::string("refused ") + std::to_string(SelfConnectionsRefused()));
  return 0;
}

int Misuse() {
  auto context = MakeLoopback();
  RecordingReceiver receiver;
  auto worker = MakeWorkerOf(context.get(), &receiver);
  worker->Progress();
  std::thread([&] { worker->Progress(); }).join();
  return 0;
}

std::string ActionOf(int signal) {
  struct sigaction action {};
  sigaction(signal, nullptr, &action);
  if (action.sa_handler == SIG_IGN) return "ignored";
  return action.sa_handler == SIG_DFL ? "default" : "handled";
}

void SayEnvironment(const char* status) {
  char name[16] = {};
  prctl(PR_GET_NAME, name);
  Say(std::string("status ") + status);
  Say("pid " + std::to_string(getpid()));
  Say(std::string("name ") + name);
  Say(std::string("hangup ") + ActionOf(SIGHUP));
  Say(std::string("fault ") + ActionOf(SIGSEGV));
  for (const char* variable : {"UCX_HANDLE_ERRORS", "UCX_DEBUG_SIGNO", "UCX_LOG_LEVEL",
                               "UCX_WARN_UNUSED_ENV_VARS", "TIDEPOOL_EXECUTED_AGAIN"}) {
    const char* value = std::getenv(variable);
    Say(std::string(variable) + " " + (value == nullptr ? "-" : value));
  }
}

int Run(const std::vector<std::string>& args) {
  const std::string role = args.size() > 1 ? args[1] : "";
  if (role == "echo") return Echo();
  if (role == "flood" && args.size() == 3) return Flood(args[2]);
  if (role == "self" && args.size() == 3) return Self(std::stoul(args[2]));
  if (role == "idle" && args.size() == 3) return Idle(std::stoul(args[2]));
  if (role == "rendezvous") return MoveByRendezvous({args.begin() + 2, args.end()});
  if (role == "thresholds") return PrintThresholds({args.begin() + 2, args.end()});
  if (role == "descriptors") return UseUpDescriptors();
  if (role == "self-connection") return ConnectWithSelf();
  if (role == "misuse") return Misuse();
  if (role == "worker") {  // UCX warns here of variables that it does not know.
    auto context = MakeLoopback();
    RecordingReceiver receiver;
    MakeWorkerOf(context.get(), &receiver);
    return 0;
  }
  if (role == "plain") {
    SayEnvironment("OK");
    return 0;
  }
  std::cerr << "transport_peer: unknown role '" << role << "'\n";
  return 64;
}

}  // namespace
}  // namespace tidepool::transport

int main(int argc, char** argv) {
  using namespace tidepool::transport;
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // A role without end must not outlive a failed test.
  if (argc >= 2 && std::strcmp(argv[1], "environment") == 0) {
    const tidepool::Status status = EnterUcxEnvironment(argv);
    SayEnvironment(std::string(tidepool::StatusCodeName(status.code())).c_str());
    return argc == 2 ? 0 : 1;  // An additional argument shows the test that arguments were kept.
  }
  return Run({argv, argv + argc});
}
