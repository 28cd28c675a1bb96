#include "cli/commands/data/load.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/commands/data/ensure_namespace.h"
#include "cli/commands/data/loader.h"
#include "cli/commands/data/record_call.h"
#include "cli/descriptor_io.h"
#include "cli/record_text.h"
#include "cli/text.h"

namespace tidepool::cli {
namespace {

struct LoadOptions {
  std::string file;
  bool has_format = false;
  RecordFormat format = RecordFormat::kJsonLines;
  bool counters = false;
  std::uint64_t ttl_ms = 0;
};

Result<LoadOptions> LoadOptionsFrom(const Arguments& args) {
  LoadOptions options;
  options.file = args.Text("FILE");
  options.counters = args.Has("--int");
  if (args.Has("--format")) {
    const Result<RecordFormat> format = ParseRecordFormat(args.Text("--format"));
    if (!format.ok()) return format.status();
    options.has_format = true;
    options.format = *format;
  }
  const Result<std::uint64_t> ttl_ms = args.DurationMs("--ttl", 0);
  if (!ttl_ms.ok()) return ttl_ms.status();
  options.ttl_ms = *ttl_ms;
  return options;
}

// Returns the record of a line, with the additions of the options.
Result<v1::Record> RecordFrom(std::string_view line, const LoadOptions& options) {
  Result<v1::Record> record = ParseRecord(line, options.format);
  if (!record.ok()) return record;
  if (options.counters && record->value_kind() == v1::VALUE_KIND_BYTES) {
    const Result<std::int64_t> number = ParseSigned(record->value());
    if (!number.ok()) return number.status();
    record->set_value(CounterBytes(*number));
    record->set_value_kind(v1::VALUE_KIND_I64);
  }
  if (record->ttl_ms() == 0) record->set_ttl_ms(options.ttl_ms);
  return record;
}

// Records before a failed read are loaded: the report says how many.
Status LoadLines(LineSource* lines, LoadOptions options, Loader* loader) {
  for (std::uint64_t number = 1;; ++number) {
    const auto line = lines->Next();
    if (!line.ok()) {
      TP_RETURN_IF_ERROR(loader->Finish());
      return line.status();
    }
    if (!line->has_value()) return loader->Finish();
    if ((*line)->empty()) continue;
    if (!options.has_format) {
      options.format = GuessRecordFormat(options.file, **line);
      options.has_format = true;
    }
    Result<v1::Record> record = RecordFrom(**line, options);
    if (record.ok()) {
      TP_RETURN_IF_ERROR(loader->Add(*std::move(record), number));
    } else {
      loader->AddFailure(number, std::string(record.status().what()));
    }
  }
}

// Lists the failures. Returns how the command as a whole ended.
Status Report(Invocation& run, const Loader& loader, const Status& end, bool created,
              std::chrono::steady_clock::duration took) {
  Json failures = Json::array();
  for (const Loader::Failure& failure : loader.failures()) {
    failures.push_back({{"line", failure.line}, {"error", failure.what}});
    if (!run.out.json()) {
      run.out.Note("line " + std::to_string(failure.line) + ": " + failure.what);
    }
  }
  if (loader.failed() > loader.failures().size() && !run.out.json()) {
    run.out.Note("... and " + std::to_string(loader.failed() - loader.failures().size()) + " more");
  }
  const auto ms = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(took).count());
  const std::string& space = run.args.Text("NAMESPACE");
  run.out.Result({{"namespace", space},
                  {"created", created},
                  {"loaded", loader.loaded()},
                  {"failed", loader.failed()},
                  {"failures", std::move(failures)},
                  {"elapsed_ms", ms}},
                 "loaded " + std::to_string(loader.loaded()) + " records into " + space + " in " +
                     FormatDurationMs(ms));
  if (loader.loaded() > 0 && (loader.failed() > 0 || !end.ok())) run.out.SetPartial();
  if (!end.ok()) return end;
  if (loader.failed() == 0) return OkStatus();
  return Status(StatusCode::kInvalidArgument,
                std::to_string(loader.failed()) + " of " +
                    std::to_string(loader.failed() + loader.loaded()) + " records were not loaded",
                "correct the lines that are named and load them again");
}

Status Load(Invocation& run) {
  const Result<LoadOptions> options = LoadOptionsFrom(run.args);
  if (!options.ok()) return options.status();
  Result<LineSource> lines = LineSource::Open(options->file);
  if (!lines.ok()) return lines.status();
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  const std::string& space = run.args.Text("NAMESPACE");
  const Result<bool> created =
      EnsureNamespace(run, space, "load", MaskOf(Kind::kHash) | MaskOf(Kind::kOrdered));
  if (!created.ok()) return created.status();
  const auto start = std::chrono::steady_clock::now();
  Loader loader(**channel, space);
  const Status end = LoadLines(&*lines, *options, &loader);
  return Report(run, loader, end, *created, std::chrono::steady_clock::now() - start);
}

}  // namespace

std::vector<Verb> LoadVerbs() {
  return {
      {"load",
       "load records from a file",
       "One record per line, as dump writes them; the format is seen from the file's name or its "
       "first line. The namespace is created if it is not there. Lines that fail are listed and "
       "the others are loaded: exit code 6. A connection that breaks is opened again and the load "
       "goes on where it was; when the daemons stay away it ends with exit code 6, or 5 if nothing "
       "was loaded.",
       {NamespaceParameter(), {"FILE", "JSON lines or TSV; - for standard input"}},
       {{"--format", "jsonl|tsv", "jsonl or tsv (default: by name, else by the first line)"},
        {"--ttl", "DURATION", "let records expire that say nothing else"},
        {"--int", "", "values are whole numbers of counters"}},
       {{"kvctl load default default.jsonl", ""},
        {"printf 'a\\t1\\nb\\t2\\n' | kvctl load counts - --int", ""}},
       Load,
       "import restore mset"},
  };
}

}  // namespace tidepool::cli
