#include "cli/record_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/text.h"
#include "proto/base/check.h"
#include "proto/base/limits.h"

namespace tidepool::cli {
namespace {

Status Invalid(std::string what) { return Status(StatusCode::kInvalidArgument, std::move(what)); }

template <typename Number>
Number CounterAs(std::string_view value) {
  Number number;
  TP_CHECK(value.size() == sizeof number);
  std::memcpy(&number, value.data(), sizeof number);
  return number;
}

// A record that says it is a counter but has another size is shown as its bytes.
bool IsCounter(std::string_view value, v1::ValueKind kind) {
  return kind != v1::VALUE_KIND_BYTES && value.size() == sizeof(std::int64_t);
}

// Requires "name" as text or "name_base64", and not both.
Result<std::string> BytesMember(const Json& object, const std::string& name) {
  const auto text = object.find(name);
  const auto base64 = object.find(name + "_base64");
  if ((text != object.end()) == (base64 != object.end())) {
    return Invalid("needs exactly one of \"" + name + "\" and \"" + name + "_base64\"");
  }
  const auto& member = text != object.end() ? *text : *base64;
  if (!member.is_string()) return Invalid("\"" + name + "\" is not text");
  const auto& value = member.get_ref<const std::string&>();
  return text != object.end() ? Result<std::string>(value) : DecodeBase64(value);
}

// True if a number of a JSON text is whole and fits no 64 bits: a parser makes it a double.
bool HasHugeInteger(std::string_view json) {
  bool in_text = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    if (json[i] == '\\' && in_text) {
      ++i;
    } else if (json[i] == '"') {
      in_text = !in_text;
    } else if (!in_text && (json[i] == '-' || (json[i] >= '0' && json[i] <= '9'))) {
      const std::size_t end = std::min(json.find_first_not_of("+-.0123456789eE", i), json.size());
      const std::string_view number = json.substr(i, end - i);
      if (number.find_first_of(".eE") == std::string_view::npos && !ParseSigned(number).ok() &&
          !ParseUnsigned(number).ok()) {
        return true;
      }
      i = end - 1;
    }
  }
  return false;
}

Status SetCounter(const Json& value, v1::Record* record) {
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX) {
    return Invalid("the number in \"value\" does not fit 64 bits");
  }
  if (value.is_number_integer()) {
    record->set_value_kind(v1::VALUE_KIND_I64);
    record->set_value(CounterBytes(value.get<std::int64_t>()));
  } else {
    record->set_value_kind(v1::VALUE_KIND_F64);
    record->set_value(CounterBytes(value.get<double>()));
  }
  return OkStatus();
}

Status SetValueFromJson(const Json& object, v1::Record* record) {
  const auto value = object.find("value");
  if (value != object.end() && value->is_number()) return SetCounter(*value, record);
  Result<std::string> bytes = BytesMember(object, "value");
  if (!bytes.ok()) return bytes.status();
  const auto kind = object.find("kind");
  if (kind == object.end() || *kind == "bytes") {
    record->set_value(*std::move(bytes));
    return OkStatus();
  }
  if (*kind != "f64") return Invalid("\"kind\" is neither \"bytes\" nor \"f64\"");
  const Result<double> number = ParseDouble(*bytes);
  if (!number.ok()) return number.status();
  record->set_value_kind(v1::VALUE_KIND_F64);
  record->set_value(CounterBytes(*number));
  return OkStatus();
}

Result<v1::Record> ParseJsonRecord(std::string_view line) {
  const Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return Invalid("is not a JSON object");
  v1::Record record;
  Result<std::string> key = BytesMember(object, "key");
  if (!key.ok()) return key.status();
  record.set_key(*std::move(key));
  if (Status value = SetValueFromJson(object, &record); !value.ok()) return value;
  if (record.value_kind() == v1::VALUE_KIND_F64 && HasHugeInteger(line)) {
    return Invalid("the number in \"value\" does not fit 64 bits");
  }
  if (const auto ttl = object.find("ttl_ms"); ttl != object.end() && !ttl->is_null()) {
    if (!ttl->is_number_unsigned()) return Invalid("\"ttl_ms\" is not a number of milliseconds");
    record.set_ttl_ms(ttl->get<std::uint64_t>());
  }
  return record;
}

