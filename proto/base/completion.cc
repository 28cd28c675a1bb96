#include "proto/base/completion.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>

namespace tidepool {
namespace {

// In single quotes, for both shells.
std::string Quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

// Returns the words to choose from: "file dax" of "file|dax", "auto" of "auto|PORT", "rdma" of
// "rdma"; an empty string for "[N]" and "HOST:PORT".
std::string ChoicesOf(const std::string& value) {
  std::string words;
  for (std::size_t at = 0; at <= value.size();) {
    const std::size_t end = std::min(value.find('|', at), value.size());
    const std::string word = value.substr(at, end - at);
    at = end + 1;
    const bool is_choice =
        !word.empty() && word.find_first_not_of("abcdefghijklmnopqrstuvwxyz-") == std::string::npos;
    if (is_choice) words += (words.empty() ? "" : " ") + word;
  }
  return words;
}

// The halves of "NS:DIR".
struct Halves {
  std::string first;
  std::string second;
};
std::optional<Halves> HalvesOf(const std::string& value) {
  const std::size_t colon = value.find(':');
  if (value != "NS:DIR" && value != "DIR:NS") return std::nullopt;
  return Halves{value.substr(0, colon), value.substr(colon + 1)};
}

bool IsNamespace(const std::string& name) {
  return name.find("NAMESPACE") != std::string::npos || name == "NS";
}
bool IsFolder(const std::string& name) { return name.find("DIR") != std::string::npos; }
bool IsFile(const std::string& name) { return name.find("FILE") != std::string::npos; }

std::string FirstWord(const std::string& name) { return name.substr(0, name.find(' ')); }
std::string SecondWord(const std::string& name) {
  const std::size_t blank = name.find(' ');
  return blank == std::string::npos ? "" : name.substr(blank + 1);
}

// First words of verbs, each once, in the table's order.
std::vector<std::string> FirstWords(const CompletionTable& table) {
  std::vector<std::string> words;
  for (const CompletionVerb& verb : table.verbs) {
    std::string word = FirstWord(verb.name);
    if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
  }
  return words;
}

// Returns the verbs of two words by their first word.
std::map<std::string, std::vector<const CompletionVerb*>> Families(const CompletionTable& table) {
  std::map<std::string, std::vector<const CompletionVerb*>> families;
  for (const CompletionVerb& verb : table.verbs) {
    if (!SecondWord(verb.name).empty()) families[FirstWord(verb.name)].push_back(&verb);
  }
  return families;
}

std::string Joined(const std::vector<std::string>& words, const char* between = " ") {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

std::string NamesOf(const std::vector<CompletionOption>& options) {
  std::vector<std::string> names;
  for (const CompletionOption& option : options) {
    names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return Joined(names);
}

// Returns bash's action for a value: a command that fills COMPREPLY.
std::string BashValue(const std::string& value) {
  if (const std::string choices = ChoicesOf(value); !choices.empty()) {
    return "COMPREPLY=($(compgen -W " + Quoted(choices) + " -- \"$cur\"))";
  }
  if (const auto halves = HalvesOf(value)) {
    return "compopt -o nospace; " + BashValue(halves->first) +
           "; COMPREPLY=(\"${COMPREPLY[@]/%/:}\")";
  }
  if (IsNamespace(value)) return "_@@_namespaces";
  if (value == "NODE") return "_@@_nodes";
  if (value == "VERB") return "_@@_verbs";
  if (IsFolder(value)) return "compopt -o filenames; COMPREPLY=($(compgen -d -- \"$cur\"))";
  if (IsFile(value)) return "compopt -o filenames; COMPREPLY=($(compgen -f -- \"$cur\"))";
  // @ is a word of its own to bash.
  if (value == "VALUE") {
    return "[ \"$prev\" = @ ] && compopt -o filenames && COMPREPLY=($(compgen -f -- \"$cur\"))";
  }
  return ":";
}

// Returns the cases of options that take a value. `second`: of the half behind a colon.
std::string BashValueCases(const std::vector<CompletionOption>& options, bool second = false) {
  std::string text;
  for (const CompletionOption& option : options) {
    if (option.value.empty() || option.value.front() == '[') continue;
    const auto halves = HalvesOf(option.value);
    if (second && !halves.has_value()) continue;
    text += "    " + Joined(option.names, "|") + ") " +
            BashValue(second ? halves->second : option.value) + "; return ;;\n";
  }
  return text;
}

std::vector<std::string> ValuedNames(const CompletionTable& table) {
  std::vector<std::string> names;
  const auto add = [&names](const std::vector<CompletionOption>& options) {
    for (const CompletionOption& option : options) {
      if (option.value.empty() || option.value.front() == '[') continue;
      for (const std::string& name : option.names) {
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
      }
    }
  };
  add(table.options);
  for (const CompletionVerb& verb : table.verbs) add(verb.options);
  return names;
}

// "@@" stands for the program's name.
std::string Filled(std::string text, const std::string& program) {
  for (std::size_t at = text.find("@@"); at != std::string::npos; at = text.find("@@", at)) {
    text.replace(at, 2, program);
    at += program.size();
  }
  return text;
}

std::string BashVerb(const CompletionVerb& verb) {
  std::string text = "  " + Quoted(verb.name) + ")\n";
  const std::string cases = BashValueCases(verb.options);
  if (!cases.empty()) text += "    case $prev in\n" + cases + "    esac\n";
  const std::string halves = BashValueCases(verb.options, /*second=*/true);
  if (!halves.empty()) text += "    case $before in\n" + halves + "    esac\n";
  text += "    options=" + Quoted(NamesOf(verb.options)) + "\n";
  if (!verb.parameters.empty()) {
    text += "    case $count in\n";
    for (std::size_t i = 0; i < verb.parameters.size(); ++i) {
      const bool last = i + 1 == verb.parameters.size();
      text += "    " + (last ? "*" : std::to_string(i)) +
              ") argument=" + Quoted(BashValue(verb.parameters[i])) + " ;;\n";
    }
    text += "    esac\n";
  }
  return text + "    ;;\n";
}

// In an option's help for zsh: brackets and colons end it.
std::string ZshText(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string ZshAction(const std::string& value) {
  if (const std::string choices = ChoicesOf(value); !choices.empty()) return "(" + choices + ")";
  if (value == "NS:DIR") return "_@@_namespace_folder";
  if (value == "DIR:NS") return "_@@_folder_namespace";
  if (IsNamespace(value)) return "_@@_namespaces";
  if (value == "NODE") return "_@@_nodes";
  if (value == "VERB") return "_@@_verbs";
  if (value == "VALUE") return "_@@_value";
  if (value == "COMMAND") return "_@@_command";
  if (IsFolder(value)) return "_files -/";
  if (IsFile(value)) return "_files";
  return " ";
}

std::string ZshOptions(const std::vector<CompletionOption>& options) {
  std::string text;
  for (const CompletionOption& option : options) {
    for (const std::string& name : option.names) {
      std::string spec = "*" + name + "[" + ZshText(option.help) + "]";
      if (!option.value.empty() && option.value.front() != '[') {
        spec += ":" + ZshText(option.value) + ":" + ZshAction(option.value);
      }
      text += "    " + Quoted(spec) + "\n";
    }
  }
  return text;
}

std::string ZshParameters(const CompletionVerb& verb) {
  std::string text;
  for (std::size_t i = 0; i < verb.parameters.size(); ++i) {
    const std::string& name = verb.parameters[i];
    const bool last = i + 1 == verb.parameters.size();
    text +=
        "    " +
        Quoted((last ? "*" : std::to_string(i + 1)) + ":" + ZshText(name) + ":" + ZshAction(name)) +
        "\n";
  }
  return text;
}

// "'put:store a value'" of each, for _describe.
std::string ZshDescribed(const std::vector<std::pair<std::string, std::string>>& words) {
  std::string text;
  for (const auto& [word, help] : words) {
    text += "    " + Quoted(ZshText(word) + ":" + help) + "\n";
  }
  return text;
}

std::string Head(const CompletionTable& table, const char* shell) {
  return "# Completion of " + table.program + " for " + shell +
         ", made from the table that its help is made from: not to be edited.\n";
}

}  // namespace

namespace {

// Returns functions that ask the cluster of the command line.
std::string BashQuestions(const CompletionTable& table) {
  if (table.list_namespaces.empty()) return {};
  return "_@@_ask() {\n"
         "  local cluster=() i\n"
         "  for ((i = 1; i + 1 < ${#COMP_WORDS[@]}; ++i)); do\n"
         "    [ \"${COMP_WORDS[i]}\" = --cluster ] || continue\n"
         "    [ \"${COMP_WORDS[i + 1]}\" = = ] && ((++i))\n"
         "    cluster=(--cluster \"${COMP_WORDS[i + 1]/#\\~/$HOME}\")\n"
         "  done\n"
         "  \"$@\" \"${cluster[@]}\" 2>/dev/null </dev/null\n"
         "}\n\n"
         "_@@_namespaces() {\n"
         "  COMPREPLY=($(compgen -W \"$(_@@_ask " +
         table.list_namespaces +
         ")\" -- \"$cur\"))\n"
         "}\n\n"
         "_@@_nodes() {\n"
         "  COMPREPLY=($(compgen -W \"local $(_@@_ask " +
         table.list_nodes +
         ")\" -- \"$cur\"))\n"
         "}\n\n";
}

// Returns a function that offers verbs, and behind a family its second words.
std::string BashVerbs(const CompletionTable& table) {
  std::string text =
      "_@@_verbs() {\n"
      "  local words='" +
      Joined(FirstWords(table)) +
      "'\n"
      "  case $prev in\n";
  for (const auto& [family, verbs] : Families(table)) {
    std::vector<std::string> seconds;
    for (const CompletionVerb* verb : verbs) seconds.push_back(SecondWord(verb->name));
    text += "  " + family + ") words='" + Joined(seconds) + "' ;;\n";
  }
  return text +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
         "}\n\n";
}

// Returns the case of the words behind --, which are a program and its arguments.
std::string BashProgram(const CompletionTable& table) {
  std::vector<std::string> verbs;
  for (const CompletionVerb& verb : table.verbs) {
    const auto& names = verb.parameters;
    if (std::find(names.begin(), names.end(), "COMMAND") != names.end()) verbs.push_back(verb.name);
  }
  if (verbs.empty()) return "    --) return ;;\n";
  return "    --)\n"
         "      case $verb in " +
         Joined(verbs, "|") +
         ") ;; *) return ;; esac\n"
         "      compopt -o filenames\n"
         "      if ((i + 1 == COMP_CWORD)); then COMPREPLY=($(compgen -c -- \"$cur\")); fi\n"
         "      COMPREPLY+=($(compgen -f -- \"$cur\"))\n"
         "      return\n"
         "      ;;\n";
}

// Returns the loop over the words before the cursor, which finds the verb and counts its arguments.
std::string BashWalk(const CompletionTable& table) {
  std::string text =
      "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
      "    word=${COMP_WORDS[i]}\n"
      "    case $word in\n" +
      BashProgram(table);
  const std::vector<std::string> valued = ValuedNames(table);
  if (!valued.empty()) {
    // Bash takes = and : for words of their own.
    text += "    " + Joined(valued, "|") +
            ")\n"
            "      [ \"${COMP_WORDS[i + 1]}\" = = ] && ((++i))\n"
            "      ((++i))\n"
            "      [ \"${COMP_WORDS[i + 1]}\" = : ] && ((i += 2))\n"
            "      continue\n"
            "      ;;\n";
  }
  text +=
      "    -*) continue ;;\n"
      "    esac\n"
      "    case $verb in\n"
      "    '') verb=$word ;;\n";
  for (const auto& [family, verbs] : Families(table)) {
    std::vector<std::string> seconds;
    for (const CompletionVerb* verb : verbs) seconds.push_back(SecondWord(verb->name));
    text += "    " + family + ")\n      case $word in\n      " + Joined(seconds, "|") +
            ") verb+=\" $word\" ;;\n      *) ((++count)) ;;\n      esac\n      ;;\n";
  }
  return text +
         "    *) ((++count)) ;;\n"
         "    esac\n"
         "  done\n";
}

}  // namespace

std::string BashCompletion(const CompletionTable& table) {
  std::string text = Head(table, "bash") + "\n" + BashQuestions(table) + BashVerbs(table);
  text +=
      "_@@() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} prev='' before='' verb='' options='' argument=':'\n"
      "  local count=0 i word\n"
      "  COMPREPLY=()\n"
      "  [ \"$COMP_CWORD\" -gt 0 ] && prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
      "  # Of \"--option=value\" and \"--option first:second\" bash makes several words.\n"
      "  case $cur in\n"
      "  =) cur='' ;;\n"
      "  :) cur='' before=${COMP_WORDS[COMP_CWORD - 2]} ;;\n"
      "  *)\n"
      "    case $prev in\n"
      "    =) prev=${COMP_WORDS[COMP_CWORD - 2]} ;;\n"
      "    :) [ \"$COMP_CWORD\" -gt 2 ] && before=${COMP_WORDS[COMP_CWORD - 3]} ;;\n"
      "    esac\n"
      "    ;;\n"
      "  esac\n" +
      BashWalk(table) + "  case $prev in\n" + BashValueCases(table.options) +
      "  esac\n"
      "  case $verb in\n"
      "  '') argument='COMPREPLY=($(compgen -W \"" +
      Joined(FirstWords(table)) + "\" -- \"$cur\"))' ;;\n";
  for (const CompletionVerb& verb : table.verbs) text += BashVerb(verb);
  for (const auto& [family, verbs] : Families(table)) {
    const bool is_verb =
        std::any_of(table.verbs.begin(), table.verbs.end(),
                    [&name = family](const CompletionVerb& verb) { return verb.name == name; });
    if (is_verb) continue;
    std::vector<std::string> seconds;
    for (const CompletionVerb* verb : verbs) seconds.push_back(SecondWord(verb->name));
    text += "  " + family + ") argument='COMPREPLY=($(compgen -W \"" + Joined(seconds) +
            "\" -- \"$cur\"))' ;;\n";
  }
  text +=
      "  esac\n"
      "  case $cur in\n"
      "  -*) COMPREPLY=($(compgen -W \"$options " +
      NamesOf(table.options) +
      "\" -- \"$cur\")) ;;\n"
      "  *) eval \"$argument\" ;;\n"
      "  esac\n"
      "}\n\n"
      "complete -F _@@ @@\n";
  return Filled(std::move(text), table.program);
}

namespace {

// Returns the functions for zsh that ask the cluster, and complete values of several parts.
std::string ZshFunctions(const CompletionTable& table) {
  std::string text =
      "_@@_verbs() {\n"
      "  local -a names\n"
      "  case $words[CURRENT-1] in\n";
  for (const auto& [family, verbs] : Families(table)) {
    std::vector<std::string> seconds;
    for (const CompletionVerb* verb : verbs) seconds.push_back(SecondWord(verb->name));
    text += "  " + family + ") names=(" + Joined(seconds) + ") ;;\n";
  }
  text += "  *) names=(" + Joined(FirstWords(table)) +
          ") ;;\n"
          "  esac\n"
          "  compadd -a names\n"
          "}\n\n"
          "_@@_value() {\n"
          "  compset -P '@' && _files\n"
          "}\n\n";
  if (table.list_namespaces.empty()) return text;
  return text +
         "_@@_ask() {\n"
         "  local -a cluster\n"
         "  local line=\"$BUFFER\"\n"
         "  [[ $line =~ '--cluster[ =]+([^ ]+)' ]] && cluster=(--cluster "
         "\"${match[1]/#\\~/$HOME}\")\n"
         "  \"$@\" $cluster 2>/dev/null </dev/null\n"
         "}\n\n"
         "_@@_namespaces() {\n"
         "  local -a names\n"
         "  names=(${(f)\"$(_@@_ask " +
         table.list_namespaces +
         ")\"})\n"
         "  compadd \"$@\" -a names\n"
         "}\n\n"
         "_@@_nodes() {\n"
         "  local -a names\n"
         "  names=(local ${(f)\"$(_@@_ask " +
         table.list_nodes +
         ")\"})\n"
         "  compadd -a names\n"
         "}\n\n"
         "_@@_command() {\n"
         "  _command_names -e\n"
         "  _files\n"
         "}\n\n"
         "_@@_namespace_folder() {\n"
         "  if compset -P 1 '*:'; then _files -/; else _@@_namespaces -S ':'; fi\n"
         "}\n\n"
         "_@@_folder_namespace() {\n"
         "  if compset -P '*:'; then _@@_namespaces; else _files -/ -S ':'; fi\n"
         "}\n\n";
}

}  // namespace

std::string ZshCompletion(const CompletionTable& table) {
  std::string text = "#compdef @@\n" + Head(table, "zsh") + "\n" + ZshFunctions(table);
  const auto families = Families(table);
  std::vector<std::pair<std::string, std::string>> firsts;
  for (const std::string& word : FirstWords(table)) {
    const auto verb =
        std::find_if(table.verbs.begin(), table.verbs.end(),
                     [&word](const CompletionVerb& each) { return each.name == word; });
    std::string help;
    if (verb != table.verbs.end()) {
      help = verb->help;
    } else {
      for (const CompletionVerb* each : families.at(word)) {
        help += (help.empty() ? "" : ", ") + SecondWord(each->name);
      }
    }
    firsts.emplace_back(word, help);
  }
  text += "_@@() {\n  local curcontext=$curcontext state line verb\n  local -a verbs globals\n";
  text += "  globals=(\n" + ZshOptions(table.options) + "  )\n";
  text +=
      "  _arguments -C $globals '1:verb:->verb' '*::argument:->arguments' && return\n"
      "  case $state in\n"
      "  verb)\n"
      "    verbs=(\n" +
      ZshDescribed(firsts) +
      "    )\n"
      "    _describe verb verbs\n"
      "    return\n"
      "    ;;\n"
      "  esac\n"
      "  verb=$line[1]\n";
  // $words now begin with the verb.
  text += "  case $verb in\n";
  for (const auto& [family, verbs] : families) {
    std::vector<std::pair<std::string, std::string>> seconds;
    std::vector<std::string> names;
    for (const CompletionVerb* verb : verbs) {
      names.push_back(SecondWord(verb->name));
      seconds.emplace_back(names.back(), verb->help);
    }
    const bool is_verb =
        std::any_of(table.verbs.begin(), table.verbs.end(),
                    [&name = family](const CompletionVerb& verb) { return verb.name == name; });
    text += "  " + family + ")\n    if (( CURRENT == 2 ))";
    // A family that is also a verb by itself completes as a verb, too.
    text += "; then\n      verbs=(\n" + ZshDescribed(seconds) +
            "      )\n      _describe verb verbs" +
            (is_verb ? "\n    elif (( ${+words[2]} )) && [[ $words[2] == (" + Joined(names, "|") +
                           ") ]]; then\n"
                     : "\n      return\n    else\n") +
            "      verb=\"$verb $words[2]\"\n      shift words\n      (( CURRENT-- ))\n    fi\n"
            "    ;;\n";
  }
  text += "  esac\n  case $verb in\n";
  for (const CompletionVerb& verb : table.verbs) {
    text += "  " + Quoted(verb.name) + ")\n    verbs=(\n" + ZshOptions(verb.options) +
            ZshParameters(verb) + "    )\n    _arguments $globals $verbs\n    ;;\n";
  }
  text += "  esac\n}\n\n_@@ \"$@\"\n";
  return Filled(std::move(text), table.program);
}

}  // namespace tidepool
