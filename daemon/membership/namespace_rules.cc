#include "daemon/membership/namespace_rules.h"

#include <algorithm>
#include <memory>

#include "daemon/membership/entry_change.h"
#include "proto/base/filter_shape.h"
#include "proto/base/limits.h"
#include "proto/placement/record_types.h"

namespace tidepool::daemon {
namespace {

using placement::Kind;
using placement::Namespace;
using placement::NamespaceOptions;
using placement::PartitionLoss;
using placement::PartitionPlace;
using placement::PartitionState;

// A hundred years: any later expiry is a mistake of units.
constexpr std::string_view kAnyMedium = "any";
constexpr std::uint64_t kTtlMsMax = 100ull * 365 * 86'400'000;

Status NotYet(const std::string& what, const std::string& instead) {
  return Status(StatusCode::kUnimplemented, what + " is not in this version", instead);
}

Status Wrong(const std::string& what, const std::string& allowed) {
  return Status(StatusCode::kInvalidArgument, what, allowed);
}

Status TermsUsedUp() {
  return Status(StatusCode::kResourceExhausted,
                "a partition has been granted " + std::to_string(limits::kTermMax) + " times",
                "move its data to a new namespace");
}

// Calls `change(index, &copy)` for each partition of `node` in a copy of each namespace that has
// any, and puts the copy, marked with `epoch`, into the map if a call has returned true.
template <typename Change>
void ChangePartitions(NodeId node, Epoch epoch, placement::PlacementMap* map, Change change) {
  for (auto& [id, space] : map->namespaces) {
    std::shared_ptr<Namespace> copy;
    bool changed = false;
    for (std::uint32_t i = 0; i < space->partitions.size(); ++i) {
      if (space->partitions[i].node != node) continue;
      if (copy == nullptr) copy = std::make_shared<Namespace>(*space);
      changed = change(i, copy.get()) || changed;
    }
    if (!changed) continue;
    copy->changed = epoch;
    space = std::move(copy);
  }
}

// One for each partition: of two that lost the end the earlier one says what is surely there.
void NoteLoss(const PartitionLoss& loss, Namespace* space) {
  const auto at = std::lower_bound(space->losses.begin(), space->losses.end(), loss.partition,
                                   [](const PartitionLoss& each, std::uint32_t partition) {
                                     return each.partition < partition;
                                   });
  if (at == space->losses.end() || at->partition != loss.partition) {
    space->losses.insert(at, loss);
  } else if (!at->all && loss.all) {
    *at = loss;
  }
}

// Of kind bloom. With 0 partitions their number is not known yet, but there are at least four: one
// core makes that many.
Status CheckFilterOptions(const NamespaceOptions& options) {
  if (options.ttl_ms != 0) {
    return Wrong("a filter cannot forget: ttl_ms is not an option of kind 'bloom'",
                 "make a new namespace per period, or use kind 'hash'");
  }
  if (options.memory_share_percent != 0) {
    return Wrong(
        "a filter takes all its memory when it is made: memory_share_percent is not an "
        "option of kind 'bloom'",
        "its size comes from expected_items and false_positive_rate");
  }
  const std::uint32_t partitions =
      options.partitions == 0 ? limits::kPartitionsPerCoreDefault : options.partitions;
  return ShapeOfFilter(options.expected_items, options.false_positive_rate, partitions).status();
}

// Of kinds that have records and may have a prefilter.
Status CheckPrefilterOptions(Kind kind, const NamespaceOptions& options) {
  if (kind == Kind::kBloom && options.prefilter == "none") return OkStatus();
  const bool known =
      options.prefilter == "none" || options.prefilter == "absent" || options.prefilter == "admit";
  if (!known) {
    return Wrong("prefilter cannot be '" + options.prefilter + "'",
                 "give 'none', 'absent' or 'admit'");
  }
  const bool has_keys = kind == Kind::kHash || kind == Kind::kOrdered;
  if (options.prefilter != "none" && !has_keys) {
    return Wrong("a prefilter is of kinds 'hash' and 'ordered' only", "give prefilter 'none'");
  }
  if (options.prefilter != "none") {
    std::uint32_t partitions = PartitionsWanted(kind, options);
    if (partitions == 0) partitions = limits::kPartitionsPerCoreDefault;
    return ShapeOfFilter(std::max<std::uint64_t>(options.expected_items, 1),
                         options.false_positive_rate, partitions)
        .status();
  }
  if (options.false_positive_rate != limits::kFilterRateDefault) {
    return Wrong("false_positive_rate is of kind 'bloom' and of prefilters only",
                 "leave it out, or give prefilter 'absent' or 'admit', or kind 'bloom'");
  }
  if (options.expected_items == 0 || has_keys) return OkStatus();
  return Wrong("expected_items is no option of queues",
               "leave it out; capacity bounds the number of items");
}

// Of kinds queue and priority. The partitions of a queue are its lanes.
Status CheckQueueOptions(Kind kind, const NamespaceOptions& options) {
  if (options.partitions > 1 && kind == Kind::kPriority) {
    return Wrong("a priority queue has no lanes: the least of several is not the least of all",
                 "leave lanes out, or give kind 'queue'");
  }
  if (options.partitions > limits::kLanesMax) {
    return Wrong("lanes cannot be " + std::to_string(options.partitions),
                 "give 1 to " + std::to_string(limits::kLanesMax));
  }
  if (options.capacity != 0 && options.capacity < options.partitions) {
    return Wrong("a capacity of " + std::to_string(options.capacity) + " over " +
                     std::to_string(options.partitions) + " lanes leaves some without any",
                 "give a capacity of at least one item per lane");
  }
  if (!options.key_type.empty()) {
    return Wrong("items of a queue have no keys: key_type is not an option of it",
                 "give value_type");
  }
  return OkStatus();
}

// What the storage floor can read back after a crash.
Status CheckDurability(Kind kind, const NamespaceOptions& options) {
  if (!options.durable()) return OkStatus();
  if (options.durability != "async" && options.durability != "sync") {
    return Wrong("durability cannot be '" + options.durability.substr(0, 40) + "'",
                 "give 'volatile', 'async' or 'sync'");
  }
  if (kind == Kind::kBloom && options.durability == "sync") {
    return Wrong(
        "a filter's bits are no log records that an answer could wait for: kind 'bloom' "
        "cannot have durability 'sync'",
        "give 'async'");
  }
  if (options.prefilter == "admit") {
    return Wrong(
        "what prefilter 'admit' has only marked is no record, and would be lost where records "
        "are not: it cannot be durable",
        "give prefilter 'none' or 'absent', or durability 'volatile'");
  }
  return OkStatus();
}

// Of what is copied so far.
Status CheckReplicasOption(Kind kind, const NamespaceOptions& options) {
  if (options.replicas == 1) return OkStatus();
  if (options.replicas < 1 || options.replicas > 3) {
    return Wrong("replicas cannot be " + std::to_string(options.replicas),
                 "give 1, or 2 for a copy of each partition on another node");
  }
  if (options.replicas == 3) return NotYet("more than one copy", "give replicas 2, or 1");
  if (kind != Kind::kHash || options.durable()) {
    return NotYet("a copy of anything but volatile namespaces of kind 'hash'", "give replicas 1");
  }
  if (options.prefilter == "admit" || options.medium != kAnyMedium) {
    return NotYet("a copy of a namespace with prefilter 'admit' or a medium", "give replicas 1");
  }
  return OkStatus();
}

// Of kind ordered; others have no such options.
Status CheckRangeOptions(Kind kind, const NamespaceOptions& options) {
  if (kind != Kind::kOrdered) {
    if (options.split_keys.empty() && options.split == "auto") return OkStatus();
    return Wrong("only namespaces of kind 'ordered' have ranges of keys to split",
                 "leave split_keys and split out, or give kind 'ordered'");
  }
  if (options.split != "auto" && options.split != "manual") {
    return Wrong("split cannot be '" + options.split.substr(0, 40) + "'",
                 "give 'auto' or 'manual'");
  }
  const std::size_t ranges = options.split_keys.size() + 1;
  if (ranges > limits::kPartitionsPerNamespaceMax) {
    return Wrong("split keys for " + std::to_string(ranges) + " ranges",
                 "a namespace has at most " + std::to_string(limits::kPartitionsPerNamespaceMax));
  }
  if (options.partitions != 0 && options.partitions != ranges) {
    return Wrong("an ordered namespace cannot be made with " + std::to_string(options.partitions) +
                     " partitions and " + std::to_string(options.split_keys.size()) + " split keys",
                 "its ranges begin where the split keys say, one more than there are; leave "
                 "partitions out");
  }
  return RangesOf(options).status();
}

}  // namespace

bool HasFewPartitions(Kind kind) {
  return kind == Kind::kQueue || kind == Kind::kPriority || kind == Kind::kOrdered;
}

Result<placement::Ranges> RangesOf(const NamespaceOptions& options) {
  std::vector<std::string> begins = {""};
  begins.insert(begins.end(), options.split_keys.begin(), options.split_keys.end());
  std::sort(begins.begin(), begins.end());
  return placement::Ranges::Create(std::move(begins));
}

Status CheckNamespaceOptions(Kind kind, const NamespaceOptions& options) {
  if (kind == Kind::kUnspecified) {
    return Wrong("a namespace needs a kind", "give 'hash'");
  }
  if (kind == Kind::kBloom) TP_RETURN_IF_ERROR(CheckFilterOptions(options));
  const bool is_queue = kind == Kind::kQueue || kind == Kind::kPriority;
  if (is_queue) TP_RETURN_IF_ERROR(CheckQueueOptions(kind, options));
  if (kind != Kind::kHash && kind != Kind::kOrdered && kind != Kind::kBloom && !is_queue) {
    return NotYet("the kind '" + std::string(placement::KindName(kind)) + "'", "use kind 'hash'");
  }
  if (options.partitions > limits::kPartitionsPerNamespaceMax) {
    return Wrong("partitions cannot be " + std::to_string(options.partitions),
                 "give 1 to " + std::to_string(limits::kPartitionsPerNamespaceMax) +
                     ", or 0 for four per core");
  }
  TP_RETURN_IF_ERROR(CheckDurability(kind, options));
  TP_RETURN_IF_ERROR(CheckReplicasOption(kind, options));
  if (options.on_loss != "error" && options.on_loss != "empty") {
    return Wrong("on_loss cannot be '" + options.on_loss + "'", "give 'error' or 'empty'");
  }
  if (options.medium != kAnyMedium && options.medium != "file" && options.medium != "dax") {
    return Wrong("medium cannot be '" + options.medium.substr(0, 40) + "'",
                 "give 'any', 'file' or 'dax'");
  }
  if (options.ttl_ms > kTtlMsMax) {
    return Wrong("ttl_ms cannot be " + std::to_string(options.ttl_ms),
                 "give at most " + std::to_string(kTtlMsMax) + " (100 years), or 0 for no expiry");
  }
  if (options.memory_share_percent > 100) {
    return Wrong("memory_share_percent cannot be " + std::to_string(options.memory_share_percent),
                 "give 1 to 100, or 0 for no limit of its own");
  }
  TP_RETURN_IF_ERROR(CheckRangeOptions(kind, options));
  TP_RETURN_IF_ERROR(CheckPrefilterOptions(kind, options));
  if (!is_queue && options.capacity != 0) {
    return Wrong("capacity is of kinds 'queue' and 'priority' only",
                 "leave it out; memory_share_percent bounds other kinds");
  }
  TP_RETURN_IF_ERROR(placement::CheckTypeName(options.key_type));
  return placement::CheckTypeName(options.value_type);
}

Status CheckEqual(const Namespace& existing, Kind kind, const NamespaceOptions& wanted) {
  // Another kind is the greater difference, and has types of its own.
  if (existing.kind == kind) {
    TP_RETURN_IF_ERROR(placement::CheckTypesAgree(existing.name, existing.options, wanted));
  }
  std::string differences;
  const auto compare = [&differences](const char* name, const auto& is, const auto& wants) {
    if (is == wants) return;
    std::string text = std::string(differences.empty() ? "" : ", ") + name + " is ";
    if constexpr (std::is_same_v<std::decay_t<decltype(is)>, std::string>) {
      text += is + ", not " + wants;
    } else {
      text += std::to_string(is) + ", not " + std::to_string(wants);
    }
    differences += text;
  };
  const NamespaceOptions& is = existing.options;
  compare("kind", std::string(placement::KindName(existing.kind)),
          std::string(placement::KindName(kind)));
  // The ranges of an ordered namespace may have been split since.
  if (wanted.partitions != 0 && kind != Kind::kOrdered) {
    compare("partitions", is.partitions, wanted.partitions);
  }
  if (is.split_keys != wanted.split_keys && !wanted.split_keys.empty()) {
    differences += std::string(differences.empty() ? "" : ", ") + "it was made with " +
                   (is.split_keys.empty() ? "no" : "other") + " split keys";
  }
  compare("split", is.split, wanted.split);
  compare("durability", is.durability, wanted.durability);
  compare("replicas", is.replicas, wanted.replicas);
  compare("on_loss", is.on_loss, wanted.on_loss);
  compare("medium", is.medium, wanted.medium);
  compare("ttl_ms", is.ttl_ms, wanted.ttl_ms);
  compare("memory_share_percent", is.memory_share_percent, wanted.memory_share_percent);
  compare("prefilter", is.prefilter, wanted.prefilter);
  compare("expected_items", is.expected_items, wanted.expected_items);
  compare("false_positive_rate", is.false_positive_rate, wanted.false_positive_rate);
  compare("capacity", is.capacity, wanted.capacity);
  if (differences.empty()) return OkStatus();
  const bool stays = existing.name == kDefaultNamespace;
  return Status(StatusCode::kAlreadyExists,
                "namespace '" + existing.name + "' exists with other options: " + differences,
                "use these options or another name" +
                    (stays ? "" : ", or drop it first: kvctl namespace drop " + existing.name));
}

Status CheckMovable(const Namespace& space) {
  if (space.options.replicas > 1) {
    return Status(StatusCode::kUnimplemented,
                  "'" + space.name + "' has replicas, and partitions with replicas do not move yet",
                  "see where they lie: kvctl namespace describe");
  }
  if (space.kind == Kind::kHash) return CheckCopyable(space);
  if (space.options.durable()) {
    return Status(StatusCode::kUnimplemented,
                  "'" + space.name + "' is durable, and stays on the devices where it was made",
                  "make another namespace with --home and copy what it holds");
  }
  if (space.options.medium != kAnyMedium) {
    return Status(StatusCode::kUnimplemented,
                  "'" + space.name + "' wants devices of medium '" + space.options.medium +
                      "', and stays where it was made",
                  "make another namespace with --home and copy what it holds");
  }
  if (space.kind == Kind::kQueue || space.kind == Kind::kPriority || space.kind == Kind::kBloom) {
    return OkStatus();
  }
  return Status(
      StatusCode::kUnimplemented,
      "'" + space.name + "' is of kind " + std::string(placement::KindName(space.kind)) +
          ", whose records stay on the nodes where they were made",
      "hash namespaces, queues, priority queues and filters move; to have the records elsewhere, "
      "make another namespace with --home and copy them");
}

std::uint32_t PartitionsWanted(Kind kind, const NamespaceOptions& options) {
  if (kind == Kind::kOrdered) return static_cast<std::uint32_t>(options.split_keys.size()) + 1;
  if (kind == Kind::kQueue) return std::max(options.partitions, 1u);
  if (kind == Kind::kPriority) return 1;
  return options.partitions;
}

Result<std::vector<placement::Node>> NodesFor(const std::vector<placement::Node>& nodes,
                                              const std::string& home) {
  if (home.empty()) return nodes;
  for (const placement::Node& node : nodes) {
    if (std::to_string(node.id.value()) != home) continue;
    if (node.state == placement::NodeState::kUp) return std::vector<placement::Node>{node};
    return Status(StatusCode::kUnavailable,
                  "the home, node " + home + " (" + node.host + "), is not up",
                  "start it again, or name another: kvctl status");
  }
  return Wrong("home cannot be '" + home.substr(0, 40) + "'",
               "give a node's number, see kvctl status, or 'local'");
}

std::vector<PartitionPlace> SpreadPartitions(const std::vector<placement::Node>& nodes,
                                             std::uint32_t count, std::uint32_t first) {
  std::vector<PartitionPlace> places;  // One per core of the nodes that are up.
  std::uint32_t cores_max = 0;
  for (const auto& node : nodes) cores_max = std::max(cores_max, node.cores);
  for (std::uint32_t core = 0; core < cores_max; ++core) {
    for (const auto& node : nodes) {
      if (node.state != placement::NodeState::kUp || core >= node.cores) continue;
      places.push_back(
          {node.id, CoreId(static_cast<std::uint16_t>(core)), Term(1), PartitionState::kActive});
    }
  }
  if (places.empty()) return places;
  if (count == 0) {
    const std::size_t wanted = places.size() * limits::kPartitionsPerCoreDefault;
    count = static_cast<std::uint32_t>(
        std::min<std::size_t>(wanted, limits::kPartitionsPerNamespaceMax));
  }
  const std::size_t cores = places.size();
  std::rotate(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(first % cores),
              places.end());
  places.resize(count);
  for (std::size_t i = cores; i < count; ++i) places[i] = places[i - cores];
  return places;
}

void MarkPartitionsDown(NodeId node, Epoch epoch, placement::PlacementMap* map) {
  ChangePartitions(node, epoch, map, [](std::uint32_t index, Namespace* space) {
    PartitionPlace* place = &space->partitions[index];
    if (place->state != PartitionState::kActive) return false;
    place->state = PartitionState::kDown;
    return true;
  });
}

void MarkPartitionsBack(NodeId node, Epoch epoch, placement::PlacementMap* map) {
  ChangePartitions(node, epoch, map, [](std::uint32_t index, Namespace* space) {
    PartitionPlace* place = &space->partitions[index];
    if (place->state != PartitionState::kDown) return false;
    place->state = PartitionState::kActive;
    return true;
  });
}

Status CheckDevices(const std::vector<placement::Node>& nodes,
                    const std::vector<NodeRecord>& records, const NamespaceOptions& options) {
  const bool any = options.medium == kAnyMedium;
  std::string without;
  for (const placement::Node& node : nodes) {
    const NodeRecord& record = records[node.id.value()];
    const bool fits =
        (record.nvm || !options.durable()) && (any || record.nvm_medium == options.medium);
    if (fits || node.state != placement::NodeState::kUp) continue;
    without += (without.empty() ? "node " : ", node ") + std::to_string(node.id.value()) + " (" +
               node.host + ")";
  }
  if (without.empty()) return OkStatus();
  if (!any) {
    return Status(
        StatusCode::kFailedPrecondition,
        "medium '" + options.medium +
            "' wants each node to have devices of it, and no others; other than that is " + without,
        "see: kvctl status; start the daemons with --nvm-dir on such devices, or leave "
        "the medium out");
  }
  return Status(StatusCode::kFailedPrecondition,
                "durability '" + options.durability +
                    "' needs a device on each node, and there is none on " + without,
                "start the daemons with --nvm-dir, or give 'volatile'");
}

Status CheckMediaOf(const placement::Node& node, const NodeRecord& record,
                    const placement::PlacementMap& map) {
  for (const auto& [id, space] : map.namespaces) {
    if (space->options.medium == kAnyMedium || space->options.medium == record.nvm_medium) continue;
    const bool has_some =
        std::any_of(space->partitions.begin(), space->partitions.end(),
                    [&](const PartitionPlace& place) { return place.node == node.id; });
    if (!has_some) continue;
    return Status(
        StatusCode::kFailedPrecondition,
        "node " + std::to_string(node.id.value()) + " has a part of '" + space->name +
            "', which wants devices of medium '" + space->options.medium + "', and came back " +
            (record.nvm ? "with '" + record.nvm_medium + "'" : std::string("without any")),
        "give it the --nvm-dir that it had, or drop the namespace");
  }
  return OkStatus();
}

const Namespace* FirstKeptOn(NodeId node, const placement::PlacementMap& map) {
  for (const auto& [id, space] : map.namespaces) {
    if (!space->options.durable()) continue;
    for (const PartitionPlace& place : space->partitions) {
      if (place.node == node && place.state != PartitionState::kLost) return space.get();
    }
  }
  return nullptr;
}

Status RegrantPartitions(NodeId node, const NodeRecord& record, const KeptOnDevices& kept,
                         Epoch epoch, std::uint64_t now_ms, placement::PlacementMap* map) {
  for (const auto& [id, space] : map->namespaces) {
    for (const PartitionPlace& place : space->partitions) {
      if (place.node == node && place.term.value() >= limits::kTermMax) return TermsUsedUp();
    }
  }
  const std::uint32_t cores = map->nodes[node.value()].cores;
  ChangePartitions(node, epoch, map, [&](std::uint32_t index, Namespace* space) {
    PartitionPlace* place = &space->partitions[index];
    const Term before = place->term;
    place->term = Term(before.value() + 1);
    // It may have come back with fewer cores; with nothing kept, any core will do.
    place->core = CoreId(static_cast<std::uint16_t>(place->core.value() % cores));
    const bool is_durable = space->options.durable();
    const bool minds = space->options.on_loss == "error";
    const auto found = kept.partitions.find(PartitionId(space->id, index));
    const bool is_kept = is_durable && place->state != PartitionState::kLost &&
                         found != kept.partitions.end() && found->second.term >= place->data_from;
    const bool loses =
        !is_kept && minds && (is_durable || !record.nothing_to_lose.contains(space->id));
    const bool is_lost = place->state == PartitionState::kLost || loses;
    place->state = is_lost ? PartitionState::kLost : PartitionState::kActive;
    if (!is_durable) {
      if (space->options.replicas > 1) place->data_from = place->term;
      return true;
    }
    if (!is_kept) place->data_from = place->term;
    if (loses) NoteLoss({index, before, true, Lsn(), now_ms}, space);
    const bool loses_end = is_kept && !kept.complete && space->options.durability == "async";
    if (loses_end && minds) {
      NoteLoss({index, found->second.term, false, found->second.last, now_ms}, space);
    }
    return true;
  });
  return OkStatus();
}

Result<std::uint32_t> AcceptLostPartitions(const placement::PlacementMap& map, Namespace* space) {
  std::uint32_t accepted = 0;
  for (PartitionPlace& place : space->partitions) {
    const placement::Node* owner = map.FindNode(place.node);
    const bool is_up = owner != nullptr && owner->state == placement::NodeState::kUp;
    if (place.state != PartitionState::kLost || !is_up) continue;
    if (place.term.value() >= limits::kTermMax) return TermsUsedUp();
    place.term = Term(place.term.value() + 1);
    place.state = PartitionState::kActive;
    // What turns up of it later has been given up.
    if (space->options.durable() || space->options.replicas > 1) place.data_from = place.term;
    std::erase_if(space->losses, [&](const PartitionLoss& loss) {
      return &space->partitions[loss.partition] == &place;
    });
    ++accepted;
  }
  accepted += static_cast<std::uint32_t>(std::erase_if(space->losses, [&](const auto& loss) {
    return space->partitions[loss.partition].state != PartitionState::kLost;
  }));
  return accepted;
}

}  // namespace tidepool::daemon
