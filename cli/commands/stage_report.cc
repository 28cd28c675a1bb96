#include "cli/commands/stage_report.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "cli/commands/record_call.h"
#include "cli/text.h"

namespace tidepool::cli {

Json ProgressJson(const v1::StageProgress& progress) {
  Json failures = Json::array();
  for (const std::string& failure : progress.failures()) failures.push_back(failure);
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
          {"tree_hash", progress.tree_hash()}};
}

ProgressState BarState(const v1::StageProgress& progress) {
  return {progress.phase(),       progress.files_done() + progress.files_skipped(),
          progress.files_total(), progress.bytes_done(),
          progress.bytes_total(), progress.elapsed_ms()};
}

Status EndOfJob(Invocation& run, const v1::StageProgress& end, Json result) {
  result.update(ProgressJson(end));
  for (const std::string& failure : end.failures()) {
    if (!run.out.json()) run.out.Note(failure);
  }
  const auto listed = static_cast<std::uint64_t>(end.failures_size());
  if (end.failures_total() > listed && !run.out.json()) {
    run.out.Note("... and " + std::to_string(end.failures_total() - listed) + " more");
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
  run.out.Result(result, text);
  const bool failed = end.code() != 0 || end.failures_total() > 0;
  if (failed && end.files_done() + end.files_skipped() > 0) run.out.SetPartial();
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
