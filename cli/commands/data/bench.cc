#include "cli/commands/data/bench.h"

#include <tidepool/bytes_map.h>
#include <tidepool/client.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "cli/commands/data/ensure_namespace.h"
#include "cli/commands/data/record_call.h"
#include "cli/commands/data/sdk_client.h"
#include "cli/held_signals.h"
#include "cli/text.h"
#include "cli/zipf.h"
#include "proto/base/histogram.h"
#include "proto/base/limits.h"
#include "proto/base/thread.h"
#include "tidepool/v1/namespaces.grpc.pb.h"

namespace tidepool::cli {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Interval of the check for workers that ended early.
constexpr std::int64_t kWorkersEveryMs = 200;

struct BenchOptions {
  std::uint64_t keys = 100'000;
  std::uint64_t value_bytes = 64;
  std::uint64_t batch = 1;
  std::uint64_t clients = 1;
  std::uint64_t reads_percent = 95;
  std::uint64_t duration_ms = 5'000;
  double zipf = 0;
  std::uint64_t seed = 1;
};

// Totals of a thread; a batch is a single call.
struct Tally {
  Histogram get_ns;
  Histogram put_ns;
  std::uint64_t operations = 0;
  std::uint64_t absent = 0;
  std::uint64_t failed = 0;
  Status failure;  // The first.
};

Status CheckRange(std::string_view name, std::uint64_t value, std::uint64_t least,
                  std::uint64_t most) {
  if (value >= least && value <= most) return OkStatus();
  return Status(
      StatusCode::kInvalidArgument,
      std::string(name) + " goes from " + std::to_string(least) + " to " + std::to_string(most));
}

Result<BenchOptions> BenchOptionsFrom(const Arguments& args) {
  BenchOptions options;
  struct Row {
    const char* name;
    std::uint64_t* field;
    std::uint64_t least;
    std::uint64_t most;
  };
  const Row rows[] = {{"--keys", &options.keys, 1, 1'000'000'000},
                      {"--batch", &options.batch, 1, 100'000},
                      {"--clients", &options.clients, 1, 1'024},
                      {"--reads", &options.reads_percent, 0, 100},
                      {"--seed", &options.seed, 0, UINT64_MAX}};
  for (const Row& row : rows) {
    const Result<std::uint64_t> value = args.Number(row.name, *row.field);
    if (!value.ok()) return value.status();
    TP_RETURN_IF_ERROR(CheckRange(row.name, *value, row.least, row.most));
    *row.field = *value;
  }
  const auto value_bytes = args.ByteCount("--value-bytes", options.value_bytes);
  if (!value_bytes.ok()) return value_bytes.status();
  TP_RETURN_IF_ERROR(CheckRange("--value-bytes", *value_bytes, 0, limits::kValueBytesMax));
  options.value_bytes = *value_bytes;
  const auto duration_ms = args.DurationMs("--duration", options.duration_ms);
  if (!duration_ms.ok()) return duration_ms.status();
  TP_RETURN_IF_ERROR(CheckRange("--duration in ms", *duration_ms, 1, 24ull * 3600 * 1000));
  options.duration_ms = *duration_ms;
  const auto zipf = args.Real("--zipf", options.zipf);
  if (!zipf.ok()) return zipf.status();
  if (!(*zipf >= 0 && *zipf <= 10)) {
    return Status(StatusCode::kInvalidArgument, "--zipf goes from 0 (uniform) to 10");
  }
  options.zipf = *zipf;
  return options;
}

std::string KeyOf(std::uint64_t number) { return "bench-" + std::to_string(number); }

// `values` random bytes that repeat: a value of nothing but zeros would be too easy to move.
std::string MakeValue(const BenchOptions& options) {
  std::mt19937_64 random(options.seed);
  std::string value(options.value_bytes, '\0');
  for (char& c : value) c = static_cast<char>(random());
  return value;
}

// Puts every key once, so that reads find records, or until the end is requested.
Status Fill(const BytesMap& map, const BenchOptions& options, std::string_view value,
            HeldSignals* signals) {
  const std::uint64_t step =
      std::clamp<std::uint64_t>((1 << 20) / (options.value_bytes + 1), 1, 1'024);
  for (std::uint64_t first = 0; first < options.keys && !signals->EndAsked(); first += step) {
    std::vector<std::string> keys;
    for (std::uint64_t i = first; i < std::min(first + step, options.keys); ++i) {
      keys.push_back(KeyOf(i));
    }
    std::vector<KeyValue> records;
    for (const std::string& key : keys) records.push_back({key, value});
    TP_RETURN_IF_ERROR(map.MultiPut(records).FirstFailure());
  }
  return OkStatus();
}

class Worker {
 public:
  Worker(const BytesMap& map, const BenchOptions& options, const Zipf& zipf, std::string_view value,
         std::uint64_t number)
      : map_(map),
        options_(options),
        zipf_(zipf),
        value_(value),
        random_(options.seed * 1'000'003 + number) {}

  void Run(SteadyClock::time_point until, const std::atomic<bool>& stopped) {
    std::uniform_int_distribution<std::uint64_t> percent(0, 99);
    while (SteadyClock::now() < until && !stopped.load(std::memory_order_relaxed)) {
      const bool read = percent(random_) < options_.reads_percent;
      const auto start = SteadyClock::now();
      const bool done = options_.batch == 1 ? One(read) : Many(read);
      const auto ns = static_cast<std::uint64_t>(
          std::chrono::duration_cast<std::chrono::nanoseconds>(SteadyClock::now() - start).count());
      (read ? tally.get_ns : tally.put_ns).Record(ns);
      // A cluster that is gone would otherwise be asked a million times a second.
      if (!done && !IsExpected(tally.failure.code())) return;
    }
  }

  Tally tally;

 private:
  static bool IsExpected(StatusCode code) { return code == StatusCode::kResourceExhausted; }

  // Spreads ranks over the keys, so that popular keys are not neighbours.
  std::string NextKey() { return KeyOf(zipf_(random_) * 0x9E3779B97F4A7C15ull % options_.keys); }

  bool Note(const Status& status) {
    ++tally.operations;
    if (status.ok()) return true;
    if (status.code() == StatusCode::kNotFound) {
      ++tally.absent;
      return true;
    }
    ++tally.failed;
    if (tally.failure.ok()) tally.failure = status;
    return false;
  }

  bool One(bool read) {
    const std::string key = NextKey();
    return Note(read ? map_.Get(key).status() : map_.Put(key, value_).status());
  }

  bool Many(bool read) {
    std::vector<std::string> keys(options_.batch);
    for (std::string& key : keys) key = NextKey();
    if (read) {
      const std::vector<std::string_view> views(keys.begin(), keys.end());
      return NoteAll(map_.MultiGet(views));
    }
    std::vector<KeyValue> records;
    for (const std::string& key : keys) records.push_back({key, value_});
    return NoteAll(map_.MultiPut(records));
  }

  bool NoteAll(const BatchResult& results) {
    bool done = true;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const StatusCode code = results.code(i);
      const bool expected = code == StatusCode::kOk || code == StatusCode::kNotFound;
      done = Note(expected ? (code == StatusCode::kOk ? OkStatus() : Status(code, ""))
                           : results.status(i)) &&
             done;
    }
    return done;
  }

  const BytesMap& map_;
  const BenchOptions& options_;
  const Zipf& zipf_;
  const std::string_view value_;
  std::mt19937_64 random_;
};

// Returns how long to wait for a signal before the next look at the workers.
std::uint64_t WaitMs(SteadyClock::time_point until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - SteadyClock::now());
  return static_cast<std::uint64_t>(std::clamp<std::int64_t>(left.count(), 1, kWorkersEveryMs));
}

// Errors: kResourceExhausted (not all workers have a thread).
Result<Tally> RunWorkers(const BytesMap& map, const BenchOptions& options, std::string_view value,
                         HeldSignals* signals) {
  const Zipf zipf(options.keys, options.zipf);
  std::vector<std::unique_ptr<Worker>> workers;
  for (std::uint64_t i = 0; i < options.clients; ++i) {
    workers.push_back(std::make_unique<Worker>(map, options, zipf, value, i));
  }
  const auto until = SteadyClock::now() + std::chrono::milliseconds(options.duration_ms);
  std::atomic<bool> stopped = false;
  std::atomic<std::uint64_t> running = workers.size();
  std::vector<std::thread> threads(workers.size());
  Status started;
  for (std::size_t i = 0; i < workers.size() && started.ok(); ++i) {
    started = StartThread("a worker of --clients", &threads[i], [&, i] {
      workers[i]->Run(until, stopped);
      running.fetch_sub(1);
    });
  }
  while (started.ok() && running.load() > 0 && !signals->EndAsked(WaitMs(until))) {
  }
  stopped = true;
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
  TP_RETURN_IF_ERROR(started);
  Tally all;
  for (const auto& worker : workers) {
    all.get_ns.Merge(worker->tally.get_ns);
    all.put_ns.Merge(worker->tally.put_ns);
    all.operations += worker->tally.operations;
    all.absent += worker->tally.absent;
    all.failed += worker->tally.failed;
    if (all.failure.ok()) all.failure = worker->tally.failure;
  }
  return all;
}

Json ToJson(const Histogram& ns) {
  return {{"calls", ns.count()},         {"mean_ns", ns.mean()},
          {"p50_ns", ns.Quantile(0.5)},  {"p90_ns", ns.Quantile(0.9)},
          {"p99_ns", ns.Quantile(0.99)}, {"p999_ns", ns.Quantile(0.999)},
          {"max_ns", ns.max()}};
}

void AddRow(const char* name, const Histogram& ns, Table* table) {
  if (ns.count() == 0) return;
  table->Add({name, FormatCount(static_cast<double>(ns.count())), FormatNs(ns.Quantile(0.5)),
              FormatNs(ns.Quantile(0.9)), FormatNs(ns.Quantile(0.99)), FormatNs(ns.Quantile(0.999)),
              FormatNs(ns.max())});
}

Status Report(Invocation& run, const BenchOptions& options, const Tally& tally, double seconds) {
  const double rate = static_cast<double>(tally.operations) / seconds;
  Table table({"CALL", "CALLS", "P50", "P90", "P99", "P99.9", "MAX"});
  AddRow("get", tally.get_ns, &table);
  AddRow("put", tally.put_ns, &table);
  std::string text = FormatCount(rate) + " operations/s (" + std::to_string(options.clients) +
                     " threads, batches of " + std::to_string(options.batch) + ", " +
                     FormatBytes(options.value_bytes) + " values, " + std::to_string(options.keys) +
                     " keys)\n\n" + table.ToString();
  if (tally.absent > 0) text += "\n" + std::to_string(tally.absent) + " keys were absent\n";
  run.out.Result({{"operations", tally.operations},
                  {"operations_per_s", rate},
                  {"seconds", seconds},
                  {"absent", tally.absent},
                  {"failed", tally.failed},
                  {"keys", options.keys},
                  {"value_bytes", options.value_bytes},
                  {"batch", options.batch},
                  {"clients", options.clients},
                  {"reads_percent", options.reads_percent},
                  {"zipf", options.zipf},
                  {"get", ToJson(tally.get_ns)},
                  {"put", ToJson(tally.put_ns)}},
                 text);
  if (tally.failed == 0) return OkStatus();
  if (tally.failed < tally.operations) run.out.SetPartial();
  return Status(tally.failure.code(),
                std::to_string(tally.failed) + " of " + std::to_string(tally.operations) +
                    " operations failed, the first: " + std::string(tally.failure.what()),
                std::string(tally.failure.remedy()));
}

// The namespace that a bench works on, and drops at the end if it has made it.
class BenchSpace {
 public:
  BenchSpace(Invocation& run, std::string name) : run_(run), name_(std::move(name)) {}
  ~BenchSpace() {
    if (!made_ || run_.args.Has("--keep")) return;
    const Status dropped = Drop();
    if (!dropped.ok()) {
      run_.out.Note("namespace " + name_ + " was not dropped: " + std::string(dropped.what()));
    }
  }
  BenchSpace(const BenchSpace&) = delete;
  BenchSpace& operator=(const BenchSpace&) = delete;

  const std::string& name() const { return name_; }

  Status Prepare() {
    const Result<bool> made = EnsureNamespace(run_, name_, "bench", MaskOf(Kind::kHash));
    if (!made.ok()) return made.status();
    made_ = *made;
    const Result<std::uint32_t> id = made_ ? FindId() : Result<std::uint32_t>(0);
    if (!id.ok()) return id.status();
    id_ = *id;
    return OkStatus();
  }

 private:
  // Returns 0 if there is no namespace of the name.
  Result<std::uint32_t> FindId() {
    const Result<Channel*> channel = run_.Connect();
    if (!channel.ok()) return channel.status();
    v1::ListNamespacesResponse all;
    TP_RETURN_IF_ERROR((*channel)->Call<v1::Namespaces>(&v1::Namespaces::Stub::List, {}, &all));
    for (const v1::NamespaceMap& space : all.namespaces()) {
      if (space.name() == name_) return space.namespace_id();
    }
    return 0u;
  }

  // Another namespace of this name, which has taken its place, stays.
  Status Drop() {
    const Result<std::uint32_t> id = FindId();
    if (!id.ok() || *id != id_) return id.status();
    const Result<Channel*> channel = run_.Connect();
    v1::DropNamespaceRequest request;
    request.set_name(name_);
    v1::DropNamespaceResponse response;
    return (*channel)->Call<v1::Namespaces>(&v1::Namespaces::Stub::Drop, request, &response);
  }

  Invocation& run_;
  const std::string name_;
  bool made_ = false;
  std::uint32_t id_ = 0;
};

Status Bench(Invocation& run) {
  const Result<BenchOptions> options = BenchOptionsFrom(run.args);
  if (!options.ok()) return options.status();
  HeldSignals signals;  // Before the client's threads.
  const std::string& given = run.args.Text("NAMESPACE");
  BenchSpace space(run, given.empty() ? "bench" : given);
  TP_RETURN_IF_ERROR(space.Prepare());
  Result<Client> client = ConnectSdk(run);
  if (!client.ok()) return client.status();
  Result<BytesMap> map = client->Open<BytesMap>(space.name());
  if (!map.ok()) {
    return OpenFailure(*client, space.name(), map.status(), "bench", MaskOf(Kind::kHash));
  }
  const std::string value = MakeValue(*options);
  if (!run.args.Has("--no-fill")) TP_RETURN_IF_ERROR(Fill(*map, *options, value, &signals));
  const auto start = SteadyClock::now();
  const Result<Tally> tally = RunWorkers(*map, *options, value, &signals);
  const std::chrono::duration<double> took = SteadyClock::now() - start;
  if (signals.EndAsked()) {
    signals.Release();  // A second signal ends the process while it drops the namespace.
    run.out.EndWith(HeldSignals::ExitCode());
    return Status(StatusCode::kCancelled, "interrupted");
  }
  if (!tally.ok()) return tally.status();
  return Report(run, *options, *tally, took.count());
}

}  // namespace

std::vector<Verb> BenchVerbs() {
  return {
      {"bench",
       "measure gets and puts over the fast path",
       "Puts every key once, then runs the mix. Latencies are of calls: with --batch of whole "
       "batches. A namespace that it creates is dropped at the end, also after Ctrl-C.",
       {{"NAMESPACE", "default bench; created if it is not there", 0, 1}},
       {{"--reads", "PERCENT", "part of the calls that read (default 95)"},
        {"--keys", "N", "different keys (default 100000)"},
        {"--value-bytes", "SIZE", "size of each value (default 64)"},
        {"--batch", "N", "operations in a call (default 1)"},
        TransportOption(),
        {"--clients", "N", "threads, which share one connection (default 1)"},
        {"--duration", "DURATION", "of the measurement (default 5s)"},
        {"--zipf", "S", "popularity falls as rank^-S (default 0: all alike)"},
        {"--seed", "N", "of the random choices (default 1)"},
        {"--no-fill", "", "do not put the keys first"},
        {"--keep", "", "leave a namespace that it creates"}},
       {{"kvctl bench", ""},
        {"kvctl bench --reads 50 --batch 64 --clients 4 --zipf 0.99", ""},
        {"kvctl bench mine --keep", ""}},
       Bench,
       "benchmark perf load-test"},
  };
}

}  // namespace tidepool::cli
