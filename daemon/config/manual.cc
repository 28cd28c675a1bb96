#include "daemon/config/manual.h"

#include <algorithm>
#include <string_view>

#include "daemon/config/nvm_tools_help.h"
#include "daemon/config/option_table.h"
#include "proto/base/check.h"
#include "proto/base/troff.h"

namespace tidepool::daemon {
namespace {

std::string TroffOption(const OptionRow& row) {
  std::string head = "\\fB" + Troff("--" + std::string(row.name)) + "\\fR";
  if (!row.is_switch()) head += " \\fI" + Troff(row.argument) + "\\fR";
  std::string help = row.help;
  if (*row.default_value != '\0' && !row.is_switch()) {
    help += " (default: " + std::string(row.default_value) + ")";
  }
  return ".TP\n" + head + "\n" + Troff(help) + "\n";
}

// Line by line, which troff joins outside of .nf and .fi.
std::string TroffLines(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    out += Troff(text.substr(0, end)) + "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string AsItIs(std::string_view text) { return ".nf\n" + TroffLines(text) + ".fi\n"; }

// Of the help, from the line that begins with `from` up to the next empty one.
std::string_view HelpSection(std::string_view help, std::string_view from) {
  const std::size_t begin = help.find("\n" + std::string(from));
  TP_CHECK(begin != std::string_view::npos);
  return help.substr(begin + 1, help.find("\n\n", begin) - begin);
}

}  // namespace

std::string ManualPage() {
  const std::string help = HelpText();
  std::string text =
      ".TH KVD 1 \"\" \"Tidepool " TIDEPOOL_VERSION "\" \"User commands\"\n.SH NAME\n" +
      Troff(help.substr(0, help.find('\n'))) +
      "\n.SH SYNOPSIS\n\\fBkvd\\fR [\\fIOPTION\\fR]...\n.PP\n\\fBkvd check\\fR|\\fBinspect\\fR "
      "\\fIDIR\\fR...\n.SH DESCRIPTION\n" +
      TroffLines(HelpSection(help, "Without options")) +
      ".SH OPTIONS\nEach is also a key of the TOML file and TIDEPOOL_<NAME> in the environment; a "
      "flag wins over the environment, which wins over the file.\n";
  for (const OptionRow& row : OptionTable()) text += TroffOption(row);
  return text + ".PP\n" + AsItIs(HelpSection(help, "  --config FILE")) +
         ".SH OF A NODE THAT DOES NOT RUN\n" + AsItIs(NvmToolsHelp()) + ".SH EXAMPLES\n" +
         AsItIs(HelpSection(help, "  kvd     ")) + ".SH EXIT STATUS\n" +
         AsItIs(HelpSection(help, "Exit codes:")) + ".SH SEE ALSO\nkvctl(1)\n";
}

CompletionTable Completions() {
  CompletionTable table;
  table.program = "kvd";
  for (const OptionRow& row : OptionTable()) {
    table.options.push_back({.names = {"--" + std::string(row.name)},
                             .value = row.is_switch() ? "" : row.argument,
                             .help = row.help});
  }
  table.options.push_back({.names = {"--config"}, .value = "FILE", .help = "read options from it"});
  table.options.push_back(
      {.names = {"--print-config"}, .value = "", .help = "print each option's value and exit"});
  table.options.push_back({.names = {"--version"}, .value = "", .help = "print the version"});
  table.options.push_back({.names = {"--help"}, .value = "", .help = "print the help"});
  table.verbs = {{.name = "check",
                  .help = "is what a daemon has left sound?",
                  .options = {},
                  .parameters = {"DIR"}},
                 {.name = "inspect",
                  .help = "show the records that it has left",
                  .options = {},
                  .parameters = {"DIR"}}};
  return table;
}

}  // namespace tidepool::daemon
