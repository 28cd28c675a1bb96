#include "cli/help.h"

#include <algorithm>
#include <vector>

#include "cli/exit_codes.h"
#include "cli/verbs.h"
#include "proto/base/troff.h"

namespace tidepool::cli {
namespace {

constexpr std::string_view kWhat = "kvctl - run and use a Tidepool key-value service";

std::string OptionName(const Option& option) {
  std::string name(option.name);
  std::replace(name.begin(), name.end(), ',', ' ');
  if (!option.value.empty()) name.append(" ").append(option.value);
  return name;
}

// "  name    help", the help wrapped behind its column.
std::string Row(const std::string& name, std::string_view help) {
  constexpr std::size_t kColumn = 24;
  std::string text = "  " + name;
  if (text.size() + 2 > kColumn) {
    return text + "\n" + Wrap(help, kColumn);
  }
  return text + Wrap(help, kColumn).substr(text.size());
}

std::string OptionRows(const std::vector<Option>& options) {
  std::string text;
  for (const Option& option : options) text += Row(OptionName(option), option.help);
  return text;
}

// Returns a line for each verb of a family of two words.
std::string VerbRows(std::string_view family) {
  std::string text;
  for (const Verb& verb : Verbs()) {
    if (verb.name.starts_with(std::string(family) + " ")) {
      text += Row(std::string(verb.name), verb.summary);
    }
  }
  return text;
}

// Returns a line for each verb, under the names of the groups.
std::string GroupedRows() {
  std::string text;
  std::string_view group;
  for (const Verb& verb : Verbs()) {
    if (verb.group != group) {
      text += (group.empty() ? "" : "\n") + std::string(verb.group) + "\n";
      group = verb.group;
    }
    text += Row(std::string(verb.name), verb.summary);
  }
  return text;
}

// Returns a row for each group, with the verbs' names. "namespace create|list" stands for two.
std::string GroupRows() {
  struct Group {
    std::string_view name;
    std::string verbs;
  };
  std::vector<Group> groups;
  std::string_view family;
  for (const Verb& verb : Verbs()) {
    if (groups.empty() || groups.back().name != verb.group) {
      groups.push_back({verb.group, {}});
      family = {};
    }
    std::string& verbs = groups.back().verbs;
    const std::size_t blank = verb.name.find(' ');
    const std::string_view first = verb.name.substr(0, blank);
    if (blank != std::string_view::npos && first == family) {
      verbs += "|" + std::string(verb.name.substr(blank + 1));
    } else {
      verbs += (verbs.empty() ? "" : ", ") + std::string(verb.name);
    }
    family = blank == std::string_view::npos ? std::string_view() : first;
  }
  std::string text;
  for (const Group& group : groups) text += Row(std::string(group.name), group.verbs);
  return text;
}

std::string ExitCodeRows() {
  std::string text;
  for (const ExitCodeRow& row : kExitCodes) {
    text += Row(std::to_string(static_cast<int>(row.code)), row.meaning);
  }
  return text;
}

std::string TroffOptions(const std::vector<Option>& options) {
  std::string text;
  for (const Option& option : options) {
    text += ".TP\n\\fB" + Troff(OptionName(option)) + "\\fR\n" + Troff(option.help) + "\n";
  }
  return text;
}

std::string TroffVerb(const Verb& verb) {
  std::string text = ".SS " + Troff(verb.name) + "\n" + Troff(verb.summary) + ".\n.PP\n\\fB" +
                     Troff(UsageLine(verb)) + "\\fR\n";
  if (!verb.details.empty()) text += ".PP\n" + Troff(verb.details) + "\n";
  for (const Parameter& parameter : verb.parameters) {
    text += ".TP\n\\fI" + Troff(parameter.name) + "\\fR\n" + Troff(parameter.help) + "\n";
  }
  text += TroffOptions(verb.options);
  if (verb.examples.empty()) return text;
  text += ".PP\n.nf\n";
  for (const Example& example : verb.examples) {
    text += Troff(example.command);
    if (!example.note.empty()) text += "   # " + Troff(example.note);
    text += "\n";
  }
  return text + ".fi\n";
}

}  // namespace

std::string Wrap(std::string_view text, std::size_t indent, std::size_t columns) {
  std::string out(indent, ' ');
  std::size_t column = indent;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (column > indent && column + 1 + end > columns) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    }
    if (column > indent) {
      out += ' ';
      ++column;
    }
    out += text.substr(0, end);
    column += end;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out + "\n";
}

std::string UsageLine(const Verb& verb) {
  std::string line = "kvctl " + std::string(verb.name);
  bool dashes = false;
  for (const Parameter& parameter : verb.parameters) {
    // Options of another program stand behind dashes.
    dashes = dashes || parameter.name == "KVD_OPTION";
    if (parameter.name == "KVD_OPTION") continue;
    std::string name(parameter.name);
    if (parameter.max > 1) name += "...";
    line += parameter.min == 0 ? " [" + name + "]" : " " + name;
  }
  if (!verb.options.empty()) line += " [OPTION]...";
  return dashes ? line + " [-- KVD_OPTION...]" : line;
}

