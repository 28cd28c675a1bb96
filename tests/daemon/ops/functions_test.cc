// Functions on records: built-in functions, functions of a real shared object, and the daemon's
// errors if the object is absent or misbehaves.
#include "daemon/ops/functions.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/daemon/raw_client.h"

namespace tidepool::daemon {
namespace {

using wire::Argument;
using wire::Opcode;

std::string Library(const std::string& name) {
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  return (folder / ("lib" + name + ".so")).string();
}

bool Says(const Status& status, std::string_view text) {
  INFO(status.ToString());
  return status.ToString().find(text) != std::string::npos;
}

TEST_CASE("ASharedObjectAddsItsFunctions") {
  const auto functions = Functions::Load({Library("sample_functions")});
  INFO(functions.status().ToString());
  REQUIRE(functions.ok());
  CHECK((*functions)->Find("sample.longest") != nullptr);
  CHECK((*functions)->Find("exchange") != nullptr);
  CHECK((*functions)->Find("sample") == nullptr);
  CHECK((*functions)->Names().find("sample.twice") != std::string::npos);
}

TEST_CASE("WhatIsNoSharedObjectOfFunctionsIsNamedAndRefused") {
  const auto load = [](std::vector<std::string> paths) { return Functions::Load(paths).status(); };
  const Status missing = load({"/nowhere/libx.so"});
  CHECK(missing == StatusCode::kNotFound);
  CHECK(Says(missing, "/nowhere/libx.so"));
  const Status other = load({Library("sample_other_version")});
  CHECK(other == StatusCode::kInvalidArgument);
  CHECK(Says(other, "version 9"));
  const Status none = load({Library("sample_no_table")});
  CHECK(none == StatusCode::kInvalidArgument);
  CHECK(Says(none, "tidepool_functions"));
  // Its names are taken the second time.
  const Status twice = load({Library("sample_functions"), Library("sample_functions")});
  CHECK(twice == StatusCode::kInvalidArgument);
  CHECK(Says(twice, "sample.longest"));
}

std::shared_ptr<const Functions> Sample() {
  auto loaded = Functions::Load({Library("sample_functions")});
  REQUIRE(loaded.ok());
  return *std::move(loaded);
}

struct Fixture {
  explicit Fixture(Kind kind = Kind::kHash)
      : node(1, 256ull << 20, kind, 0, "none", Sample()), client(node) {
    client.Attach();
  }
  OwnedAnswer Ask(const wire::Operation& operation) {
    const std::uint64_t frame = client.Call({operation});
    OwnedAnswer answer = client.WaitAnswer();
    client.ack_watermark = frame + 1;
    return answer;
  }
  wire::Operation Op(std::string_view key, std::string_view function, std::string_view argument) {
    value = std::string(function) + std::string(argument);
    wire::Operation operation;
    operation.opcode = Opcode::kApply;
    operation.key = AsBytes(key);
    operation.value = AsBytes(value);
    operation.set(Argument::kExpectedBytes, function.size());
    return operation;
  }
  OwnedAnswer Apply(std::string_view key, std::string_view function,
                    std::string_view argument = {}) {
    return Ask(Op(key, function, argument));
  }
  std::string Get(std::string_view key) {
    const OwnedAnswer answer = Ask(GetOp(key));
    return answer.answer.code == StatusCode::kOk
               ? answer.value
               : "<" + std::string(StatusCodeName(answer.answer.code)) + ">";
  }

