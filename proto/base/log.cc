#include "proto/base/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <atomic>
#include <memory>

namespace tidepool::log {
namespace {

constexpr std::array<std::string_view, 6> kNames = {"trace", "debug", "info",
                                                    "warn",  "error", "off"};

spdlog::level::level_enum ToSpdlog(Level level) {
  switch (level) {
    case Level::kTrace:
      return spdlog::level::trace;
    case Level::kDebug:
      return spdlog::level::debug;
    case Level::kInfo:
      return spdlog::level::info;
    case Level::kWarn:
      return spdlog::level::warn;
    case Level::kError:
      return spdlog::level::err;
    case Level::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::off;
}

std::shared_ptr<spdlog::logger> Make(spdlog::sink_ptr sink, Level level) {
  auto logger = std::make_shared<spdlog::logger>("tidepool", std::move(sink));
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %-5l %v");
  logger->set_level(ToSpdlog(level));
  logger->flush_on(spdlog::level::info);
  return logger;
}

// Swapped only by Open, which runs before other threads start.
std::shared_ptr<spdlog::logger>& Logger() {
  static std::shared_ptr<spdlog::logger> logger =
      Make(std::make_shared<spdlog::sinks::stderr_sink_mt>(), Level::kWarn);
  return logger;
}

std::atomic<Level> g_level{Level::kWarn};

}  // namespace

Status ParseLevel(std::string_view text, Level* level) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == text) {
      *level = static_cast<Level>(i);
      return OkStatus();
    }
  }
  return Status(StatusCode::kInvalidArgument, "unknown log level '" + std::string(text) + "'",
                "use one of: trace debug info warn error off");
}

std::string_view LevelName(Level level) { return kNames[static_cast<std::size_t>(level)]; }

Status Open(Level level, const std::string& file) {
  try {
    spdlog::sink_ptr sink;
    if (file.empty()) {
      sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    } else {
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file);
    }
    Logger() = Make(std::move(sink), level);
    g_level = level;
    return OkStatus();
  } catch (const spdlog::spdlog_ex& error) {
    return Status(StatusCode::kPermissionDenied,
                  "cannot open the log file '" + file + "': " + error.what(),
                  "choose another with --log-file");
  }
}

void SetLevel(Level level) {
  g_level = level;
  Logger()->set_level(ToSpdlog(level));
}

Level GetLevel() { return g_level; }

void Flush() { Logger()->flush(); }

void Write(Level level, std::string_view message) {
  if (level < g_level.load(std::memory_order_relaxed)) return;
  Logger()->log(ToSpdlog(level), "{}", message);
}

}  // namespace tidepool::log
