#include "daemon/manual.h"

#include <algorithm>
#include <string_view>

#include "daemon/option_table.h"
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

// Lines as they are.
std::string TroffLines(std::string_view text) {
  std::string out = ".nf\n";
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    out += Troff(text.substr(0, end)) + "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out + ".fi\n";
}

// Of the help, from the line that begins with `from` up to that with `to`.
std::string_view Part(std::string_view help, std::string_view from, std::string_view to) {
  const std::size_t begin = help.find("\n" + std::string(from));
  TP_CHECK(begin != std::string_view::npos);
  const std::size_t end = help.find("\n" + std::string(to), begin);
  TP_CHECK(end != std::string_view::npos);
  return help.substr(begin + 1, end - begin);
}

}  // namespace

std::string ManualPage() {
  const std::string help = HelpText();
  std::string text =
      ".TH KVD 1 \"\" \"Tidepool " TIDEPOOL_VERSION "\" \"User commands\"\n.SH NAME\n" +
      Troff(help.substr(0, help.find('\n'))) +
      "\n.SH SYNOPSIS\n\\fBkvd\\fR [\\fIOPTION\\fR]...\n.SH DESCRIPTION\n" +
      TroffLines(Part(help, "Without options", "Options, each")) +
      ".SH OPTIONS\nEach is also a key of the TOML file and TIDEPOOL_<NAME> in the environment; a "
      "flag wins over the environment, which wins over the file.\n";
  for (const OptionRow& row : OptionTable()) text += TroffOption(row);
  return text + ".PP\n" + TroffLines(Part(help, "  --config FILE", "Examples:")) +
         ".SH EXAMPLES\n" + TroffLines(Part(help, "  kvd ", "Exit codes:")) + ".SH EXIT STATUS\n" +
         TroffLines(Part(help + "\n\n", "Exit codes:", "\n")) + ".SH SEE ALSO\nkvctl(1)\n";
}

}  // namespace tidepool::daemon
