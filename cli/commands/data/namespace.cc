#include "cli/commands/data/namespace.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "cli/commands/cluster/device_use.h"
#include "cli/commands/data/clear.h"
#include "cli/commands/data/record_call.h"
#include "cli/text.h"
#include "proto/base/kind.h"
#include "proto/base/limits.h"
#include "proto/base/nearest.h"
#include "tidepool/namespace_options.h"
#include "tidepool/v1/cluster.grpc.pb.h"
#include "tidepool/v1/namespaces.grpc.pb.h"

namespace tidepool::cli {
namespace {

// Beyond the time that operations may be held back: to connect, and to decide.
constexpr std::uint64_t kMigrateSlackMs = 15'000;

static_assert(v1::KIND_ARRAY == static_cast<int>(Kind::kArray));

std::string KindName(v1::Kind kind) {
  if (kind <= 0 || kind >= kKindCount) return "unknown";
  return std::string(tidepool::KindName(static_cast<Kind>(kind)));
}

Result<v1::Kind> ParseKind(const std::string& text) {
  if (text.empty()) return v1::KIND_HASH;
  Nearest nearest(text);
  for (int i = 1; i < kKindCount; ++i) {
    const std::string_view kind = tidepool::KindName(static_cast<Kind>(i));
    if (text == kind) return static_cast<v1::Kind>(i);
    nearest.Consider(kind);
  }
  const std::string meant = nearest.found().empty() ? "" : "did you mean " + nearest.found() + "? ";
  return Status(StatusCode::kInvalidArgument, "--kind: there is no kind " + Quote(text),
                meant + "this version has: hash, ordered, queue, priority, bloom");
}

bool IsOfName(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Returns `text` of a daemon with kvctl's options in the place of the fields that it names.
std::string WithOptionNames(std::string text) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"expected_items", "--expected-items"},
      {"false_positive_rate", "--false-positive-rate"},
      {"memory_share_percent", "--memory-share"},
      {"on_loss", "--on-loss"},
      {"split_keys", "--split-keys"},
      {"ttl_ms is not an", "--ttl is not an"}};
  for (const auto& [field, option] : kNames) {
    for (std::size_t at = text.find(field); at != std::string::npos; at = text.find(field, at)) {
      const std::size_t end = at + field.size();
      const bool whole =
          (at == 0 || !IsOfName(text[at - 1])) && (end == text.size() || !IsOfName(text[end]));
      if (whole) text.replace(at, field.size(), option);
      at += option.size();
    }
  }
  return text;
}

std::string OrDefault(const std::string& text, const char* otherwise) {
  return text.empty() ? otherwise : text;
}

// Copies beside the owners.
struct CopyCounts {
  std::size_t in_sync = 0;
  std::size_t joining = 0;
  std::size_t missing = 0;  // Wanted, and not in sync.
};

CopyCounts CountCopies(const v1::NamespaceMap& space) {
  CopyCounts counts;
  const std::size_t replicas = std::max(1u, space.options().replicas());
  for (const v1::Partition& partition : space.partitions()) {
    std::size_t in_sync = 0;
    for (const v1::PartitionCopy& copy : partition.copies()) in_sync += copy.in_sync() ? 1 : 0;
    counts.in_sync += in_sync;
    counts.joining += static_cast<std::size_t>(partition.copies_size()) - in_sync;
    counts.missing += replicas - std::min(replicas, 1 + in_sync);
  }
  return counts;
}

// "1, 2 joins": nodes of the copies beside the owner.
std::string CopiesText(const v1::Partition& partition) {
  std::string text;
  for (const v1::PartitionCopy& copy : partition.copies()) {
    text += (text.empty() ? "" : ", ") + std::to_string(copy.node_id()) +
            (copy.in_sync() ? "" : " joins");
  }
  return text.empty() ? "none" : text;
}

