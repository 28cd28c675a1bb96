// Arguments, results and batches.
#include <catch2/catch.hpp>

#include "proto/base/limits.h"
#include "tests/client/fake_daemon.h"

namespace tidepool::testing {
namespace {

struct Fixture {
  FakeCluster cluster{{.nodes = 2, .cores = 2, .partitions = 8}};
  std::shared_ptr<internal::Engine> engine = cluster.Connect();
  BytesMap map = cluster.Open(engine);
};

TEST_CASE_METHOD(Fixture, "A batch has a status and a value for each key", "[client][call]") {
  cluster.Auto();
  std::vector<std::string> keys;
  std::vector<KeyValue> records;
  for (int i = 0; i < 500; ++i) keys.push_back("key" + std::to_string(i));
  std::vector<std::string> values(keys);
  for (std::size_t i = 0; i < keys.size(); i += 2) records.push_back({keys[i], values[i]});
  const BatchResult put = map.MultiPut(records);
  REQUIRE(put.AllOk());
  std::vector<std::string_view> views(keys.begin(), keys.end());
  const BatchResult got = map.MultiGet(views);
  REQUIRE(got.size() == 500);
  CHECK(got.ok_count() == 250);
  CHECK(got.FirstFailure().ok());  // An absent key is no failure.
  for (std::size_t i = 0; i < 500; ++i) {
    CHECK(got.code(i) == (i % 2 == 0 ? StatusCode::kOk : StatusCode::kNotFound));
    CHECK(got.value(i) == (i % 2 == 0 ? keys[i] : ""));
  }
  CHECK(map.MultiDelete(views).ok_count() == 250);
}

TEST_CASE_METHOD(Fixture, "An asynchronous batch has its own copy of the keys", "[client][call]") {
  cluster.Auto();
  Future<BatchResult> future;
  {
    std::vector<std::string> keys{"a", "b"};
    const KeyValue records[] = {{keys[0], "1"}, {keys[1], "2"}};
    future = map.MultiPutAsync(records);
    keys[0] = "x";
    keys[1] = "y";
  }
  REQUIRE(future.Wait()->AllOk());
  CHECK(map.Get("a")->bytes == "1");
  CHECK(map.Get("b")->bytes == "2");
}

TEST_CASE_METHOD(Fixture, "An empty batch is done at once", "[client][call]") {
  CHECK(map.MultiGet({}).size() == 0);
  CHECK(map.MultiGet({}).AllOk());
  CHECK(map.MultiPutAsync({}).Wait()->size() == 0);
}

TEST_CASE_METHOD(Fixture, "Keys and values beyond the bounds are refused, naming them",
                 "[client][call]") {
  cluster.Auto();
  const std::string long_key(limits::kKeyBytesMax + 1, 'k');
  CHECK(map.Get(long_key).code() == StatusCode::kInvalidArgument);
  CHECK(map.Get(long_key).status().ToString().find("16384") != std::string::npos);
  CHECK(map.GetAsync(long_key).Wait().code() == StatusCode::kInvalidArgument);
  CHECK(map.Put(std::string(limits::kKeyBytesMax, 'k'), "v").ok());
  const std::string too_much(limits::kUnstreamedValueBytesMax + 1, 'v');
  CHECK(map.Append("k", too_much).code() == StatusCode::kInvalidArgument);
  CHECK(map.CompareAndSwap("k", too_much, "").code() == StatusCode::kInvalidArgument);
  // In a batch it ends alone.
  const std::string_view keys[] = {"a", long_key, "b"};
  const BatchResult got = map.MultiGet(keys);
  CHECK(got.code(0) == StatusCode::kNotFound);
  CHECK(got.code(1) == StatusCode::kInvalidArgument);
  CHECK(got.code(2) == StatusCode::kNotFound);
  CHECK(got.FirstFailure().code() == StatusCode::kInvalidArgument);
}

TEST_CASE_METHOD(Fixture, "Arguments travel as the wire wants them", "[client][call]") {
  auto swap = map.CompareAndSwapAsync("k", "old", "new!");
  REQUIRE(cluster.Pump(engine, [&] { return cluster.request_count() == 1; }));
  const auto frame = cluster.TakeRequest();
  CHECK(frame->operation(0).opcode == wire::Opcode::kCompareAndSwap);
  CHECK(AsText(frame->operation(0).value) == "oldnew!");
  CHECK(frame->operation(0).get(wire::Argument::kExpectedBytes) == 3);

  auto put = map.PutAsync("k", "12345678",
                          {.condition = PutCondition::kIfVersion,
                           .if_version = 77,
                           .ttl = std::chrono::seconds(5),
                           .kind = ValueKind::kI64});
  REQUIRE(cluster.Pump(engine, [&] { return cluster.request_count() == 1; }));
  const auto second = cluster.TakeRequest();
  const wire::Operation& operation = second->operation(0);
  CHECK(operation.condition == wire::PutCondition::kIfVersion);
  CHECK(operation.value_kind == wire::ValueKind::kI64);
  CHECK(operation.get(wire::Argument::kVersion) == 77);
  CHECK(operation.get(wire::Argument::kTtlMs) == 5'000);

  auto add = map.FetchAddF64Async("k", 1.5);
  REQUIRE(cluster.Pump(engine, [&] { return cluster.request_count() == 1; }));
  const auto third = cluster.TakeRequest();
  CHECK(third->operation(0).value_kind == wire::ValueKind::kF64);
  wire::Answer answer;
  answer.has_number = true;
  answer.number = std::bit_cast<std::uint64_t>(2.25);
  cluster.Send(*third, {answer});
  CHECK(add.Wait().value_or(0) == 2.25);
}

TEST_CASE("The number of an upload goes in before the time to wait, and out again",
          "[client][call]") {
  using wire::Argument;
  internal::Operation push;
  push.opcode = wire::Opcode::kPush;
  push.AddArgument(Argument::kTtlMs, 11);
  push.AddArgument(Argument::kOperand, 22);
  push.AddArgument(Argument::kWaitMs, 33);
  for (const std::uint64_t number : {44, 55}) {
    push.AddUploadArgument(number);
    wire::Operation sent;
    push.ToWire(&sent);
    CHECK(sent.get(Argument::kUpload) == number);
    CHECK(sent.get(Argument::kTtlMs) == 11);
    CHECK(sent.get(Argument::kOperand) == 22);
    CHECK(sent.get(Argument::kWaitMs) == 33);
    CHECK(push.Word(Argument::kOperand) == 22);
    push.RemoveUploadArgument();
    CHECK(push.Word(Argument::kWaitMs) == 33);
  }
}

TEST_CASE_METHOD(Fixture, "Operations of one batch travel in one frame per core",
                 "[client][call]") {
  std::vector<std::string> keys;
  for (int i = 0; i < 60; ++i) keys.push_back("key" + std::to_string(i));
  const std::vector<std::string_view> views(keys.begin(), keys.end());
  auto batch = map.MultiGetAsync(views);
  cluster.Settle(engine);
  CHECK(cluster.request_count() == 4);
  std::size_t operations = 0;
  while (cluster.request_count() > 0) {
    const auto frame = cluster.TakeRequest();
    CHECK(frame->request.groups.size() <= 2);
    operations += frame->request.operations.size();
    cluster.AnswerAll(*frame, "v");
  }
  CHECK(operations == 60);
  CHECK(batch.Wait()->AllOk());
}

TEST_CASE_METHOD(Fixture, "A run answers many operations at once", "[client][call]") {
  const std::string keys[] = {cluster.KeyIn(0), cluster.KeyIn(0, 1), cluster.KeyIn(0, 2)};
  const KeyValue records[] = {{keys[0], "1"}, {keys[1], "2"}, {keys[2], "3"}};
  auto put = map.MultiPutAsync(records);
  REQUIRE(cluster.Pump(engine, [&] { return cluster.request_count() == 1; }));
  wire::Answer run;
  run.scope = wire::Answer::Scope::kRun;
  run.has_number = true;
  run.number = 3;
  cluster.Send(*cluster.TakeRequest(), {run});
  CHECK(put.Wait()->AllOk());
}

TEST_CASE_METHOD(Fixture, "The length is the sum over all partitions", "[client][call]") {
  auto length = map.LengthAsync();
  cluster.Settle(engine);
  while (cluster.request_count() > 0) {
    const auto frame = cluster.TakeRequest();
    std::vector<wire::Answer> answers(frame->request.operations.size());
    for (std::size_t i = 0; i < answers.size(); ++i) {
      answers[i].index = static_cast<std::uint16_t>(i);
      answers[i].has_number = true;
      answers[i].number = 10;
    }
    cluster.Send(*frame, answers);
  }
  CHECK(length.Wait().value_or(0) == 80);
}

TEST_CASE("Exit codes follow the documented table", "[client][call]") {
  CHECK(ExitCodeOf(StatusCode::kOk) == ExitCode::kOk);
  CHECK(ExitCodeOf(StatusCode::kInvalidArgument) == ExitCode::kUsage);
  CHECK(ExitCodeOf(StatusCode::kNotFound) == ExitCode::kNotFound);
  CHECK(ExitCodeOf(StatusCode::kDeadlineExceeded) == ExitCode::kTimeout);
  CHECK(ExitCodeOf(StatusCode::kUnavailable) == ExitCode::kUnreachable);
  CHECK(ExitCodeOf(StatusCode::kDataLoss) == ExitCode::kFailed);
  CHECK(static_cast<int>(ExitCode::kPartial) == 6);
}

}  // namespace
}  // namespace tidepool::testing
