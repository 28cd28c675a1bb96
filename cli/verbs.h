// The table of kvctl's verbs, and look-ups in it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/verb.h"

namespace tidepool::cli {

// Returns all verbs in the order of the help, by group. Made at the first call; lives for ever;
// thread-safe.
const std::vector<Verb>& Verbs();

// Options that every verb takes.
const std::vector<Option>& GlobalOptions();

// Returns the verb of this name, or null. `name` has a single blank between two words.
const Verb* FindVerb(std::string_view name);

// True for the first word of verbs of two words: "namespace", "stage".
bool IsFamily(std::string_view word);

// Returns the verb that a user most likely meant by `name`: a name from other tools, otherwise the
// nearest spelling. Empty if none is near.
std::string NearestVerb(std::string_view name);

}  // namespace tidepool::cli
