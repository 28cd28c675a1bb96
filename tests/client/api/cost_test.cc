// The table of client/COSTS.md, measured: messages by the client's own
// counts, copies of the value by counting memcpy in the client's and in the daemon's process. Each
// row of the table must be measured here, and the other way round.
#include <catch2/catch.hpp>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/base/limits.h"
#include "tests/client/api/copy_counter.h"
#include "tests/client/sdk_fixture.h"

#ifndef TIDEPOOL_COSTS
#error "the build defines the path of client/COSTS.md"
#endif
#ifndef TIDEPOOL_COPY_COUNTER
#error "the build says where the library to preload is"
#endif

namespace tidepool::testing {
namespace {

constexpr std::size_t kValueBytes = 5'003;  // A size that no other copied object has.
constexpr std::size_t kItems = 10;          // n, for the rows with n: they fit a message.
constexpr int kRepeats = 8;
// A value that travels in parts, each of which is copied by itself.
constexpr std::size_t kPartBytes = limits::kStreamPartBytesMax;
constexpr std::size_t kParts = 10;
// A filter that is downloaded in pieces, and for how many keys it is made. Above 64 KiB they are
// asked for several at a time, and then no two downloads need take the same number of messages.
constexpr std::size_t kPieceBytes = limits::kUnstreamedValueBytesMax;
constexpr std::size_t kPieces = 2;
constexpr std::uint64_t kFilterItems = 45'000;

// The claim of a row, or a measurement.
struct Cost {
  std::uint64_t requests = 0;
  std::uint64_t answers = 0;
  std::uint64_t client_copies = 0;  // Copies of each value.
  std::uint64_t daemon_copies = 0;

  std::string Text() const {
    return std::to_string(requests) + " + " + std::to_string(answers) + ", copies " +
           std::to_string(client_copies) + " + " + std::to_string(daemon_copies);
  }
};

std::map<std::string, Cost> TableRows() {
  std::map<std::string, Cost> rows;
  std::ifstream file(TIDEPOOL_COSTS);
  REQUIRE(file);
  // | `name`, `name` ... | cost | requests + answers | client + daemon | ...
  const std::regex row(R"(\| (`[^|]+)\|[^|]*\| (\d+) \+ (\d+) \| (\d+) \+ (\d+) \|.*)");
  const std::regex name("`([^`]+)`");
  for (std::string line; std::getline(file, line);) {
    std::smatch match;
    if (!std::regex_match(line, match, row)) continue;
    const auto number = [&](std::size_t i) { return std::stoull(match[i].str()); };
    const std::string names = match[1];
    for (std::sregex_iterator each(names.begin(), names.end(), name), end; each != end; ++each) {
      const bool is_new =
          rows.emplace((*each)[1], Cost{number(2), number(3), number(4), number(5)}).second;
      INFO((*each)[1]);
      CHECK(is_new);
    }
  }
  return rows;
}

struct Row {
  std::string name;
  std::size_t values = 1;  // That are copied.
  std::function<void(int)> operation;
  std::size_t value_bytes = kValueBytes;  // Bytes that are copied at once.
};

class Costs {
 public:
  explicit Costs(std::uint32_t nodes)
      : counts_path_(MakeCountsFile()),
        cluster_({.nodes = nodes,
                  .cores = 1,
                  .memory = "256MiB",
                  .environment = {std::string("LD_PRELOAD=") + TIDEPOOL_COPY_COUNTER,
                                  kCopyCountsVariable + ("=" + counts_path_)}}),
        client_(Ready()),
        daemon_(MapCopyCounts(counts_path_.c_str())) {
    REQUIRE(daemon_ != nullptr);
  }
  ~Costs() { std::remove(counts_path_.c_str()); }

  Client& client() { return client_; }

  // Measures a call of `row` after all one-time work is done.
  Cost Measure(const Row& row) {
    int number = 0;
    for (; number < 3; ++number) row.operation(number);
    daemon_->watched_bytes = OwnCopyCounts().watched_bytes = row.value_bytes;
    daemon_->copies = OwnCopyCounts().copies = 0;
    const ClientStats before = client_.Stats();
    for (int i = 0; i < kRepeats; ++i) row.operation(number++);
    const ClientStats after = client_.Stats();
    daemon_->watched_bytes = OwnCopyCounts().watched_bytes = 0;
    const auto of_each = [&](std::uint64_t all, std::uint64_t parts) {
      INFO(row.name << ": " << all << " of " << parts);
      CHECK(all % parts == 0);
      return all / parts;
    };
    return {of_each(after.frames_sent - before.frames_sent, kRepeats),
            of_each(after.frames_received - before.frames_received, kRepeats),
            of_each(OwnCopyCounts().copies, kRepeats * row.values),
            of_each(daemon_->copies, kRepeats * row.values)};
  }

