// kvctl's output: results on standard output, all else on standard error.
//
// a verb's handler -> [Output] -> stdout (tables and values for people, or one JSON object), stderr
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/status.h"

namespace tidepool::cli {

using Json = nlohmann::ordered_json;

// Puts bytes into an object: under `name` as text if they are UTF-8, else under `name`_base64.
void SetBytes(Json* object, const std::string& name, std::string_view bytes);

// Columns under a headline, two blanks apart. Columns of numbers are aligned to the right. Cells
// are made safe for the terminal.
class Table {
 public:
  explicit Table(std::vector<std::string> head) { rows_.push_back(std::move(head)); }
  // REQUIRES: the row has a cell per column.
  void Add(std::vector<std::string> row);
  std::string ToString() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// A process has a single Output. Not thread-safe, except for Note. With --json one object goes to
// standard output, at the end or, for lists, in parts:
//
//   {"ok": true, "code": "OK", "error": null, "remedy": null, "result": ...}
//
// These five members are always present. "code" is a StatusCode's name, or "PARTIAL". A failed
// write (a full disk) is kept and becomes the command's failure.
class Output {
 public:
  // Writes to the descriptors, which it does not own.
  explicit Output(bool json, int stdout_fd = 1, int stderr_fd = 2);
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  bool json() const { return json_; }
  bool stdout_is_terminal() const { return stdout_is_terminal_; }
  bool stderr_is_terminal() const { return stderr_is_terminal_; }

  // Sets the verb's result in both forms. `text` is written at once, with a newline at its end.
  // Call it at most once. After a list, the list's object also gets the members of `result`.
  void Result(const Json& result, std::string_view text);

  // Adds a member beside the members of the result, which is an object. For people it is a line on
  // standard error at the end. The last member of a name counts. A failure without a result has no
  // members.
  void Beside(const std::string& name, const Json& value, std::string text);
  // A list of any length, for verbs that print as they go: result.<name> is an array of the items.
  void BeginList(std::string_view name);
  void Item(const Json& item);

  // Bytes of standard output as they are; not with --json. Buffered until Flush or the end.
  void Raw(std::string_view bytes);
  void Flush();

  // Bytes handed to standard output so far, and bytes that it has taken. They differ before Flush,
  // and after a failed write.
  std::uint64_t given() const { return given_; }
  std::uint64_t written() const { return written_; }
  // kOk, or kInternal with the reason why standard output takes nothing any more.
  Status write_status() const;

  // Writes a line on standard error: "kvctl: <text>".
  void Note(std::string_view text);
  // Standard error as it is, for progress bars.
  void Progress(std::string_view text);

  // Some parts failed: the command ends with kPartial whatever it returns.
  void SetPartial() { partial_ = true; }

  // Without a failure, and if a signal ended it (kCancelled), the command ends with `exit_code`.
  void EndWith(int exit_code) { exit_code_ = exit_code; }

  // Prints the failure, or closes the JSON object. Returns the exit code.
  int Finish(const Status& status);

 private:
  void Write(int fd, std::string_view bytes);

  const bool json_;
  const int stdout_fd_;
  const int stderr_fd_;
  bool stdout_is_terminal_ = false;
  bool stderr_is_terminal_ = false;
  bool partial_ = false;
  int exit_code_ = 0;
  bool in_list_ = false;
  std::uint64_t items_ = 0;
  std::string buffer_;
  std::unique_ptr<Json> result_;
  struct Aside {
    std::string name;
    std::unique_ptr<Json> value;
    std::string text;
  };
  std::vector<Aside> asides_;
  std::uint64_t given_ = 0;
  std::uint64_t written_ = 0;
  int write_error_ = 0;
};

}  // namespace tidepool::cli
