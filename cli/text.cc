#include "cli/text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>

namespace tidepool::cli {
namespace {

constexpr double kDurationMsMax = 10.0 * 365 * 24 * 3600 * 1000;

Status Invalid(std::string_view text, std::string_view wanted) {
  return Status(StatusCode::kInvalidArgument, Quote(text) + " is not " + std::string(wanted));
}

// Splits "1.5GiB" into 1.5 and "gib". A number has only digits and a point: strtod would also take
// "0x10", "1e3" and "inf".
std::optional<std::pair<double, std::string>> SplitUnit(std::string_view text) {
  std::size_t digits = 0;
  while (digits < text.size() &&
         (std::isdigit(static_cast<unsigned char>(text[digits])) || text[digits] == '.')) {
    ++digits;
  }
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + digits, number, std::chars_format::fixed);
  if (digits == 0 || error != std::errc() || end != text.data() + digits) return std::nullopt;
  std::string unit(text.substr(digits));
  for (char& c : unit) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return std::pair(number, unit);
}

template <typename Number>
Result<Number> ParseWhole(std::string_view text, std::string_view wanted) {
  Number number = 0;
  const char* end = text.data() + text.size();
  // from_chars takes no '+', which people write before increments.
  const char* start = text.data() + (text.size() > 1 && text[0] == '+' && text[1] != '-' ? 1 : 0);
  const auto [stopped, error] = std::from_chars(start, end, number);
  if (text.empty() || error != std::errc() || stopped != end) return Invalid(text, wanted);
  return number;
}

std::string Print(const char* format, double number, const char* unit) {
  std::array<char, 64> buffer;
  std::snprintf(buffer.data(), buffer.size(), format, number, unit);
  return buffer.data();
}

// Three digits that matter: 1.23, 12.3, 123.
std::string Scaled(double number, const char* unit) {
  if (number < 9.995) return Print("%.2f %s", number, unit);
  if (number < 99.95) return Print("%.1f %s", number, unit);
  return Print("%.0f %s", number, unit);
}

// Returns the bytes of the UTF-8 character at the start of `bytes`; 0: no character. Overlong
// forms, surrogates and numbers above U+10FFFF are no characters.
std::size_t CharacterBytes(std::string_view bytes) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || length > bytes.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xC0) != 0x80) return 0;
  }
  if ((first == 0xE0 && at(1) < 0xA0) || (first == 0xED && at(1) > 0x9F)) return 0;
  if ((first == 0xF0 && at(1) < 0x90) || (first == 0xF4 && at(1) > 0x8F)) return 0;
  return length;
}

constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

Result<std::uint64_t> ParseDurationMs(std::string_view text) {
  constexpr std::string_view kWanted = "a duration (for example 500ms, 10s, 5m, 2h, 7d)";
  const auto split = SplitUnit(text);
  if (!split) return Invalid(text, kWanted);
  const auto& [number, unit] = *split;
  double factor = 0;
  if (unit == "ms") factor = 1;
  if (unit.empty() || unit == "s") factor = 1000;
  if (unit == "m" || unit == "min") factor = 60 * 1000;
  if (unit == "h") factor = 3600 * 1000;
  if (unit == "d") factor = 24.0 * 3600 * 1000;
  if (factor == 0 || number * factor > kDurationMsMax) return Invalid(text, kWanted);
  // Rounded up: a duration above 0 never becomes 0, which means "for ever" elsewhere.
  return static_cast<std::uint64_t>(std::ceil(number * factor));
}

Result<std::uint64_t> ParseByteCount(std::string_view text) {
  constexpr std::string_view kWanted = "a size (for example 4096, 64KiB, 1.5G)";
  const auto split = SplitUnit(text);
  if (!split) return Invalid(text, kWanted);
  auto [number, unit] = *split;
  if (unit.ends_with("ib")) {
    unit.resize(unit.size() - 2);
  } else if (unit.ends_with("b")) {
    unit.resize(unit.size() - 1);
  }
  constexpr std::string_view kPrefixes = "kmgt";
  double factor = 1;
  if (!unit.empty()) {
    const std::size_t place = kPrefixes.find(unit);
    if (unit.size() != 1 || place == std::string_view::npos) return Invalid(text, kWanted);
    factor = std::pow(1024.0, static_cast<double>(place + 1));
  }
  if (number * factor >= 0x1p63) return Invalid(text, kWanted);
  // A whole number of bytes above 2^53 has no exact double.
  std::uint64_t whole = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
  const bool is_whole = error == std::errc() && (end == text.data() + text.size() || *end != '.');
  if (is_whole) return whole * static_cast<std::uint64_t>(factor);
  return static_cast<std::uint64_t>(number * factor);
}

Result<std::uint64_t> ParseUnsigned(std::string_view text) {
  return ParseWhole<std::uint64_t>(text, "a whole number of 0 or more");
}

Result<std::int64_t> ParseSigned(std::string_view text) {
  return ParseWhole<std::int64_t>(text, "a whole number of 64 bits");
}

Result<double> ParseDouble(std::string_view text) { return ParseWhole<double>(text, "a number"); }

Result<double> ParseCounterF64(std::string_view text) {
  const Result<double> number = ParseDouble(text);
  if (!number.ok() || text.find_first_not_of("+-0123456789") != std::string_view::npos) {
    return number;
  }
  // Digits of a double up to 2^1024 fit.
  std::array<char, 512> buffer;
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), *number,
                                          std::chars_format::fixed, 0);
  std::string_view digits = text;
  const std::size_t first = digits.find_first_of("123456789");
  digits.remove_prefix(first == std::string_view::npos ? digits.size() : first);
  std::string_view exact(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
  const std::size_t first_exact = exact.find_first_of("123456789");
  exact.remove_prefix(first_exact == std::string_view::npos ? exact.size() : first_exact);
  if (error == std::errc() && digits == exact) return number;
  return Status(StatusCode::kInvalidArgument,
                Quote(text) + " is a whole number that f64 can only round to " + std::string(exact),
                "use --int, or write it with a point");
}

