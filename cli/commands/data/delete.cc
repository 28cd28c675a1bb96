#include "cli/commands/data/delete.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands/data/receipt.h"
#include "cli/commands/data/record_call.h"
#include "cli/commands/data/remover.h"
#include "cli/commands/data/scan_records.h"
#include "cli/commands/files/staged_file.h"
#include "cli/text.h"
#include "proto/convert/staged_keys.h"
#include "tidepool/v1/bulk.pb.h"

namespace tidepool::cli {
namespace {

struct Deleted {
  std::size_t asked = 0;  // Keys of all calls.
  std::size_t deleted = 0;
  Status failure;
};

// Deletes the records of up to kKeysPerCall keys. Errors: of a call as a whole.
Status DeleteSome(Invocation& run, const std::vector<std::string>& keys, Deleted* deleted) {
  std::vector<v1::Operation> deletes;
  for (const std::string& key : keys) {
    v1::Operation& operation = deletes.emplace_back();
    operation.set_kind(v1::OPERATION_KIND_DELETE);
    operation.set_key(key);
  }
  const auto results = ExecuteAll(run, deletes);
  if (!results.ok()) return results.status();
  // A path may be that of a staged file in parts, which a record of this key may have hidden. The
  // file must not come back.
  const auto files = FindStagedFiles(run, keys);
  if (!files.ok()) return files.status();
  for (std::size_t i = 0; i < deletes.size(); ++i) {
    const v1::OperationStatus& outcome = (*results)[i].status();
    Status status = StatusOf(outcome, deletes[i], run.args.Text("NAMESPACE"));
    const bool is_absent = status.code() == StatusCode::kNotFound && outcome.message().empty();
    if ((status.ok() || is_absent) && (*files)[i].ok()) {
      status = DeleteStagedFile(run, *(*files)[i]);
    }
    if (status.ok()) {
      ++deleted->deleted;
      continue;
    }
    Status& failure = deleted->failure;
    if (failure.ok() || failure.code() == StatusCode::kNotFound) failure = status;
    if (deleted->asked > 1 && !run.out.json()) run.out.Note(status.what());
  }
  return OkStatus();
}

Status DeleteKeys(Invocation& run) {
  const Result<std::vector<std::string>> keys = KeyArguments(run.args);
  if (!keys.ok()) return keys.status();
  Deleted deleted;
  deleted.asked = keys->size();
  Status ended;
  for (auto first = keys->begin(); first != keys->end() && ended.ok();) {
    const auto last = first + std::min<std::ptrdiff_t>(kKeysPerCall, keys->end() - first);
    ended = DeleteSome(run, std::vector<std::string>(first, last), &deleted);
    first = last;
  }
  if (!ended.ok() && deleted.deleted == 0) return ended;
  Json result;
  result["deleted"] = deleted.deleted;
  result["asked"] = deleted.asked;
  run.out.Result(result, "");
  if (!ended.ok()) deleted.failure = ended;
  if (deleted.failure.ok() || deleted.asked == 1) return deleted.failure;
  if (deleted.deleted > 0) run.out.SetPartial();
  return Status(deleted.failure.code(), std::to_string(deleted.asked - deleted.deleted) + " of " +
                                            std::to_string(deleted.asked) +
                                            " keys were not deleted" +
                                            (ended.ok() ? "" : ": " + std::string(ended.what())));
}

// Deletes the staged files in parts with matching paths. Their keys do not match, because they have
// more than the path.
Status DeleteMatchingFiles(Invocation& run, std::vector<std::string> paths,
                           std::uint64_t* deleted) {
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  v1::ScanRequest request;
  request.set_namespace_(run.args.Text("NAMESPACE"));
  request.set_glob(convert::StagedFileKey(run.args.Text("--glob")));
  request.set_keys_only(true);
  TP_RETURN_IF_ERROR(ScanRecords(**channel, request, [&](const v1::Record& record) {
    const convert::StagedKey staged = convert::ParseStagedKey(record.key());
    if (staged.role == convert::StagedRole::kFile) paths.emplace_back(staged.path);
    return true;
  }));
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  for (const std::string& path : paths) {
    const Result<v1::StageEntry> file = FindStagedFile(run, path);
    if (file.code() == StatusCode::kNotFound) continue;  // Gone since the scan saw it.
    if (!file.ok()) return file.status();
    TP_RETURN_IF_ERROR(DeleteStagedFile(run, *file));
    ++*deleted;
  }
  return OkStatus();
}

Status DeleteMatching(Invocation& run) {
  v1::ScanRequest request;
  request.set_namespace_(run.args.Text("NAMESPACE"));
  request.set_glob(run.args.Text("--glob"));
  request.set_keys_only(true);
  if (request.glob().empty() || !IsUtf8(request.glob())) {
    return Status(StatusCode::kInvalidArgument, "--glob is empty or not UTF-8",
                  "write * for all keys, and ? for each byte that is not UTF-8");
  }
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  Remover remover(run, run.args.Text("NAMESPACE"), /*expected=*/0);
  std::vector<std::string> paths;
  Status status;
  const Status scanned = ScanRecords(**channel, request, [&](const v1::Record& record) {
    const convert::StagedKey staged = convert::ParseStagedKey(record.key());
    if (staged.role == convert::StagedRole::kFile) {
      paths.emplace_back(staged.path);
    } else if (staged.role == convert::StagedRole::kPlain) {
      status = remover.Add(record.key());
    }
    return status.ok();
  });
  if (status.ok()) status = remover.Finish();
  if (status.ok()) status = scanned;
  std::uint64_t files = 0;
  const bool goes_on = status.ok() || status.code() == StatusCode::kDataLoss;
  if (goes_on) {
    const Status of_files = DeleteMatchingFiles(run, std::move(paths), &files);
    if (!of_files.ok() && status.ok()) status = of_files;
  }
  const std::uint64_t deleted = remover.removed() + files;
  if (!status.ok() && deleted == 0) return status;
  run.out.Result({{"deleted", deleted}}, std::to_string(deleted));
  if (status.ok()) return status;
  run.out.SetPartial();
  return Status(
      status.code(),
      std::to_string(deleted) + " records were deleted, then: " + std::string(status.what()),
      std::string(status.remedy()));
}

}  // namespace

Status DeleteRecords(Invocation& run) {
  if (run.args.Has("--glob") == run.args.Has("KEY")) {
    return Status(StatusCode::kInvalidArgument, "what is to be deleted is not clear",
                  "give KEY..., or --glob PATTERN");
  }
  if (run.args.Has("--glob") && (WantsReceipt(run.args) || run.args.Has("--base64"))) {
    return Status(StatusCode::kInvalidArgument,
                  "--receipt and --base64 are for KEY, not for --glob", "leave them out");
  }
  return run.args.Has("--glob") ? DeleteMatching(run) : DeleteKeys(run);
}

}  // namespace tidepool::cli