Result<v1::Record> ParseTsvRecord(std::string_view line) {
  const std::size_t tab = line.find('\t');
  if (tab == std::string_view::npos) return Invalid("has no tab between key and value");
  const std::string_view rest = line.substr(tab + 1);
  if (rest.find('\t') != std::string_view::npos) {
    return Invalid("has more than one tab; write \\t inside a key or value");
  }
  Result<std::string> key = UnescapeTsv(line.substr(0, tab));
  if (!key.ok()) return key.status();
  Result<std::string> value = UnescapeTsv(rest);
  if (!value.ok()) return value.status();
  v1::Record record;
  record.set_key(*std::move(key));
  record.set_value(*std::move(value));
  return record;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

Result<RecordFormat> ParseRecordFormat(std::string_view text) {
  if (text == "jsonl") return RecordFormat::kJsonLines;
  if (text == "tsv") return RecordFormat::kTsv;
  return Invalid("the format " + Quote(text) + " is neither jsonl nor tsv");
}

RecordFormat GuessRecordFormat(std::string_view file_name, std::string_view first_line) {
  if (file_name.ends_with(".tsv")) return RecordFormat::kTsv;
  for (const std::string_view ending : {".jsonl", ".json", ".ndjson"}) {
    if (file_name.ends_with(ending)) return RecordFormat::kJsonLines;
  }
  // A TSV key may begin with '{' (a placement tag), but no tab can stand in a JSON text.
  const bool json = first_line.starts_with('{') && first_line.find('\t') == std::string_view::npos;
  return json ? RecordFormat::kJsonLines : RecordFormat::kTsv;
}

std::int64_t CounterI64(std::string_view value) { return CounterAs<std::int64_t>(value); }
double CounterF64(std::string_view value) { return CounterAs<double>(value); }

std::string CounterBytes(std::int64_t number) {
  return std::string(reinterpret_cast<const char*>(&number), sizeof number);
}

std::string CounterBytes(double number) {
  return std::string(reinterpret_cast<const char*>(&number), sizeof number);
}

const char* ValueKindName(v1::ValueKind kind) {
  if (kind == v1::VALUE_KIND_I64) return "i64";
  return kind == v1::VALUE_KIND_F64 ? "f64" : "bytes";
}

std::string ValueText(std::string_view value, v1::ValueKind kind) {
  if (!IsCounter(value, kind)) return std::string(value);
  return kind == v1::VALUE_KIND_I64 ? std::to_string(CounterI64(value))
                                    : FormatDouble(CounterF64(value));
}

void SetValue(Json* object, std::string_view value, v1::ValueKind kind) {
  if (!IsCounter(value, kind)) {
    SetBytes(object, "value", value);
  } else if (kind == v1::VALUE_KIND_I64) {
    (*object)["value"] = CounterI64(value);
  } else if (const double number = CounterF64(value); std::isfinite(number)) {
    (*object)["value"] = number;
  } else {
    (*object)["value"] = FormatDouble(number);
    (*object)["kind"] = "f64";
  }
}

Json RecordToJson(const v1::Record& record) {
  Json object;
  SetBytes(&object, "key", record.key());
  SetValue(&object, record.value(), record.value_kind());
  if (record.ttl_ms() != 0) object["ttl_ms"] = record.ttl_ms();
  return object;
}

std::string FormatRecord(const v1::Record& record, RecordFormat format) {
  if (format == RecordFormat::kJsonLines) return RecordToJson(record).dump();
  return EscapeTsv(record.key()) + "\t" + EscapeTsv(ValueText(record.value(), record.value_kind()));
}

Result<v1::Record> ParseRecord(std::string_view line, RecordFormat format) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  Result<v1::Record> record =
      format == RecordFormat::kJsonLines ? ParseJsonRecord(line) : ParseTsvRecord(line);
  if (!record.ok()) return record;
  if (record->key().size() > limits::kKeyBytesMax) {
    return Invalid("its key has " + std::to_string(record->key().size()) + " bytes, the most is " +
                   std::to_string(limits::kKeyBytesMax));
  }
  if (record->value().size() > limits::kValueBytesMax) {
    return Invalid("its value is larger than 1 GiB");
  }
  return record;
}

std::string EscapeTsv(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    switch (c) {
      case '\t':
        text += "\\t";
        break;
      case '\n':
        text += "\\n";
        break;
      case '\r':
        text += "\\r";
        break;
      case '\0':
        text += "\\0";
        break;
      case '\\':
        text += "\\\\";
        break;
      default:
        text += c;
    }
  }
  return text;
}

Result<std::string> UnescapeTsv(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      bytes += text[i];
      continue;
    }
    const char what = ++i < text.size() ? text[i] : ' ';
    switch (what) {
      case 't':
        bytes += '\t';
        break;
      case 'n':
        bytes += '\n';
        break;
      case 'r':
        bytes += '\r';
        break;
      case '0':
        bytes += '\0';
        break;
      case '\\':
        bytes += '\\';
        break;
      case 'x': {
        const int high = i + 1 < text.size() ? HexDigit(text[i + 1]) : -1;
        const int low = i + 2 < text.size() ? HexDigit(text[i + 2]) : -1;
        if (high < 0 || low < 0) return Invalid("has \\x without two hexadecimal digits");
        bytes += static_cast<char>(high << 4 | low);
        i += 2;
        break;
      }
      default:
        return Invalid("has a backslash that is not one of \\t \\n \\r \\0 \\\\ \\xHH");
    }
  }
  return bytes;
}

}  // namespace tidepool::cli
