// kvctl's help, manual page and completion, made from the table of verbs.
#pragma once

#include <string>
#include <string_view>

#include "cli/verb.h"
#include "proto/base/completion.h"

namespace tidepool::cli {

// "kvctl put [OPTION]... NAMESPACE KEY VALUE".
std::string UsageLine(const Verb& verb);
// Returns the verbs' names by purpose, on less than a screen: the output of kvctl without
// arguments.
std::string ShortHelp();
// All verbs with a line each, global options, exit codes.
std::string GeneralHelp();
std::string VerbHelp(const Verb& verb);
// The verbs of two words that begin with `family`.
std::string FamilyHelp(std::string_view family);
// kvctl.1, in troff.
std::string ManualPage();
// Returns the data behind the shells' completion of kvctl's command lines.
CompletionTable Completions();

// `text` in lines of at most `columns`, each behind `indent` blanks.
std::string Wrap(std::string_view text, std::size_t indent, std::size_t columns = 90);

}  // namespace tidepool::cli
