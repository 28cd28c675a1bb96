#include "daemon/status_page/access.h"

#include <absl/strings/escaping.h>
#include <absl/strings/match.h>

#include <algorithm>
#include <array>
#include <string>

namespace tidepool::daemon {
namespace {

// "127.0.0.1" for "127.0.0.1:4410".
std::string_view WithoutPort(std::string_view host) {
  const std::size_t bracket = host.rfind(']');
  const std::size_t colon = host.rfind(':');
  if (colon == std::string_view::npos) return host;
  return bracket != std::string_view::npos && colon < bracket ? host : host.substr(0, colon);
}

// The scheme's name is not case-sensitive.
bool TakeScheme(std::string_view scheme, std::string_view* header) {
  if (header->size() <= scheme.size() ||
      !absl::EqualsIgnoreCase(absl::string_view(header->data(), scheme.size()),
                              absl::string_view(scheme.data(), scheme.size())) ||
      (*header)[scheme.size()] != ' ') {
    return false;
  }
  header->remove_prefix(scheme.size());
  while (!header->empty() && header->front() == ' ') header->remove_prefix(1);
  return true;
}

}  // namespace

AccessVerdict Access::Check(std::string_view host, std::string_view authorization) const {
  if (is_token_ == nullptr) {
    // A page's owner may point its name to 127.0.0.1 for a moment. The browser then takes it for
    // the site of this page, and it could read this page. Its name gives it away.
    constexpr std::array<std::string_view, 3> kOwn = {"127.0.0.1", "localhost", "[::1]"};
    const std::string_view name = WithoutPort(host);
    const bool is_own = host.empty() || std::find(kOwn.begin(), kOwn.end(), name) != kOwn.end();
    return is_own ? AccessVerdict::kAllowed : AccessVerdict::kWrongHost;
  }
  std::string_view given = authorization;
  if (TakeScheme("Bearer", &given)) {
    return is_token_(given) ? AccessVerdict::kAllowed : AccessVerdict::kNeedsToken;
  }
  if (TakeScheme("Basic", &given)) {
    std::string plain;
    if (!absl::Base64Unescape(absl::string_view(given.data(), given.size()), &plain)) {
      return AccessVerdict::kNeedsToken;
    }
    const std::size_t colon = plain.find(':');
    const bool is_right =
        colon != std::string::npos && is_token_(std::string_view(plain).substr(colon + 1));
    return is_right ? AccessVerdict::kAllowed : AccessVerdict::kNeedsToken;
  }
  return AccessVerdict::kNeedsToken;
}

}  // namespace tidepool::daemon
