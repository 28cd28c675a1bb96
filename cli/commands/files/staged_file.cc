#include "cli/commands/files/staged_file.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cli/commands/data/large_value.h"
#include "cli/commands/data/record_call.h"
#include "cli/text.h"
#include "proto/convert/staged_keys.h"
#include "proto/manifest/entry.h"
#include "proto/manifest/holes.h"
#include "proto/manifest/keys.h"

namespace tidepool::cli {

namespace {

v1::Operation GetHead(std::string_view path) {
  v1::Operation get;
  get.set_kind(v1::OPERATION_KIND_GET);
  get.set_key(convert::StagedFileKey(path));
  return get;
}

Result<v1::StageEntry> DecodeHead(std::string_view path, const v1::OperationResult& head) {
  v1::StageEntry file;
  if (file.ParseFromString(head.value()) && file.path() == path) return file;
  return Status(StatusCode::kDataLoss,
                "what is known of the staged file " + Quote(path) + " cannot be read",
                "stage it in again");
}

}  // namespace

Result<v1::StageEntry> FindStagedFile(Invocation& run, std::string_view path) {
  const Result<v1::OperationResult> head = ExecuteOne(run, GetHead(path));
  if (!head.ok()) return head.status();
  return DecodeHead(path, *head);
}

Result<std::vector<Result<v1::StageEntry>>> FindStagedFiles(Invocation& run,
                                                            const std::vector<std::string>& paths) {
  std::vector<v1::Operation> gets;
  for (const std::string& path : paths) gets.push_back(GetHead(path));
  const auto heads = ExecuteAll(run, gets);
  if (!heads.ok()) return heads.status();
  std::vector<Result<v1::StageEntry>> files;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const v1::OperationResult& head = (*heads)[i];
    const Status status = StatusOf(head.status(), gets[i], run.args.Text("NAMESPACE"));
    files.push_back(status.ok() ? DecodeHead(paths[i], head) : Result<v1::StageEntry>(status));
  }
  return files;
}

Status CheckNotStagedFile(Invocation& run, std::string_view path) {
  const Result<v1::StageEntry> file = FindStagedFile(run, path);
  if (!file.ok()) return OkStatus();
  return Status(StatusCode::kFailedPrecondition,
                Quote(path) + " is a staged file of " + FormatBytes(file->size()) +
                    ", which is kept in parts and is no record to be changed",
                "delete it first: kvctl delete");
}

namespace {

// Returns the manifest entry of a part that is stored without its holes.
Result<manifest::Entry> FindSparsePart(Invocation& run, const std::string& key) {
  v1::Operation get;
  get.set_kind(v1::OPERATION_KIND_GET);
  get.set_key(manifest::ManifestKey(key));
  const Result<v1::OperationResult> found = ExecuteOne(run, get);
  if (!found.ok()) return found.status();
  return manifest::DecodeEntry(AsBytes(found->value()));
}

Status TakeZeros(std::uint64_t bytes, const std::function<void(std::string_view)>& take) {
  const std::string zeros(static_cast<std::size_t>(std::min<std::uint64_t>(bytes, 1 << 20)), '\0');
  for (std::uint64_t left = bytes; left > 0;) {
    const auto now = static_cast<std::size_t>(std::min<std::uint64_t>(left, zeros.size()));
    take(std::string_view(zeros).substr(0, now));
    left -= now;
  }
  return OkStatus();
}

// Calls `take` with the content of a part, and adds its length to `*bytes`.
Status ReadPart(Invocation& run, Channel& channel, const v1::StageEntry& file, std::uint32_t part,
                const std::function<void(std::string_view)>& take, std::uint64_t* bytes) {
  v1::ReadValueRequest request;
  request.set_namespace_(run.args.Text("NAMESPACE"));
  request.set_key(convert::StagedPartKey(file.path(), file.revision(), part));
  const auto& sparse = file.sparse_parts();
  if (std::find(sparse.begin(), sparse.end(), part) == sparse.end()) {
    return ReadLargeValue(channel, request, [&](const v1::ReadValueResponse& piece) {
      *bytes += piece.data().size();
      take(piece.data());
    });
  }
  const auto entry = FindSparsePart(run, request.key());
  if (!entry.ok()) return entry.status();
  manifest::HoleWalk walk(
      *entry,
      [&](std::uint64_t /*at*/, Bytes data) {
        *bytes += data.size();
        take(AsText(data));
        return OkStatus();
      },
      [&](std::uint64_t /*at*/, std::uint64_t zeros) {
        *bytes += zeros;
        return TakeZeros(zeros, take);
      });
  Status walked;
  TP_RETURN_IF_ERROR(ReadLargeValue(channel, request, [&](const v1::ReadValueResponse& piece) {
    if (walked.ok()) walked = walk.Add(AsBytes(piece.data()));
  }));
  TP_RETURN_IF_ERROR(walked);
  return walk.Finish();
}

}  // namespace

