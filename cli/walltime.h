// Time at which a program in a batch job must end, so that its data can be written before the job
// ends.
#pragma once

#include <cstdint>
#include <string>

#include "proto/base/result.h"

namespace tidepool::cli {

// A plain value; times are ms since 1970.
struct Walltime {
  // Time to end the program and the daemons and to write the last directory entries, without the
  // bytes.
  static constexpr std::uint64_t kMarginMs = 20'000;
  // Share of the measured speed, because other jobs use the file system too.
  static constexpr double kShare = 0.5;

  std::uint64_t end_ms = 0;         // 0: unknown.
  double bytes_per_second = 100e6;  // At which a directory takes data.

  // How long `bytes` take, without the margin.
  std::uint64_t SavingMs(std::uint64_t bytes) const;
  // When to begin, at the latest.
  std::uint64_t SaveAtMs(std::uint64_t bytes) const;
};

// `text` (--deadline): seconds since 1970, or a duration from now ("90m"). Errors:
// kInvalidArgument.
Result<std::uint64_t> ParseDeadlineMs(const std::string& text);

// Measures the speed of a single writer in `directory`: writes 64 MiB for at most 2 s. Several
// daemons are seldom slower. Errors: the errors of cluster_file::FileError.
Result<double> MeasureWriting(const std::string& directory);

}  // namespace tidepool::cli
