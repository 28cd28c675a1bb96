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

#include "tests/client/api/ordered_fixture.h"
#include "tidepool/tidepool.h"

namespace tidepool::testing {
namespace {

struct Fixture {
  explicit Fixture(std::uint32_t nodes = 1)
      : cluster({.nodes = nodes}), client((cluster.WaitReady(), ConnectTo(cluster))) {}
  BytesOrderedMap Make(std::string_view name) { return Open<BytesOrderedMap>(client, name); }
  TestCluster cluster;
  Client client;
};

TEST_CASE("RandomOperationsAgreeWithAMap", "[kinds]") {
  Random random("RandomOperationsAgreeWithAMap");
  Fixture fixture;
  const BytesOrderedMap map = fixture.Make("model");
  Model model;
  RandomSteps(map, 6000, random, &model);
  CHECK(Walk(map, {}) == Records(model.begin(), model.end()));
  CHECK(map.Length().value() == model.size());
}

TEST_CASE("APrefixEndsBeforeTheNextStringThatLacksIt") {
  CHECK(KeyRange::Prefix("ab") == KeyRange{"ab", false, "ac"});
  CHECK(KeyRange::Prefix("a\xff\xff") == KeyRange{"a\xff\xff", false, "b"});
  CHECK(KeyRange::Prefix("") == KeyRange{"", false, std::nullopt});
  CHECK(KeyRange::Prefix("\xff\xff") == KeyRange{"\xff\xff", false, std::nullopt});
}

TEST_CASE("LargeNamespacesAreScannedCountedAndErasedPageByPage", "[kinds]") {
  Fixture fixture(2);
  Model model;
  for (int i = 100'000; i < 120'000; ++i) model["user" + std::to_string(i)] = std::string(64, 'v');
  // Two, so that both nodes have a namespace.
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
    REQUIRE(map.Put("k" + std::to_string(i), "v", {.ttl = std::chrono::milliseconds(1)}).ok());
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
  CHECK(many.code() == StatusCode::kInvalidArgument);
  CHECK(many.status().ToString().find("split keys") != std::string::npos);
  CHECK(fixture.client.OpenOrCreate<BytesOrderedMap>("tree", {.partitions = 1}).ok());
  const BytesOrderedMap map = *fixture.client.Open<BytesOrderedMap>("tree");
  CHECK(map.Scan({.begin = std::string(16'385, 'k')}).code() == StatusCode::kInvalidArgument);
  CHECK(map.CountRange({.end = std::string(16'385, 'k')}).code() == StatusCode::kInvalidArgument);
  CHECK(map.Scan({.begin = std::string(16'384, 'k'), .end = std::string(16'384, 'l')}).ok());
}

}  // namespace
}  // namespace tidepool::testing
