#include "cli/record_text.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "proto/base/limits.h"

namespace tidepool::cli {
namespace {

v1::Record MakeRecord(std::string key, std::string value,
                      v1::ValueKind kind = v1::VALUE_KIND_BYTES) {
  v1::Record record;
  record.set_key(std::move(key));
  record.set_value(std::move(value));
  record.set_value_kind(kind);
  return record;
}

void CheckComesBack(const v1::Record& record, RecordFormat format) {
  const std::string line = FormatRecord(record, format);
  CAPTURE(line);
  CHECK(line.find('\n') == std::string::npos);
  const Result<v1::Record> parsed = ParseRecord(line, format);
  REQUIRE(parsed.ok());
  CHECK(parsed->key() == record.key());
  CHECK(parsed->value() == record.value());
  CHECK(parsed->value_kind() == record.value_kind());
  CHECK(parsed->ttl_ms() == record.ttl_ms());
}

TEST_CASE("TextStandsInJsonAsItIs") {
  CHECK(FormatRecord(MakeRecord("a", "x \"y\""), RecordFormat::kJsonLines) ==
        R"({"key":"a","value":"x \"y\""})");
}

TEST_CASE("BytesThatAreNotUtf8StandInJsonAsBase64") {
  CHECK(FormatRecord(MakeRecord("\xFF", "ok"), RecordFormat::kJsonLines) ==
        R"({"key_base64":"/w==","value":"ok"})");
}

TEST_CASE("CountersStandInJsonAsNumbers") {
  const auto i64 = MakeRecord("n", CounterBytes(std::int64_t{-7}), v1::VALUE_KIND_I64);
  const auto f64 = MakeRecord("x", CounterBytes(2.0), v1::VALUE_KIND_F64);
  CHECK(FormatRecord(i64, RecordFormat::kJsonLines) == R"({"key":"n","value":-7})");
  CHECK(FormatRecord(f64, RecordFormat::kJsonLines) == R"({"key":"x","value":2.0})");
}

TEST_CASE("RandomRecordsComeBackFromBothFormats") {
  const auto seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937 random(seed);
  const std::string favourites("\0\t\n\r\\\"{}x", 9);
  const auto bytes = [&] {
    std::string text(random() % 40, '\0');
    for (char& c : text) {
      c = random() % 2 == 0 ? favourites[random() % favourites.size()]
                            : static_cast<char>(random());
    }
    return text;
  };
  for (int i = 0; i < 500; ++i) {
    v1::Record record = MakeRecord(bytes(), bytes());
    CheckComesBack(record, RecordFormat::kTsv);
    record.set_ttl_ms(random() % 3 * 1000);
    CheckComesBack(record, RecordFormat::kJsonLines);
  }
}

TEST_CASE("CountersComeBackFromJson") {
  for (const std::int64_t number : {INT64_MIN, std::int64_t{0}, INT64_MAX}) {
    CheckComesBack(MakeRecord("n", CounterBytes(number), v1::VALUE_KIND_I64),
                   RecordFormat::kJsonLines);
  }
  for (const double number : {0.1, -0.0, 1e300, 3.0, std::numeric_limits<double>::infinity()}) {
    CheckComesBack(MakeRecord("x", CounterBytes(number), v1::VALUE_KIND_F64),
                   RecordFormat::kJsonLines);
  }
}

TEST_CASE("NotANumberComesBackFromJsonAsACounter") {
  const auto record = MakeRecord("x", CounterBytes(std::nan("")), v1::VALUE_KIND_F64);
  const auto parsed =
      ParseRecord(FormatRecord(record, RecordFormat::kJsonLines), RecordFormat::kJsonLines);
  REQUIRE(parsed.ok());
  CHECK(parsed->value_kind() == v1::VALUE_KIND_F64);
  CHECK(std::isnan(CounterF64(parsed->value())));
}

TEST_CASE("JsonThatIsNoRecordIsRefused") {
  for (const char* line :
       {"", "[]", "{}", "{\"key\":\"a\"}", "{\"key\":1,\"value\":\"x\"}", "{\"value\":\"x\"}",
        "{\"key\":\"a\",\"key_base64\":\"Zg==\",\"value\":\"x\"}",
        "{\"key\":\"a\",\"value\":\"x\",\"value_base64\":\"Zg==\"}",
        "{\"key\":\"a\",\"value\":[1]}", "{\"key\":\"a\",\"value\":null}",
        "{\"key\":\"a\",\"value_base64\":\"?\"}", "{\"key\":\"a\",\"value\":18446744073709551615}",
        "{\"key\":\"a\",\"value\":\"x\",\"ttl_ms\":-1}",
        "{\"key\":\"a\",\"value\":\"x\",\"ttl_ms\":\"1\"}",
        "{\"key\":\"a\",\"value\":\"x\",\"kind\":\"i32\"}", "{\"key\":\"a\",\"value\":\"x\"} y",
        "{\"key\":\"\xFF\",\"value\":\"x\"}"}) {
    CAPTURE(line);
    CHECK(ParseRecord(line, RecordFormat::kJsonLines).code() == StatusCode::kInvalidArgument);
  }
}

TEST_CASE("DeeplyNestedJsonIsRefusedAndNotFatal") {
  const std::string line = "{\"key\":\"a\",\"value\":" + std::string(200'000, '[');
  CHECK(ParseRecord(line, RecordFormat::kJsonLines).code() == StatusCode::kInvalidArgument);
}

TEST_CASE("TsvThatIsNoRecordIsRefused") {
  for (const char* line : {"", "no tab", "a\tb\tc", "a\\q\tb", "a\tb\\", "a\tb\\x", "a\tb\\xg0"}) {
    CAPTURE(line);
    CHECK(ParseRecord(line, RecordFormat::kTsv).code() == StatusCode::kInvalidArgument);
  }
}

TEST_CASE("TsvTakesHexEscapesAndWindowsLineEnds") {
  const auto record = ParseRecord("k\\x41\tv\\xfF\r", RecordFormat::kTsv);
  REQUIRE(record.ok());
  CHECK(record->key() == "kA");
  CHECK(record->value() == "v\xFF");
}

TEST_CASE("AKeyThatIsTooLongIsRefusedWithItsSize") {
  const std::string line = std::string(limits::kKeyBytesMax + 1, 'k') + "\tv";
  const auto record = ParseRecord(line, RecordFormat::kTsv);
  CHECK(record.code() == StatusCode::kInvalidArgument);
  CHECK(std::string(record.status().what()).find("16385") != std::string::npos);
  CHECK(ParseRecord(line.substr(1), RecordFormat::kTsv).ok());
}

TEST_CASE("TheFormatIsSeenFromTheNameElseFromTheFirstLine") {
  CHECK(GuessRecordFormat("a.tsv", "{\"key\"") == RecordFormat::kTsv);
  CHECK(GuessRecordFormat("a.jsonl", "x\ty") == RecordFormat::kJsonLines);
  CHECK(GuessRecordFormat("-", "{\"key\":\"a\",\"value\":\"b\"}") == RecordFormat::kJsonLines);
  CHECK(GuessRecordFormat("-", "{tag}a\tb") == RecordFormat::kTsv);
  CHECK(GuessRecordFormat("data", "a\tb") == RecordFormat::kTsv);
}

TEST_CASE("OnlyCountersOfEightBytesAreNumbers") {
  CHECK(ValueText(CounterBytes(std::int64_t{42}), v1::VALUE_KIND_I64) == "42");
  CHECK(ValueText(CounterBytes(0.5), v1::VALUE_KIND_F64) == "0.5");
  CHECK(ValueText("abc", v1::VALUE_KIND_I64) == "abc");
  CHECK(ValueText("12345678", v1::VALUE_KIND_BYTES) == "12345678");
}

}  // namespace
}  // namespace tidepool::cli
