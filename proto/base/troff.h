// Text for manual pages, which kvd's and kvctl's tables become while they are built.
#pragma once

#include <string>
#include <string_view>

namespace tidepool {

// One line. troff gives a meaning to backslashes, to dashes, and to a point or quote that begins a
// line.
inline std::string Troff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (out.empty() && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace tidepool
