#include "cli/walltime.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "cli/text.h"
#include "proto/base/clock.h"
#include "proto/cluster_file/file_io.h"
#include "proto/cluster_file/random.h"

namespace tidepool::cli {
namespace {

constexpr std::size_t kProbeBytes = 64 << 20;
constexpr std::size_t kChunkBytes = 4 << 20;
constexpr std::uint64_t kProbeNs = 2'000'000'000;
// Durations that would be dates in 1970 are durations.
constexpr std::uint64_t kFirstDateS = 1'000'000'000;

}  // namespace

std::uint64_t Walltime::SavingMs(std::uint64_t bytes) const {
  return static_cast<std::uint64_t>(static_cast<double>(bytes) * 1e3 /
                                    std::max(bytes_per_second * kShare, 1.0));
}

std::uint64_t Walltime::SaveAtMs(std::uint64_t bytes) const {
  const std::uint64_t needed = SavingMs(bytes) + kMarginMs;
  return end_ms > needed ? end_ms - needed : 0;
}

Result<std::uint64_t> ParseDeadlineMs(const std::string& text) {
  if (const auto seconds = ParseUnsigned(text); seconds.ok() && *seconds >= kFirstDateS) {
    return *seconds * 1000;
  }
  const auto duration_ms = ParseDurationMs(text);
  if (duration_ms.ok()) return Clock::Real().WallMs() + *duration_ms;
  return Status(StatusCode::kInvalidArgument, "--deadline: " + Quote(text),
                "give a duration from now (90m), or seconds since 1970");
}

Result<double> MeasureWriting(const std::string& directory) {
  const std::string path = directory + "/.tidepool-speed-" + cluster_file::RandomHex(8);
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.is_open()) return cluster_file::FileError("write into", directory, errno);
  unlink(path.c_str());
  const std::vector<char> chunk(kChunkBytes, 'x');
  const std::uint64_t begin_ns = Clock::Real().MonotonicNs();
  const auto elapsed_ns = [&] { return Clock::Real().MonotonicNs() - begin_ns; };
  std::size_t written = 0;
  while (written < kProbeBytes && elapsed_ns() < kProbeNs) {
    const ssize_t bytes = write(file.get(), chunk.data(), chunk.size());
    if (bytes < 0) return cluster_file::FileError("write into", directory, errno);
    written += static_cast<std::size_t>(bytes);
    // Without it, the speed of this machine's memory would be measured.
    if (fdatasync(file.get()) != 0) return cluster_file::FileError("write into", directory, errno);
  }
  return static_cast<double>(written) * 1e9 /
         static_cast<double>(std::max<std::uint64_t>(elapsed_ns(), 1));
}

}  // namespace tidepool::cli
