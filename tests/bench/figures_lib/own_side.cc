// Our side of the papers' figures: what tests/bench/baselines does, by the calls of the SDK.
//
//   figures_own --cluster FILE --processes 2 --test table --way ring --value-bytes 8
//
// One JSON object per phase, as the baselines print them: wall time of all processes, microseconds
// and CPU microseconds per operation (the daemons' apart from the clients'), frames sent per
// operation.
#include <malloc.h>
#include <tidepool/tidepool.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "client/examples/support/program.h"
#include "tests/bench/baselines/mix.h"

namespace {

using support::Team;
using tidepool::BytesMap;
using tidepool::Client;
using tidepool::ConnectOptions;
using tidepool::NamespaceOptions;
using tidepool::Status;
using tidepool::StatusCode;
using tidepool::baselines::Mix;

struct Options {
  support::ProgramOptions program;
  std::string test = "table";
  std::string way = "direct";
  std::string kind = "hash";
  std::uint64_t operations = 100'000;  // Of each process.
  std::uint64_t entries = 100'000;     // In the table whose look-ups are measured.
  std::size_t value_bytes = 8;
  std::size_t batch = 64;
  std::uint32_t partitions = 0;
  int runs = 5;
  bool insert_only = false;
  std::vector<int> daemons;  // Their process ids.
};

int ParseOptions(int argc, char** argv, Options* options) {
  CLI::App app("Tidepool's side of the papers' figures; one JSON object per phase. " +
                   std::string(support::kAboutProcesses),
               "figures_own");
  support::AddProgramOptions(&app, &options->program);
  app.add_option("--test", options->test,
                 "table, queues, kinds, look-ups, values (larger than memory), memcpy")
      ->check(CLI::IsMember({"table", "queues", "kinds", "look-ups", "values", "memcpy"}));
  app.add_option(
         "--way", options->way,
         "direct: reads in the daemon's memory; ring: all by shared memory; tcp: all by UCX")
      ->check(CLI::IsMember({"direct", "ring", "tcp"}));
  app.add_option("--kind", options->kind, "Of --test kinds")
      ->check(CLI::IsMember({"hash", "ordered", "hash-set", "ordered-set", "queue", "priority"}));
  app.add_option("--operations", options->operations, "Of each process and phase")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 32));
  app.add_option("--entries", options->entries, "Keys of --test look-ups")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 32));
  app.add_option("--value-bytes", options->value_bytes, "Of each value or item")
      ->check(CLI::Range(std::size_t{8}, std::size_t{64} << 20));
  app.add_option("--batch", options->batch, "Operations in a batch")
      ->check(CLI::Range(std::size_t{1}, std::size_t{4'096}));
  app.add_option("--partitions", options->partitions, "Of each namespace; 0: the default");
  app.add_option("--runs", options->runs, "The median counts")->check(CLI::Range(1, 1'000));
  app.add_flag("--insert-only", options->insert_only, "No phase but inserts, one at a time");
  app.add_option("--daemons", options->daemons, "Process ids, whose CPU time is counted")
      ->delimiter(',');
  const int code = support::Parse(&app, argc, argv);
  if (code == 2) std::fputs(app.help().c_str(), stderr);
  return code;
}

double CpuSecondsOf(int pid) {
  clockid_t clock = CLOCK_PROCESS_CPUTIME_ID;
  timespec time{};
  if (pid != 0 && clock_getcpuclockid(pid, &clock) != 0) return 0;
  if (clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

struct Sample {
  double operations = 0;
  double seconds = 0;  // From the first one's beginning to the last one's end, as the baselines'.
  double cpu_us = 0;
  double daemon_cpu_us = 0;
  double calls = 0;
};

// The processes of the run, and the phases that they have measured.
class Bench {
 public:
  static tidepool::Result<Bench> Make(const Options& options, Client& for_team, Team* team) {
    ConnectOptions connect;
    connect.cluster_file = options.program.cluster;
    if (options.way == "tcp") connect.transport = tidepool::Transport::kUcx;
    if (options.way == "ring") connect.transport = tidepool::Transport::kRing;
    if (options.way != "direct") connect.direct_read_bytes_max = 0;
    auto client = Client::Connect(connect);
    if (!client.ok()) return client.status();
    auto numbers = for_team.OpenOrCreate<Numbers>(team->NameOf("numbers"));
    if (!numbers.ok()) return numbers.status();
    return Bench(options, *std::move(client), *std::move(numbers), team);
  }

  const Options& options() const { return options_; }
  Client& client() { return client_; }
  Team& team() { return *team_; }
  std::uint64_t rank() const { return static_cast<std::uint64_t>(team_->rank()); }
  std::uint64_t size() const { return static_cast<std::uint64_t>(team_->size()); }
  Status Meet() { return team_->Meet("point-" + std::to_string(points_++)); }

  // Runs a phase of `operations` of this process. All processes call it.
  Status Phase(const std::string& name, std::uint64_t operations,
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

  void Print() const {
    if (team_->rank() != 0) return;
    for (auto [name, samples] : samples_) {
      const auto median = [&samples = samples](double Sample::*member) {
        std::sort(samples.begin(), samples.end(),
                  [&](const Sample& a, const Sample& b) { return a.*member < b.*member; });
        return samples[samples.size() / 2].*member;
      };
      const double operations = median(&Sample::operations);
      const double seconds = median(&Sample::seconds);
      std::printf(
          "{\"phase\": \"%s\", \"operations\": %.0f, \"seconds\": %.6g, \"us\": %.6g, "
          "\"cpu_us\": %.6g, \"daemon_cpu_us\": %.6g, \"calls\": %.4g}\n",
          name.c_str(), operations, seconds, seconds * 1e6 * team_->size() / operations,
          median(&Sample::cpu_us), median(&Sample::daemon_cpu_us), median(&Sample::calls));
    }
    std::fflush(stdout);
  }

 private:
  using Numbers = tidepool::HashMap<std::string, std::int64_t>;

  Bench(const Options& options, Client client, Numbers numbers, Team* team)
      : options_(options), client_(std::move(client)), numbers_(std::move(numbers)), team_(team) {}

  // The clock of the machine, which all processes share.
  static std::int64_t Nanoseconds() {
    return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  // Of the processes' numbers, at all of them.
  tidepool::Result<std::int64_t> Greatest(const std::string& name, std::int64_t number) {
    // What is not there counts as 0, so all are made positive.
    constexpr std::int64_t kZero = std::int64_t{1} << 62;
    if (const auto max = numbers_.FetchMax(name, kZero + number); !max.ok()) return max.status();
    if (Status status = Meet(); !status.ok()) return status;
    const auto greatest = numbers_.Get(name);
    if (!greatest.ok()) return greatest.status();
    return *greatest - kZero;
  }
  double DaemonSeconds() const {
    double sum = 0;
    for (const int pid : options_.daemons) sum += CpuSecondsOf(pid);
    return sum;
  }

  const Options& options_;
  Client client_;
  Numbers numbers_;
  Team* team_;
  std::uint64_t points_ = 0;
  std::map<std::string, std::vector<Sample>> samples_;
};

Status Wrong(const std::string& what) { return Status(StatusCode::kDataLoss, what); }

std::string_view Bytes(const std::uint64_t& number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

// The keys of a process, each once, and the same in another order.
struct Keys {
  std::vector<std::uint64_t> in_order;
  std::vector<std::uint64_t> mixed;

  Keys(std::uint64_t rank, std::uint64_t size, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) in_order.push_back(i * size + rank + 1);
    mixed = in_order;
    std::sort(mixed.begin(), mixed.end(),
              [](std::uint64_t a, std::uint64_t b) { return Mix(~a) < Mix(~b); });
  }
};

// Makes a namespace of this run anew for all processes, or opens it.
template <typename T>
tidepool::Result<T> Renewed(Bench& bench, const std::string& what, NamespaceOptions options) {
  const std::string name = bench.team().NameOf(what);
  if (Status status = bench.Meet(); !status.ok()) return status;
  if (bench.rank() == 0) (void)bench.client().Drop(name);  // The first time there is none.
  if (Status status = bench.Meet(); !status.ok()) return status;
  return bench.client().OpenOrCreate<T>(name, options);
}

// Into `memory`, as the baselines read.
Status Gets(const BytesMap& map, const std::vector<std::uint64_t>& keys, std::string* memory) {
  for (const std::uint64_t key : keys) {
    const auto value = map.GetInto(Bytes(key), std::as_writable_bytes(std::span(*memory)));
    if (!value.ok()) return value.status();
    if (std::memcmp(value->bytes.data(), &key, sizeof key) != 0) return Wrong("another's value");
  }
  return {};
}

Status Batches(const Options& options, const std::vector<std::uint64_t>& keys,
               const std::function<Status(const std::uint64_t*, std::size_t)>& use) {
  for (std::size_t i = 0; i < keys.size(); i += options.batch) {
    const std::size_t count = std::min(options.batch, keys.size() - i);
    if (Status status = use(keys.data() + i, count); !status.ok()) return status;
  }
  return {};
}

Status MultiGets(const Options& options, const BytesMap& map,
                 const std::vector<std::uint64_t>& keys) {
  std::vector<std::string_view> views;
  return Batches(options, keys, [&](const std::uint64_t* first, std::size_t count) {
    views.clear();
    for (std::size_t i = 0; i < count; ++i) views.push_back(Bytes(first[i]));
    return map.MultiGet(views).AllOk() ? Status() : Wrong("a batch has lost keys");
  });
}

// Nor is how a client comes to a namespace's memory, by its first reads.
Status FirstGets(const BytesMap& map, const std::vector<std::uint64_t>& keys, std::string* memory) {
  constexpr std::size_t kReads = 256;
  return Gets(map, {keys.begin(), keys.begin() + std::min(keys.size(), kReads)}, memory);
}

// Connections are not what is measured. So many keys reach each partition.
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

Status RunTable(Bench& bench) {
  const Options& options = bench.options();
  const Keys own(bench.rank(), bench.size(), options.operations);
  const Keys neighbours((bench.rank() + 1) % bench.size(), bench.size(), options.operations);
  std::string value(options.value_bytes, 'v');
  std::string memory(options.value_bytes, '.');
  NamespaceOptions space;
  space.partitions = options.partitions;
  // The baseline's table has its full size from the beginning, too.
  space.expected_items = options.operations * bench.size();
  if (Status status = WarmUp(bench); !status.ok()) return status;
  for (int run = 0; run < options.runs; ++run) {
    auto map = Renewed<BytesMap>(bench, "table", space);
    if (!map.ok()) return map.status();
    Status status = bench.Phase("insert", options.operations, [&]() -> Status {
      for (const std::uint64_t key : own.in_order) {
        std::memcpy(value.data(), &key, sizeof key);
        if (const auto put = map->Put(Bytes(key), value); !put.ok()) return put.status();
      }
      return {};
    });
    if (!status.ok()) return status;
    if (options.insert_only) continue;
    status = FirstGets(*map, own.mixed, &memory);
    if (!status.ok()) return status;
    status =
        bench.Phase("find", options.operations, [&] { return Gets(*map, own.mixed, &memory); });
    if (!status.ok()) return status;
    if (bench.size() > 1) {
      status = FirstGets(*map, neighbours.mixed, &memory);
      if (!status.ok()) return status;
      status = bench.Phase("neighbour find", options.operations,
                           [&] { return Gets(*map, neighbours.mixed, &memory); });
      if (!status.ok()) return status;
    }
    if (options.value_bytes > 4'096) continue;
    status = bench.Phase("batched find", options.operations,
                         [&] { return MultiGets(options, *map, own.mixed); });
    if (!status.ok()) return status;
    auto second = Renewed<BytesMap>(bench, "table", space);
    if (!second.ok()) return second.status();
    status = bench.Phase("buffered insert", options.operations, [&] {
      auto buffered = second->Buffered();
      for (const std::uint64_t key : own.in_order) {
        std::memcpy(value.data(), &key, sizeof key);
        buffered.Put(Bytes(key), value);
      }
      return buffered.Flush();
    });
    if (status.ok()) status = Gets(*second, own.mixed, &memory);
    if (!status.ok()) return status;
  }
  return {};
}

Status RunQueues(Bench& bench) {
  const Options& options = bench.options();
  const std::string item(options.value_bytes, 'i');
  if (Status status = WarmUp(bench); !status.ok()) return status;
  for (const bool one : {true, false}) {
    const std::string suffix = one ? ", one queue" : ", a queue each";
    const std::uint64_t host = one ? 0 : (bench.rank() + 1) % bench.size();
    auto queue = bench.client().OpenOrCreate<tidepool::BytesQueue>(
        bench.team().NameOf("queue-" + std::to_string(host)));
    if (!queue.ok()) return queue.status();
    const auto push = [&] { return queue->Push(item).status(); };
    const auto pop = [&]() -> Status {
      const auto popped = queue->Pop();
      return popped.ok() && popped->value != item ? Wrong("another's item") : popped.status();
    };
    const auto phase = [&](const std::string& name, const std::function<Status()>& work) {
      return bench.Phase(name + suffix, options.operations, [&]() -> Status {
        for (std::uint64_t i = 0; i < options.operations; ++i) {
          if (Status status = work(); !status.ok()) return status;
        }
        return {};
      });
    };
    for (int run = 0; run < options.runs; ++run) {
      Status status = phase("push", push);
      if (status.ok()) status = phase("pop", pop);
      if (status.ok()) {
        status = phase("push and pop", [&]() -> Status {
          if (Status pushed = push(); !pushed.ok()) return pushed;
          return pop();
        });
      }
      if (!status.ok()) return status;
      status = bench.Phase("buffered push" + suffix, options.operations, [&] {
        auto buffered = queue->Buffered();
        for (std::uint64_t i = 0; i < options.operations; ++i) buffered.Push(item);
        return buffered.Flush();
      });
      if (!status.ok()) return status;
      status = bench.Phase("pop many" + suffix, options.operations, [&]() -> Status {
        for (std::uint64_t left = options.operations; left > 0;) {
          const auto some = queue->PopMany(std::min<std::uint64_t>(left, 1'024));
          if (!some.ok()) return some.status();
          if (some->empty()) return Wrong("the queue has lost items");
          left -= some->size();
        }
        return {};
      });
      if (!status.ok()) return status;
    }
  }
  return {};
}

// One phase of writes and one of reads, of a namespace that is made anew.
template <typename T, typename Write, typename Read>
Status WriteAndRead(Bench& bench, const NamespaceOptions& space, Write&& write, Read&& read) {
  const Options& options = bench.options();
  const Keys own(bench.rank(), bench.size(), options.operations);
  if (Status status = WarmUp(bench); !status.ok()) return status;
  for (int run = 0; run < options.runs; ++run) {
    auto made = Renewed<T>(bench, "kind", space);
    if (!made.ok()) return made.status();
    const auto each = [&](const std::vector<std::uint64_t>& keys, auto&& work) -> Status {
      for (const std::uint64_t key : keys) {
        if (Status status = work(*made, key); !status.ok()) return status;
      }
      return {};
    };
    Status status =
        bench.Phase("insert", options.operations, [&] { return each(own.in_order, write); });
    if (status.ok()) {
      status = bench.Phase("find", options.operations, [&] { return each(own.mixed, read); });
    }
    if (!status.ok()) return status;
  }
  return {};
}

Status RunKinds(Bench& bench) {
  const Options& options = bench.options();
  const std::string value(options.value_bytes, 'v');
  NamespaceOptions space;
  space.partitions = options.partitions;
  // A queue has one core for all its items; its partitions are lanes.
  NamespaceOptions lanes;
  lanes.lanes = options.partitions;
  // The baseline looks at 8 bytes, too.
  const auto is_value = [&](const auto& got) {
    return got.size() == value.size() && std::memcmp(got.data(), value.data(), 8) == 0;
  };
  // Keys of a set are as long as values elsewhere.
  const auto long_key = [&](std::uint64_t key) {
    std::string text = value;
    std::memcpy(text.data(), &key, sizeof key);
    return text;
  };
  const auto put = [&](const BytesMap& map, std::uint64_t key) {
    return map.Put(Bytes(key), value).status();
  };
  std::string memory(options.value_bytes, '.');
  const auto get = [&](const BytesMap& map, std::uint64_t key) {
    const auto found = map.GetInto(Bytes(key), std::as_writable_bytes(std::span(memory)));
    return found.ok() && !is_value(found->bytes) ? Wrong("another's value") : found.status();
  };
  const auto insert = [&](const auto& set, std::uint64_t key) {
    return set.Insert(long_key(key)).status();
  };
  const auto contains = [&](const auto& set, std::uint64_t key) {
    const auto found = set.Contains(long_key(key));
    return found.ok() && !*found ? Wrong("the set has lost a key") : found.status();
  };
  const auto pop = [&](const auto& queue, std::uint64_t) {
    const auto popped = queue.Pop();
    return popped.ok() && !is_value(popped->value) ? Wrong("another's item") : popped.status();
  };
  if (options.kind == "hash") return WriteAndRead<BytesMap>(bench, space, put, get);
  NamespaceOptions split;
  for (std::uint32_t i = 1; i < options.partitions; ++i) {
    // Little-endian keys: the first byte is as good as random.
    split.split_keys.push_back(std::string(1, static_cast<char>(256 * i / options.partitions)));
  }
  if (options.kind == "ordered") {
    return WriteAndRead<tidepool::BytesOrderedMap>(bench, split, put, get);
  }
  if (options.kind == "hash-set") {
    return WriteAndRead<tidepool::HashSet<std::string>>(bench, space, insert, contains);
  }
  if (options.kind == "ordered-set") {
    return WriteAndRead<tidepool::OrderedSet<std::string>>(bench, split, insert, contains);
  }
  if (options.kind == "queue") {
    return WriteAndRead<tidepool::BytesQueue>(
        bench, lanes,
        [&](const tidepool::BytesQueue& queue, std::uint64_t) {
          return queue.Push(value).status();
        },
        pop);
  }
  return WriteAndRead<tidepool::BytesPriorityQueue>(
      bench, {},
      [&](const tidepool::BytesPriorityQueue& queue, std::uint64_t key) {
        return queue.Push(Mix(key) >> 40, value).status();
      },
      pop);
}

// Look-ups in a table of so many entries, that hit and that miss.
Status RunLookUps(Bench& bench) {
  const Options& options = bench.options();
  NamespaceOptions space;
  space.expected_items = options.entries;
  auto map = Renewed<BytesMap>(bench, "entries", space);
  if (!map.ok()) return map.status();
  if (bench.rank() == 0) {
    std::string value(options.value_bytes, 'v');
    auto buffered = map->Buffered();
    for (std::uint64_t key = 1; key <= options.entries; ++key) {
      std::memcpy(value.data(), &key, sizeof key);
      buffered.Put(Bytes(key), value);
    }
    if (Status status = buffered.Flush(); !status.ok()) return status;
  }
  if (Status status = bench.Meet(); !status.ok()) return status;
  std::vector<std::uint64_t> keys;
  // To warm up by; those that are measured are to be met for the first time.
  std::vector<std::uint64_t> others;
  for (std::uint64_t i = 0; i < options.operations; ++i) {
    const std::uint64_t number = i * bench.size() + bench.rank() + 1;
    keys.push_back(1 + Mix(number) % options.entries);
    others.push_back(1 + Mix(~number) % options.entries);
  }
  const auto misses = [&]() -> Status {
    for (const std::uint64_t key : keys) {
      const auto value = map->Get(Bytes(key + options.entries));
      if (value.code() != StatusCode::kNotFound) return Wrong("there is a key that was never put");
    }
    return {};
  };
  std::string memory(options.value_bytes, '.');
  Status status = Gets(*map, others, &memory);
  for (int run = 0; run < options.runs && status.ok(); ++run) {
    status = bench.Phase("hit", options.operations, [&] { return Gets(*map, keys, &memory); });
    if (status.ok()) status = bench.Phase("miss", options.operations, misses);
  }
  return status;
}

// Values of a namespace that is larger than its daemon's memory.
Status RunValues(Bench& bench) {
  const Options& options = bench.options();
  // The raw loop reads into the same memory again and again. So do we where malloc keeps what is
  // freed: else each value's pages are faulted in anew (3 ms per MiB on a virtual machine).
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
  const Keys own(bench.rank(), bench.size(), options.operations);
  auto map = Renewed<BytesMap>(bench, "values", {});
  if (!map.ok()) return map.status();
  std::string value(options.value_bytes, 'v');
  Status status = bench.Phase("write", options.operations, [&]() -> Status {
    for (const std::uint64_t key : own.in_order) {
      std::memcpy(value.data(), &key, sizeof key);
      if (const auto put = map->Put(Bytes(key), value); !put.ok()) return put.status();
    }
    return {};
  });
  // Some at a time, as the device likes it and as a program that knows what it needs next does.
  const auto read = [&](const std::vector<std::uint64_t>& keys) -> Status {
    std::vector<tidepool::Future<tidepool::Value>> ahead;
    std::size_t next = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      for (; next < keys.size() && next < i + 4; ++next)
        ahead.push_back(map->GetAsync(Bytes(keys[next])));
      const auto value_read = ahead[i].Wait();
      if (!value_read.ok()) return value_read.status();
      if (std::memcmp(value_read->bytes.data(), &keys[i], 8) != 0) return Wrong("another's value");
      ahead[i] = {};
    }
    return {};
  };
  for (int run = 0; run < options.runs && status.ok(); ++run) {
    status = bench.Phase("sequential read", options.operations, [&] { return read(own.in_order); });
    if (status.ok()) {
      status = bench.Phase("random read", options.operations, [&] { return read(own.mixed); });
    }
  }
  return status;
}

// What the machine's memory allows.
Status RunMemcpy(Bench& bench) {
  const Options& options = bench.options();
  // More than a cache holds, as a table's values are.
  const std::size_t places =
      std::max<std::size_t>(2, (std::size_t{64} << 20) / options.value_bytes);
  const std::string from(places * options.value_bytes, 'f');
  std::string to(options.value_bytes, 't');
  for (int run = 0; run < options.runs; ++run) {
    Status status = bench.Phase("memcpy", options.operations, [&]() -> Status {
      for (std::uint64_t i = 0; i < options.operations; ++i) {
        std::memcpy(to.data(), from.data() + Mix(i) % places * options.value_bytes, to.size());
        asm volatile("" : : "r"(to.data()) : "memory");  // Or it is left out.
      }
      return {};
    });
    if (!status.ok()) return status;
  }
  return {};
}

Status Run(const Options& options, Client& client, Team* team) {
  auto bench = Bench::Make(options, client, team);
  if (!bench.ok()) return bench.status();
  const std::map<std::string, Status (*)(Bench&)> tests{
      {"table", RunTable},      {"queues", RunQueues}, {"kinds", RunKinds},
      {"look-ups", RunLookUps}, {"values", RunValues}, {"memcpy", RunMemcpy}};
  if (Status status = tests.at(options.test)(*bench); !status.ok()) return status;
  bench->Print();
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (const int code = ParseOptions(argc, argv, &options); code >= 0) return code;
  return support::RunProgram("figures_own", options.program, argv, [&](Client& client, Team* team) {
    return Run(options, client, team);
  });
}
