// Exit codes of kvctl. The numbers are the SDK's, so a program on Tidepool ends with equal codes.
#pragma once

#include <tidepool/status.h>

#include <array>
#include <string_view>

namespace tidepool::cli {

struct ExitCodeRow {
  ExitCode code;
  std::string_view meaning;
};

// For `kvctl --help` and the manual page.
inline constexpr std::array<ExitCodeRow, 7> kExitCodes = {{
    {ExitCode::kOk, "done"},
    {ExitCode::kFailed, "failed; the line on standard error says why"},
    {ExitCode::kUsage, "wrong arguments, or something that this version does not have"},
    {ExitCode::kNotFound, "no such key, namespace or file"},
    {ExitCode::kTimeout, "no answer in time; a change may or may not have taken effect"},
    {ExitCode::kUnreachable, "no cluster, or the node in question, can be reached"},
    {ExitCode::kPartial, "some parts were done and others failed; the failures are listed"},
}};

}  // namespace tidepool::cli
