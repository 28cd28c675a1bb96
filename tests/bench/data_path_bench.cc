// The data path from the SDK to the store and back, over UCX/TCP on loopback, against its peers.
//
//   data_path.get_64b_depth1      one GET at a time, against a bare UCX ping-pong (the floor)
//   data_path.get_64b_batch64     batches of 64 GETs, 1 M keys, against redis-benchmark -P 64
//   data_path.cpu_per_get         the daemon's CPU time for each of these, against redis-server's
//   data_path.core_p99_streaming  p99 inside the owner core beside a stream of 1 GiB values
//   data_path.client_p99_streaming  the client's p99 then; both against the same without the stream
//
// Medians of interleaved runs. One JSON object per row on stdout.
#include <fnmatch.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "proto/base/histogram.h"
#include "proto/cluster_file/find.h"
#include "proto/cluster_file/job_token.h"
#include "proto/convert/grpc_channel.h"
#include "tests/bench/bench_process.h"
#include "tests/bench/ucx_floor.h"
#include "tidepool/tidepool.h"
#include "tidepool/v1/admin.grpc.pb.h"
#include "tidepool/v1/cluster.grpc.pb.h"

namespace tidepool::bench {
namespace {

constexpr std::size_t kValueBytes = 64;
constexpr std::size_t kBatch = 64;
constexpr std::size_t kBatchesInFlight = 4;  // 256 operations, a quarter of a lone session's grant.
constexpr std::size_t kStreamedBytes = 1ull << 30;

struct Settings {
  std::string rows = "*";
  std::size_t keys = 1'000'000;
  std::size_t runs = 5;
  std::size_t batch_operations = 4'000'000;  // Per run.
  std::size_t depth1_operations = 40'000;
};

bool Wanted(const Settings& settings, const char* row) {
  return fnmatch(settings.rows.c_str(), row, 0) == 0;
}

// Fails the bench: there is nothing sensible to go on with.
template <typename T>
T Require(Result<T> result, const char* what) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s: %s\n", what, result.status().ToString().c_str());
    std::exit(1);
  }
  return *std::move(result);
}

std::string KeyOf(std::uint64_t id) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(id * 0x9e3779b97f4a7c15ull));
  return text;
}

class Random {
 public:
  std::uint64_t Below(std::uint64_t bound) {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return (state_ >> 33) % bound;
  }

 private:
  std::uint64_t state_ = 1;
};

// One kvd of this build in a folder of its own, and a client of it.
class Service {
 public:
  static Service Start(const std::string& folder, const std::vector<std::string>& flags = {}) {
    std::filesystem::create_directories(folder);
    const std::string file = folder + "/cluster.json";
    const std::string kvd =
        (std::filesystem::canonical("/proc/self/exe").parent_path() / "kvd").string();
    std::vector<std::string> command{kvd,        "--cluster",  file,
                                     "--memory", "4GiB",       "--cores",
                                     "1",        "--log-file", folder + "/kvd.log"};
    command.insert(command.end(), flags.begin(), flags.end());
    return Service(Require(BenchProcess::Start(command), "kvd"), file);
  }

  BenchProcess& process() { return process_; }
  const std::string& file() const { return file_; }
  BytesMap& map() { return *map_; }

