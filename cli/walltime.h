// When a program in a batch job must end, so that what it leaves can be written before the job is
// over.
#pragma once

#include <cstdint>
#include <string>

#include "proto/base/result.h"

namespace tidepool::cli {

// A plain value; times are ms since 1970.
struct Walltime {
  // What ending the program, the daemons and the last directory entries takes beside the bytes.
  static constexpr std::uint64_t kMarginMs = 20'000;
  // Of the measured speed, for file systems that others use, too.
  static constexpr double kShare = 0.5;

  std::uint64_t end_ms = 0;         // 0: none is known.
  double bytes_per_second = 100e6;  // At which a directory takes data.

  // How long `bytes` take, without the margin.
  std::uint64_t SavingMs(std::uint64_t bytes) const;
  // When to begin, at the latest.
  std::uint64_t SaveAtMs(std::uint64_t bytes) const;
};

// `text` (--deadline): seconds since 1970, or a duration from now ("90m"). Errors:
// kInvalidArgument.
Result<std::uint64_t> ParseDeadlineMs(const std::string& text);

// How fast one writer writes into `directory`, by writing 64 MiB there for 2 s at most: several
// daemons are seldom slower. Errors: as cluster_file::FileError.
Result<double> MeasureWriting(const std::string& directory);

}  // namespace tidepool::cli
