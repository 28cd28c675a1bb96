#include "proto/transport/rdma_context.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "proto/base/clock.h"
#include "proto/transport/remote_memory.h"
#include "proto/transport/ucx_log.h"
#include "proto/transport/ucx_version.h"
#include "proto/transport/ucx_worker.h"

namespace tidepool::transport {
namespace {

constexpr std::uint64_t kCloseWaitNs = 1'000'000'000;

bool IsTcp(std::string_view transports) { return transports == "tcp"; }

struct Setting {
  const char* name;
  const char* value;
  bool of_tcp = false;
};

Status Modify(ucp_config_t* config, const Setting& setting) {
  const std::string name = UcxSettingName(setting.name, setting.of_tcp, RunningUcx());
  const ucs_status_t status = ucp_config_modify(config, name.c_str(), setting.value);
  if (status == UCS_OK) return OkStatus();
  return UcxStatus(StatusCode::kUnavailable, "UCX refuses " + name + "=" + setting.value, status);
}

Result<ucp_context_h> MakeContext(const std::string& transports) {
  TP_RETURN_IF_ERROR(CheckUcxVersion(RunningUcx()));
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) {
    return UcxStatus(StatusCode::kUnavailable, "UCX cannot read its settings", status);
  }
  // The environment's devices hold; its transports are for frames, or for an MPI.
  std::vector<Setting> settings = {
      {"TLS", transports.c_str()},
      {"NET_DEVICES", "all"},
      // Otherwise a listener is a TCP port as well, which strangers' bytes can abort (UCX 1.13.1).
      {"SOCKADDR_TLS_PRIORITY", IsTcp(transports) ? "tcp" : "rdmacm"},
      {"PROTO_ENABLE", "n"},  // Like settings.cc.
  };
  // Like settings.cc; without TCP, UCX warns of them.
  if (IsTcp(transports))
    settings.insert(settings.end(), {{"MAX_POLL", "1", true}, {"PUT_ENABLE", "n", true}});
  for (const Setting& setting : settings) {
    if (Status refused = Modify(config, setting); !refused.ok()) {
      ucp_config_release(config);
      return refused;
    }
  }
  RouteUcxLog();
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP;
  ucp_context_h context = nullptr;
  status = ucp_init(&params, config, &context);
  ucp_config_release(config);
  if (status != UCS_OK) {
    return UcxStatus(StatusCode::kUnavailable, "no network device for '" + transports + "'",
                     status);
  }
  return context;
}

}  // namespace

bool HasRdmaDevice() {
  std::error_code error;
  const std::filesystem::directory_iterator devices("/sys/class/infiniband", error);
  return !error && devices != std::filesystem::directory_iterator();
}

Result<std::unique_ptr<RdmaContext>> RdmaContext::Make(const std::string& transports) {
  // UCX would print this on stdout.
  if (!IsTcp(transports) && !HasRdmaDevice()) {
    return Status(StatusCode::kUnavailable, "this machine has no RDMA device");
  }
  auto context = MakeContext(transports);
  if (!context.ok()) return context.status();
  std::unique_ptr<RdmaContext> made(new RdmaContext());
  made->context_ = *context;
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  const ucs_status_t status = ucp_worker_create(made->context_, &params, &made->worker_);
  if (status == UCS_OK) return made;
  made->worker_ = nullptr;
  return UcxStatus(StatusCode::kUnavailable, "no network worker for '" + transports + "'", status);
}

RdmaContext::~RdmaContext() {
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucp_cleanup(context_);
}

void RdmaContext::Close(ucp_ep_h endpoint) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  const ucs_status_ptr_t request = ucp_ep_close_nbx(endpoint, &param);
  if (!UCS_PTR_IS_PTR(request)) return;
  const std::uint64_t until_ns = Clock::Real().MonotonicNs() + kCloseWaitNs;
  while (ucp_request_check_status(request) == UCS_INPROGRESS &&
         Clock::Real().MonotonicNs() < until_ns) {
    ucp_worker_progress(worker_);
  }
  ucp_request_free(request);
}

std::string FormatExporterAddress(const ExporterAddress& address) {
  std::array<char, INET6_ADDRSTRLEN> host{};
  std::uint16_t port = 0;
  if (address.socket.ss_family == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, &address.socket, sizeof in);
    inet_ntop(AF_INET, &in.sin_addr, host.data(), host.size());
    port = ntohs(in.sin_port);
  } else {
    sockaddr_in6 in{};
    std::memcpy(&in, &address.socket, sizeof in);
    inet_ntop(AF_INET6, &in.sin6_addr, host.data(), host.size());
    port = ntohs(in.sin6_port);
  }
  return address.transports + " " + host.data() + " " + std::to_string(port);
}

Result<ExporterAddress> MakeExporterAddress(const std::string& transports, const std::string& host,
                                            std::uint16_t port) {
  ExporterAddress address;
  address.transports = transports;
  sockaddr_in in{};
  sockaddr_in6 in6{};
  if (inet_pton(AF_INET, host.c_str(), &in.sin_addr) == 1) {
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    std::memcpy(&address.socket, &in, sizeof in);
    address.socket_bytes = sizeof in;
  } else if (inet_pton(AF_INET6, host.c_str(), &in6.sin6_addr) == 1) {
    in6.sin6_family = AF_INET6;
    in6.sin6_port = htons(port);
    std::memcpy(&address.socket, &in6, sizeof in6);
    address.socket_bytes = sizeof in6;
  } else {
    return Status(StatusCode::kInvalidArgument, "'" + host + "' is not a numeric address");
  }
  return address;
}

Result<ExporterAddress> ParseExporterAddress(std::string_view text) {
  const Status bad(StatusCode::kInvalidArgument, "not an address of shown memory",
                   "check that both sides run the same version");
  if (text.size() > kExporterAddressBytesMax) return bad;
  const std::size_t first = text.find(' ');
  const std::size_t last = text.rfind(' ');
  if (first == text.npos || first == last || first == 0) return bad;
  const std::string_view digits = text.substr(last + 1);
  std::uint16_t port = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size()) return bad;
  return MakeExporterAddress(std::string(text.substr(0, first)),
                             std::string(text.substr(first + 1, last - first - 1)), port);
}

}  // namespace tidepool::transport
