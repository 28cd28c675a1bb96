#include "proto/transport/ucx_log.h"

#include <ucs/debug/log_def.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>

#include "proto/base/log.h"

namespace tidepool::transport {
namespace {

// By file, as UCX's levels do not tell them apart. A program's own UCX, of MPI for example, shares
// the handlers: what it has to say about anything else must not be lost.
constexpr std::array<std::string_view, 4> kFiles = {"tcp_cm.c", "tcp_ep.c", "tcp_iface.c",
                                                    "sock.c"};

std::string_view NameOf(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == path.npos ? path : path.substr(slash + 1);
}

ucs_log_func_rc_t Handle(const char* file, unsigned line, const char* /*function*/,
                         ucs_log_level_t level, const ucs_log_component_config_t* /*component*/,
                         const char* format, va_list arguments) {
  const std::string_view name = NameOf(file);
  const bool is_ours = std::find(kFiles.begin(), kFiles.end(), name) != kFiles.end();
  if (!is_ours || level == UCS_LOG_LEVEL_FATAL) return UCS_LOG_FUNC_RC_CONTINUE;
  if (log::GetLevel() > log::Level::kDebug) return UCS_LOG_FUNC_RC_STOP;
  char text[512];
  va_list again;  // Those given belong to the next handler.
  va_copy(again, arguments);
  std::vsnprintf(text, sizeof text, format, again);
  va_end(again);
  log::Debug("UCX, " + std::string(name) + ":" + std::to_string(line) + ": " + text);
  return UCS_LOG_FUNC_RC_STOP;
}

}  // namespace

void KeepUcxQuietAboutConnections() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (std::getenv("UCX_LOG_LEVEL") == nullptr) ucs_log_push_handler(Handle);
  });
}

}  // namespace tidepool::transport
