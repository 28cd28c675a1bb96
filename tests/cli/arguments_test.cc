#include "cli/arguments.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "cli/help.h"
#include "cli/verbs.h"

namespace tidepool::cli {
namespace {

using Words = std::vector<std::string>;

CommandLine Parse(const Words& words) {
  const Result<CommandLine> line = ParseCommandLine(words);
  CAPTURE(words, line.status().ToString());
  REQUIRE(line.ok());
  return *line;
}

Status Refusal(const Words& words) {
  const Result<CommandLine> line = ParseCommandLine(words);
  CAPTURE(words);
  REQUIRE(line.code() == StatusCode::kInvalidArgument);
  return line.status();
}

TEST_CASE("OptionsMayStandAnywhere") {
  for (const Words& words :
       {Words{"--json", "put", "ns", "k", "v", "--ttl", "5s"},
        Words{"put", "--ttl=5s", "ns", "--json", "k", "v"},
        Words{"--timeout", "3", "put", "ns", "k", "--json", "--ttl", "5s", "v"}}) {
    const CommandLine line = Parse(words);
    CHECK(line.verb->name == "put");
    CHECK(line.arguments.Text("NAMESPACE") == "ns");
    CHECK(line.arguments.Text("KEY") == "k");
    CHECK(line.arguments.Text("VALUE") == "v");
    CHECK(*line.arguments.DurationMs("--ttl", 0) == 5'000);
    CHECK(line.arguments.Has("--json"));
  }
}

TEST_CASE("ValuesArriveAsTheyWereGiven") {
  for (const std::string value : {"", "-", "-5", "-.5", "[1,2]", "{}", "%%", "a b", "@f", "a=b",
                                  "[", "\x01", "\xFF", "/x", "'", "\"", "true"}) {
    CAPTURE(value);
    CHECK(Parse({"put", "ns", "k", value}).arguments.Text("VALUE") == value);
    CHECK(Parse({"put", "ns", value, "v"}).arguments.Text("KEY") == value);
  }
}

TEST_CASE("AShortOptionThatIsADigitIsNoValue") {
  for (const Words& words : {Words{"keys", "ns", "-0"}, Words{"keys", "-0", "ns", "a*"},
                             Words{"scan", "ns", "a", "b", "-0"}, Words{"scan", "ns", "-k", "-0"},
                             Words{"pop", "ns", "-0"}, Words{"peek", "-0", "ns"}}) {
    const CommandLine line = Parse(words);
    CAPTURE(words);
    CHECK(line.arguments.Has("--null"));
    CHECK(line.arguments.Text("NAMESPACE") == "ns");
  }
  CHECK_FALSE(Parse({"keys", "ns"}).arguments.Has("--null"));
  CHECK(Parse({"keys", "ns", "-5"}).arguments.Text("GLOB") == "-5");
  CHECK(Parse({"keys", "ns", "--", "-0"}).arguments.Text("GLOB") == "-0");
  CHECK(Parse({"put", "ns", "k", "-0"}).arguments.Text("VALUE") == "-0");
}

TEST_CASE("BehindDashesNothingIsAnOption") {
  CHECK(Parse({"put", "ns", "k", "--", "--ttl"}).arguments.Text("VALUE") == "--ttl");
  CHECK(Parse({"put", "ns", "--", "-h", "--help"}).arguments.Text("KEY") == "-h");
  CHECK(Parse({"start", "--local", "3", "--", "--cores", "2"}).arguments.All("KVD_OPTION") ==
        Words{"--cores", "2"});
}

TEST_CASE("AnOptionsValueMayBeginWithADashAfterAnEqualsSign") {
  CHECK(Parse({"get", "ns", "k", "--cluster=-odd"}).arguments.Text("--cluster") == "-odd");
}

TEST_CASE("AValueInBracketsMayBeLeftOut") {
  CHECK(Parse({"start", "--local"}).arguments.Has("--local"));
  CHECK(Parse({"start", "--local"}).arguments.Text("--local").empty());
  CHECK(Parse({"start", "--local", "3"}).arguments.Text("--local") == "3");
  CHECK(Parse({"start", "--local", "--", "--pin"}).arguments.Text("--local").empty());
  CHECK_FALSE(Parse({"start"}).arguments.Has("--local"));
}

TEST_CASE("TheLastOfARepeatedOptionCounts") {
  CHECK(Parse({"get", "a", "b", "--timeout", "1", "--timeout", "2"}).arguments.Text("--timeout") ==
        "2");
}

TEST_CASE("VerbsOfTwoWordsAreFound") {
  const CommandLine line = Parse({"namespace", "create", "x", "--partitions", "8"});
  CHECK(line.verb->name == "namespace create");
  CHECK(line.arguments.Text("NAMESPACE") == "x");
  CHECK(*line.arguments.Number("--partitions", 0) == 8);
}

TEST_CASE("SeveralKeysAreTaken") {
  CHECK(Parse({"delete", "ns", "a", "b", "c"}).arguments.All("KEY") == Words{"a", "b", "c"});
}

TEST_CASE("HelpIsAskedForInManyWays") {
  CHECK(Parse({"--help"}).verb->name == "help");
  CHECK(Parse({}).verb->name == "help");
  CHECK(Parse({}).arguments.Has("--short"));
  CHECK_FALSE(Parse({"--help"}).arguments.Has("--short"));
  CHECK(Parse({"put", "-h"}).arguments.All("VERB") == Words{"put"});
  CHECK(Parse({"--help", "stage", "in"}).arguments.All("VERB") == Words{"stage in"});
  CHECK(Parse({"namespace", "--help"}).arguments.All("VERB") == Words{"namespace"});
  CHECK(Parse({"help", "stage", "in"}).arguments.All("VERB") == Words{"stage", "in"});
  CHECK(Parse({"--version"}).verb->name == "version");
}

TEST_CASE("AnUnknownVerbNamesTheNearest") {
  const std::pair<Words, std::string> rows[] = {{{"pt", "a"}, "kvctl put"},
                                                {{"set", "a"}, "kvctl put"},
                                                {{"ls", "a"}, "kvctl keys"},
                                                {{"delte"}, "kvctl delete"},
                                                {{"stauts"}, "kvctl status"},
                                                {{"namespace", "creat"}, "kvctl namespace create"},
                                                {{"stage", "outt"}, "kvctl stage out"}};
  for (const auto& [words, nearest] : rows) {
    CAPTURE(words);
    CHECK(Refusal(words).remedy() == "did you mean: " + nearest);
  }
  CHECK(Refusal({"xyzzyxyzzy"}).remedy() == "see: kvctl help");
}

TEST_CASE("AnUnknownOptionNamesTheNearest") {
  CHECK(Refusal({"put", "n", "k", "v", "--tll", "5"}).remedy() == "did you mean: --ttl");
  CHECK(Refusal({"put", "n", "k", "v", "--jsn=1"}).remedy() == "did you mean: --json");
  CHECK(Refusal({"count", "n", "--ttl", "5"}).what() == "count has no option '--ttl'");
}

TEST_CASE("AnOptionOfAnotherProgramIsSentBehindDashes") {
  const Words start = {"start", "--local", "--cores", "2"};
  CHECK(Refusal(start).remedy().find("kvctl start [OPTION]... -- --cores") != std::string::npos);
  CHECK(Refusal({"run", "--np", "4"}).remedy().find("-- PROGRAM --np") != std::string::npos);
  CHECK(Refusal({"run", "--local", "2", "a", "-n"}).what() ==
        "'-n' stands behind 'a' and may be an option of either");
  CHECK(Refusal({"run", "--local", "a", "--memory", "1GiB"}).what() ==
        "'--memory' stands behind 'a' and may be an option of either");
  CHECK(Refusal({"run", "--local", "a", "--help"}).what() ==
        "'--help' stands behind 'a' and may be an option of either");
  CHECK(Parse({"run", "--local", "--help", "--", "a"}).verb->name == "help");
  CHECK(Refusal({"run", "--memory", "--", "a", "-n"}).what() == "--memory needs a value");
  CHECK(Refusal({"run", "--local", "--"}).what() == "there is no program to run");
  CHECK(Parse({"run", "--local", "a"}).arguments.All("COMMAND") == Words{"a"});
  CHECK(Parse({"run", "--local", "--", "a", "-n", "--json"}).arguments.All("COMMAND") ==
        Words{"a", "-n", "--json"});
  CHECK(Parse({"run", "a", "b"}).arguments.All("COMMAND") == Words{"a", "b"});
}

TEST_CASE("AShortOptionMayHaveItsValueInTheSameWord") {
  CHECK(Parse({"keys", "ns", "-n5"}).arguments.Text("--limit") == "5");
  CHECK(Refusal({"keys", "ns", "-x"}).what() == "keys has no option '-x'");
}

TEST_CASE("WrongNumbersOfArgumentsAreRefused") {
  for (const Words& words :
       {Words{"put"}, Words{"put", "ns", "k"}, Words{"put", "ns", "k", "v", "extra"},
        Words{"status", "x"}, Words{"namespace"}, Words{"get", "ns", "k", "--timeout"},
        Words{"delete"}, Words{"--json"}, Words{"--", "put"}}) {
    CHECK_FALSE(Refusal(words).what().empty());
  }
}

TEST_CASE("JsonIsSeenEvenIfTheRestMakesNoSense") {
  CHECK(WantsJson({"frob", "--json"}));
  CHECK_FALSE(WantsJson({"put", "ns", "k", "--", "--json"}));
}

TEST_CASE("EachVerbExplainsItself") {
  std::set<std::string_view> names;
  for (const Verb& verb : Verbs()) {
    CAPTURE(verb.name);
    CHECK(names.insert(verb.name).second);
    CHECK(verb.run != nullptr);
    CHECK_FALSE(verb.summary.empty());
    CHECK_FALSE(verb.summary.ends_with('.'));
    CHECK_FALSE(verb.examples.empty());
    CHECK(GeneralHelp().find("  " + std::string(verb.name)) != std::string::npos);
    CHECK(GeneralHelp().find("\n" + std::string(verb.group) + "\n") != std::string::npos);
    CHECK(ShortHelp().find("  " + std::string(verb.group) + "  ") != std::string::npos);
    CHECK(ShortHelp().find(verb.name.substr(verb.name.rfind(' ') + 1)) != std::string::npos);
    CHECK(ManualPage().find(".SS ") != std::string::npos);
    const std::string help = VerbHelp(verb);
    for (const Option& option : verb.options) {
      const auto name = option.name.substr(option.name.find("--"));
      CHECK(help.find(std::string(name)) != std::string::npos);
    }
  }
}

// Cuts an example's command line into words as a shell would, up to a pipe, redirection or list.
Words WordsOf(std::string_view command) {
  const std::size_t start = command.find("kvctl ");
  Words words;
  if (start == std::string_view::npos) return words;
  command.remove_prefix(start + 6);
  std::string word;
  char quote = '\0';
  bool open = false;
  for (const char c : std::string(command) + " ") {
    if (quote != '\0') {
      if (c == quote) {
        quote = '\0';
      } else {
        word += c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      open = true;
    } else if (c == '|' || c == '>' || c == '&') {
      break;
    } else if (c != ' ') {
      word += c;
      open = true;
    } else if (open) {
      words.push_back(word);
      word.clear();
      open = false;
    }
  }
  return words;
}

TEST_CASE("EachExampleIsAValidCommandOfItsVerb") {
  for (const Verb& verb : Verbs()) {
    for (const Example& example : verb.examples) {
      CAPTURE(example.command);
      const Result<CommandLine> line = ParseCommandLine(WordsOf(example.command));
      REQUIRE(line.ok());
      const bool related = line->verb->name == verb.name ||
                           example.command.find("namespace drop") != std::string_view::npos ||
                           line->verb->name == "get";
      CHECK(related);
    }
  }
}

TEST_CASE("NothingInTheManualPageBeginsALineWithAPointByAccident") {
  const std::set<std::string> requests = {".TH", ".SH", ".SS", ".TP", ".PP", ".nf", ".fi"};
  std::string line;
  for (const char c : ManualPage() + "\n") {
    if (c != '\n') {
      line += c;
      continue;
    }
    if (line.starts_with('.')) {
      CAPTURE(line);
      CHECK(requests.count(line.substr(0, 3)) == 1);
    }
    line.clear();
  }
}

TEST_CASE("LongTextIsWrapped") {
  CHECK(Wrap("aa bb cc", 2, 7) == "  aa bb\n  cc\n");
  CHECK(Wrap("", 2, 10) == "  \n");
}

}  // namespace
}  // namespace tidepool::cli
