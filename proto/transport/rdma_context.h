// UCX as MemoryExporter and MemoryImporter use it. Internal to proto/transport.
#pragma once

#include <sys/socket.h>
#include <ucp/api/ucp.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "proto/base/result.h"

namespace tidepool::transport {

// A context and its only worker, for a single thread at a time.
class RdmaContext {
 public:
  // Errors: kUnavailable (no device for these transports).
  static Result<std::unique_ptr<RdmaContext>> Make(const std::string& transports);
  ~RdmaContext();
  RdmaContext(const RdmaContext&) = delete;
  RdmaContext& operator=(const RdmaContext&) = delete;

  ucp_context_h context() const { return context_; }
  ucp_worker_h worker() const { return worker_; }
  // Closes by force and waits, at most a second.
  void Close(ucp_ep_h endpoint);

 private:
  RdmaContext() = default;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
};

// "TRANSPORTS HOST PORT", where exporters are reached.
struct ExporterAddress {
  std::string transports;
  sockaddr_storage socket{};
  socklen_t socket_bytes = 0;
};
std::string FormatExporterAddress(const ExporterAddress& address);
// Errors: kInvalidArgument.
Result<ExporterAddress> ParseExporterAddress(std::string_view text);
// `host` is numeric. Errors: kInvalidArgument.
Result<ExporterAddress> MakeExporterAddress(const std::string& transports, const std::string& host,
                                            std::uint16_t port);

}  // namespace tidepool::transport
