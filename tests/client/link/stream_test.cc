// Values in parts, both ways.
#include <catch2/catch.hpp>

#include "client/link/streams.h"
#include "proto/base/limits.h"
#include "tests/client/fake_daemon.h"

namespace tidepool::testing {
namespace {

std::string Pattern(std::size_t bytes) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 2'654'435'761u >> 24);
  return text;
}

struct Fixture {
  FakeCluster cluster{{.nodes = 2, .cores = 1, .partitions = 4}};
  std::shared_ptr<internal::Engine> engine = cluster.Connect();
  BytesMap map = cluster.Open(engine);
  std::string key = cluster.KeyIn(0);

  bool PumpRequests(std::size_t count) {
    return cluster.Pump(engine, [&] { return cluster.request_count() >= count; });
  }
  // Takes all parts that come while they are acknowledged; returns the value.
  std::string ReceiveUpload(std::size_t total, std::uint64_t* number) {
    std::string value;
    std::uint64_t unacked_most = 0;
    std::uint64_t acked = 0;
    while (value.size() < total) {
      REQUIRE(cluster.Pump(engine, [&] { return cluster.stream_count() > 0; }));
      const auto part = cluster.TakeStream();
      REQUIRE(part->stream.stream.upload == 1);
      REQUIRE(part->stream.stream.offset == value.size());
      *number = part->stream.stream.stream;
      value.append(AsText(part->stream.data));
      unacked_most = std::max(unacked_most, value.size() - acked);
      if (cluster.stream_count() == 0) {
        acked = value.size();
        cluster.SendAck(*part, acked);
      }
    }
    CHECK(unacked_most <= limits::kStreamWindowBytes);
    return value;
  }
};

TEST_CASE_METHOD(Fixture,
                 "A large value goes ahead in parts within the window, then the Put names it",
                 "[client][stream]") {
  const std::string value = Pattern(3'000'000);
  auto put = map.PutAsync(key, value, {.condition = PutCondition::kIfVersion, .if_version = 9});
  std::uint64_t number = 0;
  CHECK(ReceiveUpload(value.size(), &number) == value);
  REQUIRE(PumpRequests(1));
  const auto frame = cluster.TakeRequest();
  REQUIRE(frame->request.operations.size() == 1);
  CHECK(frame->operation(0).get(wire::Argument::kUpload) == number);
  CHECK(frame->operation(0).get(wire::Argument::kVersion) == 9);
  CHECK(frame->operation(0).value.empty());
  cluster.AnswerAll(*frame);
  CHECK(put.Wait().ok());
}

TEST_CASE_METHOD(Fixture,
                 "Later operations on the key wait for the streamed Put, other keys pass it",
                 "[client][stream]") {
  const std::string value = Pattern(100'000);
  const std::string other = cluster.KeyIn(0, 1);
  auto put = map.PutAsync(key, value);
  auto same = map.GetAsync(key);
  auto passes = map.GetAsync(other);
  REQUIRE(PumpRequests(1));
  const auto early = cluster.TakeRequest();
  REQUIRE(early->request.operations.size() == 1);
  CHECK(early->key(0) == other);
  cluster.AnswerAll(*early);
  std::uint64_t number = 0;
  ReceiveUpload(value.size(), &number);
  REQUIRE(PumpRequests(1));
  const auto named = cluster.TakeRequest();
  REQUIRE(named->request.operations.size() == 1);
  CHECK(named->operation(0).opcode == wire::Opcode::kPut);
  cluster.Settle(engine);
  CHECK(cluster.request_count() == 0);
  cluster.AnswerAll(*named);
  REQUIRE(PumpRequests(1));
  const auto read = cluster.TakeRequest();
  CHECK(read->operation(0).opcode == wire::Opcode::kGet);
  cluster.AnswerAll(*read, "x");
  CHECK(same.Wait().ok());
  CHECK(passes.Wait().ok());
  CHECK(put.Wait().ok());
}

TEST_CASE_METHOD(Fixture, "An upload that the daemon refuses ends the Put with its code",
                 "[client][stream]") {
  auto put = map.PutAsync(key, Pattern(100'000));
  REQUIRE(cluster.Pump(engine, [&] { return cluster.stream_count() > 0; }));
  cluster.SendAck(*cluster.TakeStream(), 0, StatusCode::kResourceExhausted);
  CHECK(put.Wait().code() == StatusCode::kResourceExhausted);
  cluster.Settle(engine);
  CHECK(cluster.request_count() == 0);
}

TEST_CASE_METHOD(Fixture, "An upload starts again under a new number after the connection broke",
                 "[client][stream]") {
  const std::string value = Pattern(200'000);
  auto put = map.PutAsync(key, value);
  REQUIRE(cluster.Pump(engine, [&] { return cluster.stream_count() > 0; }));
  const std::uint64_t first = cluster.TakeStream()->stream.stream.stream;
  while (cluster.stream_count() > 0) cluster.TakeStream();
  cluster.Cut(0);
  cluster.clock().AdvanceMs(1'000);
  std::uint64_t number = 0;
  CHECK(ReceiveUpload(value.size(), &number) == value);
  CHECK(number == first + 1);
  REQUIRE(PumpRequests(1));
  const auto named = cluster.TakeRequest();
  CHECK(named->operation(0).get(wire::Argument::kUpload) == number);
  // The Put itself was sent: it goes out again unchanged.
  cluster.Cut(0);
  cluster.clock().AdvanceMs(1'000);
  REQUIRE(PumpRequests(1));
  const auto again = cluster.TakeRequest();
  CHECK(again->operation(0).get(wire::Argument::kUpload) == number);
  // The daemon never got the first frame and has lost the value with the connection.
  wire::Answer lost;
  lost.code = StatusCode::kFailedPrecondition;
  lost.value = AsBytes("the streamed value is not complete here; send it again");
  cluster.Send(*again, {lost});
  CHECK(ReceiveUpload(value.size(), &number) == value);
  REQUIRE(PumpRequests(1));
  cluster.AnswerAll(*cluster.TakeRequest());
  CHECK(put.Wait().ok());
}

TEST_CASE_METHOD(Fixture, "An upload follows its partition to the new owner", "[client][stream]") {
  const std::string value = Pattern(200'000);
  auto put = map.PutAsync(key, value);
  REQUIRE(cluster.Pump(engine, [&] { return cluster.stream_count() > 0; }));
  while (cluster.stream_count() > 0) CHECK(cluster.TakeStream()->node == 0);
  cluster.SetTerm(0, 2, 1, 0);
  cluster.PublishMap();
  REQUIRE(engine->RefreshMap(Epoch(2), Deadline::AfterMs(1'000)).ok());
  REQUIRE(cluster.Pump(engine, [&] { return cluster.stream_count() > 1; }));
  const auto abandoned = cluster.TakeStream();
  CHECK(abandoned->node == 0);
  CHECK(abandoned->stream.stream.code == StatusCode::kCancelled);
  std::uint64_t number = 0;
  CHECK(ReceiveUpload(value.size(), &number) == value);
  REQUIRE(PumpRequests(1));
  const auto named = cluster.TakeRequest();
  CHECK(named->node == 1);
  CHECK(named->request.groups[0].term == Term(2));
}

TEST_CASE_METHOD(Fixture, "An upload whose Put is given up is abandoned", "[client][stream]") {
  auto put = map.PutAsync(key, Pattern(200'000), {.timeout = std::chrono::milliseconds(100)});
  REQUIRE(cluster.Pump(engine, [&] { return cluster.stream_count() > 0; }));
  while (cluster.stream_count() > 0) cluster.TakeStream();
  cluster.clock().AdvanceMs(200);
  CHECK(put.Wait().code() == StatusCode::kDeadlineExceeded);
  REQUIRE(cluster.stream_count() == 1);
  CHECK(cluster.TakeStream()->stream.stream.code == StatusCode::kCancelled);
}

TEST_CASE_METHOD(Fixture, "Two large values of one key arrive in order", "[client][stream]") {
  const std::string one = Pattern(60'000);
  const std::string two = Pattern(70'000);
  auto first = map.PutAsync(key, one);
  auto second = map.PutAsync(key, two);
  std::uint64_t number = 0;
  CHECK(ReceiveUpload(one.size(), &number) == one);
  REQUIRE(PumpRequests(1));
  const auto put1 = cluster.TakeRequest();
  cluster.AnswerAll(*put1);
  CHECK(ReceiveUpload(two.size(), &number) == two);
  REQUIRE(PumpRequests(1));
  cluster.AnswerAll(*cluster.TakeRequest());
  CHECK(first.Wait().ok());
  CHECK(second.Wait().ok());
}

TEST_CASE_METHOD(Fixture, "A streamed answer is put together and acknowledged by half windows",
                 "[client][stream]") {
  const std::string value = Pattern(2'000'000);
  auto get = map.GetAsync(key);
  REQUIRE(PumpRequests(1));
  const auto frame = cluster.TakeRequest();
  wire::Answer answer;
  answer.streamed = true;
  answer.has_number = true;
  answer.number = value.size();
  answer.has_version = true;
  answer.version = Lsn(Term(1), 5);
  cluster.Send(*frame, {answer});
  std::uint64_t sent = 0;
  std::uint64_t acked = 0;
  while (acked < value.size()) {
    while (sent < value.size() &&
           sent - acked + limits::kStreamPartBytesMax <= limits::kStreamWindowBytes) {
      cluster.SendPart(*frame, 0, sent, value, limits::kStreamPartBytesMax);
      sent = std::min<std::uint64_t>(value.size(), sent + limits::kStreamPartBytesMax);
    }
    REQUIRE(cluster.Pump(engine, [&] { return cluster.stream_count() > 0; }));
    const auto ack = cluster.TakeStream();
    CHECK(ack->header.frame_id == frame->header.frame_id);
    CHECK(ack->stream.stream.code == StatusCode::kOk);
    CHECK(ack->stream.stream.offset - acked <= limits::kStreamWindowBytes);
    acked = ack->stream.stream.offset;
  }
  const auto result = get.Wait();
  REQUIRE(result.ok());
  CHECK(result->bytes == value);
  CHECK(result->version == Lsn(Term(1), 5).value());
}

TEST_CASE_METHOD(Fixture, "A frame is finished only when its streams have ended",
                 "[client][stream]") {
  const std::string value = Pattern(100'000);
  auto get = map.GetAsync(key);
  REQUIRE(PumpRequests(1));
  const auto frame = cluster.TakeRequest();
  wire::Answer answer;
  answer.streamed = true;
  answer.has_number = true;
  answer.number = value.size();
  cluster.Send(*frame, {answer});
  cluster.Settle(engine);
  auto put = map.PutAsync(key, "1");
  REQUIRE(PumpRequests(1));
  CHECK(cluster.TakeRequest()->header.ack_watermark == frame->header.frame_id);
  cluster.SendPart(*frame, 0, 0, value, 56 * 1024);
  cluster.SendPart(*frame, 0, 56 * 1024, value, 56 * 1024);
  CHECK(get.Wait()->bytes == value);
  auto last = map.GetAsync(key);
  REQUIRE(PumpRequests(1));
  CHECK(cluster.TakeRequest()->header.ack_watermark == frame->header.frame_id + 1);
}

TEST_CASE_METHOD(Fixture, "A stream that the daemon gives up ends the operation with its code",
                 "[client][stream]") {
  auto get = map.GetAsync(key);
  REQUIRE(PumpRequests(1));
  const auto frame = cluster.TakeRequest();
  wire::Answer answer;
  answer.streamed = true;
  answer.has_number = true;
  answer.number = 100'000;
  cluster.Send(*frame, {answer});
  cluster.SendPart(*frame, 0, 0, Pattern(100'000), 0, StatusCode::kDeviceError);
  CHECK(get.Wait().code() == StatusCode::kDeviceError);
}

TEST_CASE_METHOD(Fixture, "A download that breaks off begins again after the session was resumed",
                 "[client][stream]") {
  const std::string value = Pattern(100'000);
  auto get = map.GetAsync(key);
  REQUIRE(PumpRequests(1));
  const auto frame = cluster.TakeRequest();
  wire::Answer answer;
  answer.streamed = true;
  answer.has_number = true;
  answer.number = value.size();
  cluster.Send(*frame, {answer});
  cluster.SendPart(*frame, 0, 0, value, 56 * 1024);
  cluster.Settle(engine);
  cluster.Cut(0);
  cluster.clock().AdvanceMs(1'000);
  REQUIRE(PumpRequests(1));
  const auto again = cluster.TakeRequest();
  CHECK(again->header.frame_id == frame->header.frame_id);
  cluster.Send(*again, {answer});
  cluster.SendPart(*again, 0, 0, value, 56 * 1024);
  cluster.SendPart(*again, 0, 56 * 1024, value, 56 * 1024);
  CHECK(get.Wait()->bytes == value);
}

TEST_CASE_METHOD(Fixture, "A download that nobody waits for is cancelled", "[client][stream]") {
  auto get = map.GetAsync(key, {std::chrono::milliseconds(100)});
  REQUIRE(PumpRequests(1));
  const auto frame = cluster.TakeRequest();
  wire::Answer answer;
  answer.streamed = true;
  answer.has_number = true;
  answer.number = 100'000;
  cluster.Send(*frame, {answer});
  cluster.Settle(engine);
  cluster.clock().AdvanceMs(200);
  CHECK(get.Wait().code() == StatusCode::kDeadlineExceeded);
  REQUIRE(cluster.stream_count() == 1);
  CHECK(cluster.TakeStream()->stream.stream.code == StatusCode::kCancelled);
}

TEST_CASE_METHOD(Fixture, "Parts that nobody waits for cancel their stream once",
                 "[client][stream]") {
  const std::string value = Pattern(300'000);
  auto get = map.GetAsync(key, {std::chrono::milliseconds(100)});
  REQUIRE(PumpRequests(1));
  const auto late = cluster.TakeRequest();
  cluster.clock().AdvanceMs(200);
  CHECK(get.Wait().code() == StatusCode::kDeadlineExceeded);
  // A later frame notifies the daemon, and the client forgets the first frame.
  auto next = map.GetAsync(key);
  REQUIRE(PumpRequests(1));
  cluster.AnswerAll(*cluster.TakeRequest(), "x");
  CHECK(next.Wait().ok());
  // The daemon had begun to answer before it heard of that.
  wire::Answer answer;
  answer.streamed = true;
  answer.has_number = true;
  answer.number = value.size();
  cluster.Send(*late, {answer});
  for (std::uint64_t at = 0; at < 5 * limits::kStreamPartBytesMax;
       at += limits::kStreamPartBytesMax) {
    cluster.SendPart(*late, 0, at, value, limits::kStreamPartBytesMax);
  }
  cluster.Settle(engine);
  REQUIRE(cluster.stream_count() == 1);
  const auto ack = cluster.TakeStream();
  CHECK(ack->header.type == wire::FrameType::kStreamAck);
  CHECK(ack->header.frame_id == late->header.frame_id);
  CHECK(ack->stream.stream.stream == 0);
  CHECK(ack->stream.stream.offset == 0);
  CHECK(ack->stream.stream.code == StatusCode::kCancelled);
}

TEST_CASE_METHOD(Fixture, "A value for the place of an operation given up before is cancelled",
                 "[client][stream]") {
  auto brief = map.GetAsync(key, {std::chrono::milliseconds(100)});
  auto patient = map.GetAsync(key);
  REQUIRE(PumpRequests(1));
  REQUIRE(cluster.TakeRequest()->request.operations.size() == 2);
  cluster.clock().AdvanceMs(200);
  CHECK(brief.Wait().code() == StatusCode::kDeadlineExceeded);
  cluster.Cut(0);
  cluster.clock().AdvanceMs(1'000);
  REQUIRE(PumpRequests(1));
  const auto again = cluster.TakeRequest();
  // The daemon knows the frame and answers its first question.
  wire::Answer answer;
  answer.streamed = true;
  answer.has_number = true;
  answer.number = 100'000;
  cluster.Send(*again, {answer});
  cluster.Settle(engine);
  REQUIRE(cluster.stream_count() == 1);
  CHECK(cluster.TakeStream()->stream.stream.code == StatusCode::kCancelled);
  answer = {};
  answer.index = 1;
  answer.value = AsBytes("x");
  cluster.Send(*again, {answer});
  CHECK(patient.Wait().ok());
}

TEST_CASE("A sender never exceeds its window and a receiver acknowledges in time",
          "[client][stream]") {
  const std::string value = Pattern(5'000'000);
  std::string received(value.size(), '\0');
  internal::StreamSender sender(AsBytes(value));
  internal::StreamReceiver receiver(
      {reinterpret_cast<std::byte*>(received.data()), received.size()});
  while (!sender.Complete()) {
    // Without an acknowledgement in between, both sides always get on: the receiver wants to
    // acknowledge before the sender is stuck.
    REQUIRE(sender.MaySend(limits::kStreamWindowBytes));
    std::uint64_t offset = 0;
    const Bytes part = sender.Next(&offset);
    REQUIRE(receiver.OnPart(offset, part));
    REQUIRE(sender.sent() <= receiver.received());
    if (!receiver.WantsAck(limits::kStreamWindowBytes)) continue;
    receiver.Acked();
    REQUIRE(sender.OnAck(receiver.received()));
  }
  CHECK(received == value);
  CHECK_FALSE(receiver.OnPart(0, AsBytes(std::string_view("x"))));
  CHECK_FALSE(sender.OnAck(value.size() + 1));
}

}  // namespace
}  // namespace tidepool::testing
