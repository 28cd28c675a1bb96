// The job token: proof that a program belongs to the user that started the service.
#pragma once

#include <string>
#include <string_view>

#include "proto/base/result.h"

namespace tidepool::cluster_file {

// Returns 256 random bits as 64 hexadecimal digits.
std::string MakeToken();
bool IsToken(std::string_view text);

// Compares in constant time: the time of an answer does not reveal where the two differ.
bool TokensEqual(std::string_view a, std::string_view b);

// Writes `token` to `path` with mode 0600, durably; a file of that name is replaced.
Status WriteTokenFile(const std::string& path, std::string_view token);

// Errors: kNotFound, kPermissionDenied (also if users beside its owner may read it: such a token is
// no secret), kInvalidArgument (not a token).
Result<std::string> ReadTokenFile(const std::string& path);

}  // namespace tidepool::cluster_file