Status ReadStagedFile(Invocation& run, const v1::StageEntry& file,
                      const std::function<void(std::string_view)>& take) {
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  std::uint64_t bytes = 0;
  for (std::uint32_t part = 0; part < file.parts(); ++part) {
    const Status read = ReadPart(run, **channel, file, part, take, &bytes);
    if (read.code() == StatusCode::kNotFound) {
      return Status(StatusCode::kAborted,
                    "the staged file " + Quote(file.path()) + " was replaced while it was read",
                    "read it again");
    }
    TP_RETURN_IF_ERROR(read);
  }
  if (bytes == file.size()) return OkStatus();
  return Status(StatusCode::kDataLoss,
                "the parts of the staged file " + Quote(file.path()) + " have " +
                    std::to_string(bytes) + " bytes instead of " + std::to_string(file.size()),
                "stage it in again");
}

namespace {

constexpr std::size_t kDeletesPerCall = 512;
constexpr int kMarkAttemptsMax = 5;

v1::Operation DeleteOf(std::string key) {
  v1::Operation operation;
  operation.set_kind(v1::OPERATION_KIND_DELETE);
  operation.set_key(std::move(key));
  return operation;
}

Status DeleteAll(Invocation& run, std::vector<v1::Operation> deletes) {
  const std::vector<v1::Operation> asked = deletes;
  const auto results = ExecuteAll(run, std::move(deletes));
  if (!results.ok()) return results.status();
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const Status status = StatusOf((*results)[i].status(), asked[i], run.args.Text("NAMESPACE"));
    if (!status.ok() && status.code() != StatusCode::kNotFound) return status;
  }
  return OkStatus();
}

// The manifest's totals without the file: else the next stage-out would take the missing entry for
// data that a node has lost.
Status TakeFromTotals(Invocation& run, const v1::StageEntry& file) {
  for (int attempt = 0; attempt < kMarkAttemptsMax; ++attempt) {
    v1::Operation get;
    get.set_kind(v1::OPERATION_KIND_GET);
    get.set_key(manifest::MarkKey());
    const auto found = ExecuteOne(run, get);
    if (found.code() == StatusCode::kNotFound) return OkStatus();
    if (!found.ok()) return found.status();
    auto mark = manifest::DecodeMark(AsBytes(found->value()));
    if (!mark.ok()) return mark.status();
    mark->exact = false;  // The counts still hold; the hash over all does not.
    manifest::Summary& totals = mark->summary;
    totals.files -= std::min<std::uint64_t>(totals.files, 1);
    totals.files_in_parts -= std::min<std::uint64_t>(totals.files_in_parts, 1);
    totals.parts -= std::min<std::uint64_t>(totals.parts, file.parts());
    totals.bytes -= std::min<std::uint64_t>(totals.bytes, file.size());
    v1::Operation put;
    put.set_kind(v1::OPERATION_KIND_PUT);
    put.set_key(manifest::MarkKey());
    put.set_value(manifest::EncodeMark(*mark));
    put.set_ttl_ms(0);  // For ever, whatever the namespace's default.
    put.set_condition(v1::PUT_CONDITION_IF_VERSION);
    put.set_version(found->version());
    const auto written = ExecuteOne(run, std::move(put));
    if (written.code() != StatusCode::kFailedPrecondition) return written.status();
  }
  return Status(StatusCode::kAborted, "a staging job changes the manifest at the same time",
                "try again when it has ended: kvctl stage status");
}

}  // namespace

Status DeleteStagedFile(Invocation& run, const v1::StageEntry& file) {
  TP_RETURN_IF_ERROR(TakeFromTotals(run, file));
  std::vector<v1::Operation> deletes;
  deletes.push_back(DeleteOf(manifest::ManifestKey(file.path())));
  for (std::uint32_t part = 0; part < file.parts(); ++part) {
    const std::string key = convert::StagedPartKey(file.path(), file.revision(), part);
    deletes.push_back(DeleteOf(key));
    deletes.push_back(DeleteOf(manifest::ManifestKey(key)));
    if (deletes.size() >= kDeletesPerCall) {
      TP_RETURN_IF_ERROR(DeleteAll(run, std::exchange(deletes, {})));
    }
  }
  TP_RETURN_IF_ERROR(DeleteAll(run, std::move(deletes)));
  return DeleteAll(run, {DeleteOf(convert::StagedFileKey(file.path()))});
}

}  // namespace tidepool::cli
