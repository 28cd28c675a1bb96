// The log of daemons and tools: a line per event, on stderr or in a file. Not for the data path.
//
// Only log.cc includes spdlog, which costs 4 s of compile time per including file. Messages are
// std::string: a line costs an allocation, which slow paths can afford.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "proto/base/status.h"

namespace tidepool::log {

enum class Level : std::uint8_t { kTrace, kDebug, kInfo, kWarn, kError, kOff };

// Parses "info" to kInfo. Returns: kOk, kInvalidArgument naming the accepted words (no change).
Status ParseLevel(std::string_view text, Level* level);
std::string_view LevelName(Level level);

// Opens the log: `file` empty means stderr. Call once before other threads start; without it lines
// of kWarn and above go to stderr. Returns: kOk, kPermissionDenied, kNotFound.
Status Open(Level level, const std::string& file);
void SetLevel(Level level);
Level GetLevel();
void Flush();

// Thread-safe.
void Write(Level level, std::string_view message);
inline void Debug(std::string_view message) { Write(Level::kDebug, message); }
inline void Info(std::string_view message) { Write(Level::kInfo, message); }
inline void Warn(std::string_view message) { Write(Level::kWarn, message); }
inline void Error(std::string_view message) { Write(Level::kError, message); }

}  // namespace tidepool::log