Json ToJson(const v1::NamespaceMap& space) {
  const v1::NamespaceOptions& options = space.options();
  std::size_t down = 0;
  std::size_t lost = 0;
  for (const v1::Partition& partition : space.partitions()) {
    down += partition.state() == v1::PARTITION_STATE_DOWN;
    lost += partition.state() == v1::PARTITION_STATE_LOST;
  }
  Json json;
  json["name"] = space.name();
  json["id"] = space.namespace_id();
  json["kind"] = KindName(space.kind());
  json["partitions"] = space.partitions_size();
  json["partitions_down"] = down;
  json["partitions_lost"] = lost;
  json["durability"] = OrDefault(options.durability(), "volatile");
  json["replicas"] = options.replicas() == 0 ? 1 : options.replicas();
  if (options.replicas() > 1) {
    const CopyCounts copies = CountCopies(space);
    json["copies_in_sync"] = copies.in_sync;
    json["copies_joining"] = copies.joining;
    json["copies_missing"] = copies.missing;
  }
  json["on_loss"] = OrDefault(options.on_loss(), "error");
  json["medium"] = OrDefault(options.medium(), "any");
  json["ttl_ms"] = options.ttl_ms() == 0 ? Json(nullptr) : Json(options.ttl_ms());
  json["memory_share_percent"] = options.memory_share_percent();
  json["prefilter"] = OrDefault(options.prefilter(), "none");
  json["key_type"] = options.key_type().empty() ? Json(nullptr) : Json(options.key_type());
  json["value_type"] = options.value_type().empty() ? Json(nullptr) : Json(options.value_type());
  const bool has_filter = space.kind() == v1::KIND_BLOOM || json["prefilter"] != "none";
  if (has_filter || options.expected_items() != 0) {
    json["expected_items"] = options.expected_items();
  }
  if (has_filter) json["false_positive_rate"] = options.false_positive_rate();
  if (space.kind() == v1::KIND_ORDERED) json["split"] = OrDefault(options.split(), "auto");
  if (space.kind() == v1::KIND_QUEUE || space.kind() == v1::KIND_PRIORITY) {
    json["capacity"] = options.capacity() == 0 ? Json(nullptr) : Json(options.capacity());
    if (space.kind() == v1::KIND_QUEUE) json["lanes"] = space.partitions_size();
  }
  return json;
}

Status OutOfRange(const std::string& option, std::uint64_t value, std::string allowed) {
  return Status(StatusCode::kInvalidArgument, option + " cannot be " + std::to_string(value),
                std::move(allowed));
}

// Each core writes its checkpoints at its own moments, so a single moment needs a single partition.
Status AskForOneMoment(const Arguments& args, v1::NamespaceOptions* options) {
  if (!args.Has("--one-moment")) return OkStatus();
  if (args.Text("--durability") == "async" && !args.Has("--split-keys") &&
      (options->partitions() == 0 || options->partitions() == 1)) {
    options->set_partitions(1);
    return OkStatus();
  }
  return Status(StatusCode::kInvalidArgument,
                "--one-moment is for a namespace of one partition with --durability async",
                "give it with --durability async, and without --partitions, --lanes and "
                "--split-keys");
}

// The SDK's words: a typing error needs no daemon to be found.
Status CheckWords(const Arguments& args) {
  for (const Status& status :
       {ParseDurability(args.Text("--durability")).status(),
        ParseOnLoss(args.Text("--on-loss")).status(), ParseMedium(args.Text("--medium")).status(),
        ParsePrefilter(args.Text("--prefilter")).status(),
        ParseSplitMode(args.Text("--split")).status(), ParseHome(args.Text("--home")).status()}) {
    if (status.ok()) continue;
    return Status(status.code(), WithOptionNames(std::string(status.what())),
                  std::string(status.remedy()));
  }
  return OkStatus();
}

