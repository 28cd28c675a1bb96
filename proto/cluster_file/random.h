// Random names and secrets that cannot be guessed: identities, tokens, names of temporary files.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tidepool::cluster_file {

// Returns `bytes` random bytes of the kernel as lower-case hexadecimal digits. Thread-safe. Ends
// the program if the kernel gives no random bytes, which it never does once a machine has started.
std::string RandomHex(std::size_t bytes);

// Returns a random UUID (version 4), for example "3f2b8c1e-9d4a-4c6f-8a51-0d7e6b2c9f10".
// Thread-safe.
std::string MakeUuid();

// Returns true for 32 digits in groups of 8-4-4-4-12.
bool IsUuid(std::string_view text);

}  // namespace tidepool::cluster_file
