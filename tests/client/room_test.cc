// Writers of large values with a sum of many times the daemon's memory. With a device each waits
// for its turn, and none is refused while the device has room.
#include <grpcpp/channel.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "proto/convert/grpc_channel.h"
#include "proto/convert/grpc_status.h"
#include "tests/client/sdk_fixture.h"
#include "tests/client/spilling_cluster.h"
#include "tests/client/split_fixture.h"
#include "tidepool/v1/bulk.grpc.pb.h"
#include "tidepool/v1/data.grpc.pb.h"

namespace tidepool::testing {
namespace {

using std::chrono::seconds;
constexpr std::size_t kMiB = 1 << 20;

std::string ValueOf(std::size_t bytes, int salt) {
  std::string value(bytes, static_cast<char>('a' + salt % 26));
  for (std::size_t at = 0; at + 8 < bytes; at += 4'000) {
    value.replace(at, 8, std::to_string(10'000'000 + salt));
  }
  return value;
}

std::size_t SizeOf(int salt) {
  std::mt19937 random(static_cast<unsigned>(salt));
  return 2 * kMiB + random() % (14 * kMiB);
}

// The first failure of several threads.
class FirstFailure {
 public:
  void Note(const Status& status, const std::string& who) {
    const std::lock_guard lock(mutex_);
    if (!status.ok() && text_.empty()) text_ = who + ": " + status.ToString();
  }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

Status PutByGrpc(TestCluster& cluster, const std::string& space, const std::string& key,
                 const std::string& value, std::uint64_t timeout_ms = 120'000) {
  grpc::ClientContext call;
  convert::PrepareCall(&call, Deadline::AfterMs(timeout_ms), cluster.token());
  v1::WriteValueResponse response;
  const auto stub = v1::Bulk::NewStub(cluster.channel(0));
  const auto writer = stub->WriteValue(&call, &response);
  v1::WriteValueRequest message;
  message.mutable_start()->set_namespace_(space);
  message.mutable_start()->set_key(key);
  message.mutable_start()->set_total_bytes(value.size());
  for (std::size_t at = 0; at < value.size(); at += kMiB) {
    message.set_data(value.substr(at, kMiB));
    if (!writer->Write(message)) break;
    message.clear_start();
  }
  writer->WritesDone();
  return convert::FromGrpc(writer->Finish(), "kvd");
}

// Files of 2 to 16 MiB.
std::size_t MakeFiles(const std::string& folder, int count) {
  std::filesystem::create_directory(folder);
  for (int i = 0; i < count; ++i) {
    std::ofstream file(folder + "/file" + std::to_string(i), std::ios::binary);
    file << ValueOf(SizeOf(500 + i), 500 + i);
  }
  return static_cast<std::size_t>(count);
}

int Kvctl(TestCluster& cluster, std::vector<std::string> arguments, std::string* output) {
  arguments.insert(arguments.begin(), ProgramPath("kvctl"));
  static int number = 0;
  Process kvctl(arguments, {"TIDEPOOL_CLUSTER=" + cluster.file()},
                cluster.folder() + "/kvctl-" + std::to_string(number++));
  const int code = kvctl.Wait(10 * kPatienceMs);
  *output = kvctl.Output() + kvctl.Errors();
  return code;
}

struct Fixture {
  explicit Fixture(const std::string& device = "1GiB") : spilling(device) {}
  Client Connect(seconds timeout = seconds(120)) {
    return ConnectTo(*spilling, {.call_timeout = timeout});
  }
  SpillingCluster spilling;
};

TEST_CASE("Large values by every way in at once are all taken", "[spill][room]") {
  Fixture fixture;
  TestCluster& cluster = *fixture.spilling;
  {
    Client client = fixture.Connect();
    (void)Open<BytesMap>(client, "values");
    (void)Open<BytesQueue>(client, "items");
  }
  const std::string folder = cluster.folder() + "/files";
  MakeFiles(folder, 10);
  constexpr int kRounds = 4;
  FirstFailure failure;
  std::atomic<bool> staged{false};
  std::vector<std::thread> threads;
  for (int writer = 0; writer < 6; ++writer) {
    threads.emplace_back([&, writer] {
      const std::string who = "sdk " + std::to_string(writer);
      Client client = fixture.Connect();
      const BytesMap map = Open<BytesMap>(client, "values");
      for (int round = 0; round < kRounds || !staged; ++round) {
        const int salt = writer * 100 + round % 2;
        const std::string key = who + "/" + std::to_string(round % 2);
        const std::string value = ValueOf(SizeOf(salt), salt);
        failure.Note(map.Put(key, value).status(), who);
        failure.Note(map.Append(key, "+").status(), who + " append");
        const auto got = map.Get(key);
        failure.Note(got.status(), who + " get");
        if (got.ok() && got->bytes != value + "+") {
          failure.Note(Status(StatusCode::kInternal, "not what was put"), who);
        }
      }
    });
  }
  for (int writer = 0; writer < 2; ++writer) {
    threads.emplace_back([&, writer] {
      const std::string who = "grpc " + std::to_string(writer);
      for (int round = 0; round < kRounds || !staged; ++round) {
        const int salt = 700 + writer * 100 + round % 2;
        failure.Note(PutByGrpc(cluster, "values", who + "/" + std::to_string(round % 2),
                               ValueOf(SizeOf(salt), salt)),
                     who);
      }
    });
  }
  threads.emplace_back([&] {
    Client client = fixture.Connect();
    const BytesQueue queue = Open<BytesQueue>(client, "items");
    for (int round = 0; round < kRounds || !staged; ++round) {
      failure.Note(queue.Push(ValueOf(SizeOf(900 + round), 900 + round)).status(), "push");
      const auto popped = queue.Pop();
      failure.Note(popped.status(), "pop");
      if (popped.ok() && popped->value != ValueOf(SizeOf(900 + round), 900 + round)) {
        failure.Note(Status(StatusCode::kInternal, "not what was pushed"), "queue");
      }
    }
  });
  // Small values continue beside them.
  threads.emplace_back([&] {
    Client client = fixture.Connect();
    const BytesMap map = Open<BytesMap>(client, "values");
    for (int i = 0; !staged; ++i) {
      failure.Note(map.Put("small" + std::to_string(i % 5'000), ValueOf(2'000, i)).status(),
                   "small");
    }
  });
  std::string told;
  int code = 0;
  for (int round = 0; round < kRounds && code == 0; ++round) {
    code = Kvctl(cluster, {"stage", "in", folder, "staged" + std::to_string(round)}, &told);
  }
  staged = true;
  for (std::thread& thread : threads) thread.join();
  INFO(told);
  CHECK(code == 0);
  CHECK(failure.text().empty());
}

// A popped value is kept for a client that asks again, as long as it has not all of it.
TEST_CASE("A popped value gives its room to the client's next push", "[spill][room]") {
  Fixture fixture;
  Client client = fixture.Connect(seconds(20));
  const BytesQueue queue = Open<BytesQueue>(client, "items");
  const BytesMap map = Open<BytesMap>(client, "values");
  for (int round = 0; round < 4; ++round) {
    RequireOk(queue.Push(ValueOf(26 * kMiB, round)).status());
    REQUIRE(queue.Pop().value().value == ValueOf(26 * kMiB, round));
    RequireOk(map.Put("taken", ValueOf(26 * kMiB, round)).status());
    REQUIRE(map.Take("taken").value().bytes == ValueOf(26 * kMiB, round));
  }
}

TEST_CASE("A killed client gives its room back", "[spill][room]") {
  Fixture fixture;
  TestCluster& cluster = *fixture.spilling;
  Client client = fixture.Connect(seconds(30));
  const BytesMap map = Open<BytesMap>(client, "values");
  for (int i = 0; i < 8; ++i) {
    const std::string stem = cluster.folder() + "/client-" + std::to_string(i);
    std::vector<std::unique_ptr<Process>> killed;
    for (int j = 0; j < 3; ++j) {
      killed.push_back(std::make_unique<Process>(
          std::vector<std::string>{ProgramPath("room_client"), cluster.file(), "values",
                                   "killed" + std::to_string(j), std::to_string(16 * kMiB)},
          std::vector<std::string>{}, stem + "-" + std::to_string(j)));
    }
    REQUIRE(WaitUntil([&] { return !killed[0]->Output().empty(); }));
    for (const auto& each : killed) each->Signal(SIGKILL);
    for (const auto& each : killed) REQUIRE(each->Wait() == 128 + SIGKILL);
    // About all that there is.
    RequireOk(map.Put("large", ValueOf(26 * kMiB, i)).status());
  }
  CHECK(map.Get("large").value().bytes == ValueOf(26 * kMiB, 7));
}

TEST_CASE("Who waits for a stopped client's room is told so, and gets it in the end",
          "[spill][room]") {
  Fixture fixture;
  TestCluster& cluster = *fixture.spilling;
  Client client = fixture.Connect(seconds(60));
  const BytesMap map = Open<BytesMap>(client, "values");
  // Stopped in the middle of a value, which it puts again and again.
  Process stopped(
      {ProgramPath("room_client"), cluster.file(), "values", "stopped", std::to_string(24 * kMiB)},
      {}, cluster.folder() + "/stopped");
  Status late;
  for (int tries = 0; late.ok() && tries < 100; ++tries) {
    const std::size_t puts = stopped.Output().size();
    REQUIRE(WaitUntil([&] { return stopped.Output().size() > puts; }));
    stopped.Signal(SIGSTOP);
    late = map.Put("late", ValueOf(24 * kMiB, 1), {.timeout = seconds(2)}).status();
    if (late.ok()) stopped.Signal(SIGCONT);  // It was between two.
  }
  INFO(late.ToString());
  CHECK(late.code() == StatusCode::kDeadlineExceeded);
  CHECK(late.what().find("waited for room") != std::string::npos);
  const Status by_grpc = PutByGrpc(cluster, "values", "late", ValueOf(24 * kMiB, 2), 2'000);
  INFO(by_grpc.ToString());
  CHECK(by_grpc.code() == StatusCode::kDeadlineExceeded);
  CHECK(by_grpc.what().find("waited for room") != std::string::npos);
  // Other operations continue meanwhile.
  for (int i = 0; i < 2'000; ++i) {
    RequireOk(map.Put("small" + std::to_string(i), ValueOf(2'000, i)).status());
  }
  RequireOk(map.Put("patient", ValueOf(24 * kMiB, 3)).status());
  CHECK(map.Get("patient").value().bytes == ValueOf(24 * kMiB, 3));
  // The stopped client sends its value again.
  const std::size_t puts = stopped.Output().size();
  stopped.Signal(SIGCONT);
  REQUIRE(WaitUntil([&] { return stopped.Output().size() > puts || !stopped.running(); }));
  INFO(stopped.Errors());
  CHECK(stopped.running());
}

TEST_CASE("What can never fit is refused at once, and what would fit is said", "[spill][room]") {
  Fixture fixture;
  Client client = fixture.Connect();
  const BytesMap map = Open<BytesMap>(client, "values");
  const auto begin = std::chrono::steady_clock::now();
  const Status never = map.Put("never", ValueOf(64 * kMiB, 1)).status();
  const Status by_grpc = PutByGrpc(*fixture.spilling, "values", "never", ValueOf(64 * kMiB, 1));
  CHECK(std::chrono::steady_clock::now() - begin < seconds(20));
  for (const Status& status : {never, by_grpc}) {
    INFO(status.ToString());
    CHECK(status.code() == StatusCode::kResourceExhausted);
    CHECK(status.what().find("can never fit") != std::string::npos);
    CHECK(status.what().find("up to") != std::string::npos);
  }
  CHECK(never.remedy().find("--memory") != std::string::npos);
}

TEST_CASE("A full device refuses large values in words", "[spill][room]") {
  Fixture fixture("128MiB");
  Client client = fixture.Connect(seconds(30));
  const BytesMap map = Open<BytesMap>(client, "values");
  int put = 0;
  Status refused;
  while (refused.ok() && put < 60) {
    refused = map.Put("large" + std::to_string(put), ValueOf(8 * kMiB, put)).status();
    if (refused.ok()) ++put;
  }
  INFO(refused.ToString());
  CHECK(refused.code() == StatusCode::kResourceExhausted);
  CHECK(refused.what().find("devices") != std::string::npos);
  CHECK(refused.remedy().find("delete") != std::string::npos);
  const Status by_grpc = PutByGrpc(*fixture.spilling, "values", "grpc", ValueOf(30 * kMiB, 1));
  INFO(by_grpc.ToString());
  CHECK(by_grpc.code() == StatusCode::kResourceExhausted);
  CHECK(by_grpc.what().find("devices") != std::string::npos);
  CHECK(put >= 12);
  for (int i = 0; i < put; ++i) {
    REQUIRE(map.Get("large" + std::to_string(i)).value().bytes == ValueOf(8 * kMiB, i));
  }
  for (int i = 0; i < put; i += 2) RequireOk(map.Delete("large" + std::to_string(i)));
  RequireOk(map.Put("again", ValueOf(8 * kMiB, 1)).status());
}

// Their records leave memory, too, before the range that they are of moves.
TEST_CASE("Large values on the device move with their range", "[spill][room]") {
  SpillingCluster spilling("1GiB", {.cores = 2, .memory = "128MiB"});
  Client client = ConnectTo(*spilling, {.call_timeout = seconds(120)});
  const auto map = Open<BytesOrderedMap>(client, "ranges", {.split = SplitMode::kManual});
  const auto key_of = [](int i) { return "k" + std::to_string(1'000 + i); };
  for (int i = 0; i < 60; ++i) RequireOk(map.Put(key_of(i), ValueOf(5 * kMiB, i)).status());
  // The last values push all other values out.
  for (int i = 0; i < 20'000; ++i) {
    RequireOk(map.Put("z" + std::to_string(i), ValueOf(8'000, i)).status());
  }
  for (const int at : {20, 40}) {
    RequireOk(Split(*spilling, "ranges", key_of(at)));
  }
  for (int i = 0; i < 60; ++i) {
    INFO(key_of(i));
    const auto got = map.Get(key_of(i));
    RequireOk(got.status());
    CHECK(got->bytes == ValueOf(5 * kMiB, i));
  }
}

// Values of about half the memory, on two cores that share it.
void FillTwoCores(const std::string& memory, const std::string& device, std::size_t bytes,
                  int count) {
  SpillingCluster spilling(device, {.cores = 2, .memory = memory});
  Client client = ConnectTo(*spilling, {.call_timeout = std::chrono::minutes(5)});
  const BytesMap map = Open<BytesMap>(client, "values");
  for (int i = 0; i < count; ++i) {
    RequireOk(map.Put("half" + std::to_string(i), ValueOf(bytes, i)).status());
  }
  for (int i = 0; i < count; ++i) {
    REQUIRE(map.Get("half" + std::to_string(i)).value().bytes == ValueOf(bytes, i));
  }
}

TEST_CASE("Each of several values of half the memory fits two cores", "[spill][room]") {
  FillTwoCores("128MiB", "1GiB", 48 * kMiB, 8);
}

TEST_CASE("Each of three values of 1 GiB fits 2 GiB on two cores", "[.long][room]") {
  FillTwoCores("2GiB", "6GiB", 1024 * kMiB, 3);
}

}  // namespace
}  // namespace tidepool::testing