  void ResetStats() {
    grpc::ClientContext call;
    convert::PrepareCall(&call, Deadline::AfterMs(5'000), token_);
    v1::ResetStatsResponse response;
    (void)v1::Admin::NewStub(channel_)->ResetStats(&call, {}, &response);
  }
  std::uint64_t CoreP99Ns() {
    grpc::ClientContext call;
    convert::PrepareCall(&call, Deadline::AfterMs(5'000), token_);
    v1::NodeStatusResponse response;
    if (!v1::Cluster::NewStub(channel_)->NodeStatus(&call, {}, &response).ok()) return 0;
    return response.cores(0).p99_ns();
  }

 private:
  Service(BenchProcess process, const std::string& file)
      : process_(std::move(process)), file_(file) {
    ConnectOptions options;
    options.cluster_file = file;
    options.transport = Transport::kUcx;  // As a client of another node.
    const Deadline deadline = Deadline::AfterMs(20'000);
    for (;;) {
      auto client = Client::Connect(options);
      if (client.ok()) {
        client_ = std::make_unique<Client>(*std::move(client));
        break;
      }
      if (deadline.Passed()) Require(std::move(client), "connect");
      usleep(20'000);
    }
    map_ = Require(client_->OpenOrCreate<BytesMap>("bench"), "create");
    const auto found = Require(cluster_file::Find(file), "cluster file");
    token_ = Require(cluster_file::ReadTokenFile(found.file.token_file), "token");
    channel_ = Require(convert::MakeChannel(found.file.nodes[0].control_address,
                                            {.insecure = found.file.insecure}),
                       "channel");
  }

  BenchProcess process_;
  std::string file_;
  std::unique_ptr<Client> client_;
  std::optional<BytesMap> map_;
  std::string token_;
  std::shared_ptr<grpc::Channel> channel_;
};

void Load(Service& service, std::size_t keys) {
  const std::string value(kValueBytes, 'v');
  constexpr std::size_t kStep = 1'000;
  for (std::size_t base = 0; base < keys; base += kStep) {
    std::vector<std::string> names;
    std::vector<KeyValue> records;
    for (std::size_t i = 0; i < kStep; ++i) names.push_back(KeyOf(base + i));
    for (const auto& name : names) records.push_back({name, value});
    const BatchResult result = service.map().MultiPut(records);
    if (!result.AllOk()) {
      std::fprintf(stderr, "load: %s\n", result.FirstFailure().ToString().c_str());
      std::exit(1);
    }
  }
}

// Round trips of single GETs, in ns.
Histogram GetsAtDepth1(Service& service, const Settings& settings, std::size_t operations) {
  Histogram latency;
  Random random;
  for (std::size_t i = 0; i < operations; ++i) {
    const std::string key = KeyOf(random.Below(settings.keys));
    const std::uint64_t begin_ns = Clock::Real().MonotonicNs();
    if (!service.map().Get(key).ok()) std::exit(1);
    latency.Record(Clock::Real().MonotonicNs() - begin_ns);
  }
  return latency;
}

void MeasureDepth1(Service& service, const Settings& settings) {
  std::vector<double> ratios;
  std::vector<double> ours;
  std::vector<double> floors;
  for (std::size_t run = 0; run < settings.runs; ++run) {
    // The floor needs both CPUs, so the daemon must sleep: it does, with nobody asking.
    const PingPong floor = Require(MeasurePingPong(PingPongKind::kBareUcx, {}), "ping-pong");
    const double get_us =
        static_cast<double>(
            GetsAtDepth1(service, settings, settings.depth1_operations).Quantile(0.5)) /
        1e3;
    floors.push_back(floor.median_us);
    ours.push_back(get_us);
    ratios.push_back(get_us / floor.median_us);
  }
  const double ratio = MedianOf(ratios);
  Print({"data_path.get_64b_depth1", MedianOf(ours), "us", "bare UCX ping-pong", MedianOf(floors),
         ratio, "<= 1.3", ratio <= 1.3});
}

struct Throughput {
  double operations_per_s = 0;
  double cpu_ns_per_operation = 0;
};

Throughput BatchedGets(Service& service, const Settings& settings) {
  Random random;
  std::deque<Future<BatchResult>> flying;
  std::vector<std::string> names(settings.keys < 65'536 ? settings.keys : 65'536);
  for (auto& name : names) name = KeyOf(random.Below(settings.keys));
  const std::size_t batches = settings.batch_operations / kBatch;
  const std::uint64_t cpu_begin_ns = service.process().CpuNs();
  const std::uint64_t begin_ns = Clock::Real().MonotonicNs();
  std::size_t next = 0;
  const auto finish_one = [&] {
    if (!flying.front().Wait().ok()) std::exit(1);
    flying.pop_front();
  };
  for (std::size_t i = 0; i < batches; ++i) {
    std::array<std::string_view, kBatch> keys;
    for (auto& key : keys) key = names[next++ % names.size()];
    // Made ahead, so that making keys is not what is measured; refreshed so that all are asked for.
    names[next % names.size()] = KeyOf(random.Below(settings.keys));
    if (flying.size() == kBatchesInFlight) finish_one();
    flying.push_back(service.map().MultiGetAsync(keys));
  }
  while (!flying.empty()) finish_one();
  const auto elapsed_ns = static_cast<double>(Clock::Real().MonotonicNs() - begin_ns);
  const auto cpu_ns = static_cast<double>(service.process().CpuNs() - cpu_begin_ns);
  const auto operations = static_cast<double>(batches * kBatch);
  return {operations * 1e9 / elapsed_ns, cpu_ns / operations};
}

// redis-benchmark's own clients and figures, with its server on a free port.
class Redis {
 public:
  explicit Redis(const Settings& settings)
      : settings_(settings),
        port_(std::to_string(FreePort())),
        process_(Require(BenchProcess::Start(
                             {"redis-server", "--port", port_, "--save", "", "--appendonly", "no"}),
                         "redis-server")) {
    usleep(300'000);
    // Three sets per key on average leave one key in twenty absent.
    (void)Run("set", 3 * settings.keys);
  }

  Throughput Gets() {
    const std::uint64_t cpu_begin_ns = process_.CpuNs();
    const double rate = Run("get", settings_.batch_operations);
    const auto cpu_ns = static_cast<double>(process_.CpuNs() - cpu_begin_ns);
    return {rate, cpu_ns / static_cast<double>(settings_.batch_operations)};
  }

 private:
  double Run(const char* test, std::size_t operations) {
    const std::string csv =
        Require(RunAndRead({"redis-benchmark", "-p", port_, "-P", "64", "-n",
                            std::to_string(operations), "-r", std::to_string(settings_.keys), "-d",
                            std::to_string(kValueBytes), "-t", test, "--csv"}),
                "redis-benchmark");
    // Last line: "GET","1234567.00",...
    const auto line = csv.rfind('\n', csv.size() - 2);
    const auto comma = csv.find("\",\"", line == std::string::npos ? 0 : line);
    return comma == std::string::npos ? 0 : std::atof(csv.c_str() + comma + 3);
  }

  const Settings& settings_;
  std::string port_;
  BenchProcess process_;
};

void MeasureBatches(Service& service, const Settings& settings) {
  Redis redis(settings);
  std::vector<double> ours;
  std::vector<double> theirs;
  std::vector<double> our_cpu;
  std::vector<double> their_cpu;
  std::vector<double> ratios;
  std::vector<double> cpu_ratios;
  for (std::size_t run = 0; run < settings.runs; ++run) {
    const Throughput peer = redis.Gets();
    const Throughput own = BatchedGets(service, settings);
    ours.push_back(own.operations_per_s);
    theirs.push_back(peer.operations_per_s);
    our_cpu.push_back(own.cpu_ns_per_operation);
    their_cpu.push_back(peer.cpu_ns_per_operation);
    ratios.push_back(own.operations_per_s / peer.operations_per_s);
    cpu_ratios.push_back(own.cpu_ns_per_operation / peer.cpu_ns_per_operation);
  }
  const double ratio = MedianOf(ratios);
  const double cpu_ratio = MedianOf(cpu_ratios);
  Print({"data_path.get_64b_batch64", MedianOf(ours), "op/s", "redis-benchmark -P 64",
         MedianOf(theirs), ratio, ">= 5", ratio >= 5});
  Print({"data_path.cpu_per_get", MedianOf(our_cpu), "ns", "redis-server", MedianOf(their_cpu),
         cpu_ratio, "<= 0.25", cpu_ratio <= 0.25});
}

// What the second client does, in a process of its own: gets the large value again and again, and
// writes a byte after each.
int StreamForEver(const std::string& file) {
  ConnectOptions options;
  options.cluster_file = file;
  options.transport = Transport::kUcx;
  auto client = Client::Connect(options);
  if (!client.ok()) return 1;
  auto map = client->Open<BytesMap>("bench");
  if (!map.ok()) return 1;
  CallOptions call;
  call.timeout = std::chrono::minutes(2);
  for (;;) {
    const auto value = map->Get("streamed", call);
    if (!value.ok() || value->bytes.size() != kStreamedBytes) return 1;
    if (write(STDOUT_FILENO, ".", 1) != 1) return 1;
  }
}

// Leaves the first CPU to the daemon's core, as a deployment does. Without this, three busy threads
// share two CPUs here, and what is measured is how long the kernel lets a client that it has just
// woken run in the core's stead: 45 us, within the core's own system call (5,190 such switches a
// second; with the core at nice -20 the row was 7.5 us).
void LeaveFirstCpuToDaemon() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2) return;
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    CPU_CLR(cpu, &allowed);
    break;
  }
  (void)sched_setaffinity(0, sizeof allowed, &allowed);
}

void MeasureBesideStream(const std::string& folder, const Settings& settings) {
  Service service = Service::Start(folder, {"--pin"});
  LeaveFirstCpuToDaemon();
  Load(service, settings.keys);
  {
    PutOptions put;
    put.timeout = std::chrono::minutes(2);
    (void)Require(service.map().Put("streamed", std::string(kStreamedBytes, 's'), put), "put");
  }
  std::vector<double> core_ratios;
  std::vector<double> core_with;
  std::vector<double> core_without;
  std::vector<double> client_with;
  std::vector<double> client_without;
  const std::string self = std::filesystem::canonical("/proc/self/exe").string();
  for (std::size_t run = 0; run < settings.runs; ++run) {
    service.ResetStats();
    const auto quiet = GetsAtDepth1(service, settings, settings.depth1_operations);
    const auto quiet_ns = static_cast<double>(service.CoreP99Ns());
    const std::string progress = folder + "/streamed-" + std::to_string(run);
    auto streamer =
        Require(BenchProcess::Start({self, "--stream", service.file()}, progress), "second client");
    const auto streamed = [&] {
      if (!streamer.Running()) {
        Require(Result<int>(Status(StatusCode::kInternal, "it ended")), "stream");
      }
      return std::filesystem::file_size(progress);
    };
    while (streamed() == 0) usleep(10'000);
    service.ResetStats();
    Histogram busy;
    // Until a whole value has passed beside the gets, so that the stream was there all the time.
    for (const auto before = streamed(); streamed() < before + 2;) {
      busy.Merge(GetsAtDepth1(service, settings, settings.depth1_operations / 10));
    }
    const auto busy_ns = static_cast<double>(service.CoreP99Ns());
    core_without.push_back(quiet_ns);
    core_with.push_back(busy_ns);
    core_ratios.push_back(busy_ns / quiet_ns);
    client_without.push_back(static_cast<double>(quiet.Quantile(0.99)) / 1e3);
    client_with.push_back(static_cast<double>(busy.Quantile(0.99)) / 1e3);
  }
  const double ratio = MedianOf(core_ratios);
  Print({"data_path.core_p99_streaming", MedianOf(core_with) / 1e3, "us", "without the stream",
         MedianOf(core_without) / 1e3, ratio, "<= 3", ratio <= 3});
  Print({"data_path.client_p99_streaming", MedianOf(client_with), "us", "without the stream",
         MedianOf(client_without), MedianOf(client_with) / MedianOf(client_without), "", false});
}

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) {
  using namespace tidepool::bench;
  if (const auto role = RunPingPongRole(argc, argv)) return *role;
  Settings settings;
  std::string stream;
  double scale = 1;
  CLI::App app{"The data path against its floor and its peers; one JSON object per row."};
  app.add_option("--rows", settings.rows, "Only rows that match this glob");
  app.add_option("--runs", settings.runs, "Runs per row; the median counts");
  app.add_option("--scale", scale, "Shrinks keys and operations, for a smoke test");
  app.add_option("--stream", stream)->group("");
  CLI11_PARSE(app, argc, argv);
  if (!stream.empty()) return StreamForEver(stream);
  const auto scaled = [&](std::size_t& number) {
    number = static_cast<std::size_t>(static_cast<double>(number) * scale);
  };
  scaled(settings.keys);
  scaled(settings.batch_operations);
  scaled(settings.depth1_operations);

  std::string folder = (std::filesystem::temp_directory_path() / "tidepool-bench-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 1;
  const bool depth1 = Wanted(settings, "data_path.get_64b_depth1");
  const bool batches =
      Wanted(settings, "data_path.get_64b_batch64") || Wanted(settings, "data_path.cpu_per_get");
  {
    if (depth1 || batches) {
      Service service = Service::Start(folder + "/free");
      Load(service, settings.keys);
      if (depth1) MeasureDepth1(service, settings);
      if (batches) MeasureBatches(service, settings);
    }
    // Last, since it moves this process to other CPUs.
    if (Wanted(settings, "data_path.core_p99_streaming") ||
        Wanted(settings, "data_path.client_p99_streaming")) {
      MeasureBesideStream(folder + "/pinned", settings);
    }
  }
  std::filesystem::remove_all(folder);
  return 0;
}