Result<v1::NamespaceOptions> NamespaceOptionsFrom(const Arguments& args) {
  v1::NamespaceOptions options;
  const auto partitions = args.Number("--partitions", 0);
  if (!partitions.ok()) return partitions.status();
  const auto replicas = args.Number("--replicas", 0);
  if (!replicas.ok()) return replicas.status();
  const auto share = args.Number("--memory-share", 0);
  if (!share.ok()) return share.status();
  const auto ttl_ms = args.DurationMs("--ttl", 0);
  if (!ttl_ms.ok()) return ttl_ms.status();
  if (*partitions > limits::kPartitionsPerNamespaceMax) {
    return OutOfRange("--partitions", *partitions,
                      "give 1 to " + std::to_string(limits::kPartitionsPerNamespaceMax));
  }
  if (*replicas > UINT32_MAX) return OutOfRange("--replicas", *replicas, "give 1 or 2");
  if (*share > 100) return OutOfRange("--memory-share", *share, "give a percentage, 1 to 100");
  options.set_partitions(static_cast<std::uint32_t>(*partitions));
  options.set_replicas(static_cast<std::uint32_t>(*replicas));
  options.set_memory_share_percent(static_cast<std::uint32_t>(*share));
  options.set_ttl_ms(*ttl_ms);
  const auto expected_items = args.Number("--expected-items", 0);
  if (!expected_items.ok()) return expected_items.status();
  options.set_expected_items(*expected_items);
  if (args.Has("--false-positive-rate")) {
    const Result<double> rate = ParseDouble(args.Text("--false-positive-rate"));
    if (!rate.ok()) return rate.status();
    // 0 would ask for the default.
    if (*rate == 0) {
      return Status(StatusCode::kInvalidArgument, "--false-positive-rate cannot be 0",
                    "give one from 1e-06 to 0.5");
    }
    options.set_false_positive_rate(*rate);
  }
  const auto capacity = args.Number("--capacity", 0);
  if (!capacity.ok()) return capacity.status();
  options.set_capacity(*capacity);
  const auto lanes = args.Number("--lanes", 0);
  if (!lanes.ok()) return lanes.status();
  if (args.Has("--lanes") && (*lanes == 0 || *lanes > UINT32_MAX || args.Has("--partitions") ||
                              args.Text("--kind") != "queue")) {
    return Status(StatusCode::kInvalidArgument,
                  "--lanes is the number of partitions of a namespace of kind queue",
                  "give 1 to " + std::to_string(limits::kLanesMax) +
                      " with --kind queue, and no --partitions");
  }
  if (*lanes != 0) options.set_partitions(static_cast<std::uint32_t>(*lanes));
  TP_RETURN_IF_ERROR(AskForOneMoment(args, &options));
  TP_RETURN_IF_ERROR(CheckWords(args));
  options.set_home(args.Text("--home"));
  options.set_split(args.Text("--split"));
  if (args.Has("--split-keys")) {
    const std::string& keys = args.Text("--split-keys");
    for (std::size_t at = 0; at <= keys.size();) {
      const std::size_t end = std::min(keys.find(',', at), keys.size());
      Result<std::string> key = BytesArgument(args, "--split-keys", keys.substr(at, end - at));
      if (!key.ok()) return key.status();
      options.add_split_keys(*std::move(key));
      at = end + 1;
    }
  }
  options.set_durability(args.Text("--durability"));
  options.set_on_loss(args.Text("--on-loss"));
  options.set_medium(args.Text("--medium"));
  options.set_prefilter(args.Text("--prefilter"));
  return options;
}

Status CreateNamespace(Invocation& run) {
  v1::CreateNamespaceRequest request;
  request.set_name(run.args.Text("NAMESPACE"));
  const Result<v1::Kind> kind = ParseKind(run.args.Text("--kind"));
  if (!kind.ok()) return kind.status();
  request.set_kind(*kind);
  Result<v1::NamespaceOptions> options = NamespaceOptionsFrom(run.args);
  if (!options.ok()) return options.status();
  *request.mutable_options() = *std::move(options);
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  v1::CreateNamespaceResponse response;
  const Status created =
      (*channel)->Call<v1::Namespaces>(&v1::Namespaces::Stub::Create, request, &response);
  if (!created.ok()) {
    return Status(created.code(), WithOptionNames(std::string(created.what())),
                  WithOptionNames(std::string(created.remedy())));
  }
  Json result = ToJson(response.namespace_());
  result["created"] = response.created();
  run.out.Result(result, (response.created() ? "created " : "exists already: ") +
                             response.namespace_().name());
  return OkStatus();
}

