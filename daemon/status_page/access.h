// Who may see the metrics and the status page.
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
  kWrongHost,   // 403: a web page elsewhere has made a browser ask here.
};

// Immutable; thread-safe as `is_token` is.
//
// On loopback there is no token, and whoever has an account on the machine may look: at the names
// of namespaces, counts and bytes, never at keys or values. Beyond loopback the job token is asked
// for, as a bearer (Prometheus) or as the password of any user name (browsers).
class Access {
 public:
  // Loopback.
  Access() = default;
  // `is_token`: whether this is the job token.
  explicit Access(std::function<bool(std::string_view)> is_token)
      : is_token_(std::move(is_token)) {}

  // Of the headers "Host" and "Authorization"; empty ones count as absent.
  AccessVerdict Check(std::string_view host, std::string_view authorization) const;

 private:
  std::function<bool(std::string_view)> is_token_;
};

}  // namespace tidepool::daemon
