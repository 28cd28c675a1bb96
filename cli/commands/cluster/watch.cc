#include "cli/commands/cluster/watch.h"

#include <tidepool/bytes_ordered_map.h>
#include <tidepool/client.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/commands/data/record_call.h"
#include "cli/commands/data/sdk_client.h"
#include "cli/record_text.h"
#include "proto/base/clock.h"

namespace tidepool::cli {
namespace {

// Longest single wait; a watch without --timeout is a row of waits.
constexpr std::uint64_t kWaitMsMax = 60'000;

// The map part of a namespace of either record kind.
Result<BytesMap> OpenRecords(Client& client, const std::string& name) {
  Result<BytesMap> map = client.Open<BytesMap>(name);
  if (map.ok() || map.code() != StatusCode::kFailedPrecondition) return map;
  Result<BytesOrderedMap> ordered = client.Open<BytesOrderedMap>(name);
  if (!ordered.ok())
    return OpenFailure(client, name, map.status(), "watch",
                       MaskOf(Kind::kHash) | MaskOf(Kind::kOrdered));
  return static_cast<BytesMap>(*std::move(ordered));
}

void Print(Invocation& run, const Result<Value>& value) {
  if (run.out.json()) {
    Json item;
    item["deleted"] = !value.ok();
    if (value.ok()) {
      SetValue(&item, value->bytes, static_cast<v1::ValueKind>(value->kind));
      item["version"] = value->version;
    }
    run.out.Item(item);
  } else if (value.ok()) {
    run.out.Raw(ValueText(value->bytes, static_cast<v1::ValueKind>(value->kind)) + "\n");
  } else {
    run.out.Note("the key is not there any more");
  }
  run.out.Flush();
}

Status Watch(Invocation& run) {
  constexpr std::uint64_t kEndless = std::numeric_limits<std::uint64_t>::max();
  const Result<std::uint64_t> count = run.args.Number("--count", kEndless);
  if (!count.ok()) return count.status();
  if (*count == 0) return Status(StatusCode::kInvalidArgument, "--count: 0 values are no watch");
  const Result<std::uint64_t> timeout_ms = run.TimeoutMs();
  if (!timeout_ms.ok()) return timeout_ms.status();
  Result<Client> client = ConnectSdk(run, /*uncounted=*/true);
  if (!client.ok()) return client.status();
  const Result<BytesMap> map = OpenRecords(*client, run.args.Text("NAMESPACE"));
  if (!map.ok()) return map.status();
  const Deadline deadline =
      run.args.Has("--timeout") ? Deadline::AfterMs(*timeout_ms) : Deadline(~std::uint64_t{0});
  run.out.BeginList("values");
  tidepool::Version known = 0;
  for (std::uint64_t seen = 0; seen < *count;) {
    const std::chrono::milliseconds left(
        std::clamp<std::uint64_t>(deadline.LeftMs(), 1, kWaitMsMax));
    const Result<Value> value = map->WaitForChange(run.args.Text("KEY"), known, {.timeout = left});
    // For a watch that knows of no record "not found" is no change: the namespace is gone.
    const bool deleted = value.code() == StatusCode::kNotFound && known != 0;
    if (value.ok() || deleted) {
      Print(run, value);
      known = value.ok() ? value->version : 0;
      seen += value.ok() ? 1 : 0;
    } else if (value.code() != StatusCode::kDeadlineExceeded || deadline.Passed()) {
      return value.status();
    }
  }
  return OkStatus();
}

}  // namespace

std::vector<Verb> WatchVerbs() {
  return {
      {"watch",
       "print a key's value, and again each time it changes",
       "Waits for the key if it is not there. The owner answers when something changes, and is "
       "told once per second that the wait goes on. Of several changes in quick succession only "
       "the last is seen; that the key is "
       "deleted or has expired is said on standard error. Ends after --count values, after "
       "--timeout (with the exit code of a timeout), or when it is interrupted.",
       {NamespaceParameter(), KeyParameter()},
       {{"-c,--count", "N", "end after N values; a deletion is none (default: never)"}},
       {{"kvctl watch default progress", ""},
        {"kvctl watch jobs done --count 1 --timeout 1h", "wait for a key"}},
       Watch,
       "wait subscribe follow tail"},
  };
}

}  // namespace tidepool::cli
