// The checker accepts histories of atomic objects and finds each broken promise. On small histories
// it agrees with a check of every order.
#include "tests/history/checker.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/history/minimise.h"
#include "tests/history/simulated_object.h"
#include "tests/support/random.h"

namespace tidepool::history {
namespace {

const MapModel kMap;
const QueueModel kQueue;
const QueueModel kPriority(true);

Operation Op(std::uint64_t begin, std::uint64_t end, Call call, std::int64_t a = 0,
             std::int64_t b = 0) {
  Operation operation;
  operation.begin_ns = begin;
  operation.end_ns = end;
  operation.object = "k";
  operation.call = call;
  operation.a = a;
  operation.b = b;
  operation.outcome = end == kNever ? Outcome::kUnknown : Outcome::kOk;
  return operation;
}
Operation Ended(Operation operation, Outcome outcome) {
  operation.outcome = outcome;
  return operation;
}
Operation Returned(Operation operation, std::int64_t value, std::uint64_t version = 0) {
  operation.value = value;
  operation.version = version;
  return operation;
}
Operation Get(std::uint64_t begin, std::uint64_t end, std::int64_t value,
              std::uint64_t version = 0) {
  return Returned(Op(begin, end, Call::kGet), value, version);
}
Operation Delivery(std::uint64_t begin, std::uint64_t end, Call call, std::int64_t value,
                   std::uint64_t id, std::uint32_t deliveries, std::int64_t lease = 0) {
  Operation operation = Returned(Op(begin, end, call, lease), value, id);
  operation.deliveries = deliveries;
  return operation;
}
Operation Push(std::uint64_t begin, std::uint64_t end, std::int64_t value, std::uint64_t id,
               std::int64_t priority = 0) {
  return Returned(Op(begin, end, Call::kPush, value, priority), 0, end == kNever ? 0 : id);
}

bool Passes(const Model& model, const History& history) {
  const CheckResult result = Check(model, history);
  INFO(ToText(history) << Explain(model, history, result));
  REQUIRE(result.verdict != Verdict::kUndecided);
  return result.verdict == Verdict::kLinearizable;
}

// Tries each order of each choice of unknown operations, without any cleverness.
bool PassesByBruteForce(const Model& model, const History& history) {
  std::vector<std::size_t> unknown;
  std::vector<std::size_t> known;
  for (std::size_t i = 0; i < history.size(); ++i) {
    (history[i].end_ns == kNever ? unknown : known).push_back(i);
  }
  const auto fits = [&](const std::vector<std::size_t>& order) {
    std::vector<State> states = {model.Initial()};
    for (std::size_t i = 0; i < order.size(); ++i) {
      for (std::size_t j = i + 1; j < order.size(); ++j) {
        if (history[order[j]].end_ns < history[order[i]].begin_ns) return false;
      }
      std::vector<State> next;
      for (const State& state : states) model.Step(state, history[order[i]], &next);
      states = std::move(next);
    }
    return !states.empty();
  };
  for (std::size_t choice = 0; choice < std::size_t{1} << unknown.size(); ++choice) {
    std::vector<std::size_t> order = known;
    for (std::size_t i = 0; i < unknown.size(); ++i) {
      if ((choice >> i) % 2 == 1) order.push_back(unknown[i]);
    }
    std::sort(order.begin(), order.end());
    do {
      if (fits(order)) return true;
    } while (std::next_permutation(order.begin(), order.end()));
  }
  return false;
}

const Model& ModelOf(const SimulationOptions& options) {
  return options.queue ? static_cast<const Model&>(kQueue) : kMap;
}

TEST_CASE("A history without operations is linearizable") { CHECK(Passes(kMap, {})); }

TEST_CASE("A read that returns an overwritten value is found") {
  const History begin = {Op(0, 10, Call::kPut, 1), Op(20, 30, Call::kPut, 2)};
  History stale = begin;
  stale.push_back(Get(40, 50, 1));
  CHECK_FALSE(Passes(kMap, stale));
  // Beside the second put it is right.
  History beside = begin;
  beside.push_back(Get(25, 50, 1));
  CHECK(Passes(kMap, beside));
  // Once a client has read the new value, no client may read the old value.
  beside.push_back(Get(26, 27, 2));
  CHECK(Passes(kMap, beside));
  CHECK_FALSE(Passes(
      kMap, {Op(0, 10, Call::kPut, 1), Op(20, 50, Call::kPut, 2), Get(25, 30, 2), Get(35, 40, 1)}));
}

TEST_CASE("A lost update is found") {
  CHECK_FALSE(
      Passes(kMap, {Op(0, 10, Call::kPut, 1), Ended(Op(20, 30, Call::kGet), Outcome::kNotFound)}));
  CHECK_FALSE(Passes(kMap, {Returned(Op(0, 10, Call::kFetchAdd, 1), 0),
                            Returned(Op(5, 12, Call::kFetchAdd, 1), 0)}));
}

TEST_CASE("A doubled add is found") {
  CHECK(Passes(kMap, {Op(0, kNever, Call::kFetchAdd, 1), Get(20, 30, 1)}));
  CHECK(Passes(kMap, {Op(0, kNever, Call::kFetchAdd, 1),
                      Ended(Op(20, 30, Call::kGet), Outcome::kNotFound)}));
  CHECK_FALSE(Passes(kMap, {Op(0, kNever, Call::kFetchAdd, 1), Get(20, 30, 2)}));
}

TEST_CASE("An unknown change may take effect late, but not twice and not before its call") {
  const Operation unknown = Op(20, kNever, Call::kPut, 2);
  CHECK(Passes(kMap, {Op(0, 10, Call::kPut, 1), unknown, Get(30, 40, 1), Get(50, 60, 2)}));
  CHECK_FALSE(Passes(kMap, {Op(0, 10, Call::kPut, 1), unknown, Get(30, 40, 2), Get(50, 60, 1)}));
  CHECK_FALSE(Passes(kMap, {Get(5, 10, 2), unknown}));
  CHECK_FALSE(Passes(
      kMap, {unknown, Get(30, 40, 2), Op(50, 60, Call::kPut, 3), Get(70, 80, 3), Get(90, 95, 2)}));
}

TEST_CASE("Conditions of puts, compare-and-swap and take are checked") {
  const Operation put = Returned(Op(0, 10, Call::kPut, 1), 0, 5);
  CHECK(Passes(kMap, {put, Ended(Op(20, 30, Call::kPutIfAbsent, 2), Outcome::kExists)}));
  CHECK_FALSE(Passes(kMap, {put, Op(20, 30, Call::kPutIfAbsent, 2)}));
  CHECK_FALSE(Passes(kMap, {Op(20, 30, Call::kPutIfPresent, 2)}));
  CHECK(Passes(kMap, {put, Returned(Op(20, 30, Call::kPutIfVersion, 2, 5), 0, 6)}));
  CHECK_FALSE(Passes(kMap, {put, Returned(Op(20, 30, Call::kPutIfVersion, 2, 4), 0, 6)}));
  CHECK_FALSE(Passes(kMap, {put, Ended(Op(20, 30, Call::kPutIfVersion, 2, 5), Outcome::kRefused)}));
  CHECK(Passes(kMap, {put, Op(20, 30, Call::kCompareAndSwap, 1, 2), Get(40, 50, 2)}));
  CHECK_FALSE(Passes(kMap, {put, Op(20, 30, Call::kCompareAndSwap, 1, 2),
                            Op(25, 35, Call::kCompareAndSwap, 1, 3)}));
  CHECK_FALSE(Passes(
      kMap, {put, Returned(Op(20, 30, Call::kTake), 1), Returned(Op(22, 33, Call::kTake), 1)}));
}

TEST_CASE("Versions that fall, change without a change, or return are found") {
  CHECK_FALSE(Passes(
      kMap, {Returned(Op(0, 10, Call::kPut, 1), 0, 5), Returned(Op(20, 30, Call::kPut, 2), 0, 5)}));
  CHECK_FALSE(Passes(kMap, {Op(0, kNever, Call::kPut, 1), Get(10, 20, 1, 7), Get(30, 40, 1, 8)}));
  CHECK(Passes(kMap, {Returned(Op(0, 10, Call::kPut, 1), 0, 5),
                      Returned(Op(20, 30, Call::kFetchAdd, 1), 1), Get(40, 50, 2, 6)}));
  CHECK_FALSE(Passes(kMap, {Returned(Op(0, 10, Call::kPut, 1), 0, 5),
                            Returned(Op(20, 30, Call::kFetchAdd, 1), 1), Get(40, 50, 2, 5)}));
}

TEST_CASE("A scan that is not of one moment is found") {
  Operation first = Op(0, 10, Call::kPut, 1);
  Operation second = Op(20, 30, Call::kPut, 2);
  second.key = 1;
  Operation scan = Op(0, 40, Call::kScan, 2);
  scan.records = {{0, 1}};
  CHECK(Passes(kMap, {first, second, scan}));
  scan.records = {{1, 2}};
  CHECK_FALSE(Passes(kMap, {first, second, scan}));
  CHECK_FALSE(Passes(kMap, {first, second, Returned(Op(40, 50, Call::kCountRange, 2), 1)}));
  CHECK_FALSE(
      Passes(kMap, {first, second, Returned(Op(40, 50, Call::kEraseRange, 2), 2), Get(60, 70, 1)}));
}

TEST_CASE("An item that is delivered twice, lost or overtaken is found") {
  const Operation a = Push(0, 10, 1, 7);
  const Operation b = Push(20, 30, 2, 8);
  const auto pop = [](std::uint64_t begin, std::int64_t value, std::uint64_t id) {
    return Delivery(begin, begin + 5, Call::kPop, value, id, 0);
  };
  CHECK(Passes(kQueue, {a, b, pop(40, 1, 7), pop(50, 2, 8)}));
  CHECK_FALSE(Passes(kQueue, {a, b, pop(40, 1, 7), pop(50, 1, 7)}));
  CHECK_FALSE(Passes(kQueue, {a, b, pop(40, 2, 8)}));
  CHECK_FALSE(Passes(kQueue, {a, Ended(Op(40, 50, Call::kPop), Outcome::kNotFound)}));
  CHECK_FALSE(Passes(kQueue, {a, b, pop(40, 1, 7), Returned(Op(50, 60, Call::kLength), 0)}));
  CHECK_FALSE(Passes(kQueue, {Push(0, 10, 1, 7), Push(20, 30, 2, 7)}));
  // Unknown operations: the push may come late, the pop may have taken the item.
  CHECK(Passes(kQueue, {Op(0, kNever, Call::kPush, 1),
                        Ended(Op(10, 20, Call::kPop), Outcome::kNotFound), pop(40, 1, 7)}));
  CHECK(Passes(kQueue, {a, b, Op(35, kNever, Call::kPop), pop(40, 2, 8)}));
  CHECK_FALSE(Passes(kQueue, {a, b, Op(35, kNever, Call::kPop), pop(40, 2, 8), pop(50, 1, 7)}));
}

TEST_CASE("A leased item stays away from others until its lease can have ended") {
  const Operation push = Push(0, 10, 1, 7);
  const Operation lease = Delivery(20, 30, Call::kPopLease, 1, 7, 1, 100);
  CHECK_FALSE(Passes(kQueue, {push, lease, Delivery(40, 50, Call::kPopLease, 1, 7, 2, 100)}));
  const Operation again = Delivery(110, 120, Call::kPopLease, 1, 7, 2, 100);
  CHECK(Passes(kQueue, {push, lease, again}));
  CHECK_FALSE(Passes(kQueue, {push, lease, Delivery(110, 120, Call::kPopLease, 1, 7, 1, 100)}));
  CHECK(Passes(kQueue, {push, lease, Op(40, 50, Call::kAck, 7, 1),
                        Ended(Op(60, 70, Call::kAck, 7, 1), Outcome::kNotFound)}));
  CHECK_FALSE(Passes(kQueue, {push, lease, again, Op(130, 140, Call::kAck, 7, 1)}));
  CHECK_FALSE(
      Passes(kQueue, {push, lease, Ended(Op(40, 50, Call::kAck, 7, 1), Outcome::kRefused)}));
  CHECK(Passes(
      kQueue, {push, lease, Op(40, 50, Call::kNack, 7, 1), Delivery(60, 70, Call::kPop, 1, 7, 1)}));
}

TEST_CASE("A priority queue gives the least priority first") {
  const History pushes = {Push(0, 10, 1, 7, 5), Push(20, 30, 2, 8, 3), Push(40, 50, 3, 9, 5)};
  const auto popped = [&](std::initializer_list<std::int64_t> values) {
    History history = pushes;
    std::uint64_t now = 100;
    for (const std::int64_t value : values) {
      history.push_back(
          Delivery(now, now + 5, Call::kPop, value, static_cast<std::uint64_t>(6 + value), 0));
      now += 10;
    }
    return Passes(kPriority, history);
  };
  CHECK(popped({2, 1, 3}));
  CHECK_FALSE(popped({1, 2, 3}));
  CHECK_FALSE(popped({2, 3, 1}));
}

TEST_CASE("The checker agrees with a check of every order on small histories") {
  test::Random random("checker against every order");
  std::size_t failed = 0;
  constexpr int kHistories = 3'000;
  for (int i = 0; i < kHistories; ++i) {
    SimulationOptions options;
    options.queue = random.OneIn(2);
    options.keys = static_cast<std::uint32_t>(1 + random.Below(3));
    options.operations = 2 + random.Below(5);
    options.clients = static_cast<std::uint32_t>(2 + random.Below(3));
    options.one_in_unknown = 2 + random.Below(6);
    if (random.OneIn(2)) {
      options.fault = options.queue ? kQueueFaults[random.Below(std::size(kQueueFaults))]
                                    : kMapFaults[random.Below(std::size(kMapFaults))];
    }
    History history = SimulatedObject(random, options).Run();
    // Results that no implementation gives, too.
    if (options.fault == Fault::kNone && random.OneIn(2)) {
      Operation& changed = history[random.Below(history.size())];
      if (random.OneIn(2)) {
        changed.value += 1;
      } else {
        changed.end_ns = changed.end_ns == kNever ? kNever : changed.begin_ns;
      }
    }
    const Model& model = ModelOf(options);
    const bool passes = PassesByBruteForce(model, history);
    INFO("history " << i << "\n" << ToText(history));
    REQUIRE(Passes(model, history) == passes);
    failed += passes ? 0 : 1;
  }
  WARN(kHistories << " small histories, " << failed << " of them not linearizable");
  CHECK(failed > kHistories / 50);
}

TEST_CASE("Histories of atomic objects are linearizable, however many answers are lost") {
  test::Random random("histories of atomic objects");
  constexpr int kHistories = 200;
  std::uint64_t steps = 0;
  int undecided = 0;
  for (int i = 0; i < kHistories; ++i) {
    SimulationOptions options;
    options.queue = i % 2 == 0;
    options.keys = static_cast<std::uint32_t>(1 + random.Below(4));
    options.operations = 80;
    options.clients = 5;
    options.one_in_unknown = 10 + random.Below(100);
    const History history = SimulatedObject(random, options).Run();
    const CheckResult result = Check(ModelOf(options), history, {.steps_max = 100'000});
    INFO("history " << i << "\n" << ToText(history) << Explain(ModelOf(options), history, result));
    REQUIRE(result.verdict != Verdict::kViolation);
    undecided += result.verdict == Verdict::kUndecided ? 1 : 0;
    steps += result.steps;
  }
  WARN(kHistories << " histories of 80 operations, " << steps << " steps, " << undecided
                  << " undecided");
  CHECK(undecided < kHistories / 10);
}

TEST_CASE("A history of twenty thousand operations is checked in time") {
  test::Random random("a long history");
  SimulationOptions options;
  options.operations = 20'000;
  options.clients = 8;
  options.one_in_unknown = 1'000;
  const History history = SimulatedObject(random, options).Run();
  const CheckResult result = Check(kMap, history);
  WARN(result.steps << " steps");
  CHECK(result.verdict == Verdict::kLinearizable);
}

TEST_CASE("Each broken promise is found in random histories") {
  test::Random random("broken promises");
  const auto found = [&](Fault fault, bool queue) {
    int violations = 0;
    for (int i = 0; i < 60; ++i) {
      SimulationOptions options;
      options.queue = queue;
      options.keys = fault == Fault::kTornScan ? 3 : 1;
      options.operations = 60;
      options.one_in_unknown = 30;
      options.fault = fault;
      const History history = SimulatedObject(random, options).Run();
      violations += Check(ModelOf(options), history).verdict == Verdict::kViolation ? 1 : 0;
    }
    return violations;
  };
  for (const Fault fault : kMapFaults) {
    INFO("fault " << static_cast<int>(fault));
    CHECK(found(fault, false) > 8);
  }
  for (const Fault fault : kQueueFaults) {
    INFO("fault " << static_cast<int>(fault));
    CHECK(found(fault, true) > 8);
  }
}

TEST_CASE("A search that takes too long says so") {
  History history;
  for (int i = 0; i < 30; ++i)
    history.push_back(Op(0, kNever, Call::kFetchAdd, std::int64_t{1} << i));
  history.push_back(Get(100, 110, -1));
  CHECK(Check(kMap, history, {.steps_max = 10'000}).verdict == Verdict::kUndecided);
}

TEST_CASE("A failed history is shortened to its contradiction") {
  test::Random random("shortened histories");
  int shortened = 0;
  for (int i = 0; i < 10; ++i) {
    SimulationOptions options;
    options.operations = 30;
    options.one_in_unknown = 100;
    options.fault = Fault::kStaleRead;
    const History history = SimulatedObject(random, options).Run();
    if (Check(kMap, history).verdict != Verdict::kViolation) continue;
    const History proof = Minimise(kMap, history, false);
    const History core = Minimise(kMap, history, true);
    INFO(ToText(history) << "proof:\n" << ToText(proof) << "core:\n" << ToText(core));
    REQUIRE(Check(kMap, proof).verdict == Verdict::kViolation);
    REQUIRE(Check(kMap, core).verdict == Verdict::kViolation);
    REQUIRE(proof.size() <= history.size());
    REQUIRE(core.size() <= 15);
    ++shortened;
  }
  CHECK(shortened > 1);
}

TEST_CASE("A violation is kept in a file that can be checked again") {
  const History history = {Op(0, 10, Call::kPut, 1), Op(20, 30, Call::kPut, 2), Get(40, 50, 1)};
  const CheckResult result = Check(kMap, history);
  REQUIRE(result.verdict == Verdict::kViolation);
  const std::string path = SaveViolation("test", 42, kMap, history, result);
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  std::filesystem::remove(path);
  CHECK(text.str().find("TP_TEST_SEED=42") != std::string::npos);
  const auto read = FromText(text.str());
  REQUIRE(read.ok());
  CHECK(*read == history);
}

TEST_CASE("Texts give the history that they were made of, or an error with a line") {
  test::Random random("texts of histories");
  SimulationOptions options;
  options.keys = 3;
  options.operations = 100;
  const History history = SimulatedObject(random, options).Run();
  const auto read = FromText("# comment\n\n" + ToText(history));
  REQUIRE(read.ok());
  CHECK(*read == history);
  for (const char* text :
       {"k 1 2", "k 1 2 3 put 0 0 0 wrong 0 0 0 0", "k 1 2 3 put 0 0 0 ok 0 0 0 2 1",
        "k 1 2 - put 0 0 0 ok 0 0 0 0", "k 1 2 3 what 0 0 0 ok 0 0 0 0"}) {
    const auto refused = FromText(std::string("# comment\n") + text);
    CHECK(refused.code() == StatusCode::kInvalidArgument);
    CHECK(refused.status().ToString().find("line 2") != std::string::npos);
  }
}

}  // namespace
}  // namespace tidepool::history
