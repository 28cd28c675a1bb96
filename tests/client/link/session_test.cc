// Connections that break, sessions that are resumed or not, and frames that are sent again.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "tests/client/fake_daemon.h"

namespace tidepool::testing {
namespace {

struct Fixture {
  FakeCluster cluster{{.nodes = 1, .cores = 2, .partitions = 4}};
  std::shared_ptr<internal::Engine> engine = cluster.Connect();
  BytesMap map = cluster.Open(engine);
  std::string key = cluster.KeyIn(0);

  bool PumpRequests(std::size_t count) {
    return cluster.Pump(engine, [&] { return cluster.request_count() >= count; });
  }
  void Reattach(bool resumes) {
    cluster.set_resumes(resumes);
    cluster.Cut(0);
    cluster.clock().AdvanceMs(1'000);
  }
};

TEST_CASE_METHOD(Fixture, "A resumed session sends what is unanswered again, unchanged",
                 "[client][session]") {
  auto add = map.FetchAddAsync(key, 5);
  REQUIRE(PumpRequests(1));
  const auto sent = cluster.TakeRequest();
  Reattach(true);
  REQUIRE(PumpRequests(1));
  const auto again = cluster.TakeRequest();
  CHECK(again->header.session == sent->header.session);
  CHECK(again->header.connection == sent->header.connection + 1);
  CHECK(again->header.frame_id == sent->header.frame_id);
  REQUIRE(again->request.groups.size() == 1);
  CHECK(again->request.groups[0].term == sent->request.groups[0].term);
  CHECK(again->key(0) == key);
  CHECK(again->operation(0).get(wire::Argument::kOperand) == 5);
  wire::Answer answer;
  answer.has_number = true;
  answer.number = 37;
  cluster.Send(*again, {answer});
  CHECK(add.Wait().value_or(0) == 37);
}

TEST_CASE_METHOD(Fixture, "Frames of all cores are sent again in their order",
                 "[client][session]") {
  std::vector<Future<Version>> puts;
  for (std::uint32_t i = 0; i < 8; ++i) {
    puts.push_back(map.PutAsync(cluster.KeyIn(i % 4), std::to_string(i)));
    REQUIRE(PumpRequests(i + 1));
  }
  for (int i = 0; i < 8; ++i) cluster.TakeRequest();
  Reattach(true);
  REQUIRE(PumpRequests(8));
  std::uint64_t last[2] = {0, 0};
  for (int i = 0; i < 8; ++i) {
    const auto frame = cluster.TakeRequest();
    CHECK(frame->header.frame_id == last[frame->core] + 1);
    last[frame->core] = frame->header.frame_id;
    cluster.AnswerAll(*frame);
  }
  for (auto& put : puts) CHECK(put.Wait().ok());
}

TEST_CASE_METHOD(Fixture, "Without its session a change ends unknown and a read is asked again",
                 "[client][session]") {
  auto add = map.FetchAddAsync(key, 5);
  REQUIRE(PumpRequests(1));
  auto get = map.GetAsync(key);
  REQUIRE(PumpRequests(2));
  const auto old = cluster.TakeRequest();
  cluster.TakeRequest();
  Reattach(false);
  REQUIRE(PumpRequests(1));
  const auto read = cluster.TakeRequest();
  CHECK(read->header.session != old->header.session);
  CHECK(read->header.frame_id == 1);
  REQUIRE(read->request.operations.size() == 1);
  CHECK(read->operation(0).opcode == wire::Opcode::kGet);
  cluster.AnswerAll(*read, "value");
  CHECK(add.Wait().code() == StatusCode::kUnknown);
  CHECK(get.Wait()->bytes == "value");
}

TEST_CASE_METHOD(Fixture, "Without its session a read does not go behind a later change of its key",
                 "[client][session]") {
  auto get = map.GetAsync(key);
  REQUIRE(PumpRequests(1));
  auto put = map.PutAsync(key, "later");
  REQUIRE(PumpRequests(2));
  cluster.TakeRequest();
  cluster.TakeRequest();
  Reattach(false);
  cluster.Settle(engine);
  CHECK(cluster.request_count() == 0);
  CHECK(put.Wait().code() == StatusCode::kUnknown);
  CHECK(get.Wait().code() == StatusCode::kUnavailable);
}

TEST_CASE_METHOD(Fixture, "With its session a read does not go behind a later change of its key",
                 "[client][session]") {
  auto get = map.GetAsync(key);
  REQUIRE(PumpRequests(1));
  auto put = map.PutAsync(key, "later");
  REQUIRE(PumpRequests(2));
  cluster.TakeRequest();
  cluster.TakeRequest();
  Reattach(true);
  REQUIRE(PumpRequests(1));
  const auto again = cluster.TakeRequest();
  REQUIRE(again->request.operations.size() == 1);
  CHECK(again->operation(0).opcode == wire::Opcode::kPut);
  cluster.AnswerAll(*again);
  CHECK(put.Wait().ok());
  CHECK(get.Wait().code() == StatusCode::kUnavailable);
}

TEST_CASE_METHOD(Fixture,
                 "In one frame a read that is not asked again leaves the others their place",
                 "[client][session]") {
  const std::string other = cluster.KeyIn(0, 1);
  auto get = map.GetAsync(key);
  auto put = map.PutAsync(key, "later");
  auto free = map.GetAsync(other);
  REQUIRE(PumpRequests(1));
  REQUIRE(cluster.TakeRequest()->request.operations.size() == 3);
  Reattach(true);
  REQUIRE(PumpRequests(1));
  const auto again = cluster.TakeRequest();
  REQUIRE(again->request.operations.size() == 3);
  CHECK(again->operation(1).opcode == wire::Opcode::kPut);
  CHECK(again->key(2) == other);
  cluster.AnswerAll(*again, "value");
  CHECK(get.Wait().code() == StatusCode::kUnavailable);
  CHECK(put.Wait().ok());
  CHECK(free.Wait()->bytes == "value");
}

TEST_CASE_METHOD(Fixture, "A read does not go behind a later change that was answered",
                 "[client][session]") {
  auto get = map.GetAsync(key);
  REQUIRE(PumpRequests(1));
  auto put = map.PutAsync(key, "later");
  REQUIRE(PumpRequests(2));
  cluster.TakeRequest();
  cluster.AnswerAll(*cluster.TakeRequest());
  CHECK(put.Wait().ok());
  Reattach(false);
  cluster.Settle(engine);
  CHECK(cluster.request_count() == 0);
  CHECK(get.Wait().code() == StatusCode::kUnavailable);
}

TEST_CASE_METHOD(Fixture, "A read that a node without a lease did not repeat is asked again",
                 "[client][session]") {
  auto get = map.GetAsync(key);
  REQUIRE(PumpRequests(1));
  wire::Answer answer;
  answer.code = StatusCode::kUnavailable;
  // The term is as it was, and no newer map will come.
  cluster.Send(*cluster.TakeRequest(), {answer});
  REQUIRE(PumpRequests(1));
  cluster.AnswerAll(*cluster.TakeRequest(), "value");
  CHECK(get.Wait()->bytes == "value");
}

TEST_CASE_METHOD(Fixture, "A change that waited in the client survives the loss of the session",
                 "[client][session]") {
  cluster.set_attach_error(Status(StatusCode::kUnavailable, "refused"));
  auto put = map.PutAsync(key, "1");
  cluster.Settle(engine);
  CHECK(cluster.attach_count() > 0);
  cluster.set_attach_error({});
  cluster.clock().AdvanceMs(1'000);
  REQUIRE(PumpRequests(1));
  cluster.AnswerAll(*cluster.TakeRequest());
  CHECK(put.Wait().ok());
}

TEST_CASE_METHOD(Fixture, "A given-up operation is not sent again; its place is held",
                 "[client][session]") {
  const std::string other = cluster.KeyIn(0, 1);
  auto brief = map.PutAsync(key, "1", {.timeout = std::chrono::milliseconds(500)});
  auto patient = map.PutAsync(other, "2");
  REQUIRE(PumpRequests(1));
  REQUIRE(cluster.TakeRequest()->request.operations.size() == 2);
  cluster.clock().AdvanceMs(600);
  cluster.Settle(engine);
  CHECK(brief.Wait().code() == StatusCode::kUnknown);
  Reattach(true);
  REQUIRE(PumpRequests(1));
  const auto again = cluster.TakeRequest();
  REQUIRE(again->request.groups.size() == 1);
  REQUIRE(again->request.operations.size() == 2);
  CHECK_FALSE(wire::InfoOf(again->operation(0).opcode).mutates);
  CHECK(again->key(1) == other);
  cluster.AnswerAll(*again);
  CHECK(patient.Wait().ok());
}

TEST_CASE_METHOD(Fixture, "An operation answered before the break is not sent again",
                 "[client][session]") {
  const std::string_view keys[] = {key, "x", "y", "z"};
  auto batch = map.MultiDeleteAsync(keys);
  std::size_t answered = 0;
  REQUIRE(PumpRequests(1));
  cluster.Settle(engine);
  const auto frame = cluster.TakeRequest();
  wire::Answer answer;
  answer.index = 0;
  answer.code = StatusCode::kNotFound;
  cluster.Send(*frame, {answer});
  cluster.Settle(engine);
  while (cluster.request_count() > 0) cluster.AnswerAll(*cluster.TakeRequest());
  Reattach(true);
  if (frame->request.operations.size() > 1) {
    REQUIRE(PumpRequests(1));
    const auto again = cluster.TakeRequest();
    CHECK_FALSE(wire::InfoOf(again->operation(0).opcode).mutates);
    cluster.AnswerAll(*again);
    ++answered;
  }
  auto result = batch.Wait();
  REQUIRE(result.ok());
  CHECK(result->ok_count() + 1 == result->size());
}

TEST_CASE_METHOD(Fixture, "What was sent to a core that does not come back ends or moves",
                 "[client][session]") {
  const std::string gone = cluster.KeyIn(1);
  auto put = map.PutAsync(gone, "1");
  REQUIRE(PumpRequests(1));
  REQUIRE(cluster.TakeRequest()->core == 1);
  auto get = map.GetAsync(gone);
  REQUIRE(PumpRequests(1));
  REQUIRE(cluster.TakeRequest()->core == 1);
  cluster.set_cores(1);
  Reattach(false);
  REQUIRE(cluster.Pump(engine, [&] { return put.Ready(); }));
  CHECK(put.Wait().code() == StatusCode::kUnknown);
  cluster.Settle(engine);
  CHECK(cluster.request_count() == 0);
  CHECK(cluster.attach_count() == 2);
  cluster.SetTerm(1, 2, 0, 0);
  cluster.PublishMap();
  cluster.clock().AdvanceMs(100);
  REQUIRE(PumpRequests(1));
  const auto moved = cluster.TakeRequest();
  CHECK(moved->core == 0);
  CHECK(moved->key(0) == gone);
  cluster.AnswerAll(*moved, "value");
  CHECK(get.Wait()->bytes == "value");
}

TEST_CASE_METHOD(Fixture, "A frame that is never answered does not stop the link for ever",
                 "[client][session]") {
  auto lost = map.PutAsync(key, "1");
  REQUIRE(PumpRequests(1));
  cluster.TakeRequest();
  // The window fills behind it, all answered.
  for (std::uint64_t i = 1; i < limits::kFramesUnfinishedMax; ++i) {
    auto put = map.PutAsync(key, "2");
    REQUIRE(PumpRequests(1));
    cluster.AnswerAll(*cluster.TakeRequest());
    REQUIRE(put.Wait().ok());
  }
  auto next = map.PutAsync(key, "3", {.timeout = std::chrono::milliseconds(60'000)});
  cluster.Settle(engine);
  REQUIRE(cluster.request_count() == 0);
  cluster.clock().AdvanceMs(11'000);
  REQUIRE(PumpRequests(1));
  CHECK(lost.Wait().code() == StatusCode::kUnknown);
  const auto frame = cluster.TakeRequest();
  CHECK(frame->header.frame_id == limits::kFramesUnfinishedMax + 1);
  CHECK(frame->header.ack_watermark == frame->header.frame_id);
  cluster.AnswerAll(*frame);
  CHECK(next.Wait().ok());
  CHECK(cluster.attach_count() == 2);
}

TEST_CASE_METHOD(Fixture, "Answers of an older connection are ignored", "[client][session]") {
  auto put = map.PutAsync(key, "1");
  REQUIRE(PumpRequests(1));
  const auto old = cluster.TakeRequest();
  Reattach(true);
  REQUIRE(PumpRequests(1));
  cluster.AnswerAll(*old);
  cluster.Settle(engine);
  CHECK_FALSE(put.Ready());
  cluster.AnswerAll(*cluster.TakeRequest());
  CHECK(put.Wait().ok());
}

TEST_CASE_METHOD(Fixture, "A silent session attaches anew before it sends", "[client][session]") {
  cluster.Auto();
  REQUIRE(map.Put(key, "1").ok());
  REQUIRE(cluster.attach_count() == 1);
  cluster.clock().AdvanceMs(40'000);
  REQUIRE(map.Put(key, "2").ok());
  CHECK(cluster.attach_count() == 1);
  cluster.clock().AdvanceMs(46'000);
  REQUIRE(map.Put(key, "3").ok());
  CHECK(cluster.attach_count() == 2);
}

TEST_CASE_METHOD(Fixture, "Closing says good-bye and ends what is under way", "[client][session]") {
  cluster.Auto();
  REQUIRE(map.Put(key, "0").ok());
  cluster.SetAuto(false);
  auto sent = map.PutAsync(key, "1");
  REQUIRE(PumpRequests(1));
  auto waiting = map.PutAsync(key, "2");
  auto read = map.GetAsync(key);
  engine->Close();
  CHECK(cluster.detaches() >= 1);
  CHECK(sent.Wait().code() == StatusCode::kUnknown);
  CHECK(waiting.Wait().code() == StatusCode::kCancelled);
  CHECK(read.Wait().code() == StatusCode::kCancelled);
  CHECK(map.Put(key, "3").code() == StatusCode::kCancelled);
}

TEST_CASE_METHOD(Fixture, "The last handle closes the client", "[client][session]") {
  cluster.Auto();
  REQUIRE(map.Put(key, "0").ok());
  engine.reset();
  CHECK(cluster.detaches() == 0);
  {
    const BytesMap last = std::move(map);
    map = BytesMap(Namespace(nullptr));
    CHECK(cluster.detaches() == 0);
  }
  CHECK(cluster.detaches() >= 1);
}

TEST_CASE_METHOD(Fixture, "A node that goes down ends what was sent to it", "[client][session]") {
  auto put = map.PutAsync(key, "1");
  REQUIRE(PumpRequests(1));
  auto get = map.GetAsync(key);
  REQUIRE(PumpRequests(2));
  cluster.map().nodes[0].state = placement::NodeState::kDown;
  cluster.PublishMap();
  REQUIRE(engine->RefreshMap(Epoch(2), Deadline::AfterMs(1'000)).ok());
  CHECK(put.Wait().code() == StatusCode::kUnknown);
  CHECK(get.Wait().code() == StatusCode::kUnavailable);
}

TEST_CASE_METHOD(Fixture, "A token that is not the cluster's fails operations at once",
                 "[client][session]") {
  cluster.set_attach_error(Status(StatusCode::kUnauthenticated, "wrong token"));
  const auto result = map.Put(key, "1");
  CHECK(result.code() == StatusCode::kUnauthenticated);
}

TEST_CASE_METHOD(Fixture, "In a fork every call ends with kFailedPrecondition",
                 "[client][session]") {
  cluster.Auto();
  REQUIRE(map.Put(key, "1").ok());
  cluster.SetAuto(false);
  auto pending = map.GetAsync(key);
  const pid_t child = fork();
  if (child == 0) {
    const bool refused = map.Put(key, "2").code() == StatusCode::kFailedPrecondition &&
                         pending.Wait().code() == StatusCode::kFailedPrecondition;
    engine.reset();
    map = BytesMap(Namespace(nullptr));
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE_METHOD(Fixture, "A fork of a process that has a client cannot connect",
                 "[client][session]") {
  const auto code_in_a_child = [] {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);  // Ends a child that hangs.
      const ConnectOptions nowhere{.cluster_file = "/nowhere/cluster.json"};
      _exit(static_cast<int>(Client::Connect(nowhere).code()));
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    return static_cast<StatusCode>(WEXITSTATUS(status));
  };
  CHECK(code_in_a_child() == StatusCode::kFailedPrecondition);
  // Once the client is gone, a child may try.
  engine.reset();
  map = BytesMap(Namespace(nullptr));
  CHECK(code_in_a_child() == StatusCode::kNotFound);
}

TEST_CASE_METHOD(Fixture, "Answers that an older frame makes the daemon keep are bounded",
                 "[client][session]") {
  auto slow = map.GetAsync(cluster.KeyIn(0, 1));
  REQUIRE(PumpRequests(1));
  const auto oldest = cluster.TakeRequest();
  const std::string value(limits::kUnstreamedValueBytesMax, 'v');
  constexpr std::size_t kTakesMax =
      limits::kCachedReplyBytesMax / 2 / limits::kUnstreamedValueBytesMax;
  for (std::size_t i = 0; i < kTakesMax; ++i) {
    auto take = map.TakeAsync(key);
    REQUIRE(PumpRequests(1));
    cluster.AnswerAll(*cluster.TakeRequest(), value);
    REQUIRE(take.Wait()->bytes == value);
  }
  auto held_back = map.TakeAsync(key);
  cluster.Settle(engine);
  CHECK(cluster.request_count() == 0);
  cluster.AnswerAll(*oldest, "v");
  REQUIRE(PumpRequests(1));
  cluster.AnswerAll(*cluster.TakeRequest(), value);
  CHECK(held_back.Wait().ok());
}

}  // namespace
}  // namespace tidepool::testing
