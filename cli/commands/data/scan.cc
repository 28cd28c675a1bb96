#include "cli/commands/data/scan.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/commands/data/large_value.h"
#include "cli/commands/data/ordered.h"
#include "cli/commands/data/record_call.h"
#include "cli/commands/data/scan_records.h"
#include "cli/commands/files/staged_file.h"
#include "cli/commands/retry.h"
#include "cli/record_text.h"
#include "cli/text.h"
#include "proto/base/glob.h"
#include "proto/base/limits.h"
#include "proto/convert/staged_keys.h"
#include "proto/stage/survey.h"
#include "tidepool/v1/data.grpc.pb.h"
#include "tidepool/v1/namespaces.grpc.pb.h"

namespace tidepool::cli {
namespace {

using convert::StagedRole;

// Prints keys up to a limit.
class KeyPrinter {
 public:
  KeyPrinter(Invocation& run, std::uint64_t limit)
      : run_(run),
        out_(run.out),
        left_(limit),
        all_(run.args.Has("--all")),
        details_(run.args.Has("--long")),
        end_(run.args.Has("--null") ? '\0' : '\n') {}

  // False when no more are wanted.
  bool Take(const v1::Record& record) {
    const convert::StagedKey staged = convert::ParseStagedKey(record.key());
    if (all_ || staged.role == StagedRole::kPlain) {
      Print(record.key(), record);
    } else if (staged.role == StagedRole::kFile) {
      v1::Record file = record;
      // The record is only the file's head; the head knows the size.
      if (details_) file.set_value_bytes(SizeOfStagedFile(staged.path));
      Print(staged.path, file);
    }
    return left_ > 0;
  }

 private:
  std::uint64_t SizeOfStagedFile(std::string_view path) {
    const Result<v1::StageEntry> file = FindStagedFile(run_, path);
    return file.ok() ? file->size() : 0;  // Gone since the scan saw it.
  }

  void Print(std::string_view key, const v1::Record& record) {
    --left_;
    if (out_.json()) {
      Json item;
      SetBytes(&item, "key", key);
      if (details_) {
        item["value_bytes"] = record.value_bytes();
        item["kind"] = ValueKindName(record.value_kind());
        item["version"] = record.version();
        item["ttl_ms"] = record.ttl_ms() == 0 ? Json(nullptr) : Json(record.ttl_ms());
      }
      out_.Item(item);
      return;
    }
    if (details_) {
      const std::string size = FormatBytes(record.value_bytes());
      const std::string ttl = record.ttl_ms() == 0 ? "never" : FormatDurationMs(record.ttl_ms());
      out_.Raw(Padded(size, 10) + "  " + Padded(ValueKindName(record.value_kind()), 5) + "  " +
               Padded(ttl, 7) + "  ");
    }
    // Like ls: exact names for programs, safe names for a terminal.
    out_.Raw(out_.stdout_is_terminal() ? ForTerminal(key) : std::string(key));
    out_.Raw(std::string_view(&end_, 1));
  }

  static std::string Padded(const std::string& text, std::size_t width) {
    return text.size() >= width ? text : std::string(width - text.size(), ' ') + text;
  }

