// The HTTP listener of metrics and status page, for few small requests.
//
//   Prometheus, browsers => [status_page/listener] -> access -> pages -> services/*
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "daemon/status_page/access.h"
#include "proto/base/result.h"
#include "proto/cluster_file/tls_identity.h"

namespace tidepool::daemon {

struct PageAnswer {
  int code = 200;  // HTTP status.
  std::string content_type;
  std::string body;
};
// Handles a GET of `path` (without its query). Called on the listener's thread, one call at a time.
using PageHandler = std::function<PageAnswer(std::string_view path)>;

struct ListenerOptions {
  std::string address;                             // Numeric address.
  std::uint32_t port = 0;                          // 0: any free port.
  const cluster_file::TlsIdentity* tls = nullptr;  // Null: without TLS. Used during Start only.
  Access access;
};

// Start and destruction from one thread. Runs in a thread of its own, so requests at this port cost
// the rest of the daemon only that thread's time.
//
// Bounds: at most 64 connections; the next connection ends the oldest, so that silent connections
// exclude nobody. 5 s from the first byte (with TLS: from the connection) to the end of a request,
// and 5 s for its answer. 8 KiB of head, no body; one request per connection.
class Listener {
 public:
  // Errors: kUnavailable (the port is in use), kInvalidArgument (the certificate).
  static Result<std::unique_ptr<Listener>> Start(ListenerOptions options, PageHandler handler);
  // Ends all connections.
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  const std::string& url() const { return url_; }  // Returns "http://127.0.0.1:4411/".

 private:
  class Loop;
  Listener();
  std::unique_ptr<Loop> loop_;
  std::string url_;
};

}  // namespace tidepool::daemon