Status List(Invocation& run) {
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  v1::ListNamespacesResponse response;
  TP_RETURN_IF_ERROR((*channel)->Call<v1::Namespaces>(&v1::Namespaces::Stub::List, {}, &response));
  Table table({"NAME", "KIND", "PARTITIONS", "DURABILITY", "TTL", "STATE"});
  Json list = Json::array();
  std::string names;
  for (const v1::NamespaceMap& space : response.namespaces()) {
    names += space.name() + "\n";
    Json json = ToJson(space);
    const std::size_t down = json["partitions_down"];
    const std::size_t lost = json["partitions_lost"];
    std::string state = down + lost == 0 ? "ok" : "";
    if (down > 0) state += std::to_string(down) + " down";
    if (lost > 0) state += (down > 0 ? ", " : "") + std::to_string(lost) + " lost";
    if (const std::size_t missing = CountCopies(space).missing; missing > 0) {
      state += ", " + std::to_string(missing) + (missing == 1 ? " copy" : " copies") + " missing";
    }
    table.Add({space.name(), KindName(space.kind()), std::to_string(space.partitions_size()),
               json["durability"],
               space.options().ttl_ms() == 0 ? "never" : FormatDurationMs(space.options().ttl_ms()),
               state});
    list.push_back(std::move(json));
  }
  run.out.Result({{"namespaces", std::move(list)}},
                 run.args.Has("--names") ? names : table.ToString());
  return OkStatus();
}

const char* StateName(v1::PartitionState state) {
  switch (state) {
    case v1::PARTITION_STATE_ACTIVE:
      return "active";
    case v1::PARTITION_STATE_DOWN:
      return "down";
    case v1::PARTITION_STATE_LOST:
      return "lost";
    default:
      return "unknown";
  }
}

// Time of the last durable state, and the losses.
void AddDurability(const v1::DescribeNamespaceResponse& response, Json* result) {
  const std::string& durability = response.namespace_().options().durability();
  if (durability.empty() || durability == "volatile") return;
  (*result)["last_durable_at_ms"] =
      response.last_durable_at_ms() == 0 ? Json(nullptr) : Json(response.last_durable_at_ms());
  Json losses = Json::array();
  for (const v1::PartitionLoss& loss : response.namespace_().losses()) {
    losses.push_back({{"partition", loss.partition()},
                      {"term", loss.term()},
                      {"lost", loss.all() ? "all" : "changes after"},
                      {"after_version", loss.all() ? Json(nullptr) : Json(loss.after_version())},
                      {"at_ms", loss.at_ms()}});
  }
  (*result)["losses"] = std::move(losses);
}

constexpr std::size_t kNameWidth = 22;

Status Describe(Invocation& run) {
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  v1::DescribeNamespaceRequest request;
  request.set_name(run.args.Text("NAMESPACE"));
  v1::DescribeNamespaceResponse response;
  TP_RETURN_IF_ERROR(
      (*channel)->Call<v1::Namespaces>(&v1::Namespaces::Stub::Describe, request, &response));
  Json result = ToJson(response.namespace_());
  result["records"] = response.records();
  result["internal_records"] = response.internal_records();
  result["live_bytes"] = response.live_bytes();
  if (response.has_filter()) {
    const auto& filter = response.filter();
    result["filter_bytes"] = filter.bytes();
    result["filter_bits_set"] = filter.bits_set();
    if (response.namespace_().kind() != v1::KIND_BLOOM) result["filter_keys"] = filter.keys();
    result["filter_false_positive_rate"] = filter.false_positive_rate();
  }
  AddDurability(response, &result);
  std::string text;
  for (const auto& [name, value] : result.items()) {
    const std::string padding(name.size() < kNameWidth ? kNameWidth - name.size() : 1, ' ');
    text += name + padding + (value.is_string() ? value.get<std::string>() : value.dump()) + "\n";
  }
  text += AddDeviceUse(response, kNameWidth, &result);
  Json partitions = Json::array();
  const bool ordered = response.namespace_().kind() == v1::KIND_ORDERED;
  std::vector<std::string> columns = {"PARTITION", "NODE",   "CORE", "TERM",
                                      "STATE",     "STORED", "BYTES"};
  if (ordered) columns.push_back("FROM KEY");
  const bool has_copies = response.namespace_().options().replicas() > 1;
  if (has_copies) columns.push_back("COPIES ON");
  Table table(columns);
  std::vector<const v1::DescribeNamespaceResponse::PartitionEntry*> entries;
  for (const auto& entry : response.partitions()) entries.push_back(&entry);
  // Sorts the partitions of kind ordered by their keys; other kinds have empty begins.
  std::stable_sort(entries.begin(), entries.end(), [](const auto* a, const auto* b) {
    return a->partition().begin() < b->partition().begin();
  });
  for (const auto* entry : entries) {
    const v1::Partition& place = entry->partition();
    Json json = {{"index", entry->index()},
                 {"node", place.node_id()},
                 {"core", place.core()},
                 {"term", place.term()},
                 {"state", StateName(place.state())},
                 {"records", entry->records()},
                 {"live_bytes", entry->live_bytes()}};
    std::vector<std::string> row = {
        std::to_string(entry->index()),  std::to_string(place.node_id()),
        std::to_string(place.core()),    std::to_string(place.term()),
        StateName(place.state()),        std::to_string(entry->records()),
        FormatBytes(entry->live_bytes())};
    if (ordered) {
      SetBytes(&json, "begin", place.begin());
      row.push_back(ForTerminal(place.begin()));
    }
    if (has_copies) {
      Json copies = Json::array();
      for (const v1::PartitionCopy& copy : place.copies()) {
        copies.push_back({{"node", copy.node_id()}, {"in_sync", copy.in_sync()}});
      }
      json["copies"] = std::move(copies);
      row.push_back(CopiesText(place));
    }
    partitions.push_back(std::move(json));
    table.Add(std::move(row));
  }
  result["partition_list"] = std::move(partitions);
  run.out.Result(result, text + "\n" + table.ToString());
  return OkStatus();
}