 private:
  static std::string MakeCountsFile() {
    char path[] = "/tmp/tidepool-copies-XXXXXX";
    const int file = mkstemp(path);
    REQUIRE(file >= 0);
    REQUIRE(ftruncate(file, sizeof(CopyCounts)) == 0);
    close(file);
    return path;
  }
  Client Ready() {
    cluster_.WaitReady();
    // Direct reads cost no message. The table is about reads by message.
    ConnectOptions options;
    options.direct_read_bytes_max = 0;
    return ConnectTo(cluster_, options);
  }

  const std::string counts_path_;
  TestCluster cluster_;
  Client client_;
  CopyCounts* const daemon_;
};

std::string KeyOf(int number) { return "k" + std::to_string(number); }

// n keys that a row's `number`-th call has for itself.
struct Keys : KeyList {
  explicit Keys(int number) : KeyList(static_cast<int>(kItems), KeyOf(number) + ".") {}
};

#define TP_OK(expression) RequireOk((expression).status())

// For operations, which are copied.
template <typename T>
std::shared_ptr<T> Shared(T handle) {
  return std::make_shared<T>(std::move(handle));
}

// Returns the row of buffered and flushed adds of a kind to n keys.
Row BufferedAddRow(const std::string& name, const BytesMap& map,
                   const std::function<void(BufferedBytesMap&, int)>& add) {
  return {name, 1, [add, buffered = Shared(map.Buffered())](int i) {
            add(*buffered, i);
            RequireOk(buffered->Flush());
          }};
}

std::vector<Row> RecordRows(const BytesMap& map, const std::string& value) {
  const std::string other(kValueBytes, 'o');
  const auto fill = [=](int number) { REQUIRE(map.MultiPut(Keys(number).With(value)).AllOk()); };
  for (int i = 0; i < 3 + kRepeats; ++i) {
    fill(i);
    TP_OK(map.Put(KeyOf(i), value));
    TP_OK(map.Put("taken" + KeyOf(i), value));
    TP_OK(map.Put("gone" + KeyOf(i), value));
    TP_OK(map.Put("swapped" + KeyOf(i), value));
    TP_OK(map.Put("longer" + KeyOf(i), "short"));
    TP_OK(map.Put("mortal" + KeyOf(i), value));
    REQUIRE(map.MultiPut(KeyList(static_cast<int>(kItems), "deleted" + KeyOf(i) + ".").With(value))
                .AllOk());
  }
  TP_OK(map.Put("still", value));
  const BytesMap reads = WithPromise(map, Promise::kReadOnly);
  return {
      {"Get", 1, [=](int i) { TP_OK(map.Get(KeyOf(i))); }},
      {"GetAsync", 1, [=](int i) { TP_OK(map.GetAsync(KeyOf(i)).Wait()); }},
      {"Get, kReadOnly, again", 1, [=](int) { TP_OK(reads.Get("still")); }},
      {"Put", 1, [=](int i) { TP_OK(map.Put("new" + KeyOf(i), value)); }},
      {"PutAsync", 1, [=](int i) { TP_OK(map.PutAsync("async" + KeyOf(i), value).Wait()); }},
      {"Take", 1, [=](int i) { TP_OK(map.Take("taken" + KeyOf(i))); }},
      {"Delete", 1, [=](int i) { RequireOk(map.Delete("gone" + KeyOf(i))); }},
      {"Contains", 1, [=](int i) { TP_OK(map.Contains(KeyOf(i))); }},
      {"FetchAdd", 1, [=](int i) { TP_OK(map.FetchAdd("n" + KeyOf(i), 1)); }},
      {"CompareAndSwap", 1,
       [=](int i) { TP_OK(map.CompareAndSwap("swapped" + KeyOf(i), value, other)); }},
      {"Apply", 1, [=](int i) { TP_OK(map.Apply("n" + KeyOf(i), "add-i64s", "12345678")); }},
      {"FetchMin", 1, [=](int i) { TP_OK(map.FetchMin("n" + KeyOf(i), 1)); }},
      {"FetchMax", 1, [=](int i) { TP_OK(map.FetchMax("n" + KeyOf(i), 1)); }},
      {"FetchOr", 1, [=](int i) { TP_OK(map.FetchOr("n" + KeyOf(i), 1)); }},
      {"FetchAnd", 1, [=](int i) { TP_OK(map.FetchAnd("n" + KeyOf(i), 1)); }},
      {"FetchXor", 1, [=](int i) { TP_OK(map.FetchXor("n" + KeyOf(i), 1)); }},
      {"FetchAddIfPresent", 1, [=](int i) { TP_OK(map.FetchAddIfPresent("n" + KeyOf(i), 1)); }},
      {"FetchAddF64", 1, [=](int i) { TP_OK(map.FetchAddF64("f" + KeyOf(i), 1)); }},
      {"FetchMinF64", 1, [=](int i) { TP_OK(map.FetchMinF64("f" + KeyOf(i), 1)); }},
      {"FetchMaxF64", 1, [=](int i) { TP_OK(map.FetchMaxF64("f" + KeyOf(i), 1)); }},
      {"Append", 1, [=](int i) { TP_OK(map.Append("longer" + KeyOf(i), value)); }},
      {"Expire", 1,
       [=](int i) { RequireOk(map.Expire("mortal" + KeyOf(i), std::chrono::hours(1))); }},
      {"Ttl", 1, [=](int i) { TP_OK(map.Ttl("mortal" + KeyOf(i))); }},
      {"WaitForKey", 1, [=](int i) { TP_OK(map.WaitForKey(KeyOf(i))); }},
      {"WaitForChange", 1, [=](int i) { TP_OK(map.WaitForChange(KeyOf(i), 0)); }},
      {"Length", 1, [=](int) { TP_OK(map.Length()); }},
      {"MultiGet", kItems, [=](int i) { REQUIRE(map.MultiGet(Keys(i).views).AllOk()); }},
      {"MultiPut", kItems,
       [=](int i) { REQUIRE(map.MultiPut(Keys(1'000 + i).With(value)).AllOk()); }},
      {"MultiDelete", kItems,
       [=](int i) {
         REQUIRE(
             map.MultiDelete(KeyList(static_cast<int>(kItems), "deleted" + KeyOf(i) + ".").views)
                 .AllOk());
       }},
      {"MultiPut, kInsertOnly", kItems,
       [=](int i) {
         const PutOptions quiet{.promise = Promise::kInsertOnly};
         REQUIRE(map.MultiPut(Keys(2'000 + i).With(value), quiet).AllOk());
       }},
      {"Execute", 1,
       [=](int i) {
         Chain chain;
         chain.Put("{" + KeyOf(i) + "}chained", value);
         chain.FetchAdd("{" + KeyOf(i) + "}steps", 1);
         TP_OK(map.Execute(chain));
       }},
      {"Buffered Put", kItems,
       [map, value, buffered = Shared(map.Buffered())](int i) {
         for (const std::string& key : Keys(3'000 + i).texts) buffered->Put(key, value);
         RequireOk(buffered->Flush());
       }},
      {"Buffered Insert", kItems,
       [map, value, buffered = Shared(map.Buffered())](int i) {
         for (const std::string& key : Keys(6'000 + i).texts) buffered->Insert(key, value);
         RequireOk(buffered->Flush());
       }},
      BufferedAddRow("Buffered Add", map,
                     [](BufferedBytesMap& buffered, int i) {
                       for (const std::string& key : Keys(4'000 + i).texts) buffered.Add(key, 1);
                     }),
      BufferedAddRow("Buffered AddF64", map,
                     [](BufferedBytesMap& buffered, int i) {
                       for (const std::string& key : Keys(7'000 + i).texts) buffered.AddF64(key, 1);
                     }),
      BufferedAddRow("Buffered AddIfPresent", map,
                     [](BufferedBytesMap& buffered, int i) {
                       for (const std::string& key : Keys(4'000 + i).texts)
                         buffered.AddIfPresent(key, 1);
                     }),
  };
}

std::vector<Row> StreamRows(const BytesMap& map) {
  const std::string value(kParts * kPartBytes, 'p');
  TP_OK(map.Put("streamed", value));
  return {
      {"Put, 560 KiB", kParts, [=](int i) { TP_OK(map.Put("streamed" + KeyOf(i), value)); },
       kPartBytes},
      {"Get, 560 KiB", kParts, [=](int) { TP_OK(map.Get("streamed")); }, kPartBytes},
  };
}

std::vector<Row> SetRows(const HashSet<std::uint64_t>& set) {
  return {
      {"Buffered set Insert", 1,
       [buffered = Shared(set.Buffered())](int i) {
         for (std::uint64_t n = 0; n < kItems; ++n) {
           buffered->Insert(static_cast<std::uint64_t>(i) * kItems + n);
         }
         RequireOk(buffered->Flush());
       }},
  };
}

// Rows of a map with keys on two nodes, which take a message each without the aggregating daemon.
std::vector<Row> NodeAggregationRows(const BytesMap& map, const std::string& value) {
  std::map<std::uint32_t, int> owners;
  for (const std::string& key : Keys(0).texts) ++owners[map.space().OwnerOf(key)];
  REQUIRE(owners.size() == 2);
  const auto make = [=] { return Shared(map.Buffered({.aggregation = Aggregation::kNode})); };
  const auto flush = [](BufferedBytesMap& buffered) {
    RequireOk(buffered.Flush());
    REQUIRE(buffered.counts().forwarded == buffered.counts().buffers);
  };
  return {
      {"Buffered Put, kNode", kItems,
       [=, buffered = make()](int) {
         for (const std::string& key : Keys(0).texts) buffered->Put(key, value);
         flush(*buffered);
       }},
      {"Buffered Add, kNode", 1,
       [=, buffered = make()](int) {
         for (const std::string& key : Keys(1).texts) buffered->Add(key, 1);
         flush(*buffered);
       }},
  };
}

// Rows of a map of n records, which fit a page, with a copy of its prefilter.
std::vector<Row> LocalRows(const BytesMap& map, const std::string& value) {
  REQUIRE(map.MultiPut(Keys(0).With(value)).AllOk());
  const auto copy = WithPrefilter(map);
  RequireOk(copy.status());
  REQUIRE(copy->space().prefilter_stats().bytes == kPieces * kPieceBytes);
  const auto of_copy = [fast = *copy](int i) {
    REQUIRE(fast.Get("absent" + KeyOf(i)).code() == StatusCode::kNotFound);
  };
  return {
      {"WithPrefilter", kPieces, [=](int) { TP_OK(WithPrefilter(map)); }, kPieceBytes},
      {"RefreshPrefilter", kPieces,
       [fast = *copy](int) { RequireOk(fast.space().RefreshPrefilter()); }, kPieceBytes},
      {"Get, absent, copy of the prefilter", 1, of_copy},
      {"Contains, absent, copy of the prefilter", 1,
       [fast = *copy](int i) { REQUIRE_FALSE(fast.Contains("absent" + KeyOf(i)).value()); }},
      {"Iterate", kItems,
       [=](int) {
         const auto page = map.Iterate();
         RequireOk(page.status());
         REQUIRE(page->records().size() == kItems);
       }},
  };
}

std::vector<Row> OrderedRows(const BytesOrderedMap& map, const std::string& value) {
  for (int i = 0; i < 3 + kRepeats; ++i) {
    REQUIRE(map.MultiPut(Keys(i).With(value)).AllOk());
    TP_OK(map.Put("erased" + KeyOf(i), value));
    TP_OK(map.Put("gone" + KeyOf(i), value));
  }
  const auto range = [](int i) { return KeyRange::Prefix(KeyOf(i) + "."); };
  return {
      {"ordered Get", 1, [=](int i) { TP_OK(map.Get(Keys(i).views[0])); }},
      {"ordered Put", 1, [=](int i) { TP_OK(map.Put("new" + KeyOf(i), value)); }},
      {"Scan", kItems,
       [=](int i) {
         const auto page = map.Scan(range(i));
         RequireOk(page.status());
         REQUIRE(page->records().size() == kItems);
       }},
      {"Scan, reverse", kItems,
       [=](int i) { REQUIRE(map.Scan(range(i), {.reverse = true})->records().size() == kItems); }},
      {"Scan, keys only", kItems,
       [=](int i) {
         REQUIRE(map.Scan(range(i), {.keys_only = true})->records().size() == kItems);
       }},
      {"First", 1, [=](int i) { TP_OK(map.First(range(i))); }},
      {"Last", 1, [=](int i) { TP_OK(map.Last(range(i))); }},
      {"ordered Delete", 1, [=](int i) { RequireOk(map.Delete("gone" + KeyOf(i))); }},
      {"CountRange", 1, [=](int i) { REQUIRE(map.CountRange(range(i)).value() == kItems); }},
      {"EraseRange", 1,
       [=](int i) { REQUIRE(map.EraseRange(KeyRange::Prefix("erased" + KeyOf(i) + "\0")).ok()); }},
  };
}

std::vector<Row> QueueRows(const BytesQueue& queue, const BytesPriorityQueue& priorities,
                           const BytesQueue& empty, const std::string& value) {
  const BytesQueue pops = WithPromise(queue, Promise::kPopOnly);
  const BytesQueue none = WithPromise(empty, Promise::kPopOnly);
  const std::vector<std::string_view> values(kItems, value);
  const std::vector<PrioritizedValue> prioritized(kItems, PrioritizedValue{7, value});
  for (std::size_t i = 0; i < 90; ++i) {
    REQUIRE(queue.MultiPush(values).AllOk());
    REQUIRE(priorities.MultiPush(prioritized).AllOk());
  }
  // A list for each call of a row that ends leases.
  const auto lease_some = [&] {
    std::vector<std::vector<ItemLease>> leases(3 + kRepeats);
    for (std::vector<ItemLease>& some : leases) {
      const auto leased = queue.PopMany(kItems, {.lease = std::chrono::minutes(10)});
      RequireOk(leased.status());
      some = leased->leases();
      REQUIRE(some.size() == kItems);
    }
    return std::make_shared<std::vector<std::vector<ItemLease>>>(std::move(leases));
  };
  const auto single = lease_some();
  const auto many = lease_some();
  return {
      {"Push", 1, [=](int) { TP_OK(queue.Push(value)); }},
      {"Pop", 1, [=](int) { TP_OK(queue.Pop()); }},
      {"Peek", 1, [=](int) { TP_OK(queue.Peek()); }},
      {"PeekMany", kItems,
       [=](int) {
         const auto items = queue.PeekMany(kItems);
         RequireOk(items.status());
         REQUIRE(items->size() == kItems);
       }},
      {"Pop, kPopOnly", 1, [=](int) { TP_OK(pops.Pop()); }},
      {"Pop, kPopOnly, empty, again", 1,
       [=](int) { REQUIRE(none.Pop().code() == StatusCode::kNotFound); }},
      {"MultiPush", kItems, [=](int) { REQUIRE(queue.MultiPush(values).AllOk()); }},
      {"PopMany", kItems,
       [=](int) {
         const auto items = queue.PopMany(kItems);
         RequireOk(items.status());
         REQUIRE(items->size() == kItems);
       }},
      {"Pop, leased", 1, [=](int) { TP_OK(queue.Pop({.lease = std::chrono::minutes(10)})); }},
      {"Ack", 1, [=](int i) { RequireOk(queue.Ack((*single)[static_cast<std::size_t>(i)][0])); }},
      {"Nack", 1, [=](int i) { RequireOk(queue.Nack((*single)[static_cast<std::size_t>(i)][1])); }},
      {"MultiAck", kItems,
       [=](int i) {
         for (const Status& status : queue.MultiAck((*many)[static_cast<std::size_t>(i)])) {
           RequireOk(status);
         }
       }},
      {"queue Length", 1, [=](int) { TP_OK(queue.Length()); }},
      {"DrainLocal", kItems,
       [=](int) {
         const auto taken =
             queue.DrainLocal([](const ItemBatch::View&) { return true; }, {.items_max = kItems});
         REQUIRE(taken.value() == kItems);
       }},
      {"Buffered Push", kItems,
       [value, buffered = Shared(queue.Buffered())](int) {
         for (std::size_t i = 0; i < kItems; ++i) buffered->Push(value);
         RequireOk(buffered->Flush());
       }},
      {"Buffered priority Push", kItems,
       [value, buffered = Shared(priorities.Buffered())](int) {
         for (std::size_t i = 0; i < kItems; ++i) buffered->Push(7, value);
         RequireOk(buffered->Flush());
       }},
      {"priority MultiPush", kItems,
       [=](int) {
         const std::vector<PrioritizedValue> items(kItems, PrioritizedValue{7, value});
         REQUIRE(priorities.MultiPush(items).AllOk());
       }},
      {"priority PopMany", kItems,
       [=](int) {
         const auto items = priorities.PopMany(kItems);
         RequireOk(items.status());
         REQUIRE(items->size() == kItems);
       }},
      {"priority Push", 1, [=](int) { TP_OK(priorities.Push(7, value)); }},
      {"priority Pop", 1, [=](int) { TP_OK(priorities.Pop()); }},
  };
}

std::vector<Row> BloomRows(const BytesBloom& filter, const BytesBloom& other) {
  auto copy = filter.Download();
  RequireOk(copy.status());
  REQUIRE(copy->bytes() == kPieces * kPieceBytes);
  const auto local = Shared(*std::move(copy));
  return {
      {"Download", kPieces, [=](int) { TP_OK(filter.Download()); }, kPieceBytes},
      {"bloom Insert", 1, [=](int i) { TP_OK(filter.Insert(KeyOf(i))); }},
      {"bloom Contains", 1, [=](int i) { TP_OK(filter.Contains(KeyOf(i))); }},
      {"bloom Contains, downloaded", 1,
       [=](int i) { REQUIRE_FALSE(local->Contains("absent" + KeyOf(i))); }},
      {"bloom MultiInsert", 1,
       [=](int i) { RequireOk(filter.MultiInsert(Keys(i).views).FirstFailure()); }},
      {"bloom MultiContains", 1,
       [=](int i) { RequireOk(filter.MultiContains(Keys(i).views).FirstFailure()); }},
      {"Buffered bloom Insert", 1,
       [buffered = Shared(filter.Buffered())](int i) {
         for (const std::string& key : Keys(5'000 + i).texts) buffered->Insert(key);
         RequireOk(buffered->Flush());
       }},
      {"Union", 1, [=](int) { RequireOk(filter.Union(other)); }},
      {"Estimate", 1, [=](int) { TP_OK(filter.Estimate()); }},
  };
}

std::vector<Row> GroupRows(Client& client) {
  const auto group = std::make_shared<Group>(*Group::Join(client, "costs", 1));
  // They live until the end, because the end of a group sends messages.
  const auto joined = std::make_shared<std::vector<Group>>();
  return {
      {"Join", 1,
       [&client, joined](int i) {
         auto made = Group::Join(client, "costs" + KeyOf(i), 1);
         RequireOk(made.status());
         joined->push_back(*std::move(made));
       }},
      {"Barrier", 1, [=](int) { RequireOk(group->Barrier()); }},
      {"Fence", 1, [=](int) { RequireOk(group->Fence()); }},
      {"Broadcast", 1, [=](int) { TP_OK(group->Broadcast("news", 0)); }},
      {"Reduce", 1, [=](int) { TP_OK(group->Reduce(std::int64_t{1}, 0)); }},
      {"AllReduce", 1, [=](int) { TP_OK(group->AllReduce(std::int64_t{1})); }},
  };
}

TEST_CASE("TheTableOfCostsIsTrue") {
  std::map<std::string, Cost> table = TableRows();
  const auto check = [&](Costs& costs, const std::vector<Row>& rows) {
    for (const Row& row : rows) {
      const Cost measured = costs.Measure(row);
      INFO(row.name);
      const auto said = table.find(row.name);
      CHECK((said == table.end() ? "no row" : said->second.Text()) == measured.Text());
      if (said != table.end()) table.erase(said);
    }
  };
  const std::string value(kValueBytes, 'v');
  Costs costs(1);
  Client& client = costs.client();
  check(costs, RecordRows(Open<BytesMap>(client, "hash", {.partitions = 1}), value));
  check(costs, StreamRows(Open<BytesMap>(client, "large", {.partitions = 1})));
  check(costs, SetRows(Open<HashSet<std::uint64_t>>(client, "set", {.partitions = 1})));
  check(costs, OrderedRows(Open<BytesOrderedMap>(client, "ordered"), value));
  check(costs,
        QueueRows(Open<BytesQueue>(client, "queue"), Open<BytesPriorityQueue>(client, "priorities"),
                  Open<BytesQueue>(client, "empty"), value));
  const NamespaceOptions with_prefilter = {
      .expected_items = kFilterItems, .prefilter = Prefilter::kAbsent, .partitions = 1};
  check(costs, LocalRows(Open<BytesMap>(client, "local", with_prefilter), value));
  const NamespaceOptions of_filters = {.expected_items = kFilterItems, .partitions = 1};
  check(costs, BloomRows(Open<BytesBloom>(client, "filter", of_filters),
                         Open<BytesBloom>(client, "other", of_filters)));
  check(costs, GroupRows(client));
  Costs of_two(2);
  check(of_two,
        NodeAggregationRows(Open<BytesMap>(of_two.client(), "spread", {.partitions = 8}), value));
  for (const auto& [name, cost] : table) FAIL_CHECK("'" << name << "' is not measured");
}

}  // namespace
}  // namespace tidepool::testing