  Invocation& run_;
  Output& out_;
  std::uint64_t left_;
  const bool all_;
  const bool details_;
  const char end_;
};

// Readable records were printed in spite of failures.
Status Scanned(Invocation& run, Status status) {
  if (status.code() == StatusCode::kDataLoss) run.out.SetPartial();
  return status;
}

// Names the unavailable data by node. The rest was printed.
Status WithGaps(Invocation& run, const ScanGaps& gaps, Status status) {
  if (gaps.missing.empty() || gaps.has_nothing()) return status;
  run.out.SetPartial();
  for (const v1::MissingPart& part : gaps.missing) {
    run.out.Note("missing: " + stage::Text(part, gaps.partitions));
  }
  if (!status.ok()) return status;
  return Status(static_cast<StatusCode>(gaps.missing.front().code()),
                std::to_string(gaps.count()) + " of " + std::to_string(gaps.partitions) +
                    " partitions of " + Quote(run.args.Text("NAMESPACE")) +
                    " could not be read; the rest is printed",
                "see: kvctl status");
}

// True if a scan of keys alone gives the whole output. In an ordered namespace it reads no record,
// and gives neither size nor kind nor time to live.
Result<bool> MayLeaveRecords(const Invocation& run, Channel& channel) {
  if (!run.args.Has("--long")) return true;
  v1::ListNamespacesResponse all;
  TP_RETURN_IF_ERROR(channel.Call<v1::Namespaces>(&v1::Namespaces::Stub::List, {}, &all));
  return std::none_of(
      all.namespaces().begin(), all.namespaces().end(), [&](const v1::NamespaceMap& space) {
        return space.name() == run.args.Text("NAMESPACE") && space.kind() == v1::KIND_ORDERED;
      });
}

Status Keys(Invocation& run) {
  v1::ScanRequest request;
  request.set_namespace_(run.args.Text("NAMESPACE"));
  request.set_glob(run.args.Text("GLOB"));
  request.set_include_internal(run.args.Has("--all"));
  if (!IsUtf8(request.glob())) {
    return Status(StatusCode::kInvalidArgument, "GLOB is not UTF-8",
                  "write ? for each byte that is none");
  }
  const Result<std::uint64_t> limit =
      run.args.Number("--limit", std::numeric_limits<std::uint64_t>::max());
  if (!limit.ok()) return limit.status();
  if (*limit == 0) return Status(StatusCode::kInvalidArgument, "--limit: 0 keys make no list");
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  const Result<bool> keys_only = MayLeaveRecords(run, **channel);
  if (!keys_only.ok()) return keys_only.status();
  request.set_keys_only(*keys_only);
  KeyPrinter printer(run, *limit);
  bool wants_more = true;
  const auto take = [&](const v1::Record& record) { return wants_more = printer.Take(record); };
  run.out.BeginList("keys");
  ScanGaps gaps;
  const Status first = Scanned(run, ScanRecords(**channel, request, take, &gaps));
  if (!first.ok()) return WithGaps(run, gaps, first);
  if (request.glob().empty() || !wants_more || run.args.Has("--all")) {
    return WithGaps(run, gaps, OkStatus());
  }
  // The pattern is held against whole keys, but a file in parts is shown by its path.
  request.set_glob(convert::StagedFileKey(request.glob()));
  ScanGaps of_files;  // The gaps of the records, or more.
  const Status scanned = ScanRecords(
      **channel, request,
      [&](const v1::Record& record) {
        // A key that itself matches the pattern, like *, was printed before.
        const convert::StagedKey staged = convert::ParseStagedKey(record.key());
        const bool printed = GlobMatches(run.args.Text("GLOB"), record.key());
        return staged.role != StagedRole::kFile || printed || take(record);
      },
      &of_files);
  return WithGaps(run, of_files.count() > gaps.count() ? of_files : gaps, scanned);
}

// Counts the available records one by one, after `failure` of the request for their number.
Status CountWithGaps(Invocation& run, Channel& channel, const Status& failure) {
  v1::ScanRequest request;
  request.set_namespace_(run.args.Text("NAMESPACE"));
  request.set_keys_only(true);
  std::uint64_t records = 0;
  ScanGaps gaps;
  const Status scanned = ScanRecords(
      channel, request, [&](const v1::Record& /*record*/) { return ++records > 0; }, &gaps);
  if (!scanned.ok() || gaps.missing.empty()) return failure;
  run.out.Result({{"records", records}}, std::to_string(records));
  return WithGaps(run, gaps, OkStatus());
}

Status Count(Invocation& run) {
  if (run.args.Has("--prefix")) {
    const Result<std::uint64_t> records = CountPrefix(run);
    if (!records.ok()) return records.status();
    run.out.Result({{"records", *records}}, std::to_string(*records));
    return OkStatus();
  }
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  v1::LengthRequest request;
  request.set_namespace_(run.args.Text("NAMESPACE"));
  v1::LengthResponse response;
  const Status counted = (*channel)->Call<v1::Data>(&v1::Data::Stub::Length, request, &response);
  if (stage::IsOfNode(counted.code())) return CountWithGaps(run, **channel, counted);
  TP_RETURN_IF_ERROR(counted);
  run.out.Result({{"records", response.records()}}, std::to_string(response.records()));
  return OkStatus();
}

// Prints records one by one, and keeps the error that ends the dump.
class RecordPrinter {
 public:
  RecordPrinter(Invocation& run, Channel& channel, RecordFormat format)
      : run_(run), channel_(channel), format_(format) {}

  // False after a failure.
  bool Take(const v1::Record& found) {
    v1::Record record = found;
    const convert::StagedKey staged = convert::ParseStagedKey(found.key());
    Status status;
    if (staged.role == StagedRole::kFile) {
      status = Retried([&] { return FetchFile(staged.path, &record); });
    } else if (record.value_omitted()) {
      status = Retried([&] { return FetchValue(&record); });
    }
    if (status.code() == StatusCode::kNotFound) return true;  // Deleted since the scan saw it.
    // A file with parts on a lost node does not stop the other files.
    const bool has_gaps = staged.role == StagedRole::kFile && stage::IsOfNode(status.code());
    if (status.code() == StatusCode::kOutOfRange || has_gaps) {
      ++left_out_;
      run_.out.Note(has_gaps ? "left out " + Quote(staged.path) + ": " + std::string(status.what())
                             : std::string(status.what()));
      return true;
    }
    if (!status.ok()) {
      failure_ = status;
      return false;
    }
    ++records_;
    if (run_.out.json()) {
      run_.out.Item(RecordToJson(record));
    } else {
      run_.out.Raw(FormatRecord(record, format_) + "\n");
    }
    return true;
  }

