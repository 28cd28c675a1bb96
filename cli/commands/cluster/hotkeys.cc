#include "cli/commands/cluster/hotkeys.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/commands/cluster/each_node.h"
#include "cli/text.h"
#include "tidepool/v1/admin.grpc.pb.h"

namespace tidepool::cli {
namespace {

constexpr std::uint64_t kHotKeysDefault = 16;
constexpr std::uint64_t kHotKeysMax = 1'000'000;
// Fewer samples than this say nothing of a key.
constexpr std::uint64_t kSamplesMin = 3;

struct FoundKey {
  std::uint32_t node = 0;
  std::uint64_t node_samples = 0;  // Samples of all keys of its node.
  v1::HotKeysResponse::Entry entry;
};

double Share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

Json KeyToJson(const FoundKey& found) {
  const auto& entry = found.entry;
  Json json = {{"node_id", found.node},
               {"core", entry.core()},
               {"namespace", entry.namespace_()},
               {"key_bytes", entry.key_bytes()},
               {"samples", entry.samples()},
               {"error", entry.error()},
               {"share_of_node", Share(entry.samples() - entry.error(), found.node_samples)},
               {"changes", entry.changes()}};
  SetBytes(&json, "key", entry.key());
  return json;
}

Status HotKeys(Invocation& run) {
  const Result<std::uint64_t> limit = run.args.Number("--limit", kHotKeysDefault);
  if (!limit.ok()) return limit.status();
  if (*limit == 0 || *limit > kHotKeysMax) {
    return Status(StatusCode::kInvalidArgument, "--limit goes from 1 to 1000000");
  }
  std::vector<FoundKey> all;
  std::uint64_t samples = 0;
  const Status asked = AskEachNode(run, [&](Channel& channel, const v1::Node& node) {
    v1::HotKeysResponse answer;
    TP_RETURN_IF_ERROR(
        channel.Call<v1::Admin>(&v1::Admin::Stub::HotKeys, v1::HotKeysRequest(), &answer));
    samples += answer.samples();
    for (auto& entry : *answer.mutable_entries()) {
      // The least number that it may have had.
      if (entry.samples() - std::min(entry.error(), entry.samples()) < kSamplesMin) continue;
      all.push_back({node.node_id(), answer.samples(), std::move(entry)});
    }
    return OkStatus();
  });
  TP_RETURN_IF_ERROR(asked);
  const auto least = [](const FoundKey& found) {
    return found.entry.samples() - found.entry.error();
  };
  std::stable_sort(all.begin(), all.end(),
                   [&least](const FoundKey& a, const FoundKey& b) { return least(a) > least(b); });
  all.resize(std::min<std::size_t>(all.size(), *limit));
  Json keys = Json::array();
  Table table({"SHARE", "CHANGES", "NODE", "CORE", "NAMESPACE", "KEY"});
  for (const FoundKey& found : all) {
    const auto& entry = found.entry;
    keys.push_back(KeyToJson(found));
    table.Add({FormatPercent(Share(least(found), found.node_samples)),
               FormatPercent(Share(entry.changes(), least(found))), std::to_string(found.node),
               std::to_string(entry.core()),
               entry.namespace_().empty() ? "(dropped)" : entry.namespace_(),
               QuoteBeginning(entry.key(), entry.key_bytes())});
  }
  const std::string text = all.empty()
                               ? "no key stands out among " + std::to_string(samples) + " samples\n"
                               : table.ToString();
  run.out.Result({{"keys", std::move(keys)}, {"samples", samples}}, text);
  return OkStatus();
}

}  // namespace

std::vector<Verb> HotKeysVerbs() {
  return {
      {"hotkeys",
       "show the keys that were asked for most lately",
       "Of all nodes. Each core looks at one operation in 128 and keeps the 64 keys that it met "
       "most; "
       "what is older than 10 s counts half, than 20 s a quarter, and so on. SHARE is at least "
       "what "
       "the key has of its node's operations, CHANGES of the key's own. What clients read by "
       "themselves, in memory that they share with a daemon or by RDMA, no daemon sees.",
       {},
       {{"-n,--limit", "N", "show at most N (default 16)"}},
       {{"kvctl hotkeys", ""}, {"kvctl hotkeys --limit 1 --json", ""}},
       HotKeys,
       "hot"},
  };
}

}  // namespace tidepool::cli
