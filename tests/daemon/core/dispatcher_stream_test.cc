// Values that travel in parts, with frames made by hand: uploads, downloads, and their ends when a
// connection breaks or a Put fails.
#include <catch2/catch.hpp>

#include "daemon/core/core.h"
#include "daemon/core/dispatcher.h"
#include "tests/daemon/raw_client.h"

namespace tidepool::daemon {
namespace {

std::string Pattern(std::size_t bytes) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i * 2654435761u >> 13);
  return text;
}

wire::Operation PutUploaded(std::string_view key, std::uint64_t number) {
  wire::Operation put = PutOp(key, {});
  put.set(wire::Argument::kUpload, number);
  return put;
}

TEST_CASE("ALargeValueTravelsInPartsBothWays") {
  TestNode node;
  RawClient client(node);
  client.Attach();
  std::uint64_t number = 0;
  for (const std::size_t bytes : {limits::kUnstreamedValueBytesMax + 1, std::size_t{1'000'000},
                                  std::size_t{5'000'001}, std::size_t{20'000'000}}) {
    const std::string value = Pattern(bytes);
    UploadValue(client, ++number, value);
    client.Call({PutUploaded("big", number)});
    REQUIRE(client.WaitAnswer().answer.code == StatusCode::kOk);
    client.Call({GetOp("big")});
    CHECK(DownloadValue(client, client.WaitAnswer()) == value);
  }
}

TEST_CASE("AnUploadIsInvisibleUntilItsPut") {
  TestNode node;
  RawClient client(node);
  client.Attach();
  UploadValue(client, 1, Pattern(100'000));
  client.Call({GetOp("big")});
  CHECK(client.WaitAnswer().answer.code == StatusCode::kNotFound);
}

TEST_CASE("APutThatNamesAnIncompleteUploadFails") {
  TestNode node;
  RawClient client(node);
  client.Attach();
  UploadPart(client, 1, Pattern(100'000), 0, 50'000);
  client.Call({PutUploaded("big", 1)});
  CHECK(client.WaitAnswer().answer.code == StatusCode::kFailedPrecondition);
}

TEST_CASE("AGapInAnUploadEndsIt") {
  TestNode node;
  RawClient client(node);
  client.Attach();
  const std::string value = Pattern(200'000);
  UploadPart(client, 1, value, 0, 50'000);
  UploadPart(client, 1, value, 60'000, 10'000);
  CHECK(client.WaitStream().frame.stream.code == StatusCode::kInvalidArgument);
}

TEST_CASE("AValueBeyondMemoryIsRefusedAndTheSessionGoesOn") {
  TestNode node(1, limits::kMemoryBytesMin);
  RawClient client(node);
  client.Attach();
  const std::string value = Pattern(limits::kMemoryBytesMin + 1);
  bool refused = false;
  for (std::size_t sent = 0; !refused && sent < value.size();) {
    const std::size_t bytes = std::min(limits::kStreamPartBytesMax, value.size() - sent);
    UploadPart(client, 1, value, sent, bytes);
    sent += bytes;
    if (sent % limits::kStreamWindowBytes != 0 && sent < value.size()) continue;
    for (;;) {
      const auto ack = client.WaitStream();
      if (ack.frame.stream.code == StatusCode::kResourceExhausted) refused = true;
      if (refused || ack.frame.stream.offset == sent) break;
    }
  }
  CHECK(refused);
  client.Call({PutOp("a", "x")});
  CHECK(client.WaitAnswer().answer.code == StatusCode::kOk);
}

std::uint64_t UsedBytes(TestNode& node) {
  std::uint64_t bytes = 0;
  const auto read = [&](Core& core) { bytes = core.store().usage().used_bytes; };
  REQUIRE(node.cores().Run(CoreId(0), read, Deadline::AfterMs(10'000)).ok());
  return bytes;
}

TEST_CASE("AnUploadWhosePutFailsIsFreed") {
  TestNode node(1, limits::kMemoryBytesMin);
  RawClient client(node);
  client.Attach();
  client.Call({PutOp("a", "x")});
  REQUIRE(client.WaitAnswer().answer.code == StatusCode::kOk);
  const std::uint64_t before = UsedBytes(node);
  const std::string value = Pattern(limits::kMemoryBytesMin / 2);
  UploadValue(client, 1, value);
  REQUIRE(UsedBytes(node) > before + value.size() / 2);
  wire::Operation put = PutUploaded("a", 1);
  put.condition = wire::PutCondition::kIfAbsent;
  client.Call({put});
  CHECK(client.WaitAnswer().answer.code == StatusCode::kAlreadyExists);
  const Deadline deadline = Deadline::AfterMs(30'000);
  while (UsedBytes(node) > before + value.size() / 2) REQUIRE_FALSE(deadline.Passed());
}

TEST_CASE("APartOfAnUploadThatItsPutHasTakenMeansNothing") {
  TestNode node;
  RawClient client(node);
  client.Attach();
  const std::string value = Pattern(100'000);
  UploadValue(client, 1, value);
  client.Call({PutUploaded("big", 1)});
  REQUIRE(client.WaitAnswer().answer.code == StatusCode::kOk);
  UploadPart(client, 1, value, value.size(), 0);
  UploadPart(client, 1, value, 0, 1'000);
  client.Call({GetOp("big")});
  CHECK(DownloadValue(client, client.WaitAnswer()) == value);
}

TEST_CASE("ABrokenConnectionFreesItsUpload") {
  TestNode node(1, limits::kMemoryBytesMin);
  const std::uint64_t before = UsedBytes(node);
  RawClient client(node);
  client.Attach();
  const std::string value = Pattern(limits::kMemoryBytesMin / 2);
  UploadValue(client, 1, value);  // Complete, and no Put names it.
  REQUIRE(UsedBytes(node) > before + value.size() / 2);
  client.CutConnection();
  const Deadline deadline = Deadline::AfterMs(30'000);
  while (UsedBytes(node) > before + value.size() / 2) REQUIRE_FALSE(deadline.Passed());
}

TEST_CASE("AValueThatExceedsTheAllowanceIsStreamed") {
  TestNode node;
  RawClient client(node);
  client.Attach();
  const std::string value = Pattern(10'000);
  client.Call({PutOp("a", value)});
  REQUIRE(client.WaitAnswer().answer.code == StatusCode::kOk);
  client.reply_bytes_max = 1'000;
  client.Call({GetOp("a")});
  CHECK(DownloadValue(client, client.WaitAnswer()) == value);
}

TEST_CASE("ATakenValueIsNotLostWithTheConnection") {
  TestNode node;
  RawClient client(node);
  client.Attach();
  const std::string value = Pattern(3'000'000);
  UploadValue(client, 1, value);
  client.Call({PutUploaded("big", 1)});
  REQUIRE(client.WaitAnswer().answer.code == StatusCode::kOk);
  wire::Operation take = GetOp("big");
  take.opcode = wire::Opcode::kTake;
  wire::FrameHeader header = client.NextHeader();
  client.Send(client.Request(header, node.term(), {take}));
  CHECK(client.WaitAnswer().answer.streamed);
  client.CutConnection();
  REQUIRE(client.Attach());
  header.connection = client.attached().connection;
  client.Send(client.Request(header, node.term(), {take}));
  CHECK(DownloadValue(client, client.WaitAnswer()) == value);
  client.Call({GetOp("big")});
  CHECK(client.WaitAnswer().answer.code == StatusCode::kNotFound);
}

}  // namespace
}  // namespace tidepool::daemon
