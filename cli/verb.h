// A row of kvctl's only table: name, arguments, help and handler of a verb.
//
// verbs.h (the table) -> arguments.h (parsing), help.h (help, manual page), kvctl.cc (running)
#pragma once

#include <string_view>
#include <vector>

#include "proto/base/status.h"

namespace tidepool::cli {

class Invocation;

// A positional argument.
struct Parameter {
  static constexpr int kAnyNumber = 1 << 16;

  std::string_view name;  // Name on the command line and in the help: "NAMESPACE".
  std::string_view help;
  int min = 1;
  int max = 1;
};

struct Option {
  std::string_view name;   // "--ttl", or with a short form "-n,--limit".
  std::string_view value;  // "" for a flag, "DURATION", or "[N]" when the value may be left out.
  std::string_view help;
  bool many = false;  // May be given several times, each counts (Arguments::All).
};

struct Example {
  std::string_view command;
  std::string_view note;  // Effect or output; may be empty.
};

// All views are of string literals. Handlers do the verb's work and return how it went; they are
// called on the main thread, once.
struct Verb {
  using Handler = Status (*)(Invocation&);

  std::string_view name;     // A name of one or two words: "put", "namespace create".
  std::string_view summary;  // A single line, lower case, no full stop.
  std::string_view details;  // Further facts for the user; may be empty.
  std::vector<Parameter> parameters;
  std::vector<Option> options;
  std::vector<Example> examples;
  Handler run = nullptr;
  // Names in other tools, for "did you mean"; separated by blanks.
  std::string_view also = {};
  std::string_view group = {};  // Its part of the help; the table fills it in.
};

}  // namespace tidepool::cli
