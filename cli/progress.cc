#include "cli/progress.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "cli/text.h"

namespace tidepool::cli {
namespace {

constexpr std::size_t kBarCells = 24;

// A signal handler may use neither strings nor the heap.
char farewell_text[512];
char farewell_remove[4096];
struct sigaction previous_interrupt;
struct sigaction previous_terminate;

void SayFarewell(int /*signal*/) {
  if (farewell_remove[0] != '\0') unlink(farewell_remove);
  const ssize_t ignored = write(STDERR_FILENO, farewell_text, std::strlen(farewell_text));
  (void)ignored;
  _exit(130);
}

std::size_t TerminalColumns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string Bar(double part) {
  const auto cells = static_cast<std::size_t>(part * kBarCells);
  std::string bar(std::min(cells, kBarCells), '=');
  if (bar.size() < kBarCells) bar += '>';
  return "[" + bar + std::string(kBarCells - std::min(bar.size(), kBarCells), ' ') + "]";
}

}  // namespace

std::string ProgressLine(const ProgressState& state, std::size_t columns) {
  std::string line = state.phase;
  const bool by_bytes = state.bytes_total > 0;
  const std::uint64_t total = by_bytes ? state.bytes_total : state.files_total;
  const std::uint64_t done = std::min(by_bytes ? state.bytes_done : state.files_done, total);
  const double seconds = static_cast<double>(state.elapsed_ms) / 1000;
  const double part = total == 0 ? 0 : static_cast<double>(done) / static_cast<double>(total);
  if (total > 0) {
    line += " " + Bar(part) + " " + std::to_string(static_cast<int>(part * 100)) + "%";
  }
  line += "  " + std::to_string(state.files_done);
  if (state.files_total > 0) line += " of " + std::to_string(state.files_total);
  line += " files  " + FormatBytes(state.bytes_done);
  if (by_bytes) line += " of " + FormatBytes(state.bytes_total);
  if (seconds > 0.2) {
    line +=
        "  " +
        FormatBytes(static_cast<std::uint64_t>(static_cast<double>(state.bytes_done) / seconds)) +
        "/s";
    // The first moments say little about the rest.
    if (part > 0.01 && part < 1) {
      line += "  ETA " + FormatDurationMs(static_cast<std::uint64_t>(
                             static_cast<double>(state.elapsed_ms) * (1 - part) / part));
    }
  }
  return line.substr(0, columns);
}

void ProgressBar::Show(const ProgressState& state) {
  if (!out_.stderr_is_terminal()) return;
  // The last column stays free: a full line would wrap.
  out_.Progress("\r\x1b[K" + ProgressLine(state, TerminalColumns() - 1));
  shown_ = true;
}

void ProgressBar::Clear() {
  if (shown_) out_.Progress("\r\x1b[K");
  shown_ = false;
}

FarewellOnInterrupt::FarewellOnInterrupt(const std::string& farewell, const std::string& remove) {
  const std::string line = "\nkvctl: " + farewell + "\n";
  farewell_text[line.copy(farewell_text, sizeof farewell_text - 1)] = '\0';
  farewell_remove[remove.size() < sizeof farewell_remove
                      ? remove.copy(farewell_remove, sizeof farewell_remove - 1)
                      : 0] = '\0';
  struct sigaction action {};
  action.sa_handler = SayFarewell;
  sigaction(SIGINT, &action, &previous_interrupt);
  sigaction(SIGTERM, &action, &previous_terminate);
}

FarewellOnInterrupt::~FarewellOnInterrupt() {
  sigaction(SIGINT, &previous_interrupt, nullptr);
  sigaction(SIGTERM, &previous_terminate, nullptr);
}

}  // namespace tidepool::cli