std::string FormatBytes(std::uint64_t bytes) {
  constexpr std::array<const char*, 6> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return std::to_string(bytes) + " B";
  double scaled = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; scaled >= 1023.95 && unit + 1 < kUnits.size(); ++unit) scaled /= 1024;
  return Print("%.1f %s", scaled, kUnits[unit]);
}

std::string FormatCount(double count) {
  constexpr std::array<const char*, 5> kUnits = {"k", "M", "G", "T", "P"};
  if (count < 9999.5) return Print("%.0f%s", count, "");
  double scaled = count / 1000;
  std::size_t unit = 0;
  for (; scaled >= 999.5 && unit + 1 < kUnits.size(); ++unit) scaled /= 1000;
  return Scaled(scaled, kUnits[unit]);
}

std::string FormatDurationMs(std::uint64_t ms) {
  if (ms < 1000) return std::to_string(ms) + "ms";
  if (ms < 60'000) return Print("%.1f%s", static_cast<double>(ms) / 1000, "s");
  const std::uint64_t seconds = ms / 1000;
  std::array<char, 48> buffer;
  const auto two = [&](std::uint64_t large, char large_unit, std::uint64_t small, char small_unit) {
    std::snprintf(buffer.data(), buffer.size(), "%llu%c%02llu%c",
                  static_cast<unsigned long long>(large), large_unit,
                  static_cast<unsigned long long>(small), small_unit);
    return std::string(buffer.data());
  };
  if (seconds < 3600) return two(seconds / 60, 'm', seconds % 60, 's');
  if (seconds < 86'400) return two(seconds / 3600, 'h', seconds / 60 % 60, 'm');
  return two(seconds / 86'400, 'd', seconds / 3600 % 24, 'h');
}

std::string FormatNs(std::uint64_t ns) {
  const auto number = static_cast<double>(ns);
  if (ns < 1000) return std::to_string(ns) + " ns";
  if (number < 999.5e3) return Scaled(number / 1e3, "us");
  if (number < 999.5e6) return Scaled(number / 1e6, "ms");
  return Scaled(number / 1e9, "s");
}

std::string FormatPercent(double share) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g %%", share * 100);
  return text.data();
}

std::string FormatDouble(double number) {
  std::array<char, 64> buffer;
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
  return error == std::errc() ? std::string(buffer.data(), end) : std::string("nan");
}

bool IsUtf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t length = CharacterBytes(bytes);
    if (length == 0) return false;
    bytes.remove_prefix(length);
  }
  return true;
}

std::string EncodeBase64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t word = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      word = word << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      text += i + j <= bytes.size() ? kBase64[word >> (18 - 6 * j) & 63] : '=';
    }
  }
  return text;
}

Result<std::string> DecodeBase64(std::string_view text) {
  const std::string_view whole = text;
  const Status invalid = Invalid(whole, "base64");
  if (text.size() % 4 != 0) return invalid;
  while (!text.empty() && text.back() == '=' && whole.size() - text.size() < 2) {
    text.remove_suffix(1);
  }
  std::string bytes;
  bytes.reserve(text.size() * 3 / 4);
  std::uint32_t word = 0;
  int bits = 0;
  for (const char c : text) {
    const std::size_t digit = kBase64.find(c);
    if (digit == std::string_view::npos) return invalid;
    word = (word << 6 | static_cast<std::uint32_t>(digit)) & 0xFFFFFF;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      bytes += static_cast<char>(word >> bits & 0xFF);
    }
  }
  // Left-over bits that are set would be dropped silently.
  if ((word & ((1u << bits) - 1)) != 0) return invalid;
  return bytes;
}

std::string ForTerminal(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const std::size_t length = CharacterBytes(bytes);
    const auto byte = static_cast<unsigned char>(bytes[0]);
    // U+0080..U+009F are control characters too, some terminals obey them.
    const bool c1 = length == 2 && byte == 0xC2 && static_cast<unsigned char>(bytes[1]) < 0xA0;
    if (length != 0 && !c1 && byte >= 0x20 && byte != 0x7F) {
      text.append(bytes, 0, length);
      bytes.remove_prefix(length);
      continue;
    }
    if (byte == '\n') {
      text += "\\n";
    } else if (byte == '\t') {
      text += "\\t";
    } else {
      std::array<char, 8> escape;
      std::snprintf(escape.data(), escape.size(), "\\x%02x", byte);
      text += escape.data();
    }
    bytes.remove_prefix(1);
  }
  return text;
}

std::string Quote(std::string_view bytes) {
  constexpr std::size_t kShownBytes = 60;
  if (bytes.size() <= kShownBytes) return "'" + ForTerminal(bytes) + "'";
  std::size_t cut = kShownBytes;
  while (cut > kShownBytes - 4 && (static_cast<unsigned char>(bytes[cut]) & 0xC0) == 0x80) --cut;
  return "'" + ForTerminal(bytes.substr(0, cut)) + "...'";
}

std::string QuoteBeginning(std::string_view first, std::uint64_t all_bytes) {
  return Quote(first) + (first.size() < all_bytes ? "..." : "");
}

}  // namespace tidepool::cli
