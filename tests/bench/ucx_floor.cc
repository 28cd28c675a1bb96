#include "tests/bench/ucx_floor.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "proto/base/clock.h"
#include "proto/transport/settings.h"
#include "proto/transport/ucx_transport.h"
#include "tests/proto/transport/harness.h"

namespace tidepool::bench {
namespace {

constexpr const char* kRoleFlag = "--ping-pong-role";
constexpr unsigned kMessageId = 1;

void PinTo(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

// One side of the ping-pong: counts what arrives; the server answers from inside the callback.
class Side {
 public:
  virtual ~Side() = default;
  virtual std::string Address() = 0;
  virtual bool Connect(const std::string& address) = 0;
  virtual void Send() = 0;
  virtual void Progress() = 0;

  std::uint64_t received = 0;
  bool answers = false;
};

class BareSide final : public Side {
 public:
  static std::unique_ptr<Side> Make(std::size_t bytes) {
    std::unique_ptr<BareSide> side(new BareSide(bytes));
    if (!side->Start()) return nullptr;
    return side;
  }

  std::string Address() override {
    ucp_address_t* address = nullptr;
    std::size_t bytes = 0;
    if (ucp_worker_get_address(worker_, &address, &bytes) != UCS_OK) return {};
    std::string text(reinterpret_cast<const char*>(address), bytes);
    ucp_worker_release_address(worker_, address);
    return text;
  }
  bool Connect(const std::string& address) override {
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<const ucp_address_t*>(address.data());
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = [](void*, ucp_ep_h, ucs_status_t) { _exit(2); };
    return ucp_ep_create(worker_, &params, &endpoint_) == UCS_OK;
  }
  void Send() override {
    ucp_request_param_t param{};
    param.op_attr_mask =
        UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.cb.send = [](void* request, ucs_status_t, void*) { ucp_request_free(request); };
    param.flags = UCP_AM_SEND_FLAG_EAGER;
    param.memory_type = UCS_MEMORY_TYPE_HOST;
    // Not touched again: all sends share the payload.
    if (UCS_PTR_IS_ERR(ucp_am_send_nbx(endpoint_, kMessageId, nullptr, 0, payload_.data(),
                                       payload_.size(), &param))) {
      _exit(2);
    }
  }
  void Progress() override { ucp_worker_progress(worker_); }

 private:
  explicit BareSide(std::size_t bytes) : payload_(bytes, 'x') {}

  bool Start() {
    ucp_config_t* config = nullptr;
    if (ucp_config_read(nullptr, nullptr, &config) != UCS_OK) return false;
    for (const auto& row : transport::UcxSettingsTable({})) {
      ucp_config_modify(config, transport::NameOf(row).c_str(), row.value.c_str());
    }
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    ucp_context_h context = nullptr;
    if (ucp_init(&params, config, &context) != UCS_OK) return false;
    ucp_worker_params_t worker_params{};
    if (ucp_worker_create(context, &worker_params, &worker_) != UCS_OK) return false;
    ucp_am_handler_param_t handler{};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                         UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = kMessageId;
    handler.arg = this;
    handler.cb = [](void* self, const void*, std::size_t, void*, std::size_t,
                    const ucp_am_recv_param_t*) {
      auto* side = static_cast<BareSide*>(self);
      ++side->received;
      if (side->answers) side->Send();
      return UCS_OK;
    };
    return ucp_worker_set_am_recv_handler(worker_, &handler) == UCS_OK;
  }

  std::vector<char> payload_;
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
};

class TransportSide final : public Side, public transport::Receiver {
 public:
  static std::unique_ptr<Side> Make(std::size_t bytes) {
    auto context = transport::MakeUcxContext({});
    if (!context.ok()) return nullptr;
    std::unique_ptr<TransportSide> side(new TransportSide(bytes));
    auto worker = (*context)->MakeWorker(side.get());
    if (!worker.ok()) return nullptr;
    side->worker_ = std::move(*worker);
    return side;
  }

  std::string Address() override { return worker_->Address(); }
  bool Connect(const std::string& address) override {
    auto endpoint = worker_->Connect(address);
    if (endpoint.ok()) endpoint_ = *endpoint;
    return endpoint.ok();
  }
  void Send() override {
    transport::FrameBufferPtr frame = pool_.Take();
    frame->set_size(bytes_);
    if (!worker_->Send(endpoint_, std::move(frame)).ok()) _exit(2);
  }
  void Progress() override { worker_->Progress(); }

  void OnFrame(Bytes) override {
    ++received;
    if (answers) Send();
  }
  void OnPeerLost(transport::Endpoint*, const Status&) override { _exit(2); }

 private:
  explicit TransportSide(std::size_t bytes) : bytes_(bytes) {}

  std::size_t bytes_;
  transport::BufferPool pool_;
  std::unique_ptr<transport::Worker> worker_;
  transport::Endpoint* endpoint_ = nullptr;
};

PingPong Summarize(std::vector<std::uint64_t>* round_trips_ns) {
  auto& all = *round_trips_ns;
  std::sort(all.begin(), all.end());
  PingPong result;
  result.min_us = static_cast<double>(all.front()) / 1e3;
  result.median_us = static_cast<double>(all[all.size() / 2]) / 1e3;
  result.p99_us = static_cast<double>(all[all.size() * 99 / 100]) / 1e3;
  return result;
}

// Says its address, reads the peer's, and then is the server for ever or the client for `rounds`.
int RunRole(const std::string& kind, const std::string& role, int cpu, std::size_t bytes,
            std::size_t rounds) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  PinTo(cpu);
  auto side = kind == "bare" ? BareSide::Make(bytes) : TransportSide::Make(bytes);
  if (side == nullptr) return 1;
  side->answers = role == "server";
  std::cout << transport::ToHex(side->Address()) << std::endl;
  std::string hex;
  if (!(std::cin >> hex) || !side->Connect(transport::FromHex(hex))) return 1;
  if (role == "server") {
    std::cout << "ready" << std::endl;
    for (;;) side->Progress();
  }
  const Clock& clock = Clock::Real();
  std::vector<std::uint64_t> round_trips_ns;
  round_trips_ns.reserve(rounds);
  for (std::size_t i = 0; i < rounds + rounds / 10; ++i) {
    const std::uint64_t begin_ns = clock.MonotonicNs();
    side->Send();
    while (side->received == i) side->Progress();
    if (i >= rounds / 10) round_trips_ns.push_back(clock.MonotonicNs() - begin_ns);
  }
  const PingPong result = Summarize(&round_trips_ns);
  std::printf("%.3f %.3f %.3f\n", result.min_us, result.median_us, result.p99_us);
  std::fflush(stdout);
  _exit(0);  // The server is still connected; closing politely would not change the numbers.
}

Status Failed(const char* what) {
  return Status(StatusCode::kUnavailable, std::string("ping-pong: ") + what);
}

}  // namespace

std::optional<int> RunPingPongRole(int argc, char** argv) {
  if (argc != 7 || std::strcmp(argv[1], kRoleFlag) != 0) return std::nullopt;
  return RunRole(argv[2], argv[3], std::atoi(argv[4]), std::strtoul(argv[5], nullptr, 10),
                 std::strtoul(argv[6], nullptr, 10));
}

Result<CpuPair> TwoCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE && cpus.size() < 2; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  if (cpus.size() < 2) return Failed("needs two CPUs");
  return CpuPair{cpus[0], cpus[1]};
}

Result<PingPong> MeasurePingPong(PingPongKind kind, const PingPongOptions& options) {
  const auto cpus = TwoCpus();
  if (!cpus.ok()) return cpus.status();
  const auto start = [&](const char* role, int cpu) {
    return transport::Child({"/proc/self/exe", kRoleFlag,
                             kind == PingPongKind::kBareUcx ? "bare" : "transport", role,
                             std::to_string(cpu), std::to_string(options.payload_bytes),
                             std::to_string(std::max<std::size_t>(options.rounds, 100))});
  };
  transport::Child server = start("server", cpus->server);
  transport::Child client = start("client", cpus->client);
  const auto server_address = server.ReadLine();
  const auto client_address = client.ReadLine();
  if (!server_address.has_value() || !client_address.has_value()) return Failed("no start");
  server.WriteLine(*client_address);
  if (server.ReadLine() != "ready") return Failed("the server cannot connect");
  client.WriteLine(*server_address);
  const auto line = client.ReadLine();
  PingPong result;
  if (!line.has_value() || std::sscanf(line->c_str(), "%lf %lf %lf", &result.min_us,
                                       &result.median_us, &result.p99_us) != 3) {
    return Failed("the client ended early");
  }
  return result;
}

}  // namespace tidepool::bench
