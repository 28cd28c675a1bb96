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
  // Its value, named as parameters below; "" for a flag. Words in lower case between bars are
  // values: "file|dax", "auto|PORT". Both halves of "NS:DIR" are completed.
  std::string value;
  std::string help;
};

struct CompletionVerb {
  std::string name;  // A word, or two words.
  std::string help;
  std::vector<CompletionOption> options;  // Options beside the program's own.
  // Its arguments, in order. "DIR" and "FILE" are completed to paths, "NAMESPACE" and "NS" by
  // `list_namespaces`, "NODE" by `list_nodes`, "VERB" to verbs, "VALUE" behind @ to files, and
  // "COMMAND" behind -- to programs and files. The last entry counts for all further arguments.
  std::vector<std::string> parameters;
};

struct CompletionTable {
  std::string program;
  std::vector<CompletionOption> options;  // That all verbs have.
  std::vector<CompletionVerb> verbs;
  // Command lines that print the names of namespaces and of nodes, each on its line; may be empty.
  // They get the --cluster of the completed line, and print nothing without a cluster.
  std::string list_namespaces;
  std::string list_nodes;
};

// Scripts that need nothing but the shell.
std::string BashCompletion(const CompletionTable& table);
std::string ZshCompletion(const CompletionTable& table);

}  // namespace tidepool
