// The options of programs that take reads.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace support {

// Adds -k, with the rules for it, and the files.
void AddReadsOptions(CLI::App* app, int* letters, std::vector<std::string>* reads);

}  // namespace support
