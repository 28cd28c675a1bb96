// The one table of kvctl's verbs, and finding one in it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/verb.h"

namespace tidepool::cli {

// All verbs, in the order of the help: those of one group stand together. Made at the first call;
// lives for ever; thread-safe.
const std::vector<Verb>& Verbs();

// Options that every verb takes.
const std::vector<Option>& GlobalOptions();

// The verb of that name, or null. `name` has one blank between two words.
const Verb* FindVerb(std::string_view name);

// True for the first word of verbs of two words: "namespace", "stage".
bool IsFamily(std::string_view word);

// The verb that somebody most likely meant by `name`: what other tools call so, else the nearest
// spelling. Empty if none is near.
std::string NearestVerb(std::string_view name);

}  // namespace tidepool::cli
