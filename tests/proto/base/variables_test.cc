#include "proto/base/variables.h"

#include <catch2/catch.hpp>

namespace tidepool {
namespace {

TEST_CASE("AKnownVariableIsNoMatter") {
  CHECK(UnknownVariableTexts({"TIDEPOOL_CLUSTER=x", "TIDEPOOL_TEST_FAILPOINT=a", "PATH=/bin",
                              "TIDEPOOL_EXECUTED_AGAIN=1", "=odd", "alone", "TIDEPOOL"})
            .empty());
  for (const std::string_view name : KnownVariables()) CHECK(IsKnownVariable(name));
}

TEST_CASE("AnUnknownVariableIsNamedWithTheNearestKnownOne") {
  const auto texts = UnknownVariableTexts({"TIDEPOOL_CLUSTRE=x", "TIDEPOOL_MEMROY=1", "TIDEPOOL_=1",
                                           "TIDEPOOL_XYZZYPLUGH=1", "TIDEPOOL_FOO=1"});
  REQUIRE(texts.size() == 5);
  CHECK(texts[4].find("did you mean") == std::string::npos);
  CHECK(texts[0].find("TIDEPOOL_CLUSTRE") != std::string::npos);
  CHECK(texts[0].find("did you mean TIDEPOOL_CLUSTER?") != std::string::npos);
  CHECK(texts[1].find("did you mean TIDEPOOL_MEMORY?") != std::string::npos);
  CHECK(texts[3].find("unset it") != std::string::npos);
}

TEST_CASE("AVariableWithoutAValueCountsAsAbsent") {
  CHECK(UnknownVariableTexts({"TIDEPOOL_CLUSTRE="}).empty());
}

TEST_CASE("AnyNameGivesOneLineOfPrintableText") {
  const auto texts = UnknownVariableTexts(
      {"TIDEPOOL_\n\x1b[31m\xff=1", "TIDEPOOL_" + std::string(100'000, 'X') + "=1"});
  REQUIRE(texts.size() == 2);
  for (const std::string& text : texts) {
    CHECK(text.size() < 200);
    for (const char c : text) CHECK((c >= ' ' && c <= '~'));
  }
}

}  // namespace
}  // namespace tidepool
