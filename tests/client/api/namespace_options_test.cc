// The words of the namespace options: each goes there and back, and any other text is refused.
#include "tidepool/namespace_options.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "proto/placement/placement_map.h"
#include "tidepool/namespace.h"

namespace tidepool {
namespace {

// All of `choices` have different words, which `parse` takes back.
template <typename Choice, typename Parse>
void CheckWords(const std::vector<Choice>& choices, Parse parse) {
  std::vector<std::string> words;
  for (const Choice choice : choices) {
    const std::string word(ToString(choice));
    INFO(word);
    for (const std::string& other : words) CHECK(other != word);
    words.push_back(word);
    const auto back = parse(word);
    REQUIRE(back.ok());
    CHECK(*back == choice);
    const auto longer = parse(word + "x");
    REQUIRE(longer.code() == StatusCode::kInvalidArgument);
    // The remedy lists every word.
    for (const Choice each : choices) {
      CHECK(longer.status().remedy().find(ToString(each)) != std::string_view::npos);
    }
  }
  CHECK(*parse("") == choices.front());
}

}  // namespace

TEST_CASE("Each choice has a word, and the word gives the choice back") {
  CheckWords<Durability>({Durability::kVolatile, Durability::kAsync, Durability::kSync},
                         &ParseDurability);
  CheckWords<OnLoss>({OnLoss::kError, OnLoss::kEmpty}, &ParseOnLoss);
  CheckWords<Medium>({Medium::kAny, Medium::kFile, Medium::kDax}, &ParseMedium);
  CheckWords<Prefilter>({Prefilter::kNone, Prefilter::kAbsent, Prefilter::kAdmit}, &ParsePrefilter);
  CheckWords<SplitMode>({SplitMode::kAuto, SplitMode::kManual}, &ParseSplitMode);
}

TEST_CASE("The words of the default options are those of the daemons") {
  const NamespaceOptions options;
  const placement::NamespaceOptions theirs;
  CHECK(ToString(options.durability) == theirs.durability);
  CHECK(ToString(options.on_loss) == theirs.on_loss);
  CHECK(ToString(options.medium) == theirs.medium);
  CHECK(ToString(options.prefilter) == theirs.prefilter);
  CHECK(ToString(options.split) == theirs.split);
  CHECK(ToString(options.home) == theirs.home);
  CHECK(options.false_positive_rate == theirs.false_positive_rate);
}

TEST_CASE("A home is anywhere, on this machine or a node's number") {
  CHECK(Home().is_anywhere());
  CHECK(Home::Local().is_local());
  CHECK(Home::Node(7).node() == 7);
  CHECK(Home::Node(0) != Home());
  for (const Home& home : {Home(), Home::Local(), Home::Node(0), Home::Node(4'294'967'295)}) {
    INFO(ToString(home));
    REQUIRE(ParseHome(ToString(home)).ok());
    CHECK(*ParseHome(ToString(home)) == home);
  }
  for (const char* text : {"-1", "1 ", "locale", "4294967296", "0x1", "node1"}) {
    INFO(text);
    CHECK(ParseHome(text).code() == StatusCode::kInvalidArgument);
  }
}

TEST_CASE("A message about a wrong word does not repeat a long text") {
  const Status status = ParseDurability(std::string(100'000, 'x')).status();
  CHECK(status.what().size() < 200);
}

}  // namespace tidepool