std::string GeneralHelp() {
  return std::string(kWhat) +
         "\n\nUsage: kvctl VERB [NAMESPACE [KEY [VALUE]]] [OPTION]...\n"
         "       kvctl help VERB\n\nVerbs:\n\n" +
         GroupedRows() + "\nOptions of all verbs:\n" + OptionRows(GlobalOptions()) +
         "\nExit codes:\n" + ExitCodeRows() +
         "\nResults go to standard output, everything else to standard error.\n\nExamples:\n"
         "  kvctl start --local 3\n"
         "  kvctl put default greeting hello\n"
         "  kvctl get default greeting\n"
         "  kvctl stage in ~/data inputs\n"
         "  kvctl keys inputs 'run1/*' | head\n"
         "  kvctl status\n"
         "  kvctl stop\n";
}

std::string ShortHelp() {
  return std::string(kWhat) + "\n\nUsage: kvctl VERB [NAMESPACE [KEY [VALUE]]] [OPTION]...\n\n" +
         GroupRows() +
         "\nFirst steps:\n"
         "  kvctl start --local 3                three daemons on this machine\n"
         "  kvctl put default greeting hello\n"
         "  kvctl get default greeting\n"
         "  kvctl stop --discard\n\n"
         "kvctl help         a line for each verb, options of all verbs, exit codes\n"
         "kvctl help VERB    one verb, its options and examples\n";
}

std::string VerbHelp(const Verb& verb) {
  std::string text = "kvctl " + std::string(verb.name) + " - " + std::string(verb.summary) +
                     "\n\nUsage: " + UsageLine(verb) + "\n";
  if (!verb.details.empty()) text += "\n" + Wrap(verb.details, 0);
  if (!verb.parameters.empty()) text += "\nArguments:\n";
  for (const Parameter& parameter : verb.parameters) {
    text += Row(std::string(parameter.name), parameter.help);
  }
  if (!verb.options.empty()) text += "\nOptions:\n" + OptionRows(verb.options);
  text += "\nOptions of all verbs:\n" + OptionRows(GlobalOptions());
  if (!verb.examples.empty()) text += "\nExamples:\n";
  for (const Example& example : verb.examples) {
    text += "  " + std::string(example.command);
    if (!example.note.empty()) text += "   # " + std::string(example.note);
    text += "\n";
  }
  return text;
}

std::string FamilyHelp(std::string_view family) {
  return "Usage: kvctl " + std::string(family) + " VERB ...\n\nVerbs:\n" + VerbRows(family) +
         "\nSee: kvctl help " + std::string(family) + " VERB\n";
}

CompletionTable Completions() {
  const auto convert = [](const std::vector<Option>& options) {
    std::vector<CompletionOption> converted;
    for (const Option& option : options) {
      CompletionOption to{
          .names = {}, .value = std::string(option.value), .help = std::string(option.help)};
      std::string_view names = option.name;
      while (!names.empty()) {
        const std::size_t end = std::min(names.find(','), names.size());
        to.names.emplace_back(names.substr(0, end));
        names.remove_prefix(std::min(end + 1, names.size()));
      }
      converted.push_back(std::move(to));
    }
    return converted;
  };
  CompletionTable table;
  table.program = "kvctl";
  table.options = convert(GlobalOptions());
  // A cluster that does not answer at once must not hold up the shell.
  table.list_namespaces = "kvctl namespace list --names --timeout 1s";
  table.list_nodes = "kvctl status --names --timeout 1s";
  for (const Verb& verb : Verbs()) {
    CompletionVerb to{.name = std::string(verb.name),
                      .help = std::string(verb.summary),
                      .options = convert(verb.options),
                      .parameters = {}};
    for (const Parameter& parameter : verb.parameters) to.parameters.emplace_back(parameter.name);
    table.verbs.push_back(std::move(to));
  }
  return table;
}

std::string ManualPage() {
  std::string text =
      ".TH KVCTL 1 \"\" \"Tidepool " TIDEPOOL_VERSION
      "\" \"User commands\"\n"
      ".SH NAME\n" +
      Troff(kWhat) +
      "\n.SH SYNOPSIS\n\\fBkvctl\\fR \\fIVERB\\fR [\\fINAMESPACE\\fR [\\fIKEY\\fR "
      "[\\fIVALUE\\fR]]] [\\fIOPTION\\fR]...\n"
      ".SH DESCRIPTION\nResults go to standard output, everything else to standard error.\n"
      ".SH OPTIONS OF ALL VERBS\n" +
      TroffOptions(GlobalOptions()) + ".SH VERBS\n";
  for (const Verb& verb : Verbs()) text += TroffVerb(verb);
  text += ".SH EXIT STATUS\n";
  for (const ExitCodeRow& row : kExitCodes) {
    text += ".TP\n\\fB" + std::to_string(static_cast<int>(row.code)) + "\\fR\n" +
            Troff(row.meaning) + "\n";
  }
  return text + ".SH SEE ALSO\nkvd(1)\n";
}

}  // namespace tidepool::cli
