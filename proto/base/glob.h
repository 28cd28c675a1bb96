// Shell patterns on keys: `*` any bytes ('/' too), `?` one byte, `[a-z]` and `[!a-z]` one of a set,
// `\` takes the next byte as it is. Not fnmatch(3): keys hold any bytes, NUL included, in no
// locale.
#pragma once

#include <string_view>

namespace tidepool {

// Linear in the text for one `*`, at worst length(pattern) x length(text). Any bytes give an
// answer; a set that is not closed is taken as plain bytes.
bool GlobMatches(std::string_view pattern, std::string_view text);

}  // namespace tidepool
