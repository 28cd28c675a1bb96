// Access control of the metrics and the status page.
//
//   status_page/listener -> [access]
#pragma once

#include <functional>
#include <string_view>
#include <utility>

namespace tidepool::daemon {

enum class AccessVerdict {
  kAllowed,
  kNeedsToken,  // 401
  kWrongHost,   // 403: a web page of another site has made a browser send the request.
};

// Immutable; thread-safe if `is_token` is.
//
// On loopback there is no token: every account on the machine may see names of namespaces, counts
// and bytes, never keys or values. Beyond loopback the job token is required, as a bearer token
// (Prometheus) or as the password of any user name (browsers).
class Access {
 public:
  // Allows loopback access.
  Access() = default;
  // `is_token`: returns true for the job token.
  explicit Access(std::function<bool(std::string_view)> is_token)
      : is_token_(std::move(is_token)) {}

  // Checks the headers "Host" and "Authorization"; an empty header counts as absent.
  AccessVerdict Check(std::string_view host, std::string_view authorization) const;

 private:
  std::function<bool(std::string_view)> is_token_;
};

}  // namespace tidepool::daemon
