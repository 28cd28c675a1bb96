// Shell patterns on keys: `*` any bytes ('/' too), `?` any byte, `[a-z]` and `[!a-z]` a byte of a
// set, `\` takes the next byte as it is. Not fnmatch(3): keys hold any bytes, NUL included, in no
// locale.
#pragma once

#include <string_view>

namespace tidepool {

// Returns whether `pattern` matches `text`. Linear in the text for a single `*`, at worst
// length(pattern) x length(text). Any bytes give an answer; an open set is taken as plain bytes.
bool GlobMatches(std::string_view pattern, std::string_view text);

}  // namespace tidepool
