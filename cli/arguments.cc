#include "cli/arguments.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cctype>

#include "cli/text.h"
#include "cli/verbs.h"
#include "proto/base/check.h"
#include "proto/base/nearest.h"

namespace tidepool::cli {
namespace {

// CLI11 gives some values a meaning ("[1,2]" becomes two of them, "-5" an option). No argument can
// contain this character by accident in its first place and mean it: each value is handed to CLI11
// behind it.
constexpr char kValueMark = '\x01';

Status Usage(const std::string& what, std::string_view verb) {
  std::string remedy = "see: kvctl help";
  if (!verb.empty()) remedy.append(" ").append(verb);
  return Status(StatusCode::kInvalidArgument, what, remedy);
}

// "-n,--limit" -> "--limit".
std::string_view LongName(std::string_view names) {
  const std::size_t comma = names.find(',');
  return comma == std::string_view::npos ? names : names.substr(comma + 1);
}

bool NamesOption(const Option& option, std::string_view name) {
  const std::size_t comma = option.name.find(',');
  return name == LongName(option.name) ||
         (comma != std::string_view::npos && name == option.name.substr(0, comma));
}

const Option* FindOption(const std::vector<Option>& options, std::string_view name) {
  const auto found = std::find_if(options.begin(), options.end(),
                                  [&](const Option& option) { return NamesOption(option, name); });
  return found == options.end() ? nullptr : &*found;
}

// Negative numbers are values, unless the number is the name of an option: "-0".
bool LooksLikeOption(std::string_view argument, const std::vector<Option>& options) {
  if (argument.size() < 2 || argument[0] != '-') return false;
  if (FindOption(options, argument) != nullptr) return true;
  const auto second = static_cast<unsigned char>(argument[1]);
  const bool number = std::isdigit(second) || (second == '.' && argument.size() > 2);
  return !number && argument != "-inf" && argument != "-nan";
}

std::vector<Option> OptionsOf(const Verb& verb) {
  std::vector<Option> options = GlobalOptions();
  options.insert(options.end(), verb.options.begin(), verb.options.end());
  return options;
}

bool HasParameter(const Verb& verb, std::string_view name) {
  return std::any_of(verb.parameters.begin(), verb.parameters.end(),
                     [&](const Parameter& parameter) { return parameter.name == name; });
}

// Returns "'kvctl run [OPTION]... -- ./prog -n 4'", as the words should have been given.
std::string BehindDashes(const Verb& verb, const std::vector<std::string>& words) {
  std::string line = "kvctl " + std::string(verb.name) + " [OPTION]... --";
  for (const std::string& word : words) line += " " + word;
  return Quote(line);
}

// Says where options of another program belong: of the program that `run` runs, or of kvd.
std::string RemedyForUnknown(const Verb& verb, const std::string& argument) {
  if (HasParameter(verb, "COMMAND")) {
    return "if it is an option of the program, write -- before the program: " +
           BehindDashes(verb, {"PROGRAM", argument});
  }
  if (HasParameter(verb, "KVD_OPTION")) {
    return "if it is an option of kvd, write it behind --: " + BehindDashes(verb, {argument});
  }
  return "see: kvctl help " + std::string(verb.name);
}

Status CheckOptionName(const std::string& argument, const std::vector<Option>& options,
                       const Verb& verb) {
  const std::string name = argument.substr(0, argument.find('='));
  if (FindOption(options, name) != nullptr) return OkStatus();
  // A short option, with its value or other options in the same word: "-n5".
  const bool is_short = argument[1] != '-' && FindOption(options, "-" + name) == nullptr;
  if (is_short && FindOption(options, argument.substr(0, 2)) != nullptr) return OkStatus();
  const std::string what = std::string(verb.name) + " has no option " + Quote(name);
  Nearest nearest(
      std::string_view(name).substr(std::min(name.find_first_not_of('-'), name.size())));
  for (const Option& option : options) nearest.Consider(LongName(option.name).substr(2));
  if (!nearest.found().empty()) {
    return Status(StatusCode::kInvalidArgument, what, "did you mean: --" + nearest.found());
  }
  return Status(StatusCode::kInvalidArgument, what, RemedyForUnknown(verb, argument));
}

bool IsNumber(std::string_view word) {
  return !word.empty() && word.find_first_not_of("0123456789") == std::string_view::npos;
}

// Returns how many of the arguments behind `option`, which stands alone, are its value.
std::size_t ValuesOf(const Option& option, const std::vector<std::string>& behind) {
  if (option.value.empty() || behind.empty() || behind.front() == "--") return 0;
  // "[N]": a word that is no number is the program's name.
  const bool may_lack = option.value[0] == '[';
  return may_lack && !IsNumber(behind.front()) ? 0 : 1;
}

// Returns the first word that is neither an option nor its value, before "--".
std::vector<std::string>::const_iterator FirstArgument(const std::vector<std::string>& arguments,
                                                       const std::vector<Option>& options) {
  auto each = arguments.begin();
  for (; each != arguments.end() && *each != "--" && LooksLikeOption(*each, options); ++each) {
    const Option* const option = FindOption(options, *each);
    if (option == nullptr) continue;  // Its value stands in the same word.
    each += static_cast<std::ptrdiff_t>(ValuesOf(*option, std::vector(each + 1, arguments.end())));
  }
  return each != arguments.end() && *each == "--" ? arguments.end() : each;
}

// Refuses options that the verb does not have. Without -- options behind a program's name are
// refused, too: they may be meant for either.
Status CheckOptionNames(const std::vector<std::string>& arguments,
                        const std::vector<Option>& options, const Verb& verb) {
  const bool runs_program = HasParameter(verb, "COMMAND");
  const auto program = FirstArgument(arguments, options);
  for (auto each = arguments.begin(); each != arguments.end() && *each != "--"; ++each) {
    if (!LooksLikeOption(*each, options)) continue;
    if (runs_program && each > program) {
      return Status(
          StatusCode::kInvalidArgument,
          Quote(*each) + " stands behind " + Quote(*program) + " and may be an option of either",
          "write -- before the program: " +
              BehindDashes(verb, std::vector(program, arguments.end())));
    }
    TP_RETURN_IF_ERROR(CheckOptionName(*each, options, verb));
    const Option* option = FindOption(options, *each);  // Null: its value stands in the same word.
    if (option == nullptr) continue;
    // CLI11 takes "--" for the end of the options, and an option before it for complete.
    const bool may_lack = option->value.empty() || option->value[0] == '[';
    if (!may_lack && each + 1 != arguments.end() && each[1] == "--") {
      return Status(StatusCode::kInvalidArgument, *each + " needs a value");
    }
    each += static_cast<std::ptrdiff_t>(ValuesOf(*option, std::vector(each + 1, arguments.end())));
  }
  return OkStatus();
}

// Marks the values. Splits "--option=value", so that the value can be marked. A value may thus
// begin with '-'.
std::vector<std::string> MarkValues(const std::vector<std::string>& arguments,
                                    const std::vector<Option>& options) {
  std::vector<std::string> marked;
  bool only_values = false;
  for (const std::string& argument : arguments) {
    if (!only_values && argument == "--") {
      only_values = true;
      marked.push_back(argument);
      continue;
    }
    if (only_values || !LooksLikeOption(argument, options)) {
      marked.push_back(kValueMark + argument);
      continue;
    }
    const std::size_t equals = argument.find('=');
    const Option* option =
        equals == std::string::npos ? nullptr : FindOption(options, argument.substr(0, equals));
    if (option == nullptr || option->value.empty()) {
      marked.push_back(argument);
    } else {
      marked.push_back(argument.substr(0, equals));
      marked.push_back(kValueMark + argument.substr(equals + 1));
    }
  }
  return marked;
}

std::vector<std::string> Unmarked(std::vector<std::string> values) {
  for (std::string& value : values) {
    if (!value.empty() && value[0] == kValueMark) value.erase(0, 1);
  }
  return values;
}

// Returns CLI11's text as a single line in the words of kvctl.
std::string ForPeople(std::string text) {
  constexpr std::string_view kNoValue = ": 1 required TEXT missing";
  if (text.ends_with(kNoValue))
    text.replace(text.size() - kNoValue.size(), kNoValue.size(), " needs a value");
  std::replace(text.begin(), text.end(), '\n', ' ');
  text.erase(std::remove(text.begin(), text.end(), kValueMark), text.end());
  return ForTerminal(text);
}

// CLI11 throws on errors; this function catches them.
Result<Arguments> ParseWithTable(const Verb& verb, const std::vector<std::string>& arguments) {
  const std::vector<Option> options = OptionsOf(verb);
  TP_RETURN_IF_ERROR(CheckOptionNames(arguments, options, verb));
  CLI::App app;
  app.set_help_flag();
  std::map<std::string, std::vector<std::string>> given;
  std::vector<std::pair<std::string, CLI::Option*>> rows;
  for (const Option& option : options) {
    const std::string name(LongName(option.name));
    if (option.value.empty()) {
      rows.emplace_back(name, app.add_flag(std::string(option.name)));
    } else {
      CLI::Option* row = app.add_option(std::string(option.name), given[name]);
      row->allow_extra_args(false);
      if (option.many) {
        row->expected(1, CLI::detail::expected_max_vector_size);
      } else {
        row->expected(option.value[0] == '[' ? 0 : 1, 1);
        row->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
      }
      rows.emplace_back(name, row);
    }
  }
  for (const Parameter& parameter : verb.parameters) {
    const std::string name(parameter.name);
    CLI::Option* row = app.add_option(name, given[name]);
    // Without the bound, a vector would take the arguments of the following parameters.
    row->expected(std::max(parameter.min, 1), parameter.max)->allow_extra_args(parameter.max > 1);
    if (parameter.min > 0) row->required();
    rows.emplace_back(name, row);
  }
  std::vector<std::string> marked = MarkValues(arguments, options);
  std::reverse(marked.begin(), marked.end());  // App::parse takes them last first.
  try {
    app.parse(std::move(marked));
  } catch (const CLI::ParseError& error) {
    if (error.get_name() == "RequiredError" && HasParameter(verb, "COMMAND")) {
      return Status(StatusCode::kInvalidArgument, "there is no program to run",
                    "write it behind --: " + BehindDashes(verb, {"PROGRAM", "[ARGUMENT]..."}));
    }
    return Usage(ForPeople(error.what()), verb.name);
  }
  Arguments::Values values;
  for (const auto& [name, row] : rows) {
    values[name] = row->count() == 0 ? std::nullopt : std::optional(Unmarked(row->results()));
  }
  return Arguments(std::move(values));
}

// Where the verb's words stand in `arguments`: behind global options and their values.
std::size_t FirstWord(const std::vector<std::string>& arguments) {
  const std::vector<Option> options = GlobalOptions();
  std::size_t at = 0;
  while (at < arguments.size() && LooksLikeOption(arguments[at], options)) {
    const Option* option = FindOption(options, arguments[at]);
    at += option != nullptr && !option->value.empty() ? 2 : 1;
  }
  return std::min(at, arguments.size());
}

bool BeforeDashes(const std::vector<std::string>& arguments, std::string_view a,
                  std::string_view b) {
  for (const std::string& argument : arguments) {
    if (argument == "--") return false;
    if (argument == a || argument == b) return true;
  }
  return false;
}

// A program's own --help, after its name, is not for kvctl.
bool AsksForHelp(const std::vector<std::string>& arguments, const std::string& verb_name) {
  const Verb* const verb = FindVerb(verb_name);
  if (verb == nullptr || !HasParameter(*verb, "COMMAND")) {
    return BeforeDashes(arguments, "-h", "--help");
  }
  const std::vector<std::string> own(arguments.begin(), FirstArgument(arguments, OptionsOf(*verb)));
  return BeforeDashes(own, "-h", "--help");
}

Status UnknownVerb(const std::string& name) {
  const std::string nearest = NearestVerb(name);
  std::string what = "unknown verb " + Quote(name);
  if (nearest.empty()) return Usage(what, "");
  return Status(StatusCode::kInvalidArgument, what, "did you mean: kvctl " + nearest);
}

}  // namespace

const std::optional<std::vector<std::string>>& Arguments::Find(std::string_view name) const {
  const auto found = values_.find(name);
  TP_CHECK(found != values_.end());
  return found->second;
}

const std::string& Arguments::Text(std::string_view name) const {
  static const std::string* const kEmpty = new std::string;
  const auto& values = Find(name);
  return values.has_value() && !values->empty() ? values->back() : *kEmpty;
}

std::vector<std::string> Arguments::All(std::string_view name) const {
  return Find(name).value_or(std::vector<std::string>());
}

namespace {

template <typename T, typename Parse>
Result<T> ParseOption(const Arguments& arguments, std::string_view name, T otherwise, Parse parse) {
  if (!arguments.Has(name)) return otherwise;
  Result<T> value = parse(arguments.Text(name));
  if (value.ok()) return value;
  return Status(StatusCode::kInvalidArgument,
                std::string(name) + ": " + std::string(value.status().what()));
}

}  // namespace

Result<std::uint64_t> Arguments::Number(std::string_view name, std::uint64_t otherwise) const {
  return ParseOption(*this, name, otherwise, ParseUnsigned);
}

Result<std::uint64_t> Arguments::DurationMs(std::string_view name, std::uint64_t otherwise) const {
  return ParseOption(*this, name, otherwise, ParseDurationMs);
}

Result<std::uint64_t> Arguments::ByteCount(std::string_view name, std::uint64_t otherwise) const {
  return ParseOption(*this, name, otherwise, ParseByteCount);
}

Result<double> Arguments::Real(std::string_view name, double otherwise) const {
  return ParseOption(*this, name, otherwise, ParseDouble);
}

bool WantsJson(const std::vector<std::string>& arguments) {
  return BeforeDashes(arguments, "--json", "--json");
}

Result<CommandLine> ParseCommandLine(const std::vector<std::string>& arguments) {
  std::vector<std::string> rest = arguments;
  const std::size_t at = FirstWord(rest);
  std::string name;
  if (at < rest.size() && rest[at] != "--") {
    name = rest[at];
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(at));
    if (IsFamily(name) && at < rest.size() && !LooksLikeOption(rest[at], GlobalOptions())) {
      name += " " + rest[at];
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }
  const bool help = AsksForHelp(rest, name);
  if (name.empty() && BeforeDashes(rest, "--version", "--version")) {
    rest.erase(std::find(rest.begin(), rest.end(), "--version"));
    name = "version";
  }
  if (arguments.empty()) {
    rest = {"--short"};
    name = "help";
  }
  if (name.empty() && !help) {
    if (rest.empty() || WantsJson(rest)) return Usage("no verb was given", "");
    return Usage("no verb before " + Quote(rest[0]), "");
  }
  if (help) {
    if (!name.empty() && !IsFamily(name) && FindVerb(name) == nullptr) return UnknownVerb(name);
    rest = name.empty() ? std::vector<std::string>() : std::vector<std::string>{name};
    name = "help";
  }
  const Verb* verb = FindVerb(name);
  if (verb == nullptr && IsFamily(name)) return Usage("'" + name + "' needs a second word", name);
  if (verb == nullptr) return UnknownVerb(name);
  Result<Arguments> parsed = ParseWithTable(*verb, rest);
  if (!parsed.ok()) return parsed.status();
  return CommandLine{verb, *std::move(parsed)};
}

}  // namespace tidepool::cli
