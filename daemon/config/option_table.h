// The rows behind daemon/config/options.h, and operations on option names.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "daemon/config/options.h"

namespace tidepool::daemon {

// A size in bytes. It may be a share of the machine's memory, unless the size is not one of memory.
struct SizeField {
  std::uint64_t Options::*field;
  bool is_of_memory = true;
};

struct OptionRow {
  const char* name;           // Name as a flag without "--" and as a key of the file.
  const char* argument;       // Name of the value in --help; "" for a switch.
  const char* default_value;  // "" if the default is determined at start; `help` says how.
  const char* help;
  std::variant<std::string Options::*, std::uint32_t Options::*, bool Options::*, SizeField,
               WaitPolicy Options::*, transport::TransportUse Options::*, log::Level Options::*>
      field;
  std::uint64_t least = 0;  // Bounds of numbers and sizes.
  std::uint64_t most = UINT64_MAX;

  bool is_switch() const { return std::holds_alternative<bool Options::*>(field); }
};

std::span<const OptionRow> OptionTable();
const OptionRow* FindOption(std::string_view name);

// Returns why an option that the project's plans name is refused; "" for any other name.
std::string_view PlannedOption(std::string_view name);

// Returns "TIDEPOOL_LOG_LEVEL" for "log-level".
std::string EnvironmentName(std::string_view option);

// Returns the known option nearest to `name`, or "" if none is near enough to be a typing error.
std::string NearestOption(std::string_view name);

// Reads `text` into the row's field. Errors: kInvalidArgument, naming the allowed values.
Status SetOption(const OptionRow& row, const std::string& text, const Machine& machine,
                 Options* options);

std::string HelpText();

}  // namespace tidepool::daemon
