#include "proto/convert/placement_convert.h"

#include <string>
#include <utility>
#include <vector>

#include "proto/base/limits.h"

namespace tidepool::convert {
namespace {

Status Malformed(const std::string& what) {
  return Status(StatusCode::kInvalidArgument, "malformed placement map: " + what);
}

void ToProto(const placement::CopyPlace& from, v1::PartitionCopy* to) {
  to->set_node_id(from.node.value());
  to->set_incarnation(from.incarnation);
  to->set_core(from.core.value());
  to->set_in_sync(from.in_sync);
  to->set_since(from.since);
}

}  // namespace

void ToProto(const placement::NamespaceOptions& from, v1::NamespaceOptions* to) {
  to->set_partitions(from.partitions);
  to->set_durability(from.durability);
  to->set_replicas(from.replicas);
  to->set_on_loss(from.on_loss);
  to->set_medium(from.medium);
  to->set_ttl_ms(from.ttl_ms);
  to->set_memory_share_percent(from.memory_share_percent);
  to->set_prefilter(from.prefilter);
  to->set_key_type(from.key_type);
  to->set_value_type(from.value_type);
  to->set_expected_items(from.expected_items);
  to->set_false_positive_rate(from.false_positive_rate);
  to->set_capacity(from.capacity);
  to->set_home(from.home);
  for (const std::string& key : from.split_keys) to->add_split_keys(key);
  to->set_split(from.split);
}

void ToProto(const placement::Node& from, v1::Node* to) {
  to->set_node_id(from.id.value());
  to->set_uuid(from.uuid);
  to->set_incarnation(from.incarnation);
  to->set_control_address(from.control_address);
  to->set_host(from.host);
  to->set_state(static_cast<v1::NodeState>(from.state));
  to->set_cores(from.cores);
  to->set_last_heartbeat_ms(from.last_heartbeat_ms);
  to->set_version(from.version);
  to->set_pid(from.pid);
}

void ToProto(const placement::Namespace& from, v1::NamespaceMap* to) {
  to->set_namespace_id(from.id.value());
  to->set_name(from.name);
  to->set_kind(static_cast<v1::Kind>(from.kind));
  ToProto(from.options, to->mutable_options());
  to->set_changed_epoch(from.changed.value());
  for (std::uint32_t i = 0; i < from.partitions.size(); ++i) {
    const placement::PartitionPlace& place = from.partitions[i];
    auto* partition = to->add_partitions();
    if (from.ranges != nullptr) partition->set_begin(from.ranges->BeginOf(i));
    partition->set_node_id(place.node.value());
    partition->set_core(place.core.value());
    partition->set_term(place.term.value());
    partition->set_state(static_cast<v1::PartitionState>(place.state));
    partition->set_data_from(place.data_from.value());
    partition->set_version(place.version);
    for (const placement::CopyPlace& copy : place.copies) ToProto(copy, partition->add_copies());
  }
  for (const placement::PartitionLoss& loss : from.losses) {
    auto* entry = to->add_losses();
    entry->set_partition(loss.partition);
    entry->set_term(loss.term.value());
    entry->set_all(loss.all);
    entry->set_after_version(loss.after.value());
    entry->set_at_ms(loss.at_ms);
  }
}

void ToProto(const placement::PlacementDelta& from, v1::PlacementMap* to) {
  to->set_epoch(from.changes.epoch.value());
  to->set_since_epoch(from.since.value());
  to->set_cluster_uuid(from.changes.cluster_uuid);
  to->set_nodes_expected(from.changes.nodes_expected);
  for (const auto& node : from.changes.nodes) ToProto(node, to->add_nodes());
  for (const auto& [id, space] : from.changes.namespaces) ToProto(*space, to->add_namespaces());
  for (const auto& [id, epoch] : from.changes.dropped) to->add_dropped_namespaces(id.value());
}

Result<placement::NamespaceOptions> FromProto(const v1::NamespaceOptions& from) {
  placement::NamespaceOptions options;
  options.partitions = from.partitions();
  if (!from.durability().empty()) options.durability = from.durability();
  if (from.replicas() != 0) options.replicas = from.replicas();
  if (!from.on_loss().empty()) options.on_loss = from.on_loss();
  if (!from.medium().empty()) options.medium = from.medium();
  options.ttl_ms = from.ttl_ms();
  options.memory_share_percent = from.memory_share_percent();
  if (!from.prefilter().empty()) options.prefilter = from.prefilter();
  options.key_type = from.key_type();
  options.value_type = from.value_type();
  options.expected_items = from.expected_items();
  if (from.false_positive_rate() != 0) options.false_positive_rate = from.false_positive_rate();
  options.capacity = from.capacity();
  options.home = from.home();
  options.split_keys.assign(from.split_keys().begin(), from.split_keys().end());
  if (!from.split().empty()) options.split = from.split();
  return options;
}

Result<placement::Namespace> FromProto(const v1::NamespaceMap& from) {
  placement::Namespace space;
  space.id = NamespaceId(from.namespace_id());
  space.name = from.name();
  space.changed = Epoch(from.changed_epoch());
  if (space.id.value() > limits::kNamespacesMax) return Malformed("namespace id");
  if (from.kind() <= v1::KIND_UNSPECIFIED || from.kind() > v1::KIND_ARRAY) {
    return Malformed("kind of '" + space.name + "'");
  }
  space.kind = static_cast<placement::Kind>(from.kind());
  auto options = FromProto(from.options());
  if (!options.ok()) return options.status();
  space.options = *std::move(options);
  if (from.partitions_size() < 1 ||
      from.partitions_size() > static_cast<int>(limits::kPartitionsPerNamespaceMax)) {
    return Malformed("partitions of '" + space.name + "'");
  }
  for (const auto& partition : from.partitions()) {
    if (partition.node_id() >= limits::kNodesMax || partition.core() >= limits::kCoresPerNodeMax ||
        partition.term() > limits::kTermMax || partition.data_from() > partition.term() ||
        partition.state() < v1::PARTITION_STATE_ACTIVE ||
        partition.state() > v1::PARTITION_STATE_LOST) {
      return Malformed("a partition of '" + space.name + "'");
    }
    space.partitions.push_back({NodeId(static_cast<std::uint16_t>(partition.node_id())),
                                CoreId(static_cast<std::uint16_t>(partition.core())),
                                Term(partition.term()),
                                static_cast<placement::PartitionState>(partition.state()),
                                Term(partition.data_from()), partition.version()});
    for (const auto& copy : partition.copies()) {
      if (copy.node_id() >= limits::kNodesMax || copy.core() >= limits::kCoresPerNodeMax) {
        return Malformed("a copy of a partition of '" + space.name + "'");
      }
      space.partitions.back().copies.push_back(
          {NodeId(static_cast<std::uint16_t>(copy.node_id())), copy.incarnation(),
           CoreId(static_cast<std::uint16_t>(copy.core())), copy.in_sync(), copy.since()});
    }
  }
  for (const auto& loss : from.losses()) {
    const bool is_sound =
        loss.partition() < space.partitions.size() && loss.term() <= limits::kTermMax &&
        (space.losses.empty() || loss.partition() > space.losses.back().partition);
    if (!is_sound) return Malformed("a loss of '" + space.name + "'");
    space.losses.push_back(
        {loss.partition(), Term(loss.term()), loss.all(), Lsn(loss.after_version()), loss.at_ms()});
  }
  if (space.kind == placement::Kind::kOrdered) {
    std::vector<std::string> begins;
    for (const auto& partition : from.partitions()) begins.push_back(partition.begin());
    auto ranges = placement::Ranges::Create(std::move(begins));
    if (!ranges.ok()) return Malformed("ranges of '" + space.name + "'");
    space.ranges = std::make_shared<const placement::Ranges>(*std::move(ranges));
  }
  return space;
}

Result<placement::PlacementDelta> FromProto(const v1::PlacementMap& from) {
  placement::PlacementDelta delta;
  delta.since = Epoch(from.since_epoch());
  placement::PlacementMap& map = delta.changes;
  map.epoch = Epoch(from.epoch());
  map.cluster_uuid = from.cluster_uuid();
  map.nodes_expected = from.nodes_expected();
  if (from.nodes_size() > static_cast<int>(limits::kNodesMax)) return Malformed("too many nodes");
  for (const auto& node : from.nodes()) {
    // A node's id is its index, which look-ups rely on.
    if (node.node_id() != map.nodes.size()) return Malformed("order of nodes");
    if (node.state() < v1::NODE_STATE_UP || node.state() > v1::NODE_STATE_LEFT) {
      return Malformed("state of a node");
    }
    map.nodes.push_back({NodeId(static_cast<std::uint16_t>(node.node_id())), node.uuid(),
                         node.incarnation(), node.control_address(), node.host(),
                         static_cast<placement::NodeState>(node.state()), node.cores(),
                         node.last_heartbeat_ms(), node.version(), node.pid()});
  }
  for (const auto& entry : from.namespaces()) {
    auto space = FromProto(entry);
    if (!space.ok()) return space.status();
    const NamespaceId id = space->id;
    map.namespaces.emplace(id, std::make_shared<const placement::Namespace>(*std::move(space)));
  }
  for (const std::uint32_t id : from.dropped_namespaces()) {
    map.dropped.emplace(NamespaceId(id), map.epoch);
  }
  return delta;
}

}  // namespace tidepool::convert
