// A simulation and its analysis, two programs that run at the same time. Frames travel from the
// simulation to the analysis through a bounded queue.
//
//   frames simulate COUNT       puts COUNT frames into the queue; waits while it is full
//   frames analyse [PAUSE_MS]   takes each out, and keeps its result; ends when all are done
//
// Any number of analyses may run. A killed analysis loses no frame: its frame was only leased,
// comes back a few seconds later and goes to another analysis. A frame may thus be analysed twice.
// Its result has a key of its own, so two puts leave a single record.
#include <tidepool/tidepool.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace {

using tidepool::Status;
using tidepool::StatusCode;

constexpr std::size_t kCells = 4'096;  // Cells of a frame: 32 KiB.
constexpr std::uint64_t kFramesWaiting = 8;
// Longer than the analysis of a frame takes.
constexpr std::chrono::seconds kLease{3};
constexpr std::chrono::seconds kLook{1};

using Frame = std::pair<std::uint64_t, std::vector<double>>;  // Its number; its cells.
using Frames = tidepool::Queue<Frame>;
using Results = tidepool::HashMap<std::string, std::string>;
using Progress = tidepool::HashMap<std::string, std::int64_t>;

struct Names {
  Frames frames;
  Results results;
  Progress progress;
};

tidepool::Result<Names> Open(tidepool::Client& client) {
  auto frames = client.OpenOrCreate<Frames>("frames", {.capacity = kFramesWaiting});
  if (!frames.ok()) return frames.status();
  auto results = client.OpenOrCreate<Results>("results");
  if (!results.ok()) return results.status();
  auto progress = client.OpenOrCreate<Progress>("progress");
  if (!progress.ok()) return progress.status();
  return Names{*std::move(frames), *std::move(results), *std::move(progress)};
}

Status Simulate(const Names& names, std::uint64_t count) {
  Frame frame{0, std::vector<double>(kCells)};
  for (; frame.first < count; ++frame.first) {
    for (std::size_t i = 0; i < kCells; ++i) {
      frame.second[i] = std::sin(0.01 * static_cast<double>(frame.first * i));
    }
    const auto pushed = names.frames.Push(frame, {.wait = tidepool::kWaitForEver});
    if (!pushed.ok()) return pushed.status();
  }
  std::printf("simulated %llu frames\n", static_cast<unsigned long long>(count));
  return names.progress.Put("frames", static_cast<std::int64_t>(count)).status();
}

// True if the simulation has ended and each of its frames has a result.
tidepool::Result<bool> AllDone(const Names& names) {
  const auto count = names.progress.Get("frames");
  if (count.code() == StatusCode::kNotFound) return false;
  if (!count.ok()) return count.status();
  const auto done = names.results.Length();
  if (!done.ok()) return done.status();
  return *done == static_cast<std::uint64_t>(*count);
}

Status Analyse(const Names& names, std::chrono::milliseconds pause) {
  std::uint64_t analysed = 0, again = 0;
  for (;;) {
    auto item = names.frames.Pop({.lease = kLease, .wait = kLook});
    if (item.code() == StatusCode::kDeadlineExceeded) {
      const auto done = AllDone(names);
      if (!done.ok()) return done.status();
      if (*done) break;
      continue;
    }
    if (!item.ok()) return item.status();
    const auto& [number, cells] = item->value;
    double energy = 0;
    for (const double cell : cells) energy += cell * cell;
    std::this_thread::sleep_for(pause);
    char key[32], text[64];
    std::snprintf(key, sizeof key, "frame-%05llu", static_cast<unsigned long long>(number));
    std::snprintf(text, sizeof text, "%.6f\n", energy);
    if (auto put = names.results.Put(key, text); !put.ok()) return put.status();
    // Ack after the result is safe. If the lease has expired meanwhile, another process analyses
    // the frame again, without harm.
    const Status acked = names.frames.Ack(item->lease());
    if (!acked.ok() && acked.code() != StatusCode::kFailedPrecondition &&
        acked.code() != StatusCode::kNotFound) {
      return acked;
    }
    ++analysed;
    again += item->deliveries > 1 ? 1 : 0;
  }
  std::printf("analysed %llu frames, %llu of them not for the first time\n",
              static_cast<unsigned long long>(analysed), static_cast<unsigned long long>(again));
  return tidepool::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  const std::uint64_t number = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 0;
  if (argc > 3 || (what != "analyse" && (what != "simulate" || number == 0))) {
    std::fprintf(stderr, "usage: frames simulate COUNT | frames analyse [PAUSE_MS]\n");
    return 2;
  }
  auto client = tidepool::Client::Connect();
  if (!client.ok()) return tidepool::Report(client.status());
  auto names = Open(*client);
  if (!names.ok()) return tidepool::Report(names.status());
  return tidepool::Report(what == "simulate" ? Simulate(*names, number)
                                             : Analyse(*names, std::chrono::milliseconds(number)));
}
