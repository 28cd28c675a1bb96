#include "cli/commands/data/get_many.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/commands/data/large_value.h"
#include "cli/commands/data/record_call.h"
#include "cli/commands/files/staged_file.h"
#include "cli/record_text.h"
#include "cli/text.h"
#include "proto/base/limits.h"

namespace tidepool::cli {
namespace {

// An answer has room for this number of values of 12 KiB; larger values are read alone.
constexpr std::size_t kKeysPerGet = 256;

class ManyGetter {
 public:
  explicit ManyGetter(Invocation& run) : run_(run) {}

  // Prints the records of up to kKeysPerGet keys. Errors: of the call as a whole.
  Status Take(const std::vector<std::string>& keys);
  // Returns how the command ends.
  Status Outcome(std::size_t asked);

 private:
  Status Fetch(const std::string& key, const v1::OperationResult& result, v1::Record* record);
  Status FetchFile(const std::string& key, v1::Record* record);
  Status FetchLarge(const std::string& key, v1::Record* record);
  void Print(const v1::Record& record);
  void NoteFailure(const std::string& key, const Status& status);

  Invocation& run_;
  Json missing_ = Json::array();
  std::size_t failed_ = 0;
  Status failure_;
};

Status ManyGetter::Take(const std::vector<std::string>& keys) {
  std::vector<v1::Operation> gets;
  for (const std::string& key : keys) {
    v1::Operation& get = gets.emplace_back();
    get.set_kind(v1::OPERATION_KIND_GET);
    get.set_key(key);
  }
  const auto results = ExecuteAll(run_, gets);
  if (!results.ok()) return results.status();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const v1::OperationResult& result = (*results)[i];
    Status status = StatusOf(result.status(), gets[i], run_.args.Text("NAMESPACE"));
    const bool is_absent =
        status.code() == StatusCode::kNotFound && result.status().message().empty();
    // No other key will do better.
    if (!status.ok() && !is_absent && status.code() != StatusCode::kDataLoss) return status;
    v1::Record record;
    record.set_key(keys[i]);
    if (status.ok()) {
      status = Fetch(keys[i], result, &record);
    } else if (is_absent) {
      const Status file = FetchFile(keys[i], &record);
      if (file.code() != StatusCode::kNotFound) status = file;
    }
    if (status.ok()) {
      Print(record);
    } else {
      NoteFailure(keys[i], status);
    }
  }
  return OkStatus();
}

Status ManyGetter::Fetch(const std::string& key, const v1::OperationResult& result,
                         v1::Record* record) {
  record->set_value_kind(result.value_kind());
  record->set_version(result.version());
  if (result.value_omitted()) return FetchLarge(key, record);
  record->set_value(result.value());
  return OkStatus();
}

Status ManyGetter::FetchLarge(const std::string& key, v1::Record* record) {
  const Result<Channel*> channel = run_.Connect();
  if (!channel.ok()) return channel.status();
  v1::ReadValueRequest request;
  request.set_namespace_(run_.args.Text("NAMESPACE"));
  request.set_key(key);
  return ReadLargeValue(**channel, request, [&](const v1::ReadValueResponse& part) {
    record->mutable_value()->append(part.data());
  });
}

// A staged file in parts is asked for by its path.
Status ManyGetter::FetchFile(const std::string& key, v1::Record* record) {
  const Result<v1::StageEntry> file = FindStagedFile(run_, key);
  if (!file.ok()) return file.status();
  if (file->size() > limits::kValueBytesMax) {
    return Status(StatusCode::kOutOfRange, "the file " + Quote(key) + " is too large for a line",
                  "get it alone");
  }
  return ReadStagedFile(run_, *file,
                        [&](std::string_view piece) { record->mutable_value()->append(piece); });
}

void ManyGetter::Print(const v1::Record& record) {
  if (run_.out.json()) {
    Json item = RecordToJson(record);
    item["kind"] = ValueKindName(record.value_kind());
    item["version"] = record.version();
    run_.out.Item(item);
  } else {
    run_.out.Raw(FormatRecord(record, RecordFormat::kJsonLines) + "\n");
  }
}

void ManyGetter::NoteFailure(const std::string& key, const Status& status) {
  ++failed_;
  // A missing key is the least of all failures.
  if (failure_.ok() || failure_.code() == StatusCode::kNotFound) failure_ = status;
  if (run_.out.json()) {
    Json item;
    SetBytes(&item, "key", key);
    item["code"] = StatusCodeName(status.code());
    missing_.push_back(std::move(item));
  } else {
    run_.out.Note(status.what());
  }
}

Status ManyGetter::Outcome(std::size_t asked) {
  run_.out.Result({{"missing", std::move(missing_)}}, "");
  if (failed_ == 0) return OkStatus();
  return Status(failure_.code(),
                std::to_string(failed_) + " of " + std::to_string(asked) +
                    (failure_.code() == StatusCode::kNotFound ? " keys do not exist"
                                                              : " keys could not be read"));
}

}  // namespace

Status GetMany(Invocation& run, const std::vector<std::string>& keys) {
  ManyGetter getter(run);
  run.out.BeginList("records");
  for (auto first = keys.begin(); first != keys.end();) {
    const auto last = first + std::min<std::ptrdiff_t>(kKeysPerGet, keys.end() - first);
    TP_RETURN_IF_ERROR(getter.Take(std::vector<std::string>(first, last)));
    first = last;
  }
  return getter.Outcome(keys.size());
}

}  // namespace tidepool::cli
