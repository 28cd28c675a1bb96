#include "cli/commands/cluster/slowlog.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/commands/cluster/each_node.h"
#include "cli/text.h"
#include "tidepool/v1/admin.grpc.pb.h"

namespace tidepool::cli {
namespace {

constexpr std::uint64_t kSlowOperationsDefault = 32;
constexpr std::uint64_t kSlowOperationsMax = 1'000'000;

// An entry, and its node.
struct SlowOperation {
  std::uint32_t node = 0;
  v1::SlowLogResponse::Entry entry;
};

std::string TimeText(std::uint64_t at_ms) {
  const auto seconds = static_cast<std::time_t>(at_ms / 1000);
  std::tm local{};
  std::array<char, 32> text{};
  if (localtime_r(&seconds, &local) == nullptr) return "-";
  std::strftime(text.data(), text.size(), "%m-%d %H:%M:%S", &local);
  std::string fraction = std::to_string(1000 + at_ms % 1000);
  fraction[0] = '.';
  return text.data() + fraction;
}

Json SlowToJson(const SlowOperation& found) {
  const auto& entry = found.entry;
  Json json = {{"node_id", found.node},
               {"core", entry.core()},
               {"at_ms", entry.at_ms()},
               {"duration_ns", entry.duration_ns()},
               {"namespace", entry.namespace_()},
               {"operation", entry.operation()},
               {"operations", entry.operations()},
               {"reason", entry.reason()},
               {"key_bytes", entry.key_bytes()}};
  SetBytes(&json, "key", entry.key());
  return json;
}

Status SlowLog(Invocation& run) {
  const Result<std::uint64_t> limit = run.args.Number("--limit", kSlowOperationsDefault);
  if (!limit.ok()) return limit.status();
  if (*limit == 0 || *limit > kSlowOperationsMax) {
    return Status(StatusCode::kInvalidArgument, "--limit goes from 1 to 1000000");
  }
  v1::SlowLogRequest request;
  request.set_limit(static_cast<std::uint32_t>(*limit));
  request.set_clear(run.args.Has("--clear"));
  std::vector<SlowOperation> all;
  std::uint64_t total = 0;
  std::uint64_t threshold_us = 0;
  const Status asked = AskEachNode(run, [&](Channel& channel, const v1::Node& node) {
    v1::SlowLogResponse answer;
    TP_RETURN_IF_ERROR(channel.Call<v1::Admin>(&v1::Admin::Stub::SlowLog, request, &answer));
    total += answer.total();
    threshold_us = std::max(threshold_us, answer.threshold_us());
    for (auto& entry : *answer.mutable_entries()) all.push_back({node.node_id(), std::move(entry)});
    return OkStatus();
  });
  TP_RETURN_IF_ERROR(asked);
  std::stable_sort(all.begin(), all.end(), [](const SlowOperation& a, const SlowOperation& b) {
    return a.entry.at_ms() > b.entry.at_ms();
  });
  all.resize(std::min<std::size_t>(all.size(), *limit));
  Json entries = Json::array();
  Table table(
      {"TIME", "TOOK", "FOR", "NODE", "CORE", "NAMESPACE", "OPERATION", "OPERATIONS", "KEY"});
  for (const SlowOperation& found : all) {
    const auto& entry = found.entry;
    entries.push_back(SlowToJson(found));
    table.Add({TimeText(entry.at_ms()), FormatNs(entry.duration_ns()), entry.reason(),
               std::to_string(found.node), std::to_string(entry.core()),
               entry.namespace_().empty() ? "(dropped)" : entry.namespace_(), entry.operation(),
               std::to_string(entry.operations()),
               entry.key_bytes() == 0 ? "-" : QuoteBeginning(entry.key(), entry.key_bytes())});
  }
  std::string text = threshold_us == 0 ? "the daemons log nothing: --slowlog-us is 0\n"
                                       : std::to_string(total) + " took longer than " +
                                             FormatNs(threshold_us * 1000) + "\n";
  if (!all.empty()) text += "\n" + table.ToString();
  run.out.Result(
      {{"entries", std::move(entries)}, {"total", total}, {"threshold_us", threshold_us}}, text);
  return OkStatus();
}

}  // namespace

std::vector<Verb> SlowLogVerbs() {
  return {
      {"slowlog",
       "show the last frames and operations that took long",
       "Of all nodes, the newest first: those from frame received to answer posted that took "
       "longer "
       "than kvd's --slowlog-us (10 ms by default); each core keeps its last 128. FOR says what "
       "took "
       "the time: work (running it, or the core's thread did not run), store (a device, or memory "
       "that had to become free) or commit (becoming durable). Of a frame of several operations "
       "the "
       "first one is shown. Operations that wait for an item, for room or for a change are not "
       "slow.",
       {},
       {{"-n,--limit", "N", "show at most N (default 32)"},
        {"--clear", "", "forget them, once they are shown"}},
       {{"kvctl slowlog", ""}, {"kvctl slowlog --limit 5 --json", ""}},
       SlowLog,
       "slow"},
  };
}

}  // namespace tidepool::cli
