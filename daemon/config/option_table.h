// The rows behind daemon/config/options.h, and what can be done with a name.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "daemon/config/options.h"

namespace tidepool::daemon {

// A size in bytes that may be a share of the machine's memory, unless it is not one of memory.
struct SizeField {
  std::uint64_t Options::*field;
  bool is_of_memory = true;
};

struct OptionRow {
  const char* name;           // As a flag without "--" and as a key of the file.
  const char* argument;       // What --help calls its value; "" for a switch.
  const char* default_value;  // "" when it is found out at start: `help` says how.
  const char* help;
  std::variant<std::string Options::*, std::uint32_t Options::*, bool Options::*, SizeField,
               WaitPolicy Options::*, transport::TransportUse Options::*, log::Level Options::*>
      field;
  std::uint64_t least = 0;  // Of numbers and sizes.
  std::uint64_t most = UINT64_MAX;

  bool is_switch() const { return std::holds_alternative<bool Options::*>(field); }
};

std::span<const OptionRow> OptionTable();
const OptionRow* FindOption(std::string_view name);

// Why an option of this name is refused although the project's plans know it; "" for any other.
std::string_view PlannedOption(std::string_view name);

// "TIDEPOOL_LOG_LEVEL" for "log-level".
std::string EnvironmentName(std::string_view option);

// The known option nearest to `name` if it is near enough to be meant, else "".
std::string NearestOption(std::string_view name);

// Reads `text` into the row's field. Errors: kInvalidArgument naming what is allowed.
Status SetOption(const OptionRow& row, const std::string& text, const Machine& machine,
                 Options* options);

std::string HelpText();

}  // namespace tidepool::daemon
