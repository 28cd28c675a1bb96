#include "daemon/status_page/pages.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "daemon/metrics/prometheus_text.h"
#include "daemon/services/cluster_status.h"
#include "daemon/services/node_status.h"
#include "daemon/status_page/files.h"
#include "daemon/status_page/message_json.h"

namespace tidepool::daemon {
namespace {

constexpr std::uint64_t kKeepNs = 250'000'000;

bool IsFresh(std::uint64_t at_ns) {
  return at_ns != 0 && Clock::Real().MonotonicNs() - at_ns < kKeepNs;
}

PageAnswer NotYet() {
  return {503, "text/plain; charset=utf-8", "This node has not joined its cluster yet.\n"};
}

}  // namespace

PageAnswer Pages::Answer(std::string_view path) {
  if (path == "/") return {200, "text/html; charset=utf-8", std::string(kPageHtml)};
  if (path == "/page.js") return {200, "text/javascript; charset=utf-8", std::string(kPageJs)};
  if (path == "/page.css") return {200, "text/css; charset=utf-8", std::string(kPageCss)};
  if (path == "/metrics") return Metrics();
  if (path == "/status.json") return ClusterStatus();
  return {404, "text/plain; charset=utf-8",
          "There are / (the status page), /status.json and /metrics (for Prometheus).\n"};
}

PageAnswer Pages::Metrics() {
  if (!node_.joined()) return NotYet();
  if (!IsFresh(metrics_.at_ns)) {
    const Deadline deadline = Deadline::AfterMs(kNodeStatusTimeoutMs);
    const auto status = LocalNodeStatus(&node_, NamespaceId(), deadline);
    metrics_ = {Clock::Real().MonotonicNs(),
                PrometheusText(status, *node_.map.Get(), node_.version)};
  }
  return {200, "text/plain; version=0.0.4; charset=utf-8", metrics_.body};
}

PageAnswer Pages::ClusterStatus() {
  if (!node_.joined()) return NotYet();
  if (!IsFresh(status_.at_ns)) {
    v1::StatusResponse status;
    CollectClusterStatus(&node_, Deadline::AfterMs(2 * kNodeStatusTimeoutMs), &status);
    auto json = ToJson(status, /*buckets=*/true);
    json["asked_node"] = node_.self().value();
    using OnBadText = nlohmann::ordered_json::error_handler_t;
    status_ = {Clock::Real().MonotonicNs(), json.dump(-1, ' ', false, OnBadText::replace)};
  }
  return {200, "application/json", status_.body};
}

}  // namespace tidepool::daemon
