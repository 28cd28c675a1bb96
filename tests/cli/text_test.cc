#include "cli/text.h"

#include <catch2/catch.hpp>
#include <random>
#include <string>

namespace tidepool::cli {
namespace {

TEST_CASE("SharesAreTextsOfFourDigits") {
  CHECK(FormatPercent(0.8) == "80 %");
  CHECK(FormatPercent(1) == "100 %");
  CHECK(FormatPercent(0.123456) == "12.35 %");
  CHECK(FormatPercent(0.0000012) == "0.00012 %");
}

TEST_CASE("WhatIsCutSaysSo") {
  CHECK(QuoteBeginning("abc", 3) == "'abc'");
  CHECK(QuoteBeginning("abc", 4) == "'abc'...");
}

TEST_CASE("DurationsTakeUnitsAndABareNumberIsSeconds") {
  CHECK(*ParseDurationMs("5") == 5'000);
  CHECK(*ParseDurationMs("250ms") == 250);
  CHECK(*ParseDurationMs("1.5s") == 1'500);
  CHECK(*ParseDurationMs("2m") == 120'000);
  CHECK(*ParseDurationMs("1H") == 3'600'000);
  CHECK(*ParseDurationMs("7d") == 604'800'000);
  CHECK(*ParseDurationMs("0") == 0);
}

TEST_CASE("ADurationAboveZeroNeverBecomesZero") { CHECK(*ParseDurationMs("0.0001ms") == 1); }

TEST_CASE("WhatIsNoDurationIsRefused") {
  for (const char* text : {"", "s", "-1s", "1e3", "5 s", "5y", ".", "1.2.3", "inf", "99999d"}) {
    CAPTURE(text);
    CHECK(ParseDurationMs(text).code() == StatusCode::kInvalidArgument);
  }
}

TEST_CASE("SizesAreInPowersOf1024WhateverTheSpelling") {
  CHECK(*ParseByteCount("4096") == 4096);
  CHECK(*ParseByteCount("4K") == 4096);
  CHECK(*ParseByteCount("4kb") == 4096);
  CHECK(*ParseByteCount("4KiB") == 4096);
  CHECK(*ParseByteCount("1.5G") == 3ull << 29);
  CHECK(*ParseByteCount("2TiB") == 2ull << 40);
  CHECK(*ParseByteCount("7b") == 7);
  CHECK(*ParseByteCount("9007199254740993") == 9'007'199'254'740'993);  // Has no exact double.
}

TEST_CASE("WhatIsNoSizeIsRefused") {
  for (const char* text : {"", "K", "-1", "5X", "5KiBB", "99999999999T", "1 K", "0x10", "50%"}) {
    CAPTURE(text);
    CHECK(ParseByteCount(text).code() == StatusCode::kInvalidArgument);
  }
}

TEST_CASE("WholeNumbersMustBeTheWholeText") {
  CHECK(*ParseSigned("-9223372036854775808") == INT64_MIN);
  CHECK(*ParseSigned("+5") == 5);
  CHECK(*ParseUnsigned("18446744073709551615") == UINT64_MAX);
  for (const char* text : {"", "+", "+-5", "5 ", " 5", "5.0", "9223372036854775808", "0x5"}) {
    CAPTURE(text);
    CHECK(ParseSigned(text).code() == StatusCode::kInvalidArgument);
  }
  CHECK(ParseUnsigned("-1").code() == StatusCode::kInvalidArgument);
}

TEST_CASE("DoublesComeBackFromTheirText") {
  for (const double number : {0.1, -1e300, 5e-324, 3.0, 1.0 / 3}) {
    CHECK(*ParseDouble(FormatDouble(number)) == number);
  }
}

TEST_CASE("BytesAreShownInTheUnitThatFits") {
  CHECK(FormatBytes(0) == "0 B");
  CHECK(FormatBytes(1023) == "1023 B");
  CHECK(FormatBytes(1536) == "1.5 KiB");
  CHECK(FormatBytes((1 << 20) - 1) == "1.0 MiB");
  CHECK(FormatBytes(5ull << 40) == "5.0 TiB");
  CHECK(FormatBytes(UINT64_MAX) == "16.0 EiB");
}

TEST_CASE("DurationsAreShownInTheUnitThatFits") {
  CHECK(FormatDurationMs(7) == "7ms");
  CHECK(FormatDurationMs(1500) == "1.5s");
  CHECK(FormatDurationMs(61'000) == "1m01s");
  CHECK(FormatDurationMs(3'661'000) == "1h01m");
  CHECK(FormatDurationMs(90'061'000) == "1d01h");
  CHECK(FormatNs(870) == "870 ns");
  CHECK(FormatNs(12'345) == "12.3 us");
  CHECK(FormatCount(4'711'000) == "4.71 M");
  CHECK(FormatCount(9'999) == "9999");
}

TEST_CASE("Utf8IsToldFromOtherBytes") {
  CHECK(IsUtf8(""));
  CHECK(IsUtf8(std::string("a\0b", 3)));
  CHECK(IsUtf8("gr\xC3\xBC\xC3\x9F \xE2\x82\xAC \xF0\x9F\x98\x80"));
  for (const char* bytes : {"\x80", "\xC3", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                            "\xE2\x82", "\xFF", "a\xE2(\xA1"}) {
    CAPTURE(bytes);
    CHECK_FALSE(IsUtf8(bytes));
  }
}

TEST_CASE("Base64ComesBack") {
  CHECK(EncodeBase64("") == "");
  CHECK(EncodeBase64("f") == "Zg==");
  CHECK(EncodeBase64("fo") == "Zm8=");
  CHECK(EncodeBase64("foo") == "Zm9v");
  const auto seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 200; ++i) {
    std::string bytes(random() % 70, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    CHECK(*DecodeBase64(EncodeBase64(bytes)) == bytes);
  }
}

TEST_CASE("WhatIsNoBase64IsRefused") {
  for (const char* text : {"Z", "Zg", "Zg=", "Zg===", "Z===", "Zh==", "Zm9v\n", "Zm9*", "=Zg="}) {
    CAPTURE(text);
    CHECK(DecodeBase64(text).code() == StatusCode::kInvalidArgument);
  }
}

TEST_CASE("NothingThatATerminalObeysIsPrinted") {
  CHECK(ForTerminal("plain \xC3\xBC") == "plain \xC3\xBC");
  CHECK(ForTerminal("a\nb\tc") == "a\\nb\\tc");
  CHECK(ForTerminal("\x1b[31m\x7f") == "\\x1b[31m\\x7f");
  CHECK(ForTerminal(std::string_view("\0", 1)) == "\\x00");
  CHECK(ForTerminal("\xFFz") == "\\xffz");
  CHECK(ForTerminal("\xC2\x9B"
                    "31m") == "\\xc2\\x9b31m");
}

TEST_CASE("ALongKeyIsCutInMessages") {
  CHECK(Quote("short") == "'short'");
  const std::string quoted = Quote(std::string(59, 'a') + "\xC3\xBC" + std::string(100, 'b'));
  CHECK(quoted == "'" + std::string(59, 'a') + "...'");
}

}  // namespace
}  // namespace tidepool::cli