Status Drop(Invocation& run) {
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  v1::DropNamespaceRequest request;
  request.set_name(run.args.Text("NAMESPACE"));
  v1::DropNamespaceResponse response;
  TP_RETURN_IF_ERROR(
      (*channel)->Call<v1::Namespaces>(&v1::Namespaces::Stub::Drop, request, &response));
  run.out.Result({{"name", request.name()}, {"epoch", response.epoch()}},
                 "dropped " + request.name());
  return OkStatus();
}

Status Split(Invocation& run) {
  v1::SplitNamespaceRequest request;
  request.set_name(run.args.Text("NAMESPACE"));
  if (run.args.Has("KEY")) {
    Result<std::string> key = BytesArgument(run.args, "KEY", run.args.Text("KEY"));
    if (!key.ok()) return key.status();
    request.set_key(*std::move(key));
  }
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  v1::SplitNamespaceResponse response;
  TP_RETURN_IF_ERROR(
      (*channel)->Call<v1::Namespaces>(&v1::Namespaces::Stub::Split, request, &response));
  Json result = {{"name", request.name()},
                 {"partition", response.partition()},
                 {"node_id", response.node_id()},
                 {"core", response.core()},
                 {"epoch", response.epoch()}};
  SetBytes(&result, "key", response.key());
  run.out.Result(result, "partition " + std::to_string(response.partition()) + " on core " +
                             std::to_string(response.core()) + " of node " +
                             std::to_string(response.node_id()) + " has the keys from " +
                             ForTerminal(response.key()) + " on");
  return OkStatus();
}

// Returns the partitions of nodes that are down. Their data may or may not be lost.
Result<std::map<std::uint32_t, std::uint32_t>> DownPartitions(Channel& channel,
                                                              const std::string& name) {
  v1::GetMapResponse response;
  TP_RETURN_IF_ERROR(channel.Call<v1::Cluster>(&v1::Cluster::Stub::GetMap, {}, &response));
  std::set<std::uint32_t> up;
  for (const v1::Node& node : response.map().nodes()) {
    if (node.state() == v1::NODE_STATE_UP) up.insert(node.node_id());
  }
  std::map<std::uint32_t, std::uint32_t> down;
  for (const v1::NamespaceMap& space : response.map().namespaces()) {
    if (space.name() != name) continue;
    for (const v1::Partition& partition : space.partitions()) {
      if (!up.contains(partition.node_id())) ++down[partition.node_id()];
    }
  }
  return down;
}

