#include "tests/bench/figures_lib/own_bench.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <span>
#include <utility>

#include "tests/bench/baselines/median.h"
#include "tests/bench/baselines/mix.h"

namespace tidepool::figures {
namespace {

double CpuSecondsOf(int pid) {
  clockid_t clock = CLOCK_PROCESS_CPUTIME_ID;
  timespec time{};
  if (pid != 0 && clock_getcpuclockid(pid, &clock) != 0) return 0;
  if (clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

// The clock of the machine, which all processes share.
std::int64_t Nanoseconds() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Result<Bench> Bench::Make(const Options& options, Client& for_team, support::Team* team) {
  ConnectOptions connect;
  connect.cluster_file = options.program.cluster;
  if (options.way == "tcp") connect.transport = Transport::kUcx;
  if (options.way == "ring") connect.transport = Transport::kRing;
  if (options.way != "direct") connect.direct_read_bytes_max = 0;
  auto client = Client::Connect(connect);
  if (!client.ok()) return client.status();
  auto numbers = for_team.OpenOrCreate<Numbers>(team->NameOf("numbers"));
  if (!numbers.ok()) return numbers.status();
  return Bench(options, *std::move(client), *std::move(numbers), team);
}

Status Bench::Phase(const std::string& name, std::uint64_t operations,
                    const std::function<Status()>& work) {
  if (Status status = Meet(); !status.ok()) return status;
  const double daemons = DaemonSeconds();
  const std::uint64_t frames = client_.Stats().frames_sent;
  const double cpu = CpuSecondsOf(0);
  const std::int64_t begin = Nanoseconds();
  if (Status status = work(); !status.ok()) return status;
  const std::int64_t end = Nanoseconds();
  const double own_cpu = CpuSecondsOf(0) - cpu;
  const std::uint64_t own_frames = client_.Stats().frames_sent - frames;
  // The daemons' time includes the meetings: a few dozen operations.
  if (Status status = Meet(); !status.ok()) return status;
  const double daemon_cpu = DaemonSeconds() - daemons;
  const std::string point = "phase-" + std::to_string(points_++);
  const auto all = team_->SumOfAll(point + "-operations", operations);
  if (!all.ok()) return all.status();
  const auto nanoseconds =
      team_->SumOfAll(point + "-cpu", static_cast<std::uint64_t>(own_cpu * 1e9));
  if (!nanoseconds.ok()) return nanoseconds.status();
  const auto sent = team_->SumOfAll(point + "-frames", own_frames);
  if (!sent.ok()) return sent.status();
  const auto first = Greatest(point + "-begin", -begin);
  if (!first.ok()) return first.status();
  const auto last = Greatest(point + "-end", end);
  if (!last.ok()) return last.status();
  Sample sample;
  sample.operations = static_cast<double>(*all);
  sample.seconds = static_cast<double>(*last + *first) / 1e9;
  sample.cpu_us = static_cast<double>(*nanoseconds) / 1e3 / sample.operations;
  sample.daemon_cpu_us = daemon_cpu * 1e6 / sample.operations;
  sample.calls = static_cast<double>(*sent) / sample.operations;
  samples_[name].push_back(sample);
  return {};
}

void Bench::Print() const {
  if (team_->rank() != 0) return;
  for (const auto& [name, samples] : samples_) {
    const double operations = baselines::MedianOf(samples, &Sample::operations);
    const double seconds = baselines::MedianOf(samples, &Sample::seconds);
    std::printf(
        "{\"phase\": \"%s\", \"operations\": %.0f, \"seconds\": %.6g, \"us\": %.6g, "
        "\"cpu_us\": %.6g, \"daemon_cpu_us\": %.6g, \"calls\": %.4g}\n",
        name.c_str(), operations, seconds, seconds * 1e6 * team_->size() / operations,
        baselines::MedianOf(samples, &Sample::cpu_us),
        baselines::MedianOf(samples, &Sample::daemon_cpu_us),
        baselines::MedianOf(samples, &Sample::calls));
  }
  std::fflush(stdout);
}

Result<std::int64_t> Bench::Greatest(const std::string& name, std::int64_t number) {
  // What is not there counts as 0, so all are made positive.
  constexpr std::int64_t kZero = std::int64_t{1} << 62;
  if (const auto max = numbers_.FetchMax(name, kZero + number); !max.ok()) return max.status();
  if (Status status = Meet(); !status.ok()) return status;
  const auto greatest = numbers_.Get(name);
  if (!greatest.ok()) return greatest.status();
  return *greatest - kZero;
}

double Bench::DaemonSeconds() const {
  double sum = 0;
  for (const int pid : options_.daemons) sum += CpuSecondsOf(pid);
  return sum;
}

Keys::Keys(std::uint64_t rank, std::uint64_t size, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) in_order.push_back(i * size + rank + 1);
  mixed = in_order;
  std::sort(mixed.begin(), mixed.end(), [](std::uint64_t a, std::uint64_t b) {
    return baselines::Mix(~a) < baselines::Mix(~b);
  });
}

Status Gets(const BytesMap& map, const std::vector<std::uint64_t>& keys, std::string* memory) {
  for (const std::uint64_t key : keys) {
    const auto value = map.GetInto(Bytes(key), std::as_writable_bytes(std::span(*memory)));
    if (!value.ok()) return value.status();
    if (std::memcmp(value->bytes.data(), &key, sizeof key) != 0) return Wrong("another's value");
  }
  return {};
}

Status WarmUp(Bench& bench) {
  auto map = bench.client().OpenOrCreate<BytesMap>(bench.team().NameOf("warm"));
  if (!map.ok()) return map.status();
  std::string value(bench.options().value_bytes, 'w');
  const std::uint64_t keys = value.size() > 65'536 ? 4 : 500;
  for (std::uint64_t key = 0; key < keys; ++key) {
    std::memcpy(value.data(), &key, sizeof key);
    if (const auto put = map->Put(Bytes(key), value); !put.ok()) return put.status();
    if (const auto got = map->Get(Bytes(key)); !got.ok()) return got.status();
  }
  return bench.Meet();
}

}  // namespace tidepool::figures
