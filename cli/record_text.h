// Records as text: one JSON object per line, or key and value behind a tab.
//
//   kvctl dump: record -> [record_text] -> file;  kvctl load: file -> [record_text] -> record
//
// JSON: {"key": "a", "value": "text"}; bytes that are not UTF-8 stand in "key_base64" and
// "value_base64"; a counter's value is a number (a whole one i64, one with a point f64; NaN and the
// infinities are text with "kind": "f64"); "ttl_ms" if the record expires.
// TSV: key TAB value; in both \t \n \r \0 \\ and \xHH stand for those bytes, all other bytes for
// themselves. Counters are written as numbers and read as text: TSV has no kinds.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "cli/output.h"
#include "proto/base/result.h"
#include "tidepool/v1/common.pb.h"

namespace tidepool::cli {

enum class RecordFormat : std::uint8_t { kJsonLines, kTsv };

// "jsonl", "tsv". Errors: kInvalidArgument.
Result<RecordFormat> ParseRecordFormat(std::string_view text);
// Guesses the format by the file's name, otherwise by the first line. A line that begins like an
// object of dump is JSON.
RecordFormat GuessRecordFormat(std::string_view file_name, std::string_view first_line);

// The number of a counter: 8 bytes, little-endian. REQUIRES: 8 bytes.
std::int64_t CounterI64(std::string_view value);
double CounterF64(std::string_view value);
std::string CounterBytes(std::int64_t number);
std::string CounterBytes(double number);

// "bytes", "i64" or "f64".
const char* ValueKindName(v1::ValueKind kind);
// Returns the text for people: the number of a counter, otherwise the bytes.
std::string ValueText(std::string_view value, v1::ValueKind kind);
// Puts "value" or "value_base64" and, for a counter that no JSON number can say, "kind".
void SetValue(Json* object, std::string_view value, v1::ValueKind kind);

Json RecordToJson(const v1::Record& record);
// Returns a line without its newline.
std::string FormatRecord(const v1::Record& record, RecordFormat format);
// Returns the record of a line (key, value, value_kind, ttl_ms), or kInvalidArgument with the
// reason. Keys and values that are too long are refused too.
Result<v1::Record> ParseRecord(std::string_view line, RecordFormat format);

std::string EscapeTsv(std::string_view bytes);
// Errors: kInvalidArgument (a backslash before anything else).
Result<std::string> UnescapeTsv(std::string_view text);

}  // namespace tidepool::cli
