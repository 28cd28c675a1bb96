// The data path of a program on the daemon's own node and of one elsewhere, beside Redis, memcached
// and what the machine gives. One kvd of one core; values of 64 bytes, 1 M keys, unless a row says
// otherwise. "direct": reads in the daemon's memory; "ring": frames through shared memory; "tcp":
// UCX on loopback, as from another node.
//
//   fast.get|put|add.WAY             one at a time, median; against the bare ping-pong of that way
//   fast.pipelined64.get|put.WAY     64 asynchronous calls under way
//   fast.batchN.get|put.WAY          calls of 16, 64, 256 keys; the peers with as many in a row
//   fast.batch64.get|put.WAY.cpu     the daemon's CPU per operation, with four such calls under
//                                    way: it polls, so it must have no time to wait
//   fast.value.SIZE.get|put.WAY      values of 8 bytes to 4 MB, bytes per second
//   fast.clients.N.get.ring          1, 2, 4 clients, one at a time each
//   fast.busy.get|put                four clients beside two programs that use up both CPUs
//   fast.keys.N.get.direct           100 to 10 M keys
//   fast.miss.WAY                    keys that are not there
//   fast.scan100.ring, fast.queue.*  ordered namespaces and queues
//   fast.daemons.N.cpu               all daemons' CPU per operation, 64 for each daemon and call
//
// One JSON object per row on stdout; medians of rounds in turns.
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/bench_options.h"
#include "tests/bench/fast/cluster.h"
#include "tests/bench/fast/floors.h"
#include "tests/bench/fast/peers.h"
#include "tests/bench/fast/sample.h"
#include "tests/bench/ucx_floor.h"

