// Chains against a real daemon.
#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/sdk_fixture.h"

namespace tidepool::testing {
namespace {

ChainResult Done(Result<ChainResult> result) {
  RequireOk(result.status());
  return *std::move(result);
}

TEST_CASE("A chain hands values on", "[chain]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "chain.values");
  REQUIRE(map.Put("{a}old", "treasure").ok());
  Chain chain;
  const ChainStep taken = chain.Take("{a}old");
  const ChainStep put = chain.Put("{a}new", taken);
  const ChainStep more = chain.Append("{a}new", " chest");
  const ChainStep read = chain.Get("{a}new");
  const ChainResult result = Done(map.Execute(chain));
  CHECK(result.status().ok());
  CHECK(result[taken].value.bytes == "treasure");
  CHECK(result[put].version != 0);
  CHECK(result[more].status.ok());
  CHECK(result[read].value.bytes == "treasure chest");
  CHECK(map.Get("{a}old").code() == StatusCode::kNotFound);
}

TEST_CASE("A chain hands numbers on", "[chain]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "chain.numbers");
  REQUIRE(map.FetchAdd("{n}a", 40).ok());
  Chain chain;
  const ChainStep all = chain.Take("{n}a");
  const ChainStep added = chain.FetchAdd("{n}b", all);
  const ChainStep before = chain.FetchAdd("{n}b", 2);
  chain.FetchMax("{n}top", before);  // The value of b.
  const ChainResult result = Done(map.Execute(chain));
  REQUIRE(result.status().ok());
  CHECK(result[added].number == 0);
  CHECK(result[before].number == 40);
  CHECK(map.Get("{n}b")->AsI64() == 42);
  CHECK(map.Get("{n}top")->AsI64() == 40);
}

TEST_CASE("A chain combines bits", "[chain]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "chain.bits");
  REQUIRE(map.FetchAdd("{b}flags", 0b1100).ok());
  Chain chain;
  const ChainStep before = chain.FetchOr("{b}flags", 0b0011);
  const ChainStep ored = chain.FetchAnd("{b}flags", 0b0110);
  const ChainStep anded = chain.FetchXor("{b}flags", 0b1111);
  const ChainStep xored = chain.FetchXor("{b}copy", before);  // Uses the first value.
  const ChainResult result = Done(map.Execute(chain));
  REQUIRE(result.status().ok());
  CHECK(result[before].number == 0b1100);
  CHECK(result[ored].number == 0b1111);
  CHECK(result[anded].number == 0b0110);
  CHECK(result[xored].number == 0);
  CHECK(map.Get("{b}flags")->AsI64() == 0b1001);
  CHECK(map.Get("{b}copy")->AsI64() == 0b1100);
}

TEST_CASE("A chain hands floating-point numbers on", "[chain]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "chain.f64");
  REQUIRE(map.FetchAddF64("{f}a", 2.5).ok());
  Chain chain;
  const ChainStep read = chain.Get("{f}a");
  const ChainStep sum = chain.FetchAddF64("{f}sum", read);
  const ChainStep before = chain.FetchAddF64("{f}a", 0.25);
  const ChainStep low = chain.FetchMinF64("{f}low", -7.5);
  const ChainStep high = chain.FetchMaxF64("{f}high", before);  // The value of a.
  const ChainResult result = Done(map.Execute(chain));
  REQUIRE(result.status().ok());
  CHECK(result[sum].number_f64 == 0);
  CHECK(result[before].number_f64 == 2.5);
  CHECK(result[low].number_f64 == 0);
  CHECK(result[high].number_f64 == 0);
  CHECK(map.Get("{f}sum")->AsF64() == 2.5);
  CHECK(map.Get("{f}a")->AsF64() == 2.75);
  CHECK(map.Get("{f}low")->AsF64() == -7.5);
  CHECK(map.Get("{f}high")->AsF64() == 2.5);
}

// The bits of a double are a number too, and a wrong number.
TEST_CASE("A chain takes no number of the other type", "[chain]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "chain.types");
  const auto ends_at_1 = [&](const Chain& chain) {
    const ChainResult result = Done(map.Execute(chain));
    CHECK(result.status().code() == StatusCode::kInvalidArgument);
    CHECK(result[0].status.ok());
    CHECK(result[1].status.code() == StatusCode::kInvalidArgument);
  };
  Chain of_f64;
  of_f64.FetchAdd("{t}i", of_f64.FetchAddF64("{t}f", 1.5));
  ends_at_1(of_f64);
  Chain of_i64;
  of_i64.FetchAddF64("{t}f", of_i64.FetchAdd("{t}i", 3));
  ends_at_1(of_i64);
  CHECK(map.Get("{t}f")->AsF64() == 1.5);
  CHECK(map.Get("{t}i")->AsI64() == 3);
}

TEST_CASE("A chain asks how long a record lives", "[chain]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "chain.ttl");
  REQUIRE(map.Put("{l}mortal", "v", {.ttl = std::chrono::hours(1)}).ok());
  REQUIRE(map.Put("{l}immortal", "v").ok());
  Chain chain;
  const ChainStep left = chain.Ttl("{l}mortal");
  const ChainStep all = chain.Ttl("{l}immortal");
  chain.Expire("{l}mortal", kForEver);
  const ChainStep then = chain.Ttl("{l}mortal");
  const ChainStep none = chain.Ttl("{l}absent").MayFail();
  const ChainResult result = Done(map.Execute(chain));
  REQUIRE(result.status().ok());
  CHECK(result[left].ttl > std::chrono::minutes(50));
  CHECK(result[left].ttl <= std::chrono::hours(1));
  CHECK(result[all].ttl == kForEver);
  CHECK(result[then].ttl == kForEver);
  CHECK(result[none].status.code() == StatusCode::kNotFound);
}

// Values of reads in the same frame once took the room for results of steps, and the taken value
// was lost.
TEST_CASE("A chain behind large reads hands its values on", "[chain]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "chain.room", {.partitions = 1});
  const std::string large(30'000, 'L');
  const std::string treasure(2'000, 't');
  REQUIRE(map.Put("x", large).ok());
  REQUIRE(map.Put("y", large).ok());
  REQUIRE(map.Put("{c}old", treasure).ok());
  REQUIRE(map.Put("{c}swapped", treasure).ok());
  Chain chain;
  const ChainStep taken = chain.Take("{c}old");
  chain.Put("{c}new", taken);
  // The first handles do not know how long the values are, and set aside little for them.
  Client other = ConnectTo(Cluster());
  const BytesMap fresh = Open<BytesMap>(other, "chain.room");
  std::vector<Future<Value>> reads;
  for (const char* key : {"x", "y", "x"}) reads.push_back(fresh.GetAsync(key));
  Future<ChainResult> run = fresh.ExecuteAsync(chain);
  Future<Value> swapped = fresh.ApplyAsync("{c}swapped", "exchange", "new");
  for (Future<Value>& read : reads) CHECK(read.Wait().value().bytes == large);
  CHECK(Done(run.Wait()).status().ok());
  CHECK(map.Get("{c}new").value().bytes == treasure);
  CHECK(swapped.Wait().value().bytes == treasure);
}

TEST_CASE("A chain does not overtake a large put on one of its keys", "[chain]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "chain.order", {.partitions = 1});
  const std::string large(4 << 20, 'L');
  for (int round = 0; round < 10; ++round) {
    Future<Version> put = map.PutAsync("{a}y", large);
    Chain chain;
    chain.Put("{a}x", "new");
    chain.Put("{a}y", "new");
    CHECK(Done(map.Execute(chain)).status().ok());
    CHECK(put.Wait().ok());
    CHECK(map.Get("{a}y")->bytes == "new");
  }
}

TEST_CASE("Conditions leave steps out", "[chain]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "chain.conditions");
  Chain chain;
  const ChainStep read = chain.Get("{c}k");
  const ChainStep made = chain.Put("{c}k", "first").If(read.NotFound());
  const ChainStep seen = chain.FetchAdd("{c}seen", 1).If(read.Ok());
  const ChainStep was = chain.Delete("{c}k").If(read.Equals("first"));
  ChainResult result = Done(map.Execute(chain));
  CHECK(result.status().ok());
  CHECK(result[read].status.code() == StatusCode::kNotFound);
  CHECK(result[made].status.ok());
  CHECK(result[seen].status.code() == StatusCode::kCancelled);
  CHECK(result[was].status.code() == StatusCode::kCancelled);
  result = Done(map.Execute(chain));
  CHECK(result[read].value.bytes == "first");
  CHECK(result[made].status.code() == StatusCode::kCancelled);
  CHECK(result[seen].status.ok());
  CHECK(result[was].status.ok());
  CHECK(map.Get("{c}k").code() == StatusCode::kNotFound);
}

TEST_CASE("A chain ends at its first failure, and says which", "[chain]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "chain.failures");
  REQUIRE(map.Put("{f}text", "no number").ok());
  Chain chain;
  const ChainStep first = chain.Put("{f}a", "1");
  const ChainStep may = chain.Delete("{f}none").MayFail();
  const ChainStep fails = chain.FetchAdd("{f}text", 1);
  const ChainStep never = chain.Put("{f}b", "2");
  const ChainResult result = Done(map.Execute(chain));
  CHECK(result.status().code() == StatusCode::kInvalidArgument);
  CHECK(result.status().ToString().find("step 2") != std::string::npos);
  CHECK(result[first].status.ok());
  CHECK(result[may].status.code() == StatusCode::kNotFound);
  CHECK(result[fails].status.code() == StatusCode::kInvalidArgument);
  CHECK(result[never].status.code() == StatusCode::kCancelled);
  CHECK(map.Get("{f}a").ok());
  CHECK(map.Get("{f}b").code() == StatusCode::kNotFound);
}

TEST_CASE("A required condition that does not hold ends the chain", "[chain]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "chain.required");
  REQUIRE(map.Put("{r}state", "open").ok());
  Chain chain;
  const ChainStep state = chain.Get("{r}state");
  chain.Put("{r}state", "closed").Require(state.Equals("open"));
  chain.FetchAdd("{r}closings", 1);
  CHECK(Done(map.Execute(chain)).status().ok());
  const ChainResult again = Done(map.Execute(chain));
  CHECK(again.status().code() == StatusCode::kFailedPrecondition);
  CHECK(again.status().ToString().find("step 1") != std::string::npos);
  CHECK(map.Get("{r}closings")->AsI64() == 1);
}

TEST_CASE("Nobody sees half a chain", "[chain]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "chain.atomic");
  REQUIRE(map.FetchAdd("{t}from", 10'000).ok());
  REQUIRE(map.FetchAdd("{t}to", 0).ok());
  std::atomic<bool> over{false};
  std::atomic<int> torn{0}, looks{0};
  std::thread reader([&] {
    Client other = ConnectTo(Cluster());
    const BytesMap theirs = Open<BytesMap>(other, "chain.atomic");
    Chain both;
    const ChainStep from = both.Get("{t}from");
    const ChainStep to = both.Get("{t}to");
    while (!over) {
      const auto result = theirs.Execute(both);
      if (!result.ok()) continue;
      ++looks;
      if ((*result)[from].value.AsI64() + (*result)[to].value.AsI64() != 10'000) ++torn;
    }
  });
  Chain move;
  move.FetchAdd("{t}from", -1);
  move.FetchAdd("{t}to", 1);
  CHECK(WaitUntil([&] { return looks > 0; }));  // It has connected.
  for (int i = 0; i < 500; ++i) CHECK(Done(map.Execute(move)).status().ok());
  over = true;
  reader.join();
  CHECK(looks > 0);
  CHECK(torn == 0);
  CHECK(map.Get("{t}to")->AsI64() == 500);
}

TEST_CASE("Values without room in the answer are named by their size", "[chain]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "chain.large");
  REQUIRE(map.Put("{l}a", std::string(20'000, 'a')).ok());
  REQUIRE(map.Put("{l}b", std::string(20'000, 'b')).ok());
  REQUIRE(map.Put("{l}huge", std::string(2'000'000, 'h')).ok());
  Chain chain;
  const ChainStep a = chain.Get("{l}a");
  const ChainStep b = chain.Get("{l}b");
  const ChainStep huge = chain.Get("{l}huge");
  const ChainStep copy = chain.Put("{l}copy", huge);
  const ChainResult result = Done(map.Execute(chain));
  CHECK(result[a].value.bytes == std::string(20'000, 'a'));
  CHECK(result[b].omitted);
  CHECK(result[b].value_bytes == 20'000);
  CHECK(result[huge].value_bytes == 2'000'000);
  CHECK(result[copy].status.code() == StatusCode::kOutOfRange);
}

TEST_CASE("A chain takes no value that it cannot return", "[chain]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "chain.take");
  const std::string a(20'000, 'a');
  const std::string b(20'000, 'b');
  const std::string huge(2'000'000, 'h');
  REQUIRE(map.Put("{t}a", a).ok());
  REQUIRE(map.Put("{t}b", b).ok());
  REQUIRE(map.Put("{t}huge", huge).ok());
  for (const auto& [key, value] : {std::pair("{t}b", b), {"{t}huge", huge}}) {
    Chain chain;
    chain.Get("{t}a");
    const ChainStep take = chain.Take(key);
    const ChainStep behind = chain.Put("{t}behind", "x");
    const ChainResult result = Done(map.Execute(chain));
    CHECK(result.status().code() == StatusCode::kOutOfRange);
    CHECK(result[take].status.code() == StatusCode::kOutOfRange);
    CHECK(result[behind].status.code() == StatusCode::kCancelled);
    CHECK(map.Get(key)->bytes == value);
  }
  Chain chain;
  const ChainStep take = chain.Take("{t}b");
  CHECK(Done(map.Execute(chain))[take].value.bytes == b);
}

TEST_CASE("What is no chain is refused before it is sent", "[chain]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "chain.refused", {.partitions = 64});
  CHECK(map.Execute(Chain()).code() == StatusCode::kInvalidArgument);
  Chain apart;
  for (int i = 0; i < 8; ++i) apart.Get("key" + std::to_string(i));
  const auto refused = map.Execute(apart);
  CHECK(refused.code() == StatusCode::kInvalidArgument);
  CHECK(refused.status().ToString().find("{tag}") != std::string::npos);
  Chain too_many;
  for (int i = 0; i < 65; ++i) too_many.Get("{t}k");
  CHECK(map.Execute(too_many).code() == StatusCode::kInvalidArgument);
  Chain too_long;
  too_long.Put("{t}k", std::string(40'000, 'x'));
  CHECK(map.Execute(too_long).code() == StatusCode::kInvalidArgument);
}

TEST_CASE("Conditions on steps that are too many end no program", "[chain]") {
  Client client = ConnectTo(Cluster());
  const BytesMap map = Open<BytesMap>(client, "chain.too-many");
  Chain chain;
  std::vector<ChainStep> steps;
  for (std::size_t i = 0; i < Chain::kStepsMax + 6; ++i) {
    steps.push_back(chain.Get("{t}k"));
    if (i > 0) steps[i].If(steps[i - 1].Ok()).MayFail();
  }
  CHECK(map.Execute(chain).code() == StatusCode::kInvalidArgument);
}

TEST_CASE("Chains work on ordered maps and asynchronously", "[chain]") {
  Client client = ConnectTo(Cluster());
  const auto map = Open<BytesOrderedMap>(client, "chain.ordered");
  Chain chain;
  const ChainStep count = chain.FetchAdd("{o}n", 5);
  chain.FetchMin("{o}low", count);
  std::vector<Future<ChainResult>> runs;
  for (int i = 0; i < 20; ++i) runs.push_back(map.ExecuteAsync(chain));
  for (auto& run : runs) CHECK(Done(run.Wait()).status().ok());
  CHECK(map.Get("{o}n")->AsI64() == 100);
  CHECK(map.Get("{o}low")->AsI64() == 0);
}

}  // namespace
}  // namespace tidepool::testing
