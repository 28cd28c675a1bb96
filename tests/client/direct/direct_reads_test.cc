// A program's reads in a daemon's memory, with real daemons: the reads begin, and only their speed
// differs from other reads.
#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "proto/base/limits.h"
#include "tests/client/sdk_fixture.h"
#include "tidepool/v1/cluster.pb.h"

namespace tidepool::testing {
namespace {

std::uint64_t DirectReads(const Client& client) { return client.Stats().direct_reads; }

// Gets `key` until the daemon is no longer asked. The first reads request the memory.
bool ReadsDirectly(const Client& client, const BytesMap& map, std::string_view key) {
  const std::uint64_t before = DirectReads(client);
  return WaitUntil([&] {
    for (int i = 0; i < 300; ++i) (void)map.Get(key);
    return DirectReads(client) > before + 100;
  });
}

NamespaceOptions LostIsEmpty() {
  NamespaceOptions options;
  options.on_loss = OnLoss::kEmpty;
  return options;
}

}  // namespace

TEST_CASE("Reads of a daemon's memory give what the daemon would", "[direct]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "values");
  for (int i = 0; i < 300; ++i) {
    RequireOk(map.Put("key" + std::to_string(i), std::string(static_cast<std::size_t>(i * 20), 'a'))
                  .status());
  }
  RequireOk(map.FetchAdd("count", std::int64_t{41}).status());
  RequireOk(map.FetchAdd("count", std::int64_t{1}).status());
  RequireOk(map.Put("large", std::string(3 << 20, 'l')).status());
  for (int i = 0; i < 300; ++i) {
    REQUIRE(ReadsDirectly(client, map, "key" + std::to_string(i)));
    if (i > 8) break;  // All partitions are shown by then, or soon.
  }
  const std::uint64_t before = DirectReads(client);
  for (int i = 0; i < 300; ++i) {
    const auto got = map.Get("key" + std::to_string(i));
    RequireOk(got.status());
    CHECK(got->bytes == std::string(static_cast<std::size_t>(i * 20), 'a'));
    CHECK(got->kind == ValueKind::kBytes);
    CHECK(got->version != 0);
  }
  CHECK(DirectReads(client) > before + 200);
  CHECK(map.Get("large")->bytes == std::string(3 << 20, 'l'));
  const auto count = map.Get("count");
  RequireOk(count.status());
  CHECK(count->kind == ValueKind::kI64);
  CHECK(count->bytes.size() == 8);
  const auto missing = map.Get("nothing");
  CHECK(missing.code() == StatusCode::kNotFound);
  CHECK(missing.status().ToString().find("'values'") != std::string::npos);
  CHECK_FALSE(*map.Contains("nothing"));
  CHECK(*map.Contains("key7"));
}

// Compares GetInto with and without the daemon: result and memory.
void CheckGetInto(const BytesMap& map) {
  std::string memory(5'000, '.');
  const std::span<std::byte> to = std::as_writable_bytes(std::span(memory));
  const auto got = map.GetInto("value", to);
  RequireOk(got.status());
  CHECK(got->bytes.data() == to.data());
  CHECK(got->bytes.size() == 4'000);
  CHECK(got->kind == ValueKind::kBytes);
  CHECK(got->version == map.Get("value")->version);
  CHECK(memory == std::string(4'000, 'v') + std::string(1'000, '.'));

  CHECK(map.GetInto("value", to.first(4'000)).ok());
  const auto too_long = map.GetInto("value", to.first(3'999));
  CHECK(too_long.code() == StatusCode::kOutOfRange);
  CHECK(too_long.status().ToString().find("the value has 4000 bytes") != std::string::npos);

  const auto empty = map.GetInto("empty", {});
  RequireOk(empty.status());
  CHECK(empty->bytes.empty());

  const auto count = map.GetInto("count", to);
  RequireOk(count.status());
  CHECK(count->kind == ValueKind::kI64);
  CHECK(count->bytes.size() == 8);

  const auto missing = map.GetInto("nothing", to);
  CHECK(missing.code() == StatusCode::kNotFound);
  CHECK(missing.status().ToString().find("'into'") != std::string::npos);
}

TEST_CASE("A value is read into memory of the caller's", "[direct]") {
  ConnectOptions by_the_daemon;
  by_the_daemon.direct_read_bytes_max = 0;
  for (const bool directly : {false, true}) {
    Client client = directly ? ConnectTo(Cluster()) : ConnectTo(Cluster(), by_the_daemon);
    const BytesMap map = Open<BytesMap>(client, "into");
    RequireOk(map.Put("value", std::string(4'000, 'v')).status());
    RequireOk(map.Put("empty", "").status());
    RequireOk(map.Put("count", "12345678", {.kind = ValueKind::kI64}).status());
    if (directly) {
      for (const char* key : {"value", "empty", "count"}) REQUIRE(ReadsDirectly(client, map, key));
    }
    const std::uint64_t before = DirectReads(client);
    CheckGetInto(map);
    CHECK((DirectReads(client) > before) == directly);
  }
}

TEST_CASE("Asynchronous reads of single keys are made without the daemon, too", "[direct]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "async");
  RequireOk(map.Put("key", std::string(5'000, 'v')).status());
  REQUIRE(ReadsDirectly(client, map, "key"));
  std::uint64_t before = DirectReads(client);
  auto present = map.GetAsync("key");
  CHECK(present.Ready());
  const auto value = present.Wait();
  RequireOk(value.status());
  CHECK(value->bytes == std::string(5'000, 'v'));
  CHECK(value->version == map.Get("key")->version);
  CHECK(DirectReads(client) == before + 2);
  // Behind a write of its own that is under way.
  for (int i = 0; i < 50; ++i) {
    auto put = map.PutAsync("key", std::to_string(i));
    CHECK(map.GetAsync("key").Wait()->bytes == std::to_string(i));
    RequireOk(put.Wait().status());
  }
  RequireOk(map.Delete("key"));
  before = DirectReads(client);
  const auto missing = map.GetAsync("key").Wait();
  CHECK(missing.code() == StatusCode::kNotFound);
  CHECK(missing.status().ToString().find("'async'") != std::string::npos);
  CHECK(DirectReads(client) == before + 1);
}

// Each read is done before Then is called. If the next read were always made inside Then, the stack
// would overflow.
TEST_CASE("A long chain of reads and continuations needs little of the stack", "[direct]") {
  constexpr int kReads = 300'000;
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "chain");
  RequireOk(map.Put("key", "value").status());
  REQUIRE(ReadsDirectly(client, map, "key"));
  std::atomic<int> reads{0};
  std::function<void()> step = [&] {
    map.GetAsync("key").Then([&](const Result<Value>& read) {
      if (read.ok() && ++reads < kReads) step();
    });
  };
  step();
  for (const Deadline end = Deadline::AfterMs(60'000); reads < kReads && !end.Passed();) {
    RequireOk(client.WaitForAll());
  }
  CHECK(reads == kReads);
}

TEST_CASE("A large value is read into memory of the caller's", "[direct]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "into_large");
  RequireOk(map.Put("large", std::string(3 << 20, 'l')).status());
  std::string memory(4 << 20, '.');
  const auto got = map.GetInto("large", std::as_writable_bytes(std::span(memory)));
  RequireOk(got.status());
  CHECK(got->bytes.size() == 3 << 20);
  CHECK(memory == std::string(3 << 20, 'l') + std::string(1 << 20, '.'));
}

TEST_CASE("Large values are read without the daemon, also where its memory has grown", "[direct]") {
  constexpr int kValues = 8;
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "pieces");
  for (const std::size_t bytes : {std::size_t{1} << 20, std::size_t{5} << 20}) {
    const auto value_of = [bytes](int i) {
      return std::string(bytes + 1, static_cast<char>('a' + i));
    };
    for (int i = 0; i < kValues; ++i) {
      RequireOk(map.Put("key" + std::to_string(i), value_of(i)).status());
    }
    CHECK(WaitUntil([&] {
      const std::uint64_t before = DirectReads(client);
      for (int i = 0; i < kValues; ++i) {
        const auto got = map.Get("key" + std::to_string(i));
        RequireOk(got.status());
        REQUIRE((got->bytes == value_of(i)));
      }
      return DirectReads(client) == before + kValues;
    }));
  }
}

TEST_CASE("The status shows what the node's own connections take", "[direct]") {
  Client client = ConnectTo(Cluster());
  RequireOk(Open<BytesMap>(client, "status").Put("k", "v").status());
  const v1::NodeStatusResponse status = Cluster().StatusFrom(0).nodes(0).status();
  REQUIRE(status.cores_size() > 0);
  std::uint64_t bytes = 0;
  for (const v1::CoreStatus& core : status.cores()) {
    bytes += core.ring_bytes();
    CHECK(core.ring_bytes() <= core.ring_bytes_max());
  }
  CHECK(bytes > 0);
}

TEST_CASE("A batch of reads is as its reads one by one", "[direct]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "batches");
  const KeyList keys(500);
  for (std::size_t i = 0; i < keys.texts.size(); i += 2) {
    RequireOk(map.Put(keys.texts[i], std::string(i * 5, static_cast<char>('a' + i % 26))).status());
  }
  const auto check = [&] {
    const auto result = map.MultiGet(keys.views);
    for (std::size_t i = 0; i < keys.texts.size(); ++i) {
      REQUIRE(result.code(i) == (i % 2 == 0 ? StatusCode::kOk : StatusCode::kNotFound));
      if (i % 2 == 0) {
        REQUIRE(result.value(i) == std::string(i * 5, static_cast<char>('a' + i % 26)));
      }
    }
  };
  check();
  const std::uint64_t before = DirectReads(client);
  CHECK(WaitUntil([&] {
    check();
    return DirectReads(client) > before + 2'000;
  }));
  // Beside a write to a key of the batch.
  for (int i = 0; i < 50; ++i) {
    const std::string value = std::to_string(i);
    auto put = map.PutAsync(keys.texts[1], value);
    CHECK(map.MultiGet(keys.views).value(1) == value);
    RequireOk(put.Wait().status());
  }
}

TEST_CASE("A filter is looked into without its daemon", "[direct]") {
  Client client = ConnectTo(Cluster());
  NamespaceOptions options;
  options.expected_items = 100'000;
  const BytesBloom filter = Open<BytesBloom>(client, "filter", options);
  const KeyList in(500);
  std::vector<std::string> out;
  for (std::size_t i = 0; i < in.texts.size(); ++i) out.push_back("no" + std::to_string(i));
  const std::vector<std::string_view> out_views(out.begin(), out.end());
  RequireOk(filter.MultiInsert(in.views).FirstFailure());
  REQUIRE(WaitUntil([&] {
    for (int i = 0; i < 300; ++i) (void)filter.Contains(in.views[0]);
    return DirectReads(client) > 100;
  }));
  // Batches reach all partitions.
  REQUIRE(WaitUntil([&] {
    const std::uint64_t before = DirectReads(client);
    const BloomBatch batch = filter.MultiContains(in.views);
    RequireOk(batch.FirstFailure());
    CHECK(batch.count() == in.views.size());
    return DirectReads(client) == before + in.views.size();
  }));
  const BloomBatch none = filter.MultiContains(out_views);
  RequireOk(none.FirstFailure());
  CHECK(none.count() < 50);
  for (std::size_t i = 0; i < out.size(); ++i) CHECK(*filter.Contains(out[i]) == none[i]);
  // A value inserted just now is there, even while its answer is on the way.
  for (int i = 0; i < 300; ++i) {
    const std::string value = "late" + std::to_string(i);
    auto inserted = filter.InsertAsync(value);
    CHECK(*filter.Contains(value));
    RequireOk(inserted.Wait().status());
    CHECK(*filter.Contains(value));
  }
}

TEST_CASE("A key that is too long is refused as ever", "[direct]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "long");
  RequireOk(map.Put("k", "v").status());
  REQUIRE(ReadsDirectly(client, map, "k"));
  const std::string key(limits::kKeyBytesMax + 1, 'k');
  CHECK(map.Get(key).code() == StatusCode::kInvalidArgument);
  CHECK(map.Contains(key).code() == StatusCode::kInvalidArgument);
}

TEST_CASE("A program reads what it has written, also what is under way", "[direct]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "own");
  RequireOk(map.Put("k", "0").status());
  REQUIRE(ReadsDirectly(client, map, "k"));
  const std::uint64_t before = DirectReads(client);
  for (int i = 1; i < 3'000; ++i) {
    const std::string value = std::to_string(i);
    if (i % 3 == 0) {
      auto put = map.PutAsync("k", value);
      REQUIRE(map.Get("k")->bytes == value);
      RequireOk(put.Wait().status());
    } else {
      RequireOk(map.Put("k", value).status());
    }
    REQUIRE(map.Get("k")->bytes == value);
    if (i % 7 == 0) {
      RequireOk(map.Delete("k"));
      REQUIRE(map.Get("k").code() == StatusCode::kNotFound);
      REQUIRE_FALSE(*map.Contains("k"));
    }
  }
  CHECK(DirectReads(client) > before + 1'000);
}

TEST_CASE("What was buffered and flushed is read", "[direct]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "buffered");
  RequireOk(map.Put("k", "0").status());
  REQUIRE(ReadsDirectly(client, map, "k"));
  auto buffered = map.Buffered();
  for (int round = 1; round < 50; ++round) {
    for (int i = 0; i < 100; ++i) {
      buffered.Put("k" + std::to_string(i), std::to_string(round));
    }
    RequireOk(buffered.Flush());
    for (int i = 0; i < 100; ++i) {
      REQUIRE(map.Get("k" + std::to_string(i))->bytes == std::to_string(round));
    }
  }
}

// Each reader sees a key's numbers rise. Each number was begun, and is at least the number
// acknowledged before the read began.
TEST_CASE("Readers see what others write, in its order", "[direct]") {
  Client writer = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(writer, "history");
  constexpr int kKeys = 8;
  std::vector<std::atomic<std::uint64_t>> begun(kKeys);
  std::vector<std::atomic<std::uint64_t>> acknowledged(kKeys);
  const auto key_of = [](int key) { return "key" + std::to_string(key); };
  const auto value_of = [](std::uint64_t number) {
    std::string value = std::to_string(number) + "/";
    value.resize(value.size() + number * 37 % 600, static_cast<char>('a' + number % 26));
    return value;
  };
  for (int key = 0; key < kKeys; ++key) RequireOk(map.Put(key_of(key), value_of(0)).status());
  std::atomic<bool> over = false;
  std::atomic<int> faults = 0;
  std::vector<std::thread> readers;
  std::atomic<std::uint64_t> direct = 0;
  for (int r = 0; r < 2; ++r) {
    readers.emplace_back([&, r] {
      Client client = ConnectTo(Cluster());
      const BytesMap own = Open<BytesMap>(client, "history");
      std::vector<std::uint64_t> seen(kKeys);
      for (int i = r; !over; ++i) {
        const auto key = static_cast<std::size_t>(i % kKeys);
        const std::uint64_t before = acknowledged[key];
        const auto got = own.Get(key_of(i % kKeys));
        const std::uint64_t after = begun[key];
        if (!got.ok()) {
          ++faults;
          continue;
        }
        const std::uint64_t number = std::stoull(got->bytes);
        if (got->bytes != value_of(number) || number < before || number > after ||
            number < seen[key]) {
          ++faults;
        }
        seen[key] = number;
      }
      direct += DirectReads(client);
    });
  }
  for (std::uint64_t number = 1; number < 20'000; ++number) {
    const auto key = static_cast<std::size_t>(number % kKeys);
    begun[key] = number;
    RequireOk(map.Put(key_of(static_cast<int>(key)), value_of(number)).status());
    acknowledged[key] = number;
  }
  over = true;
  for (std::thread& reader : readers) reader.join();
  CHECK(faults == 0);
  CHECK(direct > 1'000);
}

TEST_CASE("A dropped namespace is read no more, and one that is made again has nothing old",
          "[direct]") {
  Client client = ConnectTo(Cluster());
  Client other = ConnectTo(Cluster());
  for (int round = 0; round < 5; ++round) {
    const BytesMap map = Open<BytesMap>(client, "dropped");
    CHECK(map.Get("k").code() == StatusCode::kNotFound);
    RequireOk(map.Put("k", std::to_string(round)).status());
    REQUIRE(ReadsDirectly(client, map, "k"));
    RequireOk(other.Drop("dropped"));
    const auto got = map.Get("k");
    CHECK(got.code() == StatusCode::kNotFound);
  }
}

TEST_CASE("Who maps nothing reads through the daemon", "[direct]") {
  ConnectOptions options;
  options.direct_read_bytes_max = 0;
  Client client = ConnectTo(Cluster(), options);
  const BytesMap map = Open<BytesMap>(client, "unmapped");
  RequireOk(map.Put("k", "v").status());
  for (int i = 0; i < 2'000; ++i) REQUIRE(map.Get("k")->bytes == "v");
  CHECK(DirectReads(client) == 0);
}

TEST_CASE("By UCX nothing is read directly", "[direct]") {
  ConnectOptions options;
  options.transport = Transport::kUcx;
  Client client = ConnectTo(Cluster(), options);
  const BytesMap map = Open<BytesMap>(client, "remote");
  RequireOk(map.Put("k", "v").status());
  for (int i = 0; i < 2'000; ++i) REQUIRE(map.Get("k")->bytes == "v");
  CHECK(DirectReads(client) == 0);
}

// Its lease would allow reads for some seconds, but another daemon may serve in its place at once.
TEST_CASE("The memory of a killed daemon is not read beside that of the next", "[direct][fault]") {
  TestCluster cluster({.nodes = 1, .cores = 1});
  Client client = ConnectTo(cluster);
  const BytesMap map = Open<BytesMap>(client, "m", LostIsEmpty());
  for (int round = 0; round < 5; ++round) {
    const std::string old_value = "old" + std::to_string(round);
    RequireOk(map.Put("k", old_value, {.timeout = std::chrono::seconds(30)}).status());
    REQUIRE(ReadsDirectly(client, map, "k"));
    cluster.Kill(0);
    cluster.Start(0);
    cluster.WaitReady();
    Client other = ConnectTo(cluster);
    const BytesMap there = Open<BytesMap>(other, "m", LostIsEmpty());
    RequireOk(there.Put("k", "new", {.timeout = std::chrono::seconds(30)}).status());
    const auto got = map.Get("k", {.timeout = std::chrono::seconds(30)});
    RequireOk(got.status());
    CHECK(got->bytes == "new");
  }
}

TEST_CASE("The memory of a stopped daemon is read no longer than its lease", "[direct][fault]") {
  TestCluster cluster({.nodes = 1, .cores = 1});
  Client client = ConnectTo(cluster);
  const BytesMap map = Open<BytesMap>(client, "m");
  RequireOk(map.Put("k", "v").status());
  REQUIRE(ReadsDirectly(client, map, "k"));
  cluster.Suspend(0);
  CHECK(map.Get("k", {.timeout = std::chrono::milliseconds(500)}).ok());
  CHECK(WaitUntil([&] { return !map.Get("k", {.timeout = std::chrono::milliseconds(100)}).ok(); }));
  cluster.Resume(0);
  CHECK(WaitUntil([&] { return map.Get("k").ok(); }));
  CHECK(ReadsDirectly(client, map, "k"));
}

}  // namespace tidepool::testing
