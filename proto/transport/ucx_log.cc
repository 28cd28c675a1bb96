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

// By file: UCX's levels do not distinguish them.
constexpr std::array<std::string_view, 4> kConnectionFiles = {"tcp_cm.c", "tcp_ep.c", "tcp_iface.c",
                                                              "sock.c"};

struct UcxLogRoute {
  bool connections_to_log = true;
  bool others_to_stderr = true;
};
UcxLogRoute g_ucx_log_route;  // Set before the handler is installed, then constant.

std::string_view NameOf(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == path.npos ? path : path.substr(slash + 1);
}

const char* LevelNameOf(ucs_log_level_t level) {
  if (level > UCS_LOG_LEVEL_PRINT) return "";
  const char* name = ucs_log_level_names[level];
  return name == nullptr ? "" : name;
}

ucs_log_func_rc_t Handle(const char* file, unsigned line, const char* /*function*/,
                         ucs_log_level_t level, const ucs_log_component_config_t* /*component*/,
                         const char* format, va_list arguments) {
  // UCX prints its last words on standard error itself, with a backtrace.
  if (level == UCS_LOG_LEVEL_FATAL) return UCS_LOG_FUNC_RC_CONTINUE;
  const std::string_view name = NameOf(file);
  const bool is_of_connection =
      std::find(kConnectionFiles.begin(), kConnectionFiles.end(), name) != kConnectionFiles.end();
  const bool to_log = is_of_connection && g_ucx_log_route.connections_to_log;
  if (!to_log && !g_ucx_log_route.others_to_stderr) return UCS_LOG_FUNC_RC_CONTINUE;
  if (to_log && log::GetLevel() > log::Level::kDebug) return UCS_LOG_FUNC_RC_STOP;
  char text[1024];
  va_list again;  // The caller's list belongs to the next handler.
  va_copy(again, arguments);
  std::vsnprintf(text, sizeof text, format, again);
  va_end(again);
  const std::string place = std::string(name) + ":" + std::to_string(line);
  if (to_log) {
    log::Debug("UCX, " + place + ": " + text);
  } else {
    std::fprintf(stderr, "UCX %s %s: %s\n", LevelNameOf(level), place.c_str(), text);
  }
  return UCS_LOG_FUNC_RC_STOP;
}

}  // namespace

void RouteUcxLog() {
  static std::once_flag once;
  std::call_once(once, [] {
    g_ucx_log_route.connections_to_log = std::getenv("UCX_LOG_LEVEL") == nullptr;
    g_ucx_log_route.others_to_stderr = std::getenv("UCX_LOG_FILE") == nullptr;
    ucs_log_push_handler(Handle);
  });
}

namespace {

// UCX may print before the first context is made, and after the last is gone.
[[gnu::constructor]] void RouteUcxLogAtLoad() { RouteUcxLog(); }

}  // namespace
}  // namespace tidepool::transport
