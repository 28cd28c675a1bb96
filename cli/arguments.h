// A command line, taken apart by the table's rows.
//
// argv -> [ParseCommandLine] -> Arguments -> a verb's handler
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/verb.h"
#include "proto/base/result.h"

namespace tidepool::cli {

// The given parameters and options of a verb. A plain value. A name that is in no row of the verb
// ends the program: a programmer's error that any test of the verb finds.
class Arguments {
 public:
  using Values = std::map<std::string, std::optional<std::vector<std::string>>, std::less<>>;

  Arguments() = default;
  // `values` has an entry for each row; nullopt: not given.
  explicit Arguments(Values values) : values_(std::move(values)) {}

  // True if the verb has a row of this name.
  bool Knows(std::string_view name) const { return values_.contains(name); }
  bool Has(std::string_view name) const { return Find(name).has_value(); }
  // "" if it was not given, or without a value.
  const std::string& Text(std::string_view name) const;
  // All values of a parameter or option that may be repeated.
  std::vector<std::string> All(std::string_view name) const;

  // `otherwise` if it was not given. Errors: kInvalidArgument naming the option.
  Result<std::uint64_t> Number(std::string_view name, std::uint64_t otherwise) const;
  Result<std::uint64_t> DurationMs(std::string_view name, std::uint64_t otherwise) const;
  Result<std::uint64_t> ByteCount(std::string_view name, std::uint64_t otherwise) const;
  Result<double> Real(std::string_view name, double otherwise) const;

 private:
  const std::optional<std::vector<std::string>>& Find(std::string_view name) const;

  Values values_;
};

struct CommandLine {
  const Verb* verb = nullptr;
  Arguments arguments;  // The verb's arguments and the global options.
};

// Parses `arguments`, which exclude the program's name. "--help" anywhere before "--" makes the
// verb `help VERB`; no argument at all makes it `help --short`. "-" and negative numbers are
// values, except for short options of the verb ("-0"). No word after "--" is an option. Errors:
// kInvalidArgument with the way to the help.
Result<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments);

// True if --json was asked for, also where the rest makes no sense.
bool WantsJson(const std::vector<std::string>& arguments);

}  // namespace tidepool::cli
