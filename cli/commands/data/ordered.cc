#include "cli/commands/data/ordered.h"

#include <tidepool/bytes_ordered_map.h>
#include <tidepool/client.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "cli/commands/data/record_call.h"
#include "cli/commands/data/sdk_client.h"
#include "cli/record_text.h"
#include "cli/text.h"
#include "proto/base/clock.h"

namespace tidepool::cli {
namespace {

// The bytes of the parameter or option `name`.
Result<std::string> BytesOf(const Arguments& args, std::string_view name) {
  return BytesArgument(args, name, args.Text(name));
}

Result<KeyRange> PrefixOf(const Arguments& args) {
  const Result<std::string> prefix = BytesOf(args, "--prefix");
  if (!prefix.ok()) return prefix.status();
  return KeyRange::Prefix(*prefix);
}

// BEGIN, END and --prefix of a verb that has them.
Result<KeyRange> RangeOf(const Arguments& args) {
  if (args.Has("--prefix")) {
    if (args.Has("BEGIN")) {
      return Status(StatusCode::kInvalidArgument, "--prefix is a range of its own",
                    "leave out BEGIN and END");
    }
    return PrefixOf(args);
  }
  KeyRange range;
  if (args.Has("BEGIN")) {
    Result<std::string> begin = BytesOf(args, "BEGIN");
    if (!begin.ok()) return begin.status();
    range.begin = *std::move(begin);
  }
  if (args.Has("END")) {
    Result<std::string> end = BytesOf(args, "END");
    if (!end.ok()) return end.status();
    range.end = *std::move(end);
  }
  return range;
}

Result<BytesOrderedMap> OpenMap(Client& client, const Arguments& args, std::string_view verb) {
  const std::string& name = args.Text("NAMESPACE");
  auto map = client.Open<BytesOrderedMap>(name);
  if (map.ok()) return map;
  return OpenFailure(client, name, map.status(), verb, MaskOf(Kind::kOrdered));
}

v1::Record ToProto(const Record& from, std::uint64_t now_ms) {
  v1::Record to;
  to.set_key(from.key.data(), from.key.size());
  to.set_value(from.value.data(), from.value.size());
  to.set_value_bytes(from.value_bytes);
  to.set_value_kind(static_cast<v1::ValueKind>(from.kind));
  to.set_version(from.version);
  // A record that expires at this moment must not look as if it never expired.
  if (from.expires_at.has_value()) {
    const auto at_ms = static_cast<std::uint64_t>(from.expires_at->time_since_epoch().count());
    to.set_ttl_ms(at_ms > now_ms ? at_ms - now_ms : 1);
  }
  return to;
}

void PrintKey(Invocation& run, std::string_view key) {
  if (run.out.json()) {
    Json item;
    SetBytes(&item, "key", key);
    return run.out.Item(item);
  }
  run.out.Raw(run.out.stdout_is_terminal() ? ForTerminal(key) : std::string(key));
  run.out.Raw(std::string_view(run.args.Has("--null") ? "\0" : "\n", 1));
}

Status Scan(Invocation& run) {
  const Result<KeyRange> range = RangeOf(run.args);
  if (!range.ok()) return range.status();
  const Result<std::uint64_t> limit = run.args.Number("--limit", 0);
  if (!limit.ok()) return limit.status();
  if (*limit == 0 && run.args.Has("--limit")) {
    return Status(StatusCode::kInvalidArgument, "--limit: 0 records make no list");
  }
  const std::string& format_name = run.args.Text("--format");
  const Result<RecordFormat> format =
      format_name.empty() ? RecordFormat::kJsonLines : ParseRecordFormat(format_name);
  if (!format.ok()) return format.status();
  const bool keys_only = run.args.Has("--keys");
  if (run.args.Has("--null") && !keys_only) {
    return Status(StatusCode::kInvalidArgument, "--null is for --keys");
  }
  Result<Client> client = ConnectSdk(run);
  if (!client.ok()) return client.status();
  const Result<BytesOrderedMap> map = OpenMap(*client, run.args, "scan");
  if (!map.ok()) return map.status();
  ScanIterator scan = map->NewScan(
      *range, {.reverse = run.args.Has("--reverse"), .keys_only = keys_only, .limit = *limit});
  run.out.BeginList(keys_only ? "keys" : "records");
  while (scan.Next()) {
    if (keys_only) {
      PrintKey(run, scan.record().key);
      continue;
    }
    const v1::Record record = ToProto(scan.record(), Clock::Real().WallMs());
    if (run.out.json()) {
      run.out.Item(RecordToJson(record));
    } else {
      run.out.Raw(FormatRecord(record, *format) + "\n");
    }
  }
  if (scan.unreadable() > 0) run.out.SetPartial();  // Readable records were printed.
  return scan.status();
}

Status Erase(Invocation& run) {
  const Arguments& args = run.args;
  const int ways =
      (args.Has("--range") ? 1 : 0) + (args.Has("--prefix") ? 1 : 0) + (args.Has("--all") ? 1 : 0);
  if (ways != 1 || args.Has("--range") != args.Has("BEGIN")) {
    return Status(StatusCode::kInvalidArgument, "what is to be erased is not clear",
                  "give one of --range BEGIN [END], --prefix P, --all");
  }
  const Result<KeyRange> range = RangeOf(args);
  if (!range.ok()) return range.status();
  Result<Client> client = ConnectSdk(run);
  if (!client.ok()) return client.status();
  const Result<BytesOrderedMap> map = OpenMap(*client, args, "erase");
  if (!map.ok()) return map.status();
  const Result<std::uint64_t> erased = map->EraseRange(*range);
  if (!erased.ok()) return erased.status();
  run.out.Result({{"erased", *erased}}, std::to_string(*erased));
  return OkStatus();
}

Option RangeBase64Option() { return {"--base64", "", "BEGIN, END and P are given as base64"}; }
Option PrefixOption() { return {"--prefix", "P", "the keys that begin with P"}; }

}  // namespace

Result<std::uint64_t> CountPrefix(Invocation& run) {
  const Result<KeyRange> range = PrefixOf(run.args);
  if (!range.ok()) return range.status();
  Result<Client> client = ConnectSdk(run);
  if (!client.ok()) return client.status();
  const Result<BytesOrderedMap> map = OpenMap(*client, run.args, "count --prefix");
  if (!map.ok()) return map.status();
  return map->CountRange(*range);
}

std::vector<Verb> OrderedVerbs() {
  return {
      {"scan",
       "print the records of a range of keys, in order",
       "For namespaces of kind ordered; keys are compared as bytes. From BEGIN up to but without "
       "END; without them all. One record per line, in the formats of dump; load reads them. "
       "Records that are put or deleted meanwhile may be seen or not, all others once.",
       {NamespaceParameter(),
        {"BEGIN", "the first key", 0, 1},
        {"END", "the key behind the last", 0, 1}},
       {PrefixOption(),
        {"-r,--reverse", "", "from the end of the range downwards"},
        {"-n,--limit", "N", "stop after N records"},
        {"-k,--keys", "", "keys only"},
        {"-0,--null", "", "with --keys: end each key with NUL, for xargs -0"},
        {"--format", "jsonl|tsv", "jsonl (default) or tsv"},
        RangeBase64Option()},
       {{"kvctl scan events 2026-11-01 2026-12-01", "a month"},
        {"kvctl scan events --prefix run1/ --keys", ""},
        {"kvctl scan events --reverse --limit 10", "the last ten"}},
       Scan,
       "range zrange seek"},
      {"erase",
       "delete all keys of a range",
       "For namespaces of kind ordered. Prints how many there were. Keys that are put meanwhile "
       "may stay. After a failure a part of the keys is gone; repeat it.",
       {NamespaceParameter(),
        {"BEGIN", "with --range: the first key", 0, 1},
        {"END", "the key behind the last; without it to the end", 0, 1}},
       {{"--range", "", "from BEGIN up to but without END"},
        PrefixOption(),
        {"--all", "", "every key of the namespace"},
        RangeBase64Option()},
       {{"kvctl erase events --range 2025-01-01 2026-01-01", "a year"},
        {"kvctl erase events --prefix run1/", ""}},
       Erase,
       "delete-range truncate zremrangebylex"},
  };
}

}  // namespace tidepool::cli
