// The asynchronous forms against real daemons: each acts and returns like its synchronous form.
#include <catch2/catch.hpp>
#include <chrono>
#include <set>
#include <string>
#include <type_traits>
#include <utility>

#include "tests/client/sdk_fixture.h"

namespace tidepool::testing {
namespace {

using namespace std::chrono_literals;

// True if the future of an asynchronous form gives the result of the synchronous form.
template <typename Sync, typename Async>
constexpr bool kSameType = std::is_same_v<Sync, decltype(std::declval<Async&>().Wait())>;

using Ints = HashMap<std::string, std::int64_t>;
static_assert(kSameType<decltype(std::declval<BytesMap&>().Delete("")),
                        decltype(std::declval<BytesMap&>().DeleteAsync(""))>);
static_assert(kSameType<decltype(std::declval<BytesMap&>().Expire("", 1ms)),
                        decltype(std::declval<BytesMap&>().ExpireAsync("", 1ms))>);
static_assert(kSameType<decltype(std::declval<BytesMap&>().Ttl("")),
                        decltype(std::declval<BytesMap&>().TtlAsync(""))>);
static_assert(kSameType<decltype(std::declval<BytesMap&>().Put("", "")),
                        decltype(std::declval<BytesMap&>().PutAsync("", ""))>);
static_assert(kSameType<decltype(std::declval<BytesMap&>().Iterate()),
                        decltype(std::declval<BytesMap&>().IterateAsync())>);
static_assert(kSameType<decltype(std::declval<Ints&>().Delete("")),
                        decltype(std::declval<Ints&>().DeleteAsync(""))>);
static_assert(kSameType<decltype(std::declval<Ints&>().Expire("", 1ms)),
                        decltype(std::declval<Ints&>().ExpireAsync("", 1ms))>);
static_assert(kSameType<decltype(std::declval<HashSet<int>&>().Erase(1)),
                        decltype(std::declval<HashSet<int>&>().EraseAsync(1))>);
static_assert(kSameType<decltype(std::declval<BytesQueue&>().Ack({})),
                        decltype(std::declval<BytesQueue&>().AckAsync({}))>);
static_assert(kSameType<decltype(std::declval<Queue<int>&>().Ack({})),
                        decltype(std::declval<Queue<int>&>().AckAsync({}))>);
static_assert(kSameType<decltype(std::declval<BytesBloom&>().Insert("")),
                        decltype(std::declval<BytesBloom&>().InsertAsync(""))>);

TEST_CASE("Times to live are set and read asynchronously", "[async]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "async.ttl");
  RequireOk(map.Put("k", "v").status());
  CHECK(map.TtlAsync("k").Wait().value_or(0ms) == kForEver);
  RequireOk(map.ExpireAsync("k", 1h).Wait());
  const auto left = map.TtlAsync("k").Wait();
  REQUIRE(left.ok());
  CHECK(*left > 50min);
  CHECK(*left <= 1h);
  RequireOk(map.ExpireAsync("k", kForEver).Wait());
  CHECK(map.TtlAsync("k").Wait().value_or(0ms) == kForEver);
  // A past time ends the record, and does not make it live for ever.
  RequireOk(map.ExpireAsync("k", -1h).Wait());
  CHECK(WaitUntil([&] { return map.GetAsync("k").Wait().code() == StatusCode::kNotFound; }));
  CHECK(map.ExpireAsync("absent", 1h).Wait().code() == StatusCode::kNotFound);
  CHECK(map.TtlAsync("absent").Wait().code() == StatusCode::kNotFound);
}

TEST_CASE("An asynchronous delete says whether the key was there", "[async]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "async.delete");
  const auto version = map.Put("k", "v");
  RequireOk(version.status());
  CHECK(map.DeleteAsync("k", {.if_version = *version + 1}).Wait().code() ==
        StatusCode::kFailedPrecondition);
  bool ran = false;
  map.DeleteAsync("k", {.if_version = *version}).Then([&ran](const Status& status) {
    RequireOk(status);
    ran = true;
  });
  CHECK(WaitUntil([&] { return !map.Contains("k").value_or(true) && ran; }));
  CHECK(map.DeleteAsync("k").Wait().code() == StatusCode::kNotFound);
}

TEST_CASE("Counters change asynchronously", "[async]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "async.counters");
  CHECK(map.FetchMaxAsync("i", 0b1100).Wait().value_or(-1) == 0);
  CHECK(map.FetchAndAsync("i", 0b0110).Wait().value_or(-1) == 0b1100);
  CHECK(map.FetchXorAsync("i", 0b1111).Wait().value_or(-1) == 0b0100);
  CHECK(map.FetchMaxAsync("i", 3).Wait().value_or(-1) == 0b1011);
  CHECK(map.Get("i")->AsI64() == 0b1011);
  CHECK(map.FetchMaxF64Async("f", 2.5).Wait().value_or(-1) == 0.0);
  CHECK(map.FetchMinF64Async("f", -0.25).Wait().value_or(-1) == 2.5);
  CHECK(map.FetchMaxF64Async("f", -1).Wait().value_or(-1) == -0.25);
  CHECK(map.Get("f")->AsF64() == -0.25);
  CHECK(map.FetchAndAsync("f", 1).Wait().code() == StatusCode::kInvalidArgument);
  CHECK(map.FetchMinF64Async("i", 1).Wait().code() == StatusCode::kInvalidArgument);

  const auto ints = Open<Ints>(client, "async.ints");
  CHECK(ints.FetchMaxAsync("i", 6).Wait().value_or(-1) == 0);
  CHECK(ints.FetchAndAsync("i", 3).Wait().value_or(-1) == 6);
  CHECK(ints.FetchXorAsync("i", 7).Wait().value_or(-1) == 2);
  CHECK(ints.Get("i").value_or(0) == 5);
  const auto reals = Open<HashMap<std::string, double>>(client, "async.reals");
  CHECK(reals.FetchMaxAsync("f", 0.5).Wait().value_or(-1) == 0.0);
  CHECK(reals.FetchMinAsync("f", -2).Wait().value_or(-1) == 0.5);
  CHECK(reals.Get("f").value_or(0) == -2);
}

TEST_CASE("Counters of one thread change in the order of their calls", "[async]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "async.order");
  auto most = map.FetchMaxAsync("i", 0b1010);
  auto masked = map.FetchAndAsync("i", 0b0010);
  auto turned = map.FetchXorAsync("i", 0b0111);
  // The last call is waited for first.
  CHECK(turned.Wait().value_or(-1) == 0b0010);
  CHECK(masked.Wait().value_or(-1) == 0b1010);
  CHECK(most.Wait().value_or(-1) == 0);
  CHECK(map.Get("i")->AsI64() == 0b0101);
}

TEST_CASE("Pages are asked for asynchronously, one after the other", "[async]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "async.pages", {.partitions = 3});
  std::set<std::string> keys;
  for (int i = 0; i < 200; ++i) {
    keys.insert("key" + std::to_string(i));
    RequireOk(map.Put("key" + std::to_string(i), "v").status());
  }
  std::set<std::string> seen;
  int pages = 0;
  for (Cursor at; !at.at_end; ++pages) {
    auto page = map.IterateAsync(at, {.page_records_max = 10}).Wait();
    RequireOk(page.status());
    CHECK(page->records().size() <= 10);
    for (const Record& record : page->records()) {
      CHECK(record.value == "v");
      CHECK_FALSE(record.expires_at.has_value());
      CHECK(seen.insert(std::string(record.key)).second);
    }
    at = page->next();
  }
  CHECK(seen == keys);
  CHECK(pages >= 20);
  // A cursor behind the end has an empty page.
  const auto behind = map.IterateAsync({.partition = 3, .at_end = true}).Wait();
  RequireOk(behind.status());
  CHECK(behind->records().empty());
  CHECK(behind->next().at_end);
}

TEST_CASE("An asynchronous erase says whether the key was there", "[async]") {
  Client client = ConnectTo(Cluster());
  const auto set = Open<HashSet<std::string>>(client, "async.set");
  const auto ordered = Open<OrderedSet<int>>(client, "async.ordered");
  REQUIRE(set.Insert("a").value_or(false));
  REQUIRE(ordered.Insert(7).value_or(false));
  CHECK(set.EraseAsync("a").Wait().value_or(false));
  CHECK_FALSE(set.EraseAsync("a").Wait().value_or(true));
  CHECK(ordered.EraseAsync(7).Wait().value_or(false));
  CHECK_FALSE(ordered.EraseAsync(7).Wait().value_or(true));
  CHECK(set.Length().value_or(9) == 0);
}

TEST_CASE("An asynchronous ack says what became of the lease", "[async]") {
  Client client = ConnectTo(Cluster());
  const auto queue = Open<BytesQueue>(client, "async.queue");
  RequireOk(queue.Push("item").status());
  const auto item = queue.Pop({.lease = 1h});
  RequireOk(item.status());
  ItemLease another = item->lease();
  ++another.deliveries;
  CHECK(queue.AckAsync(another).Wait().code() == StatusCode::kFailedPrecondition);
  RequireOk(queue.AckAsync(item->lease()).Wait());
  CHECK(queue.AckAsync(item->lease()).Wait().code() == StatusCode::kNotFound);
}

}  // namespace
}  // namespace tidepool::testing
