// The HTTP listener of metrics and status page: small requests, small answers, few at a time.
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
  int code = 200;  // Of HTTP.
  std::string content_type;
  std::string body;
};
// Called on the listener's thread for a GET of `path` (without its query), one after the other.
using PageHandler = std::function<PageAnswer(std::string_view path)>;

struct ListenerOptions {
  std::string address;                             // Numeric.
  std::uint32_t port = 0;                          // 0: any free one.
  const cluster_file::TlsIdentity* tls = nullptr;  // Null: without. Used during Start only.
  Access access;
};

// Start and destruction from one thread. One thread of its own, which only this uses: whatever is
// done at this port costs the daemon's other parts nothing but that thread's time.
//
// Bounds: at most 64 connections, where one more ends the oldest, so that who holds many without a
// word keeps nobody out; 5 s from the first byte (with TLS: from the connection) to the end of a
// request, and as much for its answer; 8 KiB of head, no body; one request per connection.
class Listener {
 public:
  // Errors: kUnavailable (the port is taken), kInvalidArgument (the certificate).
  static Result<std::unique_ptr<Listener>> Start(ListenerOptions options, PageHandler handler);
  // Ends all connections.
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  const std::string& url() const { return url_; }  // "http://127.0.0.1:4411/"

 private:
  class Loop;
  Listener();
  std::unique_ptr<Loop> loop_;
  std::string url_;
};

}  // namespace tidepool::daemon