  TestNode node;
  RawClient client;
  std::string value;  // Value of the last operation.
};

template <typename Number>
std::string Numbers(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

TEST_CASE("TheFunctionsOfEveryDaemon") {
  Fixture fixture(GENERATE(Kind::kHash, Kind::kOrdered));
  CHECK(fixture.Apply("a", "exchange", "one").value.empty());
  const OwnedAnswer two = fixture.Apply("a", "exchange", "two");
  CHECK(two.value == "one");
  CHECK(two.answer.has_version);
  CHECK(fixture.Get("a") == "two");
  CHECK(fixture.Apply("b", "greater", "m").value == "m");
  CHECK(fixture.Apply("b", "greater", "c").value == "m");
  CHECK(fixture.Apply("b", "greater", "mm").value == "mm");
  CHECK(fixture.Apply("b", "lesser", "b").value == "b");
  CHECK(fixture.Get("b") == "b");
  fixture.Apply("bits", "or-bytes", std::string_view("\x01\x02", 2));
  fixture.Apply("bits", "or-bytes", std::string_view("\x04", 1));
  CHECK(fixture.Get("bits") == "\x05\x02");
  fixture.Apply("sums", "add-i64s", Numbers<std::int64_t>({1, -2}));
  fixture.Apply("sums", "add-i64s", Numbers<std::int64_t>({10, 20, 30}));
  CHECK(fixture.Get("sums") == Numbers<std::int64_t>({11, 18, 30}));
  fixture.Apply("field", "add-f64s", Numbers<double>({0.5, 1}));
  fixture.Apply("field", "add-f64s", Numbers<double>({0.25}));
  CHECK(fixture.Get("field") == Numbers<double>({0.75, 1}));
  for (const char* piece : {"abc", "def", "ghi"}) {
    fixture.Apply("log", "append-last", Numbers<std::uint64_t>({7}) + piece);
  }
  CHECK(fixture.Get("log") == "cdefghi");
  fixture.Apply("log", "append-last", Numbers<std::uint64_t>({2}) + "xyz");
  CHECK(fixture.Get("log") == "yz");
}

TEST_CASE("ARefusalCarriesItsTextAndChangesNothing") {
  Fixture fixture;
  REQUIRE(fixture.Ask(PutOp("a", "123")).answer.code == StatusCode::kOk);
  const OwnedAnswer odd = fixture.Apply("a", "add-i64s", Numbers<std::int64_t>({1}));
  CHECK(odd.answer.code == StatusCode::kInvalidArgument);
  CHECK(odd.value.find("8 bytes") != std::string::npos);
  const OwnedAnswer text = fixture.Apply("a", "sample.twice");
  CHECK(text.answer.code == StatusCode::kInvalidArgument);
  CHECK(text.value == "no counter");
  const OwnedAnswer unknown = fixture.Apply("a", "nothing");
  CHECK(unknown.answer.code == StatusCode::kUnimplemented);
  CHECK(unknown.value.find("'nothing'") != std::string::npos);
  CHECK(unknown.value.find("exchange") != std::string::npos);
  CHECK(fixture.Get("a") == "123");
}

TEST_CASE("FunctionsOfASharedObjectDecide") {
  Fixture fixture;
  fixture.Apply("a", "sample.longest", "long");
  fixture.Apply("a", "sample.longest", "s");
  CHECK(fixture.Get("a") == "long");
  REQUIRE(fixture.Ask(AddOp("n", 21)).answer.code == StatusCode::kOk);
  CHECK(fixture.Apply("n", "sample.twice").answer.code == StatusCode::kOk);
  CHECK(fixture.Ask(AddOp("n", 0)).answer.number == 42);  // Still a counter.
  const OwnedAnswer dropped = fixture.Apply("a", "sample.drop");
  CHECK(dropped.value == "a");
  CHECK_FALSE(dropped.answer.has_version);
  CHECK(fixture.Get("a") == "<NOT_FOUND>");
  CHECK(fixture.Apply("a", "sample.drop").answer.code == StatusCode::kOk);
  CHECK(fixture.Get("a") == "<NOT_FOUND>");
}

TEST_CASE("AFunctionThatMisbehavesChangesNothing") {
  Fixture fixture;
  REQUIRE(fixture.Ask(PutOp("a", "v")).answer.code == StatusCode::kOk);
  CHECK(fixture.Apply("a", "sample.too-long").answer.code == StatusCode::kOutOfRange);
  CHECK(fixture.Apply("a", "sample.talk").answer.code == StatusCode::kOutOfRange);
  CHECK(fixture.Apply("a", "sample.no-verdict").answer.code == StatusCode::kInternal);
  CHECK(fixture.Apply("a", "sample.bad-number").answer.code == StatusCode::kInternal);
  CHECK(fixture.Get("a") == "v");
  // A value that no function takes.
  const std::string large(32'760, 'x');
  REQUIRE(fixture.Ask(PutOp("b", large)).answer.code == StatusCode::kOk);
  wire::Operation append = PutOp("b", "0123456789");
  append.opcode = Opcode::kAppend;
  REQUIRE(fixture.Ask(append).answer.code == StatusCode::kOk);
  CHECK(fixture.Apply("b", "exchange", "v").answer.code == StatusCode::kFailedPrecondition);
  // The old value is more than a function may answer.
  REQUIRE(fixture.Ask(PutOp("c", std::string(5'000, 'y'))).answer.code == StatusCode::kOk);
  CHECK(fixture.Apply("c", "exchange", "v").answer.code == StatusCode::kOutOfRange);
  CHECK(fixture.Get("c") == std::string(5'000, 'y'));
}

TEST_CASE("AnApplicationThatIsSentAgainIsOne") {
  Fixture fixture;
  RawClient& client = fixture.client;
  REQUIRE(fixture.Ask(PutOp("a", "old")).answer.code == StatusCode::kOk);
  const wire::FrameHeader header = client.NextHeader();
  const wire::Operation operation = fixture.Op("a", "exchange", "new");
  for (int i = 0; i < 2; ++i) {
    client.Send(client.Request(header, fixture.node.term(), {operation}));
    const OwnedAnswer answer = client.WaitAnswer();
    CHECK(answer.answer.code == StatusCode::kOk);
    CHECK(answer.value == "old");  // Not "new", which a second application would have found.
  }
}

}  // namespace
}  // namespace tidepool::daemon