Status AcceptLoss(Invocation& run) {
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  v1::AcceptLossRequest request;
  request.set_name(run.args.Text("NAMESPACE"));
  v1::AcceptLossResponse response;
  TP_RETURN_IF_ERROR(
      (*channel)->Call<v1::Namespaces>(&v1::Namespaces::Stub::AcceptLoss, request, &response));
  const auto down = DownPartitions(**channel, request.name());
  if (!down.ok()) return down.status();
  Json nodes_down = Json::array();
  std::string left_alone;
  for (const auto& [node, partitions] : *down) {
    nodes_down.push_back({{"node", node}, {"partitions", partitions}});
    left_alone += (left_alone.empty() ? "" : ", ") + std::to_string(partitions) +
                  (partitions == 1 ? " partition" : " partitions") + " of node " +
                  std::to_string(node);
  }
  run.out.Result({{"name", request.name()},
                  {"partitions_accepted", response.partitions_accepted()},
                  {"nodes_down", std::move(nodes_down)}},
                 std::to_string(response.partitions_accepted()) + " partitions of " +
                     request.name() + " serve again, empty");
  if (left_alone.empty()) return OkStatus();
  if (response.partitions_accepted() > 0) run.out.SetPartial();
  return Status(StatusCode::kFailedPrecondition,
                "not accepted: " + left_alone +
                    ", which is down: its data is not lost until it "
                    "comes back without it",
                "save what the others hold: kvctl stage out, snapshot create or dump; start a "
                "daemon of that node again, then give this command again");
}

Status Persist(Invocation& run) {
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  v1::PersistRequest request;
  request.set_name(run.args.Text("NAMESPACE"));
  v1::PersistResponse response;
  TP_RETURN_IF_ERROR(
      (*channel)->Call<v1::Namespaces>(&v1::Namespaces::Stub::Persist, request, &response));
  run.out.Result({{"name", request.name()},
                  {"durable_at_ms", response.durable_at_ms()},
                  {"nodes", response.nodes()}},
                 request.name() + " is durable on " + std::to_string(response.nodes()) +
                     (response.nodes() == 1 ? " node" : " nodes"));
  return OkStatus();
}

// The line of progress, on a terminal.
std::string MigrationLine(const v1::MigrateNamespaceProgress& progress) {
  std::string line = "moving";
  if (progress.partitions_total() > 1) {
    line += " partition " + std::to_string(progress.partitions_done() + 1) + " of " +
            std::to_string(progress.partitions_total());
  }
  return line + "  " + std::to_string(progress.entries_done()) + " of " +
         std::to_string(progress.entries_total()) + "  " + FormatBytes(progress.bytes_done());
}

// Sees a move through that `request` names.
Status RunMove(Invocation& run, v1::MigrateNamespaceRequest request) {
  request.set_name(run.args.Text("NAMESPACE"));
  const Result<std::uint64_t> timeout_ms = run.TimeoutMs();
  if (!timeout_ms.ok()) return timeout_ms.status();
  if (run.args.Has("--timeout")) request.set_hold_ms(*timeout_ms);
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  grpc::ClientContext context;
  (*channel)->PrepareStream(&context);
  // The daemons give up by themselves; this is for daemons that say nothing any more.
  StallGuard guard(&context, *timeout_ms + kMigrateSlackMs);
  const auto stub = v1::Namespaces::NewStub((*channel)->grpc_channel());
  const auto reader = stub->Migrate(&context, request);
  v1::MigrateNamespaceProgress progress;
  const bool shows = run.out.stderr_is_terminal();
  while (reader->Read(&progress)) {
    guard.Progress();
    if (shows) run.out.Progress("\r\x1b[K" + MigrationLine(progress));
  }
  if (shows) run.out.Progress("\r\x1b[K");
  const Status end = (*channel)->StreamEnd(reader->Finish(), guard);
  if (guard.stalled()) {
    return Status(end.code(), std::string(end.what()) + "; the move may still end",
                  "see: kvctl namespace describe " + request.name());
  }
  TP_RETURN_IF_ERROR(end);
  const std::string where = " on node " + std::to_string(progress.node_id());
  run.out.Result({{"name", request.name()},
                  {"node", progress.node_id()},
                  {"partitions_moved", progress.partitions_done()},
                  {"bytes", progress.bytes_done()},
                  {"epoch", progress.epoch()}},
                 progress.partitions_total() == 0 ? request.name() + " is already" + where
                                                  : request.name() + " is now" + where);
  return OkStatus();
}

