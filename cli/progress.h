// The progress of a long transfer: a bar that redraws itself on a terminal, nothing elsewhere.
//
// kvctl stage -> [ProgressBar] -> standard error
#pragma once

#include <cstdint>
#include <string>

#include "cli/output.h"

namespace tidepool::cli {

struct ProgressState {
  std::string phase;              // "moving"
  std::uint64_t files_done = 0;   // Those that needed nothing included.
  std::uint64_t files_total = 0;  // 0: not known yet.
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes_total = 0;
  std::uint64_t elapsed_ms = 0;
};

// "moving [=====>    ] 52%  1,234 of 2,000 files  1.2 GiB of 2.4 GiB  310.0 MiB/s  ETA 4.0s", at
// most `columns` wide.
std::string ProgressLine(const ProgressState& state, std::size_t columns);

// Draws on standard error if that is a terminal. Used by one thread.
class ProgressBar {
 public:
  explicit ProgressBar(Output& out) : out_(out) {}
  ~ProgressBar() { Clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void Show(const ProgressState& state);
  // Takes the line away, before something else is printed.
  void Clear();

 private:
  Output& out_;
  bool shown_ = false;
};

// Until this object goes, Ctrl-C prints `farewell`, removes `remove` unless it is empty, and ends
// kvctl with 130: the transfer goes on in the daemons. One at a time.
class FarewellOnInterrupt {
 public:
  FarewellOnInterrupt(const std::string& farewell, const std::string& remove);
  ~FarewellOnInterrupt();
  FarewellOnInterrupt(const FarewellOnInterrupt&) = delete;
  FarewellOnInterrupt& operator=(const FarewellOnInterrupt&) = delete;
};

}  // namespace tidepool::cli
