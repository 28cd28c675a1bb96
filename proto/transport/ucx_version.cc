#include "proto/transport/ucx_version.h"

#include <ucp/api/ucp.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "proto/base/limits.h"

namespace tidepool::transport {
namespace {

// A version gets here when ucx_transport_test and the storm of killed clients have passed with it.
constexpr std::array<UcxVersion, 2> kProvedVersions = {{{1, 13}, {1, 18}}};
constexpr UcxVersion kPrefixedNamesSince = {1, 17};

std::string TextOf(const UcxVersion& version) {
  return std::to_string(version.major) + "." + std::to_string(version.minor);
}

std::string ProvedVersions() {
  std::string text;
  for (const UcxVersion& version : kProvedVersions) {
    text.append(text.empty() ? "" : " or ").append(TextOf(version));
  }
  return text;
}

std::string Remedy() {
  return "load UCX " + ProvedVersions() +
         ", those of Debian 12 and 13 (see LD_LIBRARY_PATH), or use the bundle, which has its own";
}

}  // namespace

UcxVersion RunningUcx() {
  UcxVersion version;
  unsigned release = 0;
  ucp_get_version(&version.major, &version.minor, &release);
  return version;
}

Status CheckUcxVersion(const UcxVersion& version) {
  if (std::find(kProvedVersions.begin(), kProvedVersions.end(), version) != kProvedVersions.end()) {
    return OkStatus();
  }
  return Status(StatusCode::kFailedPrecondition,
                "UCX " + TextOf(version) + " is loaded, and Tidepool was proved with " +
                    ProvedVersions() + " only",
                Remedy());
}

std::string UcxSettingName(const std::string& name, bool of_tcp, const UcxVersion& version) {
  const bool is_prefixed = of_tcp && version >= kPrefixedNamesSince;
  return is_prefixed ? std::string("TCP_").append(name) : name;
}

Status CheckFrameSize(const std::string& sizes) {
  constexpr std::string_view kShort = "<egr/short>..";
  const std::size_t at = sizes.find(kShort);
  const char* largest = at == sizes.npos ? "" : sizes.c_str() + at + kShort.size();
  if (std::string_view(largest).substr(0, 5) == "(inf)") return OkStatus();
  if (std::strtoull(largest, nullptr, 10) > limits::kFrameBytesMax) return OkStatus();
  return Status(StatusCode::kFailedPrecondition,
                "UCX " + TextOf(RunningUcx()) +
                    " does not send a frame in one piece: a setting of Tidepool has no effect (" +
                    (sizes.empty() ? "no sizes told" : sizes) + ")",
                Remedy());
}

}  // namespace tidepool::transport
