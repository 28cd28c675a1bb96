// Ordered namespaces through the SDK, against real daemons and a std::map.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/client/sdk_fixture.h"
#include "tests/support/random.h"
#include "tidepool/tidepool.h"

namespace tidepool::testing {
namespace {

using test::Random;
using Model = std::map<std::string, std::string>;
using Records = std::vector<std::pair<std::string, std::string>>;

struct Fixture {
  explicit Fixture(std::uint32_t nodes = 1)
      : cluster({.nodes = nodes}), client((cluster.WaitReady(), ConnectTo(cluster))) {}
  BytesOrderedMap Make(std::string_view name) { return Open<BytesOrderedMap>(client, name); }
  TestCluster cluster;
  Client client;
};

void PutAll(const BytesOrderedMap& map, const Model& model) {
  std::vector<KeyValue> records;
  for (const auto& [key, value] : model) records.push_back({key, value});
  const BatchResult put = map.MultiPut(records);
  INFO(put.FirstFailure().ToString());
  REQUIRE(put.AllOk());
}

Records Walk(const BytesOrderedMap& map, const KeyRange& range, const ScanOptions& options = {}) {
  Records records;
  ScanIterator scan = map.NewScan(range, options);
  while (scan.Next()) records.emplace_back(scan.record().key, scan.record().value);
  INFO(scan.status().ToString());
  REQUIRE(scan.status().ok());
  return records;
}

// The same by hand, page by page and without waiting ahead.
Records WalkPages(const BytesOrderedMap& map, KeyRange range, const ScanOptions& options) {
  Records records;
  for (;;) {
    Result<ScanPage> page = map.ScanAsync(range, options).Wait();
    INFO(page.status().ToString());
    REQUIRE(page.ok());
    for (const Record& record : page->records()) records.emplace_back(record.key, record.value);
    if (!page->rest().has_value()) return records;
    range = *page->rest();
  }
}

// Keys and ends of values, in hex, so that a failure can be read.
std::string Text(const Records& records) {
  std::string text;
  for (const auto& [key, value] : records) {
    for (const char byte : key + "=" + value.substr(0, 1)) {
      constexpr char kDigits[] = "0123456789abcdef";
      text += kDigits[static_cast<unsigned char>(byte) >> 4];
      text += kDigits[static_cast<unsigned char>(byte) & 15];
    }
    text += "#" + std::to_string(value.size()) + " ";
  }
  return text;
}

bool Holds(const KeyRange& range, const std::string& key) {
  return (range.after_begin ? key > range.begin : key >= range.begin) &&
         (!range.end.has_value() || key < *range.end);
}

Records Expected(const Model& model, const KeyRange& range, const ScanOptions& options) {
  Records records;
  for (const auto& record : model) {
    if (Holds(range, record.first)) records.push_back(record);
  }
  if (options.reverse) std::reverse(records.begin(), records.end());
  if (options.limit != 0 && records.size() > options.limit) records.resize(options.limit);
  if (options.keys_only) {
    for (auto& record : records) record.second.clear();
  }
  return records;
}

// Few different bytes, so that keys meet; all values of a byte count as unsigned.
std::string RandomKey(Random& random) {
  constexpr char kBytes[] = {'\0', 'a', 'b', '\x7f', '\x80', '\xff'};
  std::string key(random.Below(5), ' ');
  for (char& byte : key) byte = kBytes[random.Below(sizeof kBytes)];
  return key;
}

KeyRange RandomRange(Random& random) {
  if (random.OneIn(4)) return KeyRange::Prefix(RandomKey(random));
  KeyRange range;
  range.begin = RandomKey(random);
  range.after_begin = random.OneIn(2);
  if (!random.OneIn(4)) range.end = RandomKey(random);
  return range;
}

TEST_CASE("RandomOperationsAgreeWithAMap", "[kinds]") {
  Random random("RandomOperationsAgreeWithAMap");
  Fixture fixture;
  const BytesOrderedMap map = fixture.Make("model");
  Model model;
  for (int step = 0; step < 6000; ++step) {
    const std::string key = RandomKey(random);
    const KeyRange range = RandomRange(random);
    switch (random.Below(8)) {
      case 0:
      case 1:
      case 2: {
        const std::string value(random.Size(2000), static_cast<char>(random.Word()));
        REQUIRE(map.Put(key, value).ok());
        model[key] = value;
        break;
      }
      case 3:
        REQUIRE(map.Delete(key).ok() == (model.erase(key) > 0));
        break;
      case 4: {
        const ScanOptions options{.reverse = random.OneIn(2),
                                  .keys_only = random.OneIn(4),
                                  .limit = random.OneIn(2) ? 0 : 1 + random.Below(20)};
        INFO("step " << step << " of TP_TEST_SEED=" << random.seed());
        INFO(Text({{range.begin, ""}, {range.end.value_or("-"), ""}}) << options.reverse);
        REQUIRE(Text(Walk(map, range, options)) == Text(Expected(model, range, options)));
        REQUIRE(
            WalkPages(map, range, options) ==
            Expected(model, range, {.reverse = options.reverse, .keys_only = options.keys_only}));
        break;
      }
      case 5:
        REQUIRE(map.CountRange(range).value() == Expected(model, range, {}).size());
        break;
      case 6: {
        const Records records = Expected(model, range, {});
        const auto first = map.First(range);
        const auto last = map.Last(range);
        if (records.empty()) {
          REQUIRE(first.code() == StatusCode::kNotFound);
          REQUIRE(last.code() == StatusCode::kNotFound);
        } else {
          REQUIRE(first.value().key == records.front().first);
          REQUIRE(first.value().value.bytes == records.front().second);
          REQUIRE(last.value().key == records.back().first);
          REQUIRE(last.value().value.bytes == records.back().second);
        }
        break;
      }
      default:
        if (!random.OneIn(10)) break;
        REQUIRE(map.EraseRange(range).value() == Expected(model, range, {}).size());
        std::erase_if(model, [&](const auto& record) { return Holds(range, record.first); });
        break;
    }
  }
  CHECK(Walk(map, {}) == Records(model.begin(), model.end()));
  CHECK(map.Length().value() == model.size());
}

TEST_CASE("LargeNamespacesAreScannedCountedAndErasedPageByPage", "[kinds]") {
  Fixture fixture(2);
  Model model;
  for (int i = 100'000; i < 120'000; ++i) model["user" + std::to_string(i)] = std::string(64, 'v');
  // Two, so that they lie on both nodes.
  for (const char* name : {"large-1", "large-2"}) {
    const BytesOrderedMap map = fixture.Make(name);
    CHECK(map.space().partitions() == 1);
    PutAll(map, model);
    CHECK(Walk(map, {}) == Records(model.begin(), model.end()));
    CHECK(Walk(map, {}, {.reverse = true}) == Records(model.rbegin(), model.rend()));
    CHECK(Walk(map, {.begin = "user110000"}, {.limit = 3000}).back().first == "user112999");
    CHECK(map.CountRange({}).value() == 20'000);
    CHECK(map.CountRange(KeyRange::Prefix("user11")).value() == 10'000);
    CHECK(map.EraseRange(KeyRange::Prefix("user11")).value() == 10'000);
    CHECK(map.First(KeyRange::Prefix("user11")).code() == StatusCode::kNotFound);
    CHECK(map.Last().value().key == "user109999");
    CHECK(map.CountRange({}).value() == 10'000);
  }
}

TEST_CASE("ValuesThatPagesLeaveOutAreFetched", "[kinds]") {
  Fixture fixture;
  const BytesOrderedMap map = fixture.Make("values");
  Model model;
  for (int i = 0; i < 8; ++i) model["k" + std::to_string(i)] = std::string(20'000u << (i % 4), 'x');
  PutAll(map, model);
  CHECK(Walk(map, {}) == Records(model.begin(), model.end()));
  CHECK(map.Last().value().value.bytes == model["k7"]);
  const Result<ScanPage> page = map.Scan({.begin = "k3"}, {.limit = 1});
  REQUIRE(page.ok());
  CHECK(page->records().front().value_omitted);
  CHECK(page->records().front().value_bytes == 160'000);
  CHECK(page->rest() == KeyRange{.begin = "k3", .after_begin = true});
}

TEST_CASE("ExpiredKeysAreNotThere", "[kinds]") {
  Fixture fixture;
  const BytesOrderedMap map = fixture.Make("expiring");
  for (int i = 0; i < 500; ++i) {
    REQUIRE(map.Put("k" + std::to_string(i), "v", {.ttl_ms = 1}).ok());
  }
  REQUIRE(map.Put("stays", "v").ok());
  REQUIRE(WaitUntil([&] { return map.CountRange({}).value() == 1; }));
  CHECK(Walk(map, {}) == Records{{"stays", "v"}});
  CHECK(Walk(map, {}, {.reverse = true, .limit = 1}) == Records{{"stays", "v"}});
  CHECK(map.First().value().key == "stays");
}

TEST_CASE("AScanSeesWhatStaysOnceWhileOthersComeAndGo", "[kinds]") {
  Fixture fixture;
  const BytesOrderedMap map = fixture.Make("busy");
  Model stays;
  for (int i = 10'000; i < 15'000; ++i) stays["k" + std::to_string(i) + "-stays"] = "v";
  PutAll(map, stays);
  std::atomic<bool> done{false};
  std::atomic<int> failures{0};
  std::thread writer([&] {
    Client client = ConnectTo(fixture.cluster);
    const auto other = client.Open<BytesOrderedMap>("busy");
    Random random("AScanSeesWhatStays");
    while (!done && other.ok()) {
      const std::string key = "k" + std::to_string(10'000 + random.Below(5'000)) + "-comes";
      const bool ok = random.OneIn(2) ? other->Put(key, "v").ok()
                                      : other->EraseRange(KeyRange::Prefix(key)).ok();
      if (!ok) ++failures;
    }
    if (!other.ok()) ++failures;
  });
  std::vector<Records> walks;
  for (int round = 0; round < 20; ++round)
    walks.push_back(Walk(map, {}, {.reverse = round % 2 == 1}));
  done = true;
  writer.join();
  CHECK(failures == 0);
  for (std::size_t round = 0; round < walks.size(); ++round) {
    Records& seen = walks[round];
    if (round % 2 == 1) std::reverse(seen.begin(), seen.end());
    CHECK(std::is_sorted(seen.begin(), seen.end()));
    std::erase_if(seen, [](const auto& record) { return record.first.ends_with("-comes"); });
    CHECK(seen == Records(stays.begin(), stays.end()));
  }
}

using Measured = std::pair<std::string, std::int64_t>;

TEST_CASE("TypedKeysAreInTheOrderOfTheirType", "[kinds]") {
  Random random("TypedKeysAreInTheOrderOfTheirType");
  Fixture fixture;
  const auto opened = fixture.client.Create<OrderedMap<Measured, double>>("measures");
  REQUIRE(opened.ok());
  const auto& map = *opened;
  std::map<Measured, double> model;
  for (int i = 0; i < 500; ++i) {
    const Measured key{random.OneIn(2) ? "in" : "inner", static_cast<std::int64_t>(random.Word())};
    const double value = static_cast<double>(i) / 3;
    REQUIRE(map.Put(key, value).ok());
    model[key] = value;
  }
  const auto walk = [&](const KeyRange& range) {
    std::vector<std::pair<Measured, double>> seen;
    auto scan = map.NewScan(range);
    while (scan.Next()) seen.emplace_back(scan.key(), scan.value());
    REQUIRE(scan.status().ok());
    return seen;
  };
  using Seen = std::vector<std::pair<Measured, double>>;
  CHECK(walk({}) == Seen(model.begin(), model.end()));
  const Measured middle{"in", 0};
  CHECK(walk(map.From(middle)) == Seen(model.lower_bound(middle), model.end()));
  CHECK(walk(map.Below(middle)) == Seen(model.begin(), model.lower_bound(middle)));
  const auto last_in = std::prev(model.lower_bound({"inner", INT64_MIN}));
  CHECK(walk(map.StartingWith(std::string("in"))) == Seen(model.begin(), std::next(last_in)));
  CHECK(walk(map.Through(middle, last_in->first)) ==
        Seen(model.lower_bound(middle), std::next(last_in)));
  CHECK(walk(map.Between(middle, last_in->first)) == Seen(model.lower_bound(middle), last_in));
  CHECK(map.First().value() == Seen::value_type(*model.begin()));
  CHECK(map.Last(map.StartingWith(std::string("in"))).value() == Seen::value_type(*last_in));
  CHECK(map.Last(map.StartingWith(std::string("i"))).code() == StatusCode::kNotFound);
  CHECK(map.FetchAdd(middle, 1.5).value() == 0);
  CHECK(map.Get(middle).value() == 1.5);
  CHECK(map.EraseRange(map.StartingWith(std::string("in"))).ok());
  CHECK(map.CountRange({}).value() == map.Length().value());
  const auto other = fixture.client.Open<OrderedMap<Measured, int>>("measures");
  CHECK(other.code() == StatusCode::kFailedPrecondition);
}

TEST_CASE("ATypedSetIsInOrder", "[kinds]") {
  Fixture fixture;
  const auto numbers = fixture.client.Create<OrderedSet<int>>("numbers");
  REQUIRE(numbers.ok());
  CHECK(numbers->First().code() == StatusCode::kNotFound);
  CHECK(numbers->MultiInsert(std::vector<int>{7, -7, 0, 300, -300}).AllOk());
  CHECK(numbers->Insert(7).value() == false);
  CHECK(numbers->Insert(8).value() == true);
  CHECK(numbers->Erase(300).value() == true);
  std::vector<int> seen;
  for (auto scan = numbers->NewScan({}, {.reverse = true}); scan.Next();)
    seen.push_back(scan.key());
  CHECK(seen == std::vector<int>{8, 7, 0, -7, -300});
  CHECK(numbers->First().value() == -300);
  CHECK(numbers->Last(numbers->Below(0)).value() == -7);
  CHECK(numbers->CountRange(numbers->Through(-7, 7)).value() == 3);
  const auto words = fixture.client.Create<OrderedSet<std::string>>("words");
  REQUIRE(words.ok());
  CHECK(words->MultiInsert(std::vector<std::string>{"car", "cart", "dog"}).AllOk());
  CHECK(words->EraseRange(words->StartingWith("car")).value() == 2);
  CHECK(words->First().value() == "dog");
}

TEST_CASE("AKindIsOpenedAsWhatItIs", "[kinds]") {
  Fixture fixture;
  fixture.Make("tree");
  CHECK(fixture.client.Open<BytesMap>("tree").code() == StatusCode::kFailedPrecondition);
  const auto many = fixture.client.Create<BytesOrderedMap>("forest", {.partitions = 4});
  CHECK(many.code() == StatusCode::kUnimplemented);
  CHECK(many.status().ToString().find("several partitions") != std::string::npos);
  CHECK(fixture.client.OpenOrCreate<BytesOrderedMap>("tree", {.partitions = 1}).ok());
  const BytesOrderedMap map = *fixture.client.Open<BytesOrderedMap>("tree");
  CHECK(map.Scan({.begin = std::string(16'385, 'k')}).code() == StatusCode::kInvalidArgument);
  CHECK(map.CountRange({.end = std::string(16'385, 'k')}).code() == StatusCode::kInvalidArgument);
  CHECK(map.Scan({.begin = std::string(16'384, 'k'), .end = std::string(16'384, 'l')}).ok());
}

}  // namespace
}  // namespace tidepool::testing