  const Status& failure() const { return failure_; }
  std::uint64_t records() const { return records_; }
  std::uint64_t left_out() const { return left_out_; }

 private:
  // A value that the scan left out for its size.
  Status FetchValue(v1::Record* record) {
    v1::ReadValueRequest request;
    request.set_namespace_(run_.args.Text("NAMESPACE"));
    request.set_key(record->key());
    record->clear_value();
    return ReadLargeValue(channel_, request, [&](const v1::ReadValueResponse& part) {
      record->mutable_value()->append(part.data());
    });
  }

  // Returns a staged file in parts as a single record under its path, like get.
  Status FetchFile(std::string_view path, v1::Record* record) {
    const std::string name(path);  // A view of the key, which changes.
    const Result<v1::StageEntry> file = FindStagedFile(run_, name);
    if (!file.ok()) return file.status();
    if (file->size() > limits::kValueBytesMax) {
      return Status(StatusCode::kOutOfRange,
                    "left out " + Quote(name) + ": larger than a value; use kvctl stage out");
    }
    record->set_key(name);
    record->clear_value();
    return ReadStagedFile(run_, *file,
                          [&](std::string_view part) { record->mutable_value()->append(part); });
  }

  Invocation& run_;
  Channel& channel_;
  const RecordFormat format_;
  Status failure_;
  std::uint64_t records_ = 0;
  std::uint64_t left_out_ = 0;
};

Status Dump(Invocation& run) {
  const std::string& format_name = run.args.Text("--format");
  const Result<RecordFormat> format =
      format_name.empty() ? RecordFormat::kJsonLines : ParseRecordFormat(format_name);
  if (!format.ok()) return format.status();
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  v1::ScanRequest request;
  request.set_namespace_(run.args.Text("NAMESPACE"));
  RecordPrinter printer(run, **channel, *format);
  run.out.BeginList("records");
  ScanGaps gaps;
  const Status scanned = ScanRecords(
      **channel, request, [&](const v1::Record& record) { return printer.Take(record); }, &gaps);
  TP_RETURN_IF_ERROR(printer.failure());
  TP_RETURN_IF_ERROR(WithGaps(run, gaps, Scanned(run, scanned)));
  if (printer.left_out() > 0) {
    run.out.SetPartial();
    return Status(StatusCode::kOutOfRange,
                  std::to_string(printer.left_out()) + " files are not in the dump",
                  "write them with kvctl stage out");
  }
  if (run.out.stderr_is_terminal() && !run.out.json()) {
    run.out.Note(std::to_string(printer.records()) + " records");
  }
  return OkStatus();
}

}  // namespace

std::vector<Verb> ScanVerbs() {
  return {
      {"keys",
       "list keys, in no order",
       "In GLOB, * stands for any bytes ('/' too), ? for one, [a-z] for one of a set. A staged "
       "file is shown by its path, however it is stored. Keys are printed as they are to a pipe, "
       "and with \\n, \\xHH and the like to a terminal.",
       {NamespaceParameter(), {"GLOB", "only keys that match", 0, 1}},
       {{"-n,--limit", "N", "stop after N keys"},
        {"-l,--long", "", "with size, kind and time to live"},
        {"-0,--null", "", "end each key with NUL, for xargs -0"},
        {"--all", "", "also what staging keeps for itself"}},
       {{"kvctl keys inputs 'run1/*' | head", ""}, {"kvctl keys default --long", ""}},
       Keys,
       "ls find"},
      {"count",
       "print the number of records",
       "Expired records that were not yet removed count; what staging keeps for itself does not. "
       "With --prefix, of ordered namespaces: only what has not expired.",
       {NamespaceParameter()},
       {{"--prefix", "P", "of kind ordered: only keys that begin with P"},
        {"--base64", "", "P is given as base64"}},
       {{"kvctl count default", ""}, {"kvctl count events --prefix 2026-11-", ""}},
       Count,
       "length len size dbsize wc"},
      {"dump",
       "print all records, for load",
       "One record per line. JSON: {\"key\", \"value\"}, with key_base64 and value_base64 for what "
       "is not UTF-8, a number for a counter, ttl_ms. TSV: key, tab, value, with \\t \\n \\r \\0 "
       "\\\\ escaped; counters come back as text. What staging keeps for itself (times, "
       "permissions, links) is left out: that is for stage out. A connection that breaks is opened "
       "again and the dump goes on where it was. When a daemon stays away, the dump prints what "
       "the "
       "others hold, names the node and the partitions that are missing, and ends with exit code "
       "6. "
       "So do keys and count.",
       {NamespaceParameter()},
       {{"--format", "jsonl|tsv", "jsonl (default) or tsv"}},
       {{"kvctl dump default >default.jsonl", ""},
        {"kvctl dump default --format tsv | cut -f1", ""}},
       Dump,
       "export backup"},
  };
}

}  // namespace tidepool::cli
