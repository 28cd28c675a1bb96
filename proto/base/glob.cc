#include "proto/base/glob.h"

#include <cstddef>

namespace tidepool {
namespace {

constexpr std::size_t kNone = std::string_view::npos;

// Matches `byte` against the set that begins at pattern[at] == '['. Returns the position behind the
// set, or kNone if it is not closed.
std::size_t MatchSet(std::string_view pattern, std::size_t at, char byte, bool* matched) {
  std::size_t i = at + 1;
  const bool inverted = i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^');
  if (inverted) ++i;
  bool found = false;
  const auto value = static_cast<unsigned char>(byte);
  for (bool first = true; i < pattern.size() && (first || pattern[i] != ']'); first = false) {
    if (pattern[i] == '\\' && i + 1 < pattern.size()) ++i;
    const auto low = static_cast<unsigned char>(pattern[i]);
    auto high = low;
    if (i + 2 < pattern.size() && pattern[i + 1] == '-' && pattern[i + 2] != ']') {
      high = static_cast<unsigned char>(pattern[i + 2]);
      i += 2;
    }
    found = found || (value >= low && value <= high);
    ++i;
  }
  if (i >= pattern.size()) return kNone;
  *matched = found != inverted;
  return i + 1;
}

// Matches a byte; returns the position behind the matching pattern, or kNone.
std::size_t MatchOne(std::string_view pattern, std::size_t at, char byte) {
  switch (pattern[at]) {
    case '?':
      return at + 1;
    case '[': {
      bool matched = false;
      const std::size_t next = MatchSet(pattern, at, byte, &matched);
      if (next != kNone) return matched ? next : kNone;
      return byte == '[' ? at + 1 : kNone;
    }
    case '\\':
      if (at + 1 < pattern.size()) return pattern[at + 1] == byte ? at + 2 : kNone;
      [[fallthrough]];
    default:
      return pattern[at] == byte ? at + 1 : kNone;
  }
}

}  // namespace

bool GlobMatches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = kNone;  // Place behind the last `*`, and behind its bytes in the text.
  std::size_t taken = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      taken = t;
      continue;
    }
    const std::size_t next = p < pattern.size() ? MatchOne(pattern, p, text[t]) : kNone;
    if (next != kNone) {
      p = next;
      ++t;
    } else if (star != kNone) {
      p = star;
      t = ++taken;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace tidepool
