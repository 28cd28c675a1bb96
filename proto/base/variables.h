// Table of the project's environment variables, and a warning for each unknown name.
//
//   kvd, kvctl -> [variables]
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tidepool {

inline constexpr std::string_view kVariablePrefix = "TIDEPOOL_";

// Returns each name that a part of the project reads: options of kvd, names of programs and of the
// SDK, of the Slurm kit, of tests and benches. In alphabetical order.
std::span<const std::string_view> KnownVariables();
bool IsKnownVariable(std::string_view name);

// Returns a line about a variable that no part of the project reads, with the nearest known name.
std::string UnknownVariableText(std::string_view name);

// Returns a warning line for each of `variables` ("NAME=VALUE") that has the prefix, an unknown
// name and a value. A variable without a value counts as absent.
std::vector<std::string> UnknownVariableTexts(const std::vector<std::string>& variables);

}  // namespace tidepool
