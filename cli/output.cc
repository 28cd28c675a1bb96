#include "cli/output.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/descriptor_io.h"
#include "cli/exit_codes.h"
#include "cli/text.h"
#include "proto/base/check.h"

namespace tidepool::cli {
namespace {

// A write per value would cost a system call per key of a list.
constexpr std::size_t kBufferBytes = 64 * 1024;

// Bytes that are not UTF-8 are replaced: they can only stand in texts for people here, values go
// through SetBytes.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json TextOrNull(std::string_view text) {
  return text.empty() ? Json(nullptr) : Json(std::string(text));
}

bool LooksLikeNumber(std::string_view cell) {
  return cell.empty() || cell == "-" || (cell[0] >= '0' && cell[0] <= '9');
}

// Returns columns on the screen, not bytes. Combining and wide characters are rare in this output.
std::size_t Width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

void SetBytes(Json* object, const std::string& name, std::string_view bytes) {
  if (IsUtf8(bytes)) {
    (*object)[name] = std::string(bytes);
  } else {
    (*object)[name + "_base64"] = EncodeBase64(bytes);
  }
}

void Table::Add(std::vector<std::string> row) {
  TP_CHECK(row.size() == rows_[0].size());
  for (std::string& cell : row) cell = ForTerminal(cell);
  rows_.push_back(std::move(row));
}

std::string Table::ToString() const {
  std::string text;
  std::vector<std::size_t> widths(rows_[0].size(), 0);
  std::vector<bool> right(rows_[0].size(), rows_.size() > 1);
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    for (std::size_t c = 0; c < widths.size(); ++c) {
      widths[c] = std::max(widths[c], Width(rows_[r][c]));
      if (r > 0 && !LooksLikeNumber(rows_[r][c])) right[c] = false;
    }
  }
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string padding(widths[c] - Width(row[c]), ' ');
      if (c > 0) line += "  ";
      line += right[c] ? padding + row[c] : row[c] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

Output::Output(bool json, int stdout_fd, int stderr_fd)
    : json_(json),
      stdout_fd_(stdout_fd),
      stderr_fd_(stderr_fd),
      stdout_is_terminal_(isatty(stdout_fd) == 1),
      stderr_is_terminal_(isatty(stderr_fd) == 1) {}

Output::~Output() { Flush(); }

void Output::Write(int fd, std::string_view bytes) {
  const bool is_result = fd == stdout_fd_;
  if (is_result && write_error_ != 0) return;  // The output must have no gap.
  while (!bytes.empty()) {
    const std::ptrdiff_t written = WriteSome(fd, bytes);
    if (written < 0) {
      if (is_result) write_error_ = errno;
      return;
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
    if (is_result) written_ += static_cast<std::uint64_t>(written);
  }
}

void Output::Raw(std::string_view bytes) {
  given_ += bytes.size();
  if (buffer_.size() + bytes.size() > kBufferBytes) Flush();
  if (bytes.size() > kBufferBytes) {
    Write(stdout_fd_, bytes);
  } else {
    buffer_ += bytes;
  }
}

void Output::Flush() {
  Write(stdout_fd_, buffer_);
  buffer_.clear();
}

Status Output::write_status() const {
  if (write_error_ == 0) return OkStatus();
  return Status(StatusCode::kInternal,
                std::string("cannot write to standard output: ") + std::strerror(write_error_));
}

void Output::Result(const Json& result, std::string_view text) {
  if (json_) {
    TP_CHECK(result_ == nullptr);
    result_ = std::make_unique<Json>(result);
    return;
  }
  Raw(text);
  if (!text.empty() && text.back() != '\n') Raw("\n");
}

void Output::Beside(const std::string& name, const Json& value, std::string text) {
  std::erase_if(asides_, [&](const Aside& each) { return each.name == name; });
  asides_.push_back({name, std::make_unique<Json>(value), std::move(text)});
}

void Output::BeginList(std::string_view name) {
  TP_CHECK(!in_list_);
  in_list_ = true;
  if (json_) Raw("{\"result\":{" + Dump(Json(std::string(name))) + ":[");
}

void Output::Item(const Json& item) {
  TP_CHECK(in_list_);
  if (!json_) return;
  Raw(items_++ == 0 ? "\n" : ",\n");
  Raw(Dump(item));
}

void Output::Note(std::string_view text) {
  Flush();
  Write(stderr_fd_, "kvctl: " + ForTerminal(text) + "\n");
}

void Output::Progress(std::string_view text) { Write(stderr_fd_, text); }

int Output::Finish(const Status& status) {
  Flush();
  const Status end = status.ok() ? write_status() : status;
  ExitCode exit_code = ExitCodeOf(end.code());
  if (partial_) exit_code = ExitCode::kPartial;
  const bool failed = exit_code != ExitCode::kOk;

  if (json_ && in_list_ && result_ == nullptr) result_ = std::make_unique<Json>(Json::object());
  for (const Aside& each : asides_) {
    if (json_ && result_ != nullptr && result_->is_object()) (*result_)[each.name] = *each.value;
    if (!json_ && !failed) Note(each.text);
  }
  if (json_) {
    Json envelope;
    envelope["ok"] = !failed;
    envelope["code"] = partial_ ? "PARTIAL" : std::string(StatusCodeName(end.code()));
    envelope["error"] = failed ? TextOrNull(end.what()) : Json(nullptr);
    envelope["remedy"] = failed ? TextOrNull(end.remedy()) : Json(nullptr);
    if (in_list_) {
      // The list's object is open: its other members, then the envelope's.
      std::string tail = "]";
      if (result_ != nullptr && result_->is_object() && !result_->empty()) {
        const std::string members = Dump(*result_);
        tail += "," + members.substr(1, members.size() - 2);
      }
      Raw(tail + "}," + Dump(envelope).substr(1) + "\n");
    } else {
      envelope["result"] = result_ != nullptr ? *result_ : Json(nullptr);
      Raw(Dump(envelope) + "\n");
    }
    Flush();
  }
  if (failed && (!json_ || write_error_ != 0)) {
    std::string line(end.what().empty() ? StatusCodeName(end.code()) : end.what());
    if (!end.remedy().empty()) line.append(" (").append(end.remedy()).append(")");
    Note(line);
  }
  const bool by_signal = end.code() == StatusCode::kCancelled && exit_code_ != 0;
  return failed && !by_signal ? static_cast<int>(exit_code) : exit_code_;
}

}  // namespace tidepool::cli