Status Migrate(Invocation& run) {
  v1::MigrateNamespaceRequest request;
  request.set_node(run.args.Text("NODE"));
  return RunMove(run, request);
}

Status Move(Invocation& run) {
  v1::MigrateNamespaceRequest request;
  if (!run.args.Has("--to")) {
    return Status(StatusCode::kInvalidArgument, "--to is missing",
                  "name the node to move to: a number of kvctl status, or local");
  }
  request.set_node(run.args.Text("--to"));
  const auto from = run.args.Number("--from", 0);
  if (!from.ok()) return from.status();
  if (run.args.Has("--from")) {
    request.set_from_node(static_cast<std::uint32_t>(std::min<std::uint64_t>(*from, UINT32_MAX)));
  }
  return RunMove(run, request);
}

}  // namespace

// The help has these numbers as literals.
static_assert(limits::kLanesMax == 64 && limits::kPartitionsPerNamespaceMax == 4'096);

std::vector<Verb> NamespaceVerbs() {
  const Parameter name = {"NAMESPACE", "letters, digits and . _ / -, at most 200"};
  return {
      {"namespace create",
       "create a namespace",
       "Creating one that exists is fine if the options are equal. They are fixed from then on.",
       {name},
       {{"--kind", "hash|ordered|queue|priority|bloom", "what it holds (default: hash)"},
        {"--partitions", "N",
         "units of ownership, 1 to 4096 (default: 4 per core); of queues see --lanes; ordered has "
         "one more than --split-keys"},
        {"--split-keys", "KEYS",
         "of kind ordered: where its ranges beside the first begin, separated by commas"},
        {"--split", "auto|manual",
         "of kind ordered: auto (default) splits ranges that grow, but with --prefilter admit "
         "or a --durability; manual: only namespace split does"},
        {"--base64", "", "the split keys are given as base64"},
        {"--capacity", "N",
         "of kinds queue and priority: so many items at most (default: as memory allows)"},
        {"--lanes", "N",
         "of kind queue: so many queues in one, spread over cores and nodes; order is kept in each "
         "lane, and each program pushes to one (default: 1, at most 64)"},
        {"--home", "NODE",
         "the node that gets all of it: its number, or local (default: spread over all)"},
        {"--ttl", "DURATION",
         "time to live of records and items put without one (default: for ever)"},
        {"--on-loss", "error|empty",
         "what a node that comes back without its data does (default: error)"},
        {"--memory-share", "PERCENT",
         "at most this part of each node's memory (default: no limit)"},
        {"--durability", "volatile|async|sync",
         "volatile (default): in memory, lost with the daemons; async: survives them but for "
         "the last second or so, each partition as it was at one moment of its core; sync: "
         "survives "
         "them once it is answered (not of kind bloom; both with kvd --nvm-dir on each node)"},
        {"--one-moment", "",
         "with async: all of it comes back as it was at one moment; it is one partition, which one "
         "core serves (default: partitions of different cores differ by about a second)"},
        {"--medium", "any|file|dax",
         "any (default); file, dax: refuse it unless the devices of all its nodes are disks, or "
         "persistent memory"},
        {"--replicas", "1|2",
         "1 (default); 2: each partition has a copy on another node, which takes over when a "
         "daemon "
         "dies (volatile, kind hash, daemons on etcd)"},
        {"--prefilter", "none|absent|admit",
         "none (default); absent: a filter of the keys, for programs to download; admit: the first "
         "incr or put --if-absent of a key only marks it"},
        {"--expected-items", "N",
         "how many records or distinct values are to come: the size of a filter, which kind bloom "
         "needs; the index of hash and ordered is made ready ahead"},
        {"--false-positive-rate", "RATE",
         "of filters: how often it may err after so many, 1e-06 to 0.5 (default: 0.01)"}},
       {{"kvctl namespace create particles", ""},
        {"kvctl namespace create cache --ttl 1h --on-loss empty", ""},
        {"kvctl namespace create names --kind ordered --split-keys g,n,t", "four ranges"},
        {"kvctl namespace create jobs --kind queue --capacity 10000 --home local", ""},
        {"kvctl namespace create seen --kind bloom --expected-items 1000000", ""},
        {"kvctl namespace create results --durability async", "survives the daemons"},
        {"kvctl namespace create shared --replicas 2", "survives the death of a daemon"},
        {"kvctl namespace create state --durability async --one-moment", ""},
        {"kvctl namespace create words --prefilter admit", "count what comes more than once"}},
       CreateNamespace,
       "create mkdir new"},
      {"namespace list",
       "list the namespaces",
       "",
       {},
       {{"--names", "", "their names only, one a line"}},
       {{"kvctl namespace list", ""}},
       List,
       "list namespaces databases"},
      {"namespace describe",
       "show a namespace's options, records and partitions",
       "Of nodes with --nvm-dir also where the records are, how many reads found theirs in memory "
       "since the partitions were opened, and what was written for each byte of records. More than "
       "65,536 records per node are not all looked at: then the counts are right to about a "
       "hundredth.",
       {name},
       {},
       {{"kvctl namespace describe default", ""}},
       Describe,
       "describe info"},
      {"namespace split",
       "split a range of an ordered namespace in two",
       "The upper part goes to another core of the same node, while the range is used. Without a "
       "key the range with the most records is split in its middle.",
       {name, {"KEY", "the first key of the new range", 0, 1}},
       {{"--base64", "", "the key is given as base64"}},
       {{"kvctl namespace split names m", ""}, {"kvctl namespace split names", ""}},
       Split,
       "split range"},
      {"namespace drop",
       "drop a namespace and its records",
       "At once and for ever. One created later under this name has nothing of it.",
       {name},
       {},
       {{"kvctl namespace drop particles", ""}},
       Drop,
       "drop rmdir flushdb"},
      {"namespace clear",
       "remove all records of a namespace, which stays with its options",
       "At once and for ever. Records that are put meanwhile may stay. Items under a lease stay "
       "until the lease ends. A filter is made anew: programs that use it must open it again.",
       {name},
       {},
       {{"kvctl namespace clear particles", ""}},
       ClearNamespace,
       "clear empty truncate purge"},
      {"namespace migrate",
       "move a queue, priority queue or filter to another node, under load",
       "Nothing is lost, doubled or overtaken; leases stay. Operations wait while a partition is "
       "copied, at most for --timeout (default: 10 s, and 1 s for each 50 MB), else it stays where "
       "it was. A durable one is on its node's devices and stays there. If kvctl is killed, what "
       "is under way ends by itself.",
       {name, {"NODE", "its number, see kvctl status, or local"}},
       {},
       {{"kvctl namespace migrate jobs 2", ""}, {"kvctl namespace migrate jobs local", ""}},
       Migrate,
       "migrate move rebalance"},
      {"namespace move",
       "move partitions of a hash namespace, queue or filter to another node, under load",
       "Records of a volatile hash namespace are copied while they are used. Operations wait only "
       "for the last changes, at most for --timeout (default: 10 s). No change is lost or counted "
       "twice while both nodes live. Ctrl-C ends the present partition's move; it then stays where "
       "it was. Namespaces of kind ordered, durable ones, and those with prefilter admit do not "
       "move. Queues and filters move as by namespace migrate.",
       {name},
       {{"--to", "NODE", "its number, see kvctl status, or local"},
        {"--from", "NODE", "only partitions of this node (default: of all nodes)"}},
       {{"kvctl namespace move particles --from 0 --to 2", ""},
        {"kvctl namespace move particles --to local", ""}},
       Move,
       "move migrate rebalance drain"},
      {"namespace accept-loss",
       "let partitions that lost their data serve again, empty",
       "After a node came back without its data, what it had answers DATA_LOSS until this. What a "
       "durable namespace has kept stays; that its last changes may be missing is no longer noted.",
       {name},
       {},
       {{"kvctl namespace accept-loss particles", ""}},
       AcceptLoss,
       "accept-loss"},
      {"persist",
       "make durable what was written to a durable namespace so far",
       "When it returns, all that was answered before outlives the daemons, whatever ends them.",
       {name},
       {},
       {{"kvctl persist results", ""}},
       Persist,
       "persist fsync sync bgsave save flush"},
  };
}

}  // namespace tidepool::cli
