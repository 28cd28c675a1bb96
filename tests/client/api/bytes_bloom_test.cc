// Filters through the SDK, against real daemons.
#include "tidepool/bytes_bloom.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <csignal>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tests/client/sdk_fixture.h"
#include "tests/support/random.h"

namespace tidepool::testing {
namespace {

NamespaceOptions For(std::uint64_t items, double rate = 1e-6) {
  NamespaceOptions options;
  options.expected_items = items;
  options.false_positive_rate = rate;
  return options;
}

struct Values {
  explicit Values(int count, const std::string& prefix = "v") {
    for (int i = 0; i < count; ++i) texts.push_back(prefix + std::to_string(i));
    views.assign(texts.begin(), texts.end());
  }
  std::vector<std::string> texts;
  std::vector<std::string_view> views;
};

TEST_CASE("EveryFormOfInsertAndContainsAgrees", "[kinds]") {
  TestCluster cluster({.nodes = 2});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  const auto filter = client.Create<BytesBloom>("seen", For(100'000));
  INFO(filter.status().ToString());
  REQUIRE(filter.ok());
  CHECK(filter->Contains("a").value() == false);
  CHECK(filter->Insert("a").value() == true);
  CHECK(filter->Insert("a").value() == false);
  CHECK(filter->Contains("a").value() == true);
  CHECK(filter->InsertAsync("b").Wait().value() == true);
  CHECK(filter->InsertAsync("b").Wait().value() == false);
  CHECK(filter->ContainsAsync("b").Wait().value() == true);
  CHECK(filter->ContainsAsync("c").Wait().value() == false);
  CHECK(filter->Insert("").value() == true);
  CHECK(filter->Insert(std::string_view("\0x", 2)).value() == true);

  const Values values(1000);
  const BloomBatch first = filter->MultiInsert(values.views);
  REQUIRE(first.FirstFailure().ok());
  CHECK(first.size() == 1000);
  CHECK(first.count() == 1000);
  const auto again = filter->MultiInsertAsync(values.views).Wait();
  REQUIRE(again.ok());
  CHECK(again->count() == 0);
  CHECK(again->FirstFailure().ok());
  CHECK(filter->MultiContains(values.views).count() == 1000);
  const Values others(1000, "other");
  CHECK(filter->MultiContainsAsync(others.views).Wait().value().count() == 0);
  // A value twice in a batch is new at most once.
  const std::vector<std::string_view> twice = {"t", "t"};
  CHECK(filter->MultiInsert(twice).count() == 1);
  CHECK(filter->MultiInsert({}).size() == 0);
}

TEST_CASE("AValueThatIsTooLongIsRefusedAlone", "[kinds]") {
  TestCluster cluster;
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  const auto filter = client.Create<BytesBloom>("seen", For(1000));
  REQUIRE(filter.ok());
  const std::string longest(16'384, 'x');
  const std::string too_long(16'385, 'x');
  CHECK(filter->Insert(longest).value());
  CHECK(filter->Insert(too_long).code() == StatusCode::kInvalidArgument);
  const std::vector<std::string_view> batch = {"a", too_long, "b"};
  const BloomBatch told = filter->MultiInsert(batch);
  CHECK(told[0]);
  CHECK_FALSE(told[1]);
  CHECK(told.status(1) == StatusCode::kInvalidArgument);
  CHECK(told[2]);
  CHECK(told.FirstFailure().what().find("value 1 of 3") != std::string_view::npos);
}

TEST_CASE("AFilterIsNotOpenedAsAMapNorAMapAsAFilter", "[kinds]") {
  TestCluster cluster;
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  REQUIRE(client.Create<BytesBloom>("seen", For(1000)).ok());
  CHECK(client.Open<BytesMap>("seen").code() == StatusCode::kFailedPrecondition);
  CHECK(client.Open<BytesBloom>("default").code() == StatusCode::kFailedPrecondition);
  CHECK(client.Create<BytesBloom>("unsized").code() == StatusCode::kInvalidArgument);
  CHECK(client.OpenOrCreate<BytesBloom>("seen", For(1000)).ok());
  CHECK(client.OpenOrCreate<BytesBloom>("seen", For(2000)).code() == StatusCode::kAlreadyExists);
  CHECK(client.Open<BytesBloom>("seen").ok());
}

TEST_CASE("AFilterThatDoesNotFitIsNotMade", "[kinds]") {
  TestCluster cluster({.nodes = 2});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  const auto large = client.Create<BytesBloom>("large", For(100'000'000));
  REQUIRE(large.code() == StatusCode::kResourceExhausted);
  CHECK(large.status().what().find("MiB on") != std::string_view::npos);
  CHECK(client.Open<BytesBloom>("large").code() == StatusCode::kNotFound);
}

TEST_CASE("EstimateKnowsHowMuchTheFilterHolds", "[kinds]") {
  TestCluster cluster({.nodes = 2});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  const auto filter = client.Create<BytesBloom>("seen", For(20'000, 0.01));
  REQUIRE(filter.ok());
  const auto empty = filter->Estimate();
  REQUIRE(empty.ok());
  CHECK(empty->items == 0);
  CHECK(empty->false_positive_rate == 0);
  const Values values(20'000);
  CHECK(filter->MultiInsert(values.views).FirstFailure().ok());
  const BloomEstimate full = filter->EstimateAsync().Wait().value();
  CHECK(full.items == Approx(20'000).epsilon(0.02));
  CHECK(full.false_positive_rate <= 0.011);
  // Its claim about its errors is true.
  const Values others(20'000, "other");
  const double errors = static_cast<double>(filter->MultiContains(others.views).count()) / 20'000;
  CHECK(std::abs(errors - full.false_positive_rate) < 0.004);
}

TEST_CASE("ADownloadAnswersAsTheDaemonsDo", "[kinds]") {
  TestCluster cluster({.nodes = 2, .memory = "128MiB"});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  // Several blocks per partition, mostly without any insert.
  const auto filter = client.Create<BytesBloom>("seen", For(2'000'000, 0.01));
  REQUIRE(filter.ok());
  const auto empty = filter->Download();
  INFO(empty.status().ToString());
  REQUIRE(empty.ok());
  CHECK_FALSE(empty->Contains("v0"));
  const Values values(3'000);
  CHECK(filter->MultiInsert(values.views).FirstFailure().ok());
  const auto copy = filter->Download();
  REQUIRE(copy.ok());
  CHECK(copy->bytes() == filter->Estimate().value().bytes);
  for (const std::string& value : values.texts) REQUIRE(copy->Contains(value));
  const Values others(3'000, "other");
  const BloomBatch there = filter->MultiContains(others.views);
  for (std::size_t i = 0; i < others.texts.size(); ++i) {
    REQUIRE(copy->Contains(others.texts[i]) == there[i]);
  }
  // State at the time of the download.
  REQUIRE(filter->Insert("later").value());
  CHECK_FALSE(copy->Contains("later"));
}

TEST_CASE("UnionKnowsWhatBothKnew", "[kinds]") {
  TestCluster cluster({.nodes = 2});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  const auto first = client.Create<BytesBloom>("first", For(50'000));
  const auto second = client.Create<BytesBloom>("second", For(50'000));
  const auto other = client.Create<BytesBloom>("other", For(500'000));
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  REQUIRE(other.ok());
  const Values mine(2'000, "mine");
  const Values theirs(2'000, "theirs");
  CHECK(first->MultiInsert(mine.views).count() == 2'000);
  CHECK(second->MultiInsert(theirs.views).count() == 2'000);
  for (int repeat = 0; repeat < 2; ++repeat) {
    const Status united = first->Union(*second);
    INFO(united.ToString());
    REQUIRE(united.ok());
    CHECK(first->MultiContains(mine.views).count() == 2'000);
    CHECK(first->MultiContains(theirs.views).count() == 2'000);
    CHECK(first->Estimate().value().items == Approx(4'000).epsilon(0.02));
  }
  CHECK(second->MultiContains(mine.views).count() == 0);
  // A value known by a union is not new.
  CHECK(first->MultiInsert(theirs.views).count() == 0);
  const Status refused = first->Union(*other);
  CHECK(refused == StatusCode::kFailedPrecondition);
  CHECK(refused.what().find("shape") != std::string_view::npos);
  Client another = ConnectTo(cluster);
  CHECK(first->Union(*another.Open<BytesBloom>("second")) == StatusCode::kInvalidArgument);
}

TEST_CASE("ADroppedFilterAnswersNeitherYesNorNo", "[kinds]") {
  TestCluster cluster;
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  const auto filter = client.Create<BytesBloom>("seen", For(1000));
  REQUIRE(filter.ok());
  REQUIRE(filter->Insert("a").value());
  REQUIRE(client.Drop("seen").ok());
  CHECK(filter->Contains("a").code() == StatusCode::kNotFound);
  CHECK(filter->Insert("a").code() == StatusCode::kNotFound);
  const std::vector<std::string_view> batch = {"a"};
  CHECK(filter->MultiContains(batch).FirstFailure() == StatusCode::kNotFound);
  CHECK(filter->Estimate().code() == StatusCode::kNotFound);
  // A filter that is made again is empty.
  const auto again = client.Create<BytesBloom>("seen", For(1000));
  REQUIRE(again.ok());
  CHECK(again->Insert("a").value());
}

TEST_CASE("ATypedFilterIsOneOfItsEncodings", "[kinds]") {
  TestCluster cluster;
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  const auto filter = client.Create<BloomFilter<std::uint64_t>>("numbers", For(1000));
  INFO(filter.status().ToString());
  REQUIRE(filter.ok());
  CHECK(filter->Insert(7).value());
  CHECK_FALSE(filter->InsertAsync(7).Wait().value());
  const std::vector<std::uint64_t> numbers = {7, 8, 9};
  CHECK(filter->MultiInsert(numbers).count() == 2);
  CHECK(filter->MultiContainsAsync(numbers).Wait().value().count() == 3);
  CHECK_FALSE(filter->Contains(10).value());
  const auto copy = filter->Download();
  REQUIRE(copy.ok());
  CHECK(copy->Contains(9));
  CHECK_FALSE(copy->Contains(10));
  const std::uint64_t seven = 7;
  const std::string_view encoded(reinterpret_cast<const char*>(&seven), sizeof seven);
  CHECK(filter->bytes().Contains(encoded).value());
  CHECK(client.Open<BloomFilter<std::string>>("numbers").code() == StatusCode::kFailedPrecondition);
  CHECK(client.Open<BytesBloom>("numbers").ok());
}

// Counts for each of `count` values how often these clients got "new".
std::vector<int> Told(const std::vector<std::unique_ptr<Process>>& clients, std::size_t count) {
  std::vector<int> told(count);
  for (const auto& client : clients) {
    std::istringstream lines(client->Output());
    for (std::size_t value = 0; lines >> value;) ++told.at(value);
  }
  return told;
}

constexpr std::size_t kValues = 20'000;

struct Inserters {
  explicit Inserters(TestCluster& at) : cluster(at) {}
  Process& Start() {
    const std::string number = std::to_string(processes.size());
    processes.push_back(std::make_unique<Process>(
        std::vector<std::string>{ProgramPath("bloom_client"), cluster.file(), "seen",
                                 std::to_string(kValues), number},
        std::vector<std::string>{}, cluster.folder() + "/inserter-" + number));
    return *processes.back();
  }
  TestCluster& cluster;
  std::vector<std::unique_ptr<Process>> processes;
};

TEST_CASE("OfAllWhoInsertAValueExactlyOneIsToldThatItIsNew", "[kinds]") {
  TestCluster cluster({.nodes = 2});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  REQUIRE(client.Create<BytesBloom>("seen", For(kValues)).ok());
  Inserters inserters(cluster);
  for (int i = 0; i < 5; ++i) inserters.Start();
  for (const auto& process : inserters.processes) {
    const int code = process->Wait();
    INFO(process->Errors());
    REQUIRE(code == 0);
  }
  const std::vector<int> told = Told(inserters.processes, kValues);
  const auto exactly = static_cast<std::size_t>(std::count(told.begin(), told.end(), 1));
  CHECK(std::count_if(told.begin(), told.end(), [](int times) { return times > 1; }) == 0);
  // A value in a million may seem known by error: three of 20,000 never do.
  CHECK(exactly >= kValues - 2);
}

TEST_CASE("KilledInsertersLeaveNoValueThatIsNewTwice", "[kinds][fault]") {
  test::Random random("KilledInsertersLeaveNoValueThatIsNewTwice");
  TestCluster cluster({.nodes = 2});
  cluster.WaitReady();
  Client client = ConnectTo(cluster);
  const auto filter = client.Create<BytesBloom>("seen", For(kValues));
  REQUIRE(filter.ok());
  Inserters inserters(cluster);
  constexpr std::size_t kKilled = 12;
  for (std::size_t i = 0; i < kKilled; ++i) {
    Process& killed = inserters.Start();
    // During traffic: after some answers, or after its end.
    const std::size_t enough = 1 + random.Below(2'000);
    REQUIRE(WaitUntil([&] { return killed.Output().size() >= enough || !killed.running(); }));
    killed.Signal(SIGKILL);
    killed.Wait();
  }
  for (int i = 0; i < 2; ++i) inserters.Start();
  for (std::size_t i = kKilled; i < inserters.processes.size(); ++i) {
    const int code = inserters.processes[i]->Wait();
    INFO(inserters.processes[i]->Errors());
    REQUIRE(code == 0);
  }
  const std::vector<int> told = Told(inserters.processes, kValues);
  CHECK(std::count_if(told.begin(), told.end(), [](int times) { return times > 1; }) == 0);
  // A killed client could lose the lines of a batch of 16.
  const auto never = static_cast<std::size_t>(std::count(told.begin(), told.end(), 0));
  CHECK(never <= kKilled * 16 + 2);
  const Values values(static_cast<int>(kValues));
  CHECK(filter->MultiContains(values.views).count() == kValues);
}

}  // namespace
}  // namespace tidepool::testing