namespace tidepool::bench {
namespace {

constexpr std::size_t kValueBytes = 64;
constexpr std::size_t kOutstanding = 64;
constexpr std::size_t kKeysMade = 65'536;
constexpr std::array kWays = {Way::kDirect, Way::kRing, Way::kTcp};

// A client of one way and its namespace.
struct Handle {
  Handle(const BenchCluster& cluster, Way way)
      : client(cluster.Connect(way)),
        map(Require(client.OpenOrCreate<BytesMap>("bench"), "open")) {}
  Client client;
  BytesMap map;
};

// Ends what a row has asked the daemon for before it may read by itself.
void WarmDirect(const Handle& handle, Keys* keys) {
  for (int i = 0; i < 200'000; ++i) (void)handle.map.Get(keys->Next());
}

class Bench {
 public:
  Bench(const BenchOptions& options, std::string folder)
      : options_(options),
        folder_(std::move(folder)),
        count_(Scaled(1e6)),
        seconds_(std::max(0.02, 0.3 * options.scale)) {}

  void Run() {
    if (Wanted("fast.keys.*")) KeyRows();
    const bool others = Wanted("fast.[!kd]*");
    if (others) {
      cluster_.emplace(Folder("kvd"), 1, "6GiB");
      for (const Way way : kWays) handles_.push_back(std::make_unique<Handle>(*cluster_, way));
      LoadKeys(Of(Way::kRing).map, count_, kValueBytes);
      StartPeers();
      DepthOneRows();
      PipelinedRows();
      BatchRows();
      ClientRows();
      MissRows();
      ScanRow();
      QueueRows();
      ValueRows();
      BusyRows();
      redis_.clear();
      memcached_.clear();
      handles_.clear();
      cluster_.reset();
    }
    if (Wanted("fast.daemons.*")) DaemonRows();
  }

 private:
  // True if the pattern of --rows and this one may name a common row.
  bool Wanted(const std::string& row) const {
    if (fnmatch(options_.rows.c_str(), row.c_str(), 0) == 0) return true;
    const std::string asked = options_.rows.substr(0, options_.rows.find_first_of("*[?"));
    const std::string own = row.substr(0, row.find_first_of("*[?"));
    return row != own && (asked.rfind(own, 0) == 0 || own.rfind(asked, 0) == 0);
  }
  std::uint64_t Scaled(double full) const {
    return static_cast<std::uint64_t>(std::max(100.0, full * options_.scale));
  }
  std::string Folder(const std::string& name) const { return folder_ + "/" + name; }
  Handle& Of(Way way) { return *handles_[static_cast<std::size_t>(way)]; }

  void StartPeers() {
    for (const bool by_tcp : {false, true}) {
      redis_.push_back(std::make_unique<PeerServer>(PeerKind::kRedis, by_tcp, folder_));
      memcached_.push_back(std::make_unique<PeerServer>(PeerKind::kMemcached, by_tcp, folder_));
      for (const PeerServer* server : {redis_.back().get(), memcached_.back().get()}) {
        PeerClient client(*server);
        const std::string value(kValueBytes, 'v');
        for (std::uint64_t base = 0; base < count_; base += 1'000) {
          std::vector<std::string> names;
          for (std::uint64_t i = base; i < base + 1'000; ++i) names.push_back(Keys::Of(i));
          client.Put({names.begin(), names.end()}, value);
        }
      }
    }
  }

  RoundOptions Round(std::size_t operations = 1) const {
    RoundOptions round;
    round.seconds = seconds_;
    round.operations_per_call = operations;
    round.servers = &cluster_->processes();
    return round;
  }

  // Redis and memcached with `count` operations in a pipeline.
  void AddPeers(Way way, bool puts, std::size_t count, std::vector<Side>* sides) {
    const std::size_t by_tcp = way == Way::kTcp ? 1 : 0;
    for (const PeerServer* server : {redis_[by_tcp].get(), memcached_[by_tcp].get()}) {
      auto client = std::make_shared<PeerClient>(*server);
      auto keys = std::make_shared<Keys>(count_, kKeysMade, 11);
      RoundOptions round = Round(count);
      round.servers = &server->processes();
      sides->push_back({NameOf(server->kind()), [=, value = std::string(kValueBytes, 'v')] {
                          return RunRound(round, [&] {
                            const std::string_view* const at = keys->Step(count);
                            const std::vector<std::string_view> batch(at, at + count);
                            puts ? client->Put(batch, value) : client->Get(batch);
                          });
                        }});
    }
  }

  Side Floor(Way way) const {
    if (way != Way::kTcp) {
      return {"shared memory ping-pong",
              [seconds = seconds_] { return RingFloor(seconds, kValueBytes); }};
    }
    return {"bare UCX ping-pong", [] {
              const PingPong ping = Require(MeasurePingPong(PingPongKind::kBareUcx, {}), "UCX");
              Sample sample;
              sample.p50_us = ping.median_us;
              sample.p99_us = ping.p99_us;
              return sample;
            }};
  }

  void DepthOneRows() {
    enum class Op { kGet, kPut, kAdd };
    const std::pair<const char*, Op> ops[] = {
        {"get", Op::kGet}, {"put", Op::kPut}, {"add", Op::kAdd}};
    for (const auto& [op_name, op] : ops) {
      for (const Way way : kWays) {
        const std::string name = std::string("fast.") + op_name + "." + NameOf(way);
        if ((way == Way::kDirect && op != Op::kGet) || !Wanted(name)) continue;
        Keys keys(count_, kKeysMade, 3);
        const BytesMap& map = Of(way).map;
        if (way == Way::kDirect) WarmDirect(Of(way), &keys);
        RoundOptions round = Round();
        if (way == Way::kDirect) round.calls_per_look = 16;
        const std::string value(kValueBytes, 'w');
        std::uint64_t number = 0;
        std::vector<Side> sides{
            {"tidepool", [&] {
               return RunRound(round, [&] {
                 const std::string_view key = keys.Next();
                 if (op == Op::kGet) {
                   RequireOk(map.Get(key).status(), "get");
                 } else if (op == Op::kPut) {
                   RequireOk(map.Put(key, value).status(), "put");
                 } else {
                   const std::string counter = "count" + std::to_string(++number % 1'000);
                   RequireOk(map.FetchAdd(counter, std::int64_t{1}).status(), "add");
                 }
               });
             }}};
        sides.push_back(Floor(way));
        if (op != Op::kAdd) AddPeers(way, op == Op::kPut, 1, &sides);
        FastRow row{name, &Sample::p50_us, "us", {}};
        if (name == "fast.put.ring") row.goal = AtMost(2.5);
        if (name == "fast.get.tcp") row.goal = AtMost(1.2);
        Compare({row}, options_.runs, sides);
      }
    }
  }

  // Calls under way: the oldest is waited for before the next one begins.
  template <typename T, std::size_t kSize = kOutstanding>
  class Window {
   public:
    void Add(Future<T> future) {
      if (flying_[next_].has_value()) RequireOk(flying_[next_]->Wait().status(), "call");
      flying_[next_] = std::move(future);
      next_ = (next_ + 1) % kSize;
    }
    void Drain() {
      for (auto& each : flying_) {
        if (each.has_value()) RequireOk(each->Wait().status(), "call");
        each.reset();
      }
    }

   private:
    std::array<std::optional<Future<T>>, kSize> flying_;
    std::size_t next_ = 0;
  };

  void PipelinedRows() {
    for (const Way way : {Way::kRing, Way::kTcp}) {
      for (const bool puts : {false, true}) {
        const std::string name =
            std::string("fast.pipelined64.") + (puts ? "put." : "get.") + NameOf(way);
        if (!Wanted(name)) continue;
        Keys keys(count_, kKeysMade, 5);
        const BytesMap& map = Of(way).map;
        const std::string value(kValueBytes, 'w');
        const auto round = [&] {
          Window<Value> gets;
          Window<Version> versions;
          const Sample sample = RunRound(Round(), [&] {
            puts ? versions.Add(map.PutAsync(keys.Next(), value))
                 : gets.Add(map.GetAsync(keys.Next()));
          });
          gets.Drain();
          versions.Drain();
          return sample;
        };
        std::vector<Side> sides{{"tidepool", round}};
        AddPeers(way, puts, kOutstanding, &sides);
        FastRow row{name, &Sample::operations_per_s, "op/s", {}};
        if (way == Way::kRing) {
          row.goal = {">= 4e6", [](double value_is, double) { return value_is >= 4e6; }};
        }
        Compare({row}, options_.runs, sides);
      }
    }
  }

  // The daemon's CPU for batches of 64, in us, and as a part of the peers'.
  void AddCpuRows(const std::string& name, Way way, bool puts, std::vector<FastRow>* rows) {
    const double most = way == Way::kRing ? (puts ? 0.20 : 0.13) : (puts ? 0.30 : 0.20);
    const double part = way == Way::kRing ? 1.0 / 6 : 1.0 / 4;
    char text[16];
    std::snprintf(text, sizeof text, "<= %.2f", most);
    rows->push_back(
        {name + ".cpu", &Sample::server_cpu_us, "us", {text, [most](double value, double) {
                                                         return value <= most;
                                                       }}});
    rows->push_back({name + ".cpu_redis", &Sample::server_cpu_us, "us", AtMost(part), 1});
    rows->push_back({name + ".cpu_memcached", &Sample::server_cpu_us, "us", AtMost(part), 2});
  }

  Sample CpuRound(const BytesMap& map, Keys* keys, std::size_t batch, bool puts,
                  const std::string& value) const {
    Window<BatchResult, 4> window;
    std::vector<KeyValue> records(batch);
    const Sample sample = RunRound(Round(batch), [&] {
      const std::string_view* const at = keys->Step(batch);
      if (!puts) return window.Add(map.MultiGetAsync({at, batch}));
      for (std::size_t i = 0; i < batch; ++i) records[i] = {at[i], value};
      window.Add(map.MultiPutAsync(records));
    });
    window.Drain();
    return sample;
  }

  void BatchRows() {
    for (const std::size_t batch : {16, 64, 256}) {
      for (const bool puts : {false, true}) {
        for (const Way way : kWays) {
          const std::string name =
              "fast.batch" + std::to_string(batch) + (puts ? ".put." : ".get.") + NameOf(way);
          if ((way == Way::kDirect && puts) || !Wanted(name + "*")) continue;
          Keys keys(count_, kKeysMade, 7);
          const BytesMap& map = Of(way).map;
          if (way == Way::kDirect) WarmDirect(Of(way), &keys);
          const std::string value(kValueBytes, 'w');
          std::vector<KeyValue> records(batch);
          std::vector<Side> sides{{"tidepool", [&] {
                                     return RunRound(Round(batch), [&] {
                                       const std::string_view* const at = keys.Step(batch);
                                       if (!puts) {
                                         RequireOk(map.MultiGet({at, batch}).FirstFailure(), "get");
                                         return;
                                       }
                                       for (std::size_t i = 0; i < batch; ++i)
                                         records[i] = {at[i], value};
                                       RequireOk(map.MultiPut(records).FirstFailure(), "put");
                                     });
                                   }}};
          AddPeers(way, puts, batch, &sides);
          Compare({{name, &Sample::operations_per_s, "op/s", {}}}, options_.runs, sides);
          if (batch != 64 || way == Way::kDirect) continue;
          sides[0].round = [&] { return CpuRound(map, &keys, batch, puts, value); };
          std::vector<FastRow> rows;
          AddCpuRows(name, way, puts, &rows);
          Compare(rows, options_.runs, sides);
        }
      }
    }
  }

  void ValueRows() {
    struct Size {
      const char* name;
      std::size_t bytes;
      std::uint64_t keys;
    };
    for (const Size& size :
         {Size{"8", 8, 100'000}, Size{"64", 64, 100'000}, Size{"1k", 1 << 10, 100'000},
          Size{"64k", 64 << 10, 2'000}, Size{"4m", 4 << 20, 32}}) {
      const std::string prefix = std::string("fast.value.") + size.name;
      if (!Wanted(prefix + ".*")) continue;
      const std::string space = std::string("values") + size.name;
      const std::string value(size.bytes, 'x');
      std::vector<BytesMap> maps;
      for (const Way way : kWays) {
        maps.push_back(Require(Of(way).client.OpenOrCreate<BytesMap>(space), "open"));
      }
      LoadKeys(maps[1], size.keys, size.bytes);
      for (const bool puts : {false, true}) {
        for (const Way way : kWays) {
          const std::string name = prefix + (puts ? ".put." : ".get.") + NameOf(way);
          if ((way == Way::kDirect && puts) || !Wanted(name)) continue;
          const BytesMap& map = maps[static_cast<std::size_t>(way)];
          Keys keys(size.keys, kKeysMade, 9);
          if (way == Way::kDirect) {
            for (int i = 0; i < 2'000; ++i) RequireOk(map.Get(keys.Next()).status(), "get");
          }
          RoundOptions round = Round();
          round.bytes_per_operation = size.bytes;
          std::vector<Side> sides{{"tidepool", [&] {
                                     return RunRound(round, [&] {
                                       const std::string_view key = keys.Next();
                                       puts ? RequireOk(map.Put(key, value).status(), "put")
                                            : RequireOk(map.Get(key).status(), "get");
                                     });
                                   }}};
          FastRow row{name, &Sample::bytes_per_s, "B/s", {}};
          if (way == Way::kTcp && puts && size.bytes == 4 << 20) {
            sides.push_back({"bare UCX", [&] { return UcxBulkFloor(size.bytes); }});
            row.goal = AtLeast(0.85);
          } else {
            sides.push_back({"memcpy", [&, pool = size.bytes * size.keys] {
                               return CopyFloor(seconds_, size.bytes, pool);
                             }});
            if (name == "fast.value.64k.get.direct") row.goal = AtLeast(0.6);
            if (name == "fast.value.4m.put.ring") row.goal = AtLeast(0.5);
          }
          Compare({row}, options_.runs, sides);
        }
      }
      RequireOk(Of(Way::kRing).client.Drop(space), "drop");
    }
  }

  // Clients of their own, one at a time each, ours and Redis'.
  void ManyClients(const std::string& name, std::size_t count, Way way, bool puts,
                   const Goal& goal) {
    const std::string value(kValueBytes, 'w');
    std::vector<std::unique_ptr<Handle>> handles;
    std::vector<std::unique_ptr<PeerClient>> peers;
    std::vector<std::unique_ptr<Keys>> keys;
    std::vector<std::function<void()>> ours;
    std::vector<std::function<void()>> theirs;
    for (std::size_t i = 0; i < count; ++i) {
      handles.push_back(std::make_unique<Handle>(*cluster_, way));
      peers.push_back(std::make_unique<PeerClient>(*redis_[0]));
      keys.push_back(std::make_unique<Keys>(count_, kKeysMade, 13 + i));
      if (way == Way::kDirect) WarmDirect(*handles[i], keys[i].get());
      ours.push_back([&, i] {
        puts ? RequireOk(handles[i]->map.Put(keys[i]->Next(), value).status(), "put")
             : RequireOk(handles[i]->map.Get(keys[i]->Next()).status(), "get");
      });
      theirs.push_back([&, i] {
        puts ? peers[i]->Put({keys[i]->Next()}, value) : peers[i]->Get({keys[i]->Next()});
      });
    }
    RoundOptions redis_round = Round();
    redis_round.servers = &redis_[0]->processes();
    Compare({{name, &Sample::operations_per_s, "op/s", goal},
             {name + ".p50", &Sample::p50_us, "us", {}}},
            options_.runs,
            {{"tidepool", [&] { return RunRoundOfMany(Round(), ours); }},
             {"redis", [&] { return RunRoundOfMany(redis_round, theirs); }}});
  }

  void ClientRows() {
    for (const std::size_t count : {1, 2, 4}) {
      const std::string name = "fast.clients." + std::to_string(count) + ".get.ring";
      if (Wanted(name + "*")) ManyClients(name, count, Way::kRing, false, {});
    }
  }

  void BusyRows() {
    if (!Wanted("fast.busy.*")) return;
    std::vector<BenchProcess> hogs;
    for (int i = 0; i < 2; ++i) {
      hogs.push_back(Require(BenchProcess::Start({"sh", "-c", "while :; do :; done"}), "sh"));
    }
    const std::pair<const char*, Way> ways[] = {{"direct", Way::kDirect}, {"ring", Way::kRing}};
    for (const auto& [way_name, way] : ways) {
      for (const bool puts : {false, true}) {
        const std::string name = std::string("fast.busy.") + (puts ? "put." : "get.") + way_name;
        if ((way == Way::kDirect && puts) || !Wanted(name + "*")) continue;
        ManyClients(name, 4, way, puts, AtLeast(1));
      }
    }
  }

  void KeyRows() {
    for (const double full : {1e2, 1e3, 1e4, 1e5, 1e6, 1e7}) {
      const std::string name =
          "fast.keys." + std::to_string(static_cast<std::uint64_t>(full)) + ".get.direct";
      if (!Wanted(name)) continue;
      const std::uint64_t count = full <= 1e3 ? static_cast<std::uint64_t>(full) : Scaled(full);
      cluster_.emplace(Folder("keys" + std::to_string(count)), 1, "4GiB");
      {
        const Handle handle(*cluster_, Way::kDirect);
        LoadKeys(handle.map, count, kValueBytes);
        Keys keys(count, 1 << 20, 3);
        WarmDirect(handle, &keys);
        RoundOptions round = Round();
        round.calls_per_look = 16;
        Compare({{name, &Sample::p50_us, "us", {}}}, options_.runs,
                {{"tidepool", [&] {
                    return RunRound(
                        round, [&] { RequireOk(handle.map.Get(keys.Next()).status(), "get"); });
                  }}});
      }
      cluster_.reset();
    }
  }

  void MissRows() {
    for (const Way way : kWays) {
      const std::string name = std::string("fast.miss.") + NameOf(way);
      if (!Wanted(name)) continue;
      Keys keys(count_, kKeysMade, 3, count_);
      const BytesMap& map = Of(way).map;
      if (way == Way::kDirect) WarmDirect(Of(way), &keys);
      RoundOptions round = Round();
      if (way == Way::kDirect) round.calls_per_look = 16;
      std::vector<Side> sides{{"tidepool", [&] {
                                 return RunRound(round, [&] {
                                   if (map.Get(keys.Next()).code() != StatusCode::kNotFound) {
                                     Fail("miss", Status(StatusCode::kInternal, "it was found"));
                                   }
                                 });
                               }}};
      sides.push_back(Floor(way));
      Compare({{name, &Sample::p50_us, "us", {}}}, options_.runs, sides);
    }
  }

  void ScanRow() {
    constexpr std::size_t kPerScan = 100;
    if (!Wanted("fast.scan100.ring*")) return;
    const auto map =
        Require(Of(Way::kRing).client.OpenOrCreate<BytesOrderedMap>("scans"), "create");
    PeerClient redis(*redis_[0]);
    const std::uint64_t count = Scaled(1e5);
    const std::string value(kValueBytes, 'v');
    std::vector<std::string> names;
    for (std::uint64_t i = 0; i < count; ++i) {
      char text[32];
      std::snprintf(text, sizeof text, "key:%012llu", static_cast<unsigned long long>(i));
      names.emplace_back(text);
    }
    for (const std::string& name : names) {
      RequireOk(map.Put(name, value).status(), "put");
      redis.Commands({{"ZADD", "z", "0", name}});
    }
    std::uint64_t state = 1;
    const auto next = [&]() -> const std::string& {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      return names[(state >> 33) % (count - kPerScan)];
    };
    RoundOptions redis_round = Round(kPerScan);
    redis_round.servers = &redis_[0]->processes();
    Compare({{"fast.scan100.ring", &Sample::p50_us, "us", {}}}, options_.runs,
            {{"tidepool",
              [&] {
                return RunRound(Round(kPerScan), [&] {
                  const auto page = map.Scan({.begin = next()}, {.limit = kPerScan});
                  RequireOk(page.status(), "scan");
                });
              }},
             {"redis", [&] {
                return RunRound(redis_round, [&] {
                  const std::string from = "[" + next();
                  redis.Commands({{"ZRANGE", "z", from, "+", "BYLEX", "LIMIT", "0", "100"}});
                });
              }}});
  }

  void QueueRows() {
    constexpr std::size_t kBatch = 64;
    if (!Wanted("fast.queue.*")) return;
    const auto queue = Require(Of(Way::kRing).client.OpenOrCreate<BytesQueue>("queue"), "create");
    PeerClient redis(*redis_[0]);
    const std::string value(kValueBytes, 'v');
    const std::vector<std::string_view> values(kBatch, value);
    const std::vector<std::vector<std::string_view>> pushes(kBatch, {"LPUSH", "q", value});
    const std::vector<std::vector<std::string_view>> pops(kBatch, {"RPOP", "q"});
    RoundOptions one = Round();
    RoundOptions many = Round(kBatch);
    RoundOptions redis_one = one;
    RoundOptions redis_many = many;
    redis_one.servers = redis_many.servers = &redis_[0]->processes();
    // An item in and out is one operation.
    Compare({{"fast.queue.push_pop.ring", &Sample::p50_us, "us", {}}}, options_.runs,
            {{"tidepool",
              [&] {
                return RunRound(one, [&] {
                  RequireOk(queue.Push(value).status(), "push");
                  RequireOk(queue.Pop().status(), "pop");
                });
              }},
             {"redis", [&] {
                return RunRound(redis_one, [&] {
                  redis.Commands({pushes[0]});
                  redis.Commands({pops[0]});
                });
              }}});
    Compare({{"fast.queue.batch64.ring", &Sample::operations_per_s, "op/s", {}}}, options_.runs,
            {{"tidepool",
              [&] {
                return RunRound(many, [&] {
                  RequireOk(queue.MultiPush(values).FirstFailure(), "push");
                  RequireOk(queue.PopMany(kBatch).status(), "pop");
                });
              }},
             {"redis", [&] {
                return RunRound(redis_many, [&] {
                  redis.Commands(pushes);
                  redis.Commands(pops);
                });
              }}});
  }

  // 64 keys of each node in each call.
  class SpreadBatches {
   public:
    SpreadBatches(const BenchCluster& cluster, std::size_t daemons)
        : handle_(cluster, Way::kTcp), batch_(daemons * kPerDaemon) {
      LoadKeys(handle_.map, kKeys, kValueBytes);
      std::vector<std::vector<std::string>> of(daemons);
      for (std::uint64_t i = 0; i < kKeys; ++i) {
        const std::string key = Keys::Of(i);
        of[handle_.map.space().OwnerOf(key)].push_back(key);
      }
      std::size_t calls = ~std::size_t{0};
      for (const auto& keys : of) calls = std::min(calls, keys.size() / kPerDaemon);
      for (std::size_t call = 0; call < calls; ++call) {
        for (const auto& keys : of) {
          for (std::size_t i = 0; i < kPerDaemon; ++i)
            texts_.push_back(keys[call * kPerDaemon + i]);
        }
      }
      views_.assign(texts_.begin(), texts_.end());
    }
    Sample Round(RoundOptions options) {
      options.operations_per_call = batch_;
      return RunRound(options, [&] {
        if (next_ + batch_ > views_.size()) next_ = 0;
        RequireOk(handle_.map.MultiGet({views_.data() + next_, batch_}).FirstFailure(), "get");
        next_ += batch_;
      });
    }

   private:
    static constexpr std::size_t kPerDaemon = 64;
    static constexpr std::uint64_t kKeys = 100'000;
    Handle handle_;
    const std::size_t batch_;
    std::vector<std::string> texts_;
    std::vector<std::string_view> views_;
    std::size_t next_ = 0;
  };

  void DaemonRows() {
    const BenchCluster one(Folder("one"), 1, "512MiB");
    SpreadBatches alone(one, 1);
    for (const int daemons : {2, 4, 8}) {
      const std::string name = "fast.daemons." + std::to_string(daemons) + ".cpu";
      if (!Wanted(name)) continue;
      const BenchCluster many(Folder("many" + std::to_string(daemons)), daemons, "512MiB");
      SpreadBatches spread(many, static_cast<std::size_t>(daemons));
      RoundOptions round;
      round.seconds = 4 * seconds_;
      RoundOptions alone_round = round;
      round.servers = &many.processes();
      alone_round.servers = &one.processes();
      FastRow row{name, &Sample::server_cpu_us, "us", {}};
      if (daemons == 8) row.goal = AtMost(1.1);
      Compare({row}, options_.runs,
              {{"tidepool", [&] { return spread.Round(round); }},
               {"one daemon", [&] { return alone.Round(alone_round); }}});
    }
  }

  const BenchOptions options_;
  const std::string folder_;
  const std::uint64_t count_;
  const double seconds_;
  std::optional<BenchCluster> cluster_;
  std::vector<std::unique_ptr<Handle>> handles_;    // By Way.
  std::vector<std::unique_ptr<PeerServer>> redis_;  // By socket, by TCP.
  std::vector<std::unique_ptr<PeerServer>> memcached_;
};

}  // namespace
}  // namespace tidepool::bench

int main(int argc, char** argv) {
  using namespace tidepool::bench;
  if (const auto role = RunPingPongRole(argc, argv)) return *role;
  const BenchOptions options =
      ParseOptions(argc, argv, "The data path beside its floors and peers");
  const BenchFolder folder;
  Bench(options, folder.path()).Run();
  return 0;
}
