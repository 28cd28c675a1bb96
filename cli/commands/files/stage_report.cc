#include "cli/commands/files/stage_report.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "cli/commands/data/record_call.h"
#include "cli/text.h"
#include "proto/stage/survey.h"

namespace tidepool::cli {

namespace {

void NoteAll(Invocation& run, const std::string& prefix,
             const google::protobuf::RepeatedPtrField<std::string>& lines, std::uint64_t total) {
  for (const std::string& line : lines) run.out.Note(prefix + line);
  const auto listed = static_cast<std::uint64_t>(lines.size());
  if (total > listed) run.out.Note(prefix + "... and " + std::to_string(total - listed) + " more");
}

std::string Stale(std::uint64_t files) {
  return "the namespace still holds " + std::to_string(files) +
         (files == 1 ? " staged file" : " staged files") +
         " that the directory does not have; stage out writes them again; remove them with: kvctl "
         "stage in --delete";
}

}  // namespace

Json ProgressJson(const v1::StageProgress& progress) {
  Json failures = Json::array();
  for (const std::string& failure : progress.failures()) failures.push_back(failure);
  Json warnings = Json::array();
  for (const std::string& warning : progress.warnings()) warnings.push_back(warning);
  for (const std::string& remark : progress.remarks()) warnings.push_back(remark);
  Json missing = Json::array();
  for (const v1::MissingPart& part : progress.missing()) {
    missing.push_back({{"node", part.node_id()},
                       {"partitions", part.partitions()},
                       {"partitions_total", progress.partitions()},
                       {"reason", part.why()}});
  }
  return {{"job", progress.job()},
          {"done", progress.done()},
          {"phase", progress.phase()},
          {"files_total", progress.files_total()},
          {"files_done", progress.files_done()},
          {"files_skipped", progress.files_skipped()},
          {"bytes_total", progress.bytes_total()},
          {"bytes_done", progress.bytes_done()},
          {"elapsed_ms", progress.elapsed_ms()},
          {"failures_total", progress.failures_total()},
          {"failures", std::move(failures)},
          {"warnings_total", progress.warnings_total()},
          {"warnings", std::move(warnings)},
          {"files_removed", progress.removed()},
          {"files_stale", progress.stale()},
          {"missing", std::move(missing)},
          {"tree_hash", progress.tree_hash()}};
}

ProgressState BarState(const v1::StageProgress& progress) {
  return {progress.phase(),       progress.files_done() + progress.files_skipped(),
          progress.files_total(), progress.bytes_done(),
          progress.bytes_total(), progress.elapsed_ms()};
}

Status EndOfJob(Invocation& run, const v1::StageProgress& end, Json result) {
  result.update(ProgressJson(end));
  if (!run.out.json()) {
    NoteAll(run, "warning: ", end.warnings(), end.warnings_total());
    for (const std::string& remark : end.remarks()) run.out.Note(remark);
    NoteAll(run, "", end.failures(), end.failures_total());
    if (end.stale() > 0) run.out.Note(Stale(end.stale()));
  }
  const double seconds = static_cast<double>(end.elapsed_ms()) / 1000;
  std::string text = "moved " + std::to_string(end.files_done()) + " files, " +
                     FormatBytes(end.bytes_done()) + " in " + FormatDurationMs(end.elapsed_ms());
  if (seconds > 0) {
    text +=
        " (" +
        FormatBytes(static_cast<std::uint64_t>(static_cast<double>(end.bytes_done()) / seconds)) +
        "/s)";
  }
  if (end.files_skipped() > 0) {
    text += "; " + std::to_string(end.files_skipped()) + " were there already";
  }
  if (end.removed() > 0) text += "; removed " + std::to_string(end.removed());
  run.out.Result(result, text);
  for (const v1::MissingPart& part : end.missing()) {
    if (!run.out.json()) run.out.Note("missing: " + stage::Text(part, end.partitions()));
  }
  const bool failed = end.code() != 0 || end.failures_total() > 0;
  // Also if the nodes that answered hold no files: the job did all that could be done.
  const bool only_missing =
      end.missing_size() > 0 && end.failures_total() == 0 && end.code() == end.missing(0).code();
  if (failed && (only_missing || end.files_done() + end.files_skipped() > 0)) run.out.SetPartial();
  if (end.code() != 0) {
    const auto code =
        end.code() < kStatusCodeCount ? static_cast<StatusCode>(end.code()) : StatusCode::kUnknown;
    return SplitRemedy(code, end.message().empty() ? StatusCodeName(code) : end.message());
  }
  if (end.failures_total() == 0) return OkStatus();
  return Status(StatusCode::kAborted,
                std::to_string(end.failures_total()) + " files were not staged",
                "mend what is named and give the command again: it moves only what is missing");
}

}  // namespace tidepool::cli
