// Text in and out of kvctl: numbers with units as people write and read them, and bytes as text.
//
// argv -> [Parse...] -> commands -> [Format..., Escape...] -> terminal
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "proto/base/result.h"

namespace tidepool::cli {

// "5", "5s", "500ms", "2m", "1h", "1.5s", "7d" -> milliseconds; a bare number is seconds.
// Errors: kInvalidArgument, also above 10 years (what fits a deadline and an expiry).
Result<std::uint64_t> ParseDurationMs(std::string_view text);

// "4096", "64KiB", "64K", "64kb", "1.5G" -> bytes, powers of 1024 whatever the spelling.
// Errors: kInvalidArgument, also what does not fit 63 bits.
Result<std::uint64_t> ParseByteCount(std::string_view text);

// Whole text, decimal. Errors: kInvalidArgument, also what does not fit.
Result<std::uint64_t> ParseUnsigned(std::string_view text);
Result<std::int64_t> ParseSigned(std::string_view text);
// As strtod: also "inf" and "nan".
Result<double> ParseDouble(std::string_view text);
// Parses a double, but refuses a whole number that no double equals.
Result<double> ParseCounterF64(std::string_view text);

// 1536 -> "1.5 KiB"; below 1024 "17 B".
std::string FormatBytes(std::uint64_t bytes);
// 4711000 -> "4.71 M"; below 10,000 the digits.
std::string FormatCount(double count);
// 61000 -> "1m01s", 1500 -> "1.5s", 7 -> "7ms", 90061000 -> "1d01h".
std::string FormatDurationMs(std::uint64_t ms);
// 870 -> "870 ns", 12345 -> "12.3 us".
std::string FormatNs(std::uint64_t ns);
// 0.8 -> "80 %". Up to four digits, because a small share must not look like zero.
std::string FormatPercent(double share);
// The shortest text that gives the same number again.
std::string FormatDouble(double number);

bool IsUtf8(std::string_view bytes);
std::string EncodeBase64(std::string_view bytes);
// Errors: kInvalidArgument.
Result<std::string> DecodeBase64(std::string_view text);

// Returns `bytes` in a form that is safe on a terminal: control characters and bytes that are not
// UTF-8 become \n, \t, \xHH. A backslash stays: this text is for eyes, not for parsing.
std::string ForTerminal(std::string_view bytes);
// A key for a message: in single quotes, for the terminal, cut after 60 bytes.
std::string Quote(std::string_view bytes);
// Returns the quoted and safe begin of a string of `all_bytes`: 'abc'... if there are more.
std::string QuoteBeginning(std::string_view first, std::uint64_t all_bytes);

}  // namespace tidepool::cli
