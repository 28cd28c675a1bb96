#include "cli/commands/help.h"

#include <nlohmann/json.hpp>

#include "cli/help.h"
#include "cli/invocation.h"
#include "cli/text.h"
#include "cli/verbs.h"

namespace tidepool::cli {
namespace {

Status Help(Invocation& run) {
  std::string name;
  for (const std::string& word : run.args.All("VERB")) name += (name.empty() ? "" : " ") + word;
  std::string text;
  if (run.args.Has("--completion")) {
    const std::string& shell = run.args.Text("--completion");
    if (shell != "bash" && shell != "zsh") {
      return Status(StatusCode::kInvalidArgument, "--completion cannot be " + Quote(shell),
                    "give bash or zsh");
    }
    text = shell == "bash" ? BashCompletion(Completions()) : ZshCompletion(Completions());
  } else if (run.args.Has("--man")) {
    text = ManualPage();
  } else if (name.empty()) {
    text = run.args.Has("--short") ? ShortHelp() : GeneralHelp();
  } else if (const Verb* verb = FindVerb(name); verb != nullptr) {
    text = VerbHelp(*verb);
  } else if (IsFamily(name)) {
    text = FamilyHelp(name);
  } else {
    const std::string nearest = NearestVerb(name);
    return Status(StatusCode::kInvalidArgument, "there is no verb " + Quote(name),
                  nearest.empty() ? "see: kvctl help" : "did you mean: kvctl help " + nearest);
  }
  run.out.Result({{"text", text}}, text);
  return OkStatus();
}

Status Version(Invocation& run) {
  run.out.Result({{"version", TIDEPOOL_VERSION}}, "kvctl " TIDEPOOL_VERSION);
  return OkStatus();
}

}  // namespace

std::vector<Verb> HelpVerbs() {
  return {
      {"version",
       "print kvctl's version",
       "The daemons' versions are shown by kvctl status --json.",
       {},
       {},
       {{"kvctl version", ""}},
       Version},
      {"help",
       "explain a verb",
       "",
       {{"VERB", "one or two words", 0, 2}},
       {{"--short", "", "print the verbs' names only, as kvctl alone does"},
        {"--man", "", "print the manual page kvctl(1) instead"},
        {"--completion", "bash|zsh", "print what this shell completes command lines by instead"}},
       {{"kvctl help put", ""},
        {"kvctl help stage in", ""},
        {"kvctl help --man | man -l -", ""},
        {"source <(kvctl help --completion bash)", "packages install it"}},
       Help,
       "man usage"},
  };
}

}  // namespace tidepool::cli
