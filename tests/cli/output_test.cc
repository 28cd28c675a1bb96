#include "cli/output.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/exit_codes.h"

namespace tidepool::cli {
namespace {

// A pipe whose content fits its buffer.
class Pipe {
 public:
  Pipe() { REQUIRE(pipe(fds_) == 0); }
  ~Pipe() {
    close(fds_[0]);
    CloseWriter();
  }
  int writer() const { return fds_[1]; }
  void CloseWriter() {
    if (fds_[1] >= 0) close(fds_[1]);
    fds_[1] = -1;
  }
  std::string Content() {
    CloseWriter();
    std::string all;
    char buffer[4096];
    for (ssize_t got; (got = read(fds_[0], buffer, sizeof buffer)) > 0;) {
      all.append(buffer, static_cast<std::size_t>(got));
    }
    return all;
  }

 private:
  int fds_[2];
};

struct Printed {
  int exit_code = 0;
  std::string out;
  std::string err;
};

template <typename Use>
Printed Print(bool json, const Status& end, Use use) {
  Pipe out;
  Pipe err;
  Printed printed;
  {
    Output output(json, out.writer(), err.writer());
    use(output);
    printed.exit_code = output.Finish(end);
  }
  printed.out = out.Content();
  printed.err = err.Content();
  return printed;
}

TEST_CASE("TheEnvelopeAlwaysHasItsFiveMembers") {
  const Status failure(StatusCode::kNotFound, "no key 'x'", "list keys");
  const auto good = Print(true, OkStatus(), [](Output& out) { out.Result({{"n", 1}}, "one"); });
  const auto bad = Print(true, failure, [](Output&) {});
  CHECK(good.out ==
        "{\"ok\":true,\"code\":\"OK\",\"error\":null,\"remedy\":null,\"result\":{\"n\":1}}\n");
  CHECK(bad.out ==
        "{\"ok\":false,\"code\":\"NOT_FOUND\",\"error\":\"no key 'x'\",\"remedy\":\"list "
        "keys\",\"result\":null}\n");
  CHECK(good.exit_code == 0);
  CHECK(bad.exit_code == 3);
  CHECK(bad.err.empty());
}

TEST_CASE("AListIsOneEnvelopeHoweverLong") {
  const auto printed = Print(true, OkStatus(), [](Output& out) {
    out.BeginList("keys");
    for (int i = 0; i < 300; ++i) out.Item({{"key", std::to_string(i)}});
    out.Result({{"count", 300}}, "");
  });
  const Json json = Json::parse(printed.out);
  CHECK(json["ok"] == true);
  CHECK(json["result"]["keys"].size() == 300);
  CHECK(json["result"]["keys"][299]["key"] == "299");
  CHECK(json["result"]["count"] == 300);
  CHECK(json.size() == 5);
}

TEST_CASE("AnEmptyListIsAnEmptyArray") {
  const auto printed = Print(true, OkStatus(), [](Output& out) { out.BeginList("keys"); });
  const Json json = Json::parse(printed.out);
  CHECK(json["result"]["keys"] == Json::array());
  CHECK(json.size() == 5);
}

TEST_CASE("AListThatFailsInTheMiddleIsStillOneEnvelope") {
  const auto printed =
      Print(true, Status(StatusCode::kUnavailable, "node 1 is down"), [](Output& out) {
        out.BeginList("keys");
        out.Item({{"key", "a"}});
      });
  const Json json = Json::parse(printed.out);
  CHECK(json["ok"] == false);
  CHECK(json["code"] == "UNAVAILABLE");
  CHECK(json["error"] == "node 1 is down");
  CHECK(json["result"]["keys"].size() == 1);
  CHECK(printed.exit_code == 5);
}

TEST_CASE("AFailureIsOneLineOnStandardErrorWithItsRemedy") {
  const auto printed =
      Print(false, Status(StatusCode::kInvalidArgument, "bad\nkey", "mend it"), [](Output&) {});
  CHECK(printed.err == "kvctl: bad\\nkey (mend it)\n");
  CHECK(printed.out.empty());
  CHECK(printed.exit_code == 2);
}

TEST_CASE("AFailureWithoutTextIsNamedByItsCode") {
  const auto printed = Print(false, Status(StatusCode::kInternal, ""), [](Output&) {});
  CHECK(printed.err == "kvctl: INTERNAL\n");
}

TEST_CASE("RawBytesAreNotTouched") {
  const std::string bytes("\0\n\xFF\x1b[0m", 7);
  const auto printed = Print(false, OkStatus(), [&](Output& out) { out.Raw(bytes); });
  CHECK(printed.out == bytes);
  CHECK(printed.exit_code == 0);
}

TEST_CASE("PartialWinsOverTheCodeOfTheFailure") {
  const auto printed = Print(true, Status(StatusCode::kUnavailable, "2 of 3 failed"),
                             [](Output& out) { out.SetPartial(); });
  CHECK(printed.exit_code == 6);
  CHECK(Json::parse(printed.out)["code"] == "PARTIAL");
}

TEST_CASE("AFailedWriteIsTheCommandsFailure") {
  Pipe err;
  Output output(false, /*stdout_fd=*/-1, err.writer());
  output.Result({}, "lost");
  CHECK(output.Finish(OkStatus()) == 1);
  CHECK(err.Content().find("cannot write to standard output") != std::string::npos);
}

TEST_CASE("BytesGoIntoJsonAsTextOrBase64") {
  Json object;
  SetBytes(&object, "key", "text");
  SetBytes(&object, "value", std::string_view("\xFE\x00", 2));
  CHECK(object.dump() == R"({"key":"text","value_base64":"/gA="})");
}

TEST_CASE("ColumnsOfNumbersStandToTheRight") {
  Table table({"NAME", "RECORDS"});
  table.Add({"a", "7"});
  table.Add({"long\nname", "1234"});
  CHECK(table.ToString() ==
        "NAME        RECORDS\n"
        "a                 7\n"
        "long\\nname     1234\n");
}

TEST_CASE("EachStatusHasTheExitCodeThatTheHelpPromises") {
  const std::pair<StatusCode, int> rows[] = {{StatusCode::kOk, 0},
                                             {StatusCode::kInternal, 1},
                                             {StatusCode::kInvalidArgument, 2},
                                             {StatusCode::kUnimplemented, 2},
                                             {StatusCode::kNotFound, 3},
                                             {StatusCode::kDeadlineExceeded, 4},
                                             {StatusCode::kUnknown, 4},
                                             {StatusCode::kUnavailable, 5},
                                             {StatusCode::kFailedPrecondition, 1},
                                             {StatusCode::kDataLoss, 1},
                                             {StatusCode::kResourceExhausted, 1}};
  for (const auto& [code, exit_code] : rows) {
    CAPTURE(StatusCodeName(code));
    CHECK(static_cast<int>(ExitCodeOf(code)) == exit_code);
  }
  for (std::size_t i = 0; i < kExitCodes.size(); ++i) {
    CHECK(static_cast<std::size_t>(kExitCodes[i].code) == i);
  }
}

}  // namespace
}  // namespace tidepool::cli
