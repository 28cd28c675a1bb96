// Completion for bash and zsh, made from the tables that the help and the manual pages are made
// from.
//
//   kvctl's verbs, kvd's options -> [completion] -> scripts that packages install
#pragma once

#include <string>
#include <vector>

namespace tidepool {

struct CompletionOption {
  std::vector<std::string> names;  // "-n", "--limit".
  std::string value;               // What it takes: "FILE", "DIR", "file|dax"; "" for a flag.
  std::string help;
};

struct CompletionVerb {
  std::string name;  // Of one or two words.
  std::string help;
  std::vector<CompletionOption> options;  // Beside those of the program.
  // Of its arguments, in order; "DIR" and "FILE" are completed to paths, "NAMESPACE" by the
  // program's `list_namespaces`. The last one counts for all that follow.
  std::vector<std::string> parameters;
};

struct CompletionTable {
  std::string program;
  std::vector<CompletionOption> options;  // That all verbs have.
  std::vector<CompletionVerb> verbs;
  // A command line that prints the names of namespaces, one a line; may be empty.
  std::string list_namespaces;
};

// Scripts that need nothing but the shell.
std::string BashCompletion(const CompletionTable& table);
std::string ZshCompletion(const CompletionTable& table);

}  // namespace tidepool
