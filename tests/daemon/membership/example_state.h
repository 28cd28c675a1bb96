// A state with something in each of its fields.
#pragma once

#include <memory>

#include "daemon/membership/cluster_state.h"

namespace tidepool::daemon {

inline ClusterState ExampleState(std::uint64_t epoch) {
  ClusterState state;
  state.map.cluster_uuid = "3f2b8c1e-9d4a-4c6f-8a51-0d7e6b2c9f10";
  state.map.nodes_expected = 2;
  state.map.epoch = Epoch(epoch);
  state.next_namespace = NamespaceId(9);
  state.map.nodes.push_back(
      {NodeId(0), "uuid", 7, "127.0.0.1:1", "host", placement::NodeState::kDown, 2, 0, "0.1.0", 5});
  state.nodes.push_back({"/data", 1, 2, "mark", true, "mixed", {NamespaceId(3), NamespaceId(8)}});
  auto space = std::make_shared<placement::Namespace>();
  space->id = NamespaceId(8);
  space->name = "name";
  space->kind = placement::Kind::kHash;
  space->options.on_loss = "empty";
  space->options.medium = "dax";
  space->options.ttl_ms = 123;
  space->options.partitions = 2;
  space->options.key_type = "string";
  space->options.expected_items = 77;
  space->options.false_positive_rate = 0.125;
  space->options.capacity = 88;
  space->options.value_type = "raw<Particle,48>";
  space->changed = Epoch(epoch);
  space->partitions = {
      {NodeId(0), CoreId(0), Term(4), placement::PartitionState::kLost},
      {NodeId(0), CoreId(1), Term(5), placement::PartitionState::kActive, Term(3)}};
  space->losses = {{0, Term(3), true, Lsn(), 17}, {1, Term(4), false, Lsn(Term(4), 99), 18}};
  state.map.namespaces.emplace(space->id, space);
  state.entries[PartitionId(space->id, 1)] = {6, {}};
  return state;
}

}  // namespace tidepool::daemon
