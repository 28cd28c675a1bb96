#include "daemon/membership/cluster_state.h"

#include <charconv>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "daemon/membership/state_change.h"
#include "proto/base/key_hash.h"
#include "proto/base/limits.h"

namespace tidepool::daemon {
namespace {

using Json = nlohmann::json;
using placement::Namespace;
using placement::PartitionState;

// Version 2 has entries of partitions. Version 1 is still read.
constexpr const char* kMagicStem = "tidepool-cluster-state ";
constexpr const char* kMagic = "tidepool-cluster-state 2 ";
constexpr const char* kMagicOfOne = "tidepool-cluster-state 1 ";
// Epochs rise by 1 and never come near it. A higher epoch in a file could wrap and stop the
// coordinator.
constexpr std::uint64_t kEpochMax = UINT64_MAX / 2;

std::string HeaderOf(std::string_view body, const char* magic = kMagic) {
  char checksum[17];
  std::snprintf(checksum, sizeof checksum, "%016llx",
                static_cast<unsigned long long>(KeyHash(AsBytes(body))));
  return magic + std::string(checksum) + " " + std::to_string(body.size()) + "\n";
}

bool IsHeaderOf(std::string_view header, std::string_view body) {
  return header == HeaderOf(body) || header == HeaderOf(body, kMagicOfOne);
}

// JSON holds text, and keys are bytes.
std::string ToHex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    text.push_back(kDigits[static_cast<unsigned char>(c) >> 4]);
    text.push_back(kDigits[static_cast<unsigned char>(c) & 15]);
  }
  return text;
}

bool FromHex(std::string_view text, std::string* bytes) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  if (text.size() % 2 != 0) return false;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int high = digit(text[i]);
    const int low = digit(text[i + 1]);
    if (high < 0 || low < 0) return false;
    bytes->push_back(static_cast<char>(high << 4 | low));
  }
  return true;
}

Json EncodeNode(const placement::Node& node, const NodeRecord& record) {
  Json nothing_to_lose = Json::array();
  for (const NamespaceId id : record.nothing_to_lose) nothing_to_lose.push_back(id.value());
  return {{"uuid", node.uuid},
          {"incarnation", node.incarnation},
          {"control_address", node.control_address},
          {"host", node.host},
          {"state", static_cast<int>(node.state)},
          {"cores", node.cores},
          {"version", node.version},
          {"pid", node.pid},
          {"directory", record.directory},
          {"device", record.device},
          {"inode", record.inode},
          {"mark", record.mark},
          {"nvm", record.nvm},
          {"nvm_medium", record.nvm_medium},
          {"nothing_to_lose", nothing_to_lose}};
}

Json EncodeNamespace(const Namespace& space) {
  Json partitions = Json::array();
  for (const auto& place : space.partitions) {
    partitions.push_back({place.node.value(), place.core.value(), place.term.value(),
                          static_cast<int>(place.state), place.data_from.value()});
  }
  Json losses = Json::array();
  for (const placement::PartitionLoss& loss : space.losses) {
    losses.push_back(
        {loss.partition, loss.term.value(), loss.all ? 1u : 0u, loss.after.value(), loss.at_ms});
  }
  const placement::NamespaceOptions& options = space.options;
  Json begins = Json::array();
  for (std::uint32_t i = 0; space.ranges != nullptr && i < space.ranges->size(); ++i) {
    begins.push_back(ToHex(space.ranges->BeginOf(i)));
  }
  Json split_keys = Json::array();
  for (const std::string& key : options.split_keys) split_keys.push_back(ToHex(key));
  return {{"id", space.id.value()},
          {"name", space.name},
          {"kind", static_cast<int>(space.kind)},
          {"changed", space.changed.value()},
          {"durability", options.durability},
          {"replicas", options.replicas},
          {"on_loss", options.on_loss},
          {"medium", options.medium},
          {"ttl_ms", options.ttl_ms},
          {"memory_share_percent", options.memory_share_percent},
          {"prefilter", options.prefilter},
          {"key_type", options.key_type},
          {"value_type", options.value_type},
          {"expected_items", options.expected_items},
          {"false_positive_rate", options.false_positive_rate},
          {"capacity", options.capacity},
          {"split", options.split},
          {"split_keys", split_keys},
          {"begins", begins},
          {"partitions", partitions},
          {"losses", losses}};
}

Json EncodeEntry(PartitionId partition, const PartitionEntry& entry) {
  Json copies = Json::array();
  for (const PartitionCopy& copy : entry.copies) {
    copies.push_back({{"node", copy.node.value()},
                      {"incarnation", copy.incarnation},
                      {"core", copy.core.value()},
                      {"since", copy.since},
                      {"in_sync", copy.in_sync ? 1u : 0u}});
  }
  return {{"partition", partition.value()}, {"version", entry.version}, {"copies", copies}};
}

// Reads a member and remembers whether all reads so far were sound, so that a decoder can read
// first and ask once.
class Reader {
 public:
  explicit Reader(const Json& object) : object_(object) { sound_ = object.is_object(); }

  std::uint64_t Number(const char* name, std::uint64_t least, std::uint64_t most) {
    const Json* member = Find(name);
    if (member == nullptr || !member->is_number_unsigned()) return Fail(name, least);
    const auto value = member->get<std::uint64_t>();
    return value >= least && value <= most ? value : Fail(name, least);
  }
  std::string Text(const char* name) {
    const Json* member = Find(name);
    if (member != nullptr && member->is_string()) return member->get<std::string>();
    Fail(name, 0);
    return {};
  }
  double Fraction(const char* name) {
    const Json* member = Find(name);
    if (member != nullptr && member->is_number() && member->get<double>() >= 0 &&
        member->get<double>() <= 1) {
      return member->get<double>();
    }
    Fail(name, 0);
    return 0;
  }
  const Json& List(const char* name, std::size_t size_max) {
    static const Json kEmpty = Json::array();
    const Json* member = Find(name);
    if (member != nullptr && member->is_array() && member->size() <= size_max) return *member;
    Fail(name, 0);
    return kEmpty;
  }
  std::vector<std::string> Keys(const char* name) {
    std::vector<std::string> keys;
    for (const Json& each : List(name, limits::kPartitionsPerNamespaceMax)) {
      if (!each.is_string() || !FromHex(each.get<std::string>(), &keys.emplace_back())) {
        Fail(name, 0);
      }
    }
    return keys;
  }
  std::uint64_t Fail(const char* name, std::uint64_t otherwise) {
    if (sound_) wrong_ = name;
    sound_ = false;
    return otherwise;
  }
  bool sound() const { return sound_; }
  const std::string& wrong() const { return wrong_; }

 private:
  const Json* Find(const char* name) const {
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }

  const Json& object_;
  bool sound_ = true;
  std::string wrong_ = "an object";
};

// Numbers of a list of exactly `count`; empty if it is no such list.
std::vector<std::uint64_t> Numbers(const Json& list, std::size_t count) {
  std::vector<std::uint64_t> numbers;
  if (!list.is_array() || list.size() != count) return numbers;
  for (const Json& each : list) {
    if (!each.is_number_unsigned()) return {};
    numbers.push_back(each.get<std::uint64_t>());
  }
  return numbers;
}

Status DecodeNode(const Json& json, ClusterState* state) {
  Reader reader(json);
  placement::Node node;
  node.id = NodeId(static_cast<std::uint16_t>(state->nodes.size()));
  node.uuid = reader.Text("uuid");
  node.incarnation = reader.Number("incarnation", 1, UINT64_MAX);
  node.control_address = reader.Text("control_address");
  node.host = reader.Text("host");
  node.state = static_cast<placement::NodeState>(reader.Number("state", 1, 3));
  node.cores = static_cast<std::uint32_t>(reader.Number("cores", 1, limits::kCoresPerNodeMax));
  node.version = reader.Text("version");
  node.pid = static_cast<std::uint32_t>(reader.Number("pid", 0, UINT32_MAX));
  NodeRecord record;
  record.directory = reader.Text("directory");
  record.device = reader.Number("device", 0, UINT64_MAX);
  record.inode = reader.Number("inode", 0, UINT64_MAX);
  // Files of earlier versions have no mark.
  if (json.contains("mark")) record.mark = reader.Text("mark");
  // Files written before anything was durable say nothing of devices.
  record.nvm = json.is_object() && json.value("nvm", Json(false)) == Json(true);
  if (json.contains("nvm_medium")) record.nvm_medium = reader.Text("nvm_medium");
  for (const Json& id : reader.List("nothing_to_lose", limits::kNamespacesMax)) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > limits::kNamespacesMax) {
      reader.Fail("nothing_to_lose", 0);
      break;
    }
    record.nothing_to_lose.insert(NamespaceId(id.get<std::uint32_t>()));
  }
  if (!reader.sound()) return Status(StatusCode::kDataLoss, "'" + reader.wrong() + "' of a node");
  state->map.nodes.push_back(std::move(node));
  state->nodes.push_back(std::move(record));
  return OkStatus();
}

// Replaces or adds an entry, whose namespace is in the state.
Status DecodeEntry(const Json& json, ClusterState* state) {
  Reader reader(json);
  const PartitionId partition(
      static_cast<std::uint32_t>(reader.Number("partition", 0, UINT32_MAX)));
  PartitionEntry entry;
  entry.version = reader.Number("version", 0, kEpochMax);
  for (const Json& each : reader.List("copies", limits::kNodesMax)) {
    Reader copy(each);
    entry.copies.push_back(
        {NodeId(static_cast<std::uint16_t>(copy.Number("node", 0, limits::kNodesMax - 1))),
         copy.Number("incarnation", 1, UINT64_MAX),
         CoreId(static_cast<std::uint16_t>(copy.Number("core", 0, limits::kCoresPerNodeMax - 1))),
         copy.Number("in_sync", 0, 1) == 1});
    // States of earlier versions hold copies of moves only.
    if (each.is_object() && each.contains("since")) {
      entry.copies.back().since = copy.Number("since", 0, kEpochMax);
    }
    if (!copy.sound() || entry.copies.back().node.value() >= state->nodes.size()) {
      reader.Fail("copies", 0);
    }
  }
  if (state->map.Find(partition) == nullptr) reader.Fail("partition", 0);
  if (!reader.sound()) return Status(StatusCode::kDataLoss, "'" + reader.wrong() + "' of an entry");
  state->entries[partition] = std::move(entry);
  return OkStatus();
}

// Version 1 has none.
Status DecodeEntries(const Json& json, ClusterState* state) {
  if (!json.is_object() || !json.contains("entries")) return OkStatus();
  if (!json["entries"].is_array()) return Status(StatusCode::kDataLoss, "'entries'");
  for (const Json& entry : json["entries"]) TP_RETURN_IF_ERROR(DecodeEntry(entry, state));
  return OkStatus();
}

void EraseEntriesOf(NamespaceId space, ClusterState* state) {
  std::erase_if(state->entries,
                [space](const auto& entry) { return entry.first.space() == space; });
}

void DecodeRanges(const Json& json, Reader* reader, Namespace* space) {
  std::vector<std::string> begins = {""};  // Files written before there were ranges have one.
  if (json.contains("begins")) {
    space->options.split = reader->Text("split");
    space->options.split_keys = reader->Keys("split_keys");
    begins = reader->Keys("begins");
  }
  auto ranges = placement::Ranges::Create(std::move(begins));
  if (!ranges.ok() || ranges->size() != space->partitions.size()) {
    reader->Fail("begins", 0);
    return;
  }
  space->ranges = std::make_shared<const placement::Ranges>(*std::move(ranges));
}

void DecodeLosses(const Json& json, Reader* reader, Namespace* space) {
  if (!json.contains("losses")) return;  // Written before anything was durable.
  for (const Json& entry : reader->List("losses", space->partitions.size())) {
    const std::vector<std::uint64_t> loss = Numbers(entry, 5);
    const bool is_sound = !loss.empty() && loss[0] < space->partitions.size() &&
                          loss[1] <= limits::kTermMax && loss[2] <= 1 &&
                          (space->losses.empty() || loss[0] > space->losses.back().partition);
    if (!is_sound) {
      reader->Fail("losses", 0);
      return;
    }
    space->losses.push_back({static_cast<std::uint32_t>(loss[0]),
                             Term(static_cast<std::uint32_t>(loss[1])), loss[2] == 1, Lsn(loss[3]),
                             loss[4]});
  }
}

Status DecodeNamespace(const Json& json, ClusterState* state) {
  Reader reader(json);
  auto space = std::make_shared<Namespace>();
  space->id = NamespaceId(
      static_cast<std::uint32_t>(reader.Number("id", 1, state->next_namespace.value() - 1)));
  space->name = reader.Text("name");
  space->kind = static_cast<placement::Kind>(reader.Number("kind", 1, 6));
  space->changed = Epoch(reader.Number("changed", 0, state->map.epoch.value()));
  placement::NamespaceOptions& options = space->options;
  options.durability = reader.Text("durability");
  options.replicas = static_cast<std::uint32_t>(reader.Number("replicas", 1, 16));
  options.on_loss = reader.Text("on_loss");
  options.ttl_ms = reader.Number("ttl_ms", 0, UINT64_MAX);
  options.memory_share_percent =
      static_cast<std::uint32_t>(reader.Number("memory_share_percent", 0, 100));
  options.prefilter = reader.Text("prefilter");
  if (json.contains("medium")) options.medium = reader.Text("medium");
  // Files written before there were types have none.
  if (json.contains("key_type")) options.key_type = reader.Text("key_type");
  if (json.contains("value_type")) options.value_type = reader.Text("value_type");
  // Nor sizes before there were filters.
  if (json.contains("expected_items")) {
    options.expected_items = reader.Number("expected_items", 0, UINT64_MAX);
    options.false_positive_rate = reader.Fraction("false_positive_rate");
  }
  // Nor bounds before there were queues.
  if (json.contains("capacity")) options.capacity = reader.Number("capacity", 0, UINT64_MAX);
  for (const Json& entry : reader.List("partitions", limits::kPartitionsPerNamespaceMax)) {
    // Files written before anything was durable have four.
    std::vector<std::uint64_t> place = Numbers(entry, 5);
    if (place.empty()) place = Numbers(entry, 4);
    if (place.size() == 4) place.push_back(0);
    if (place.empty() || place[0] >= state->nodes.size() || place[1] >= limits::kCoresPerNodeMax ||
        place[2] > limits::kTermMax || place[3] < 1 || place[3] > 3 || place[4] > place[2]) {
      reader.Fail("partitions", 0);
      break;
    }
    space->partitions.push_back(
        {NodeId(static_cast<std::uint16_t>(place[0])), CoreId(static_cast<std::uint16_t>(place[1])),
         Term(static_cast<std::uint32_t>(place[2])), static_cast<PartitionState>(place[3]),
         Term(static_cast<std::uint32_t>(place[4]))});
  }
  options.partitions = static_cast<std::uint32_t>(space->partitions.size());
  if (space->partitions.empty()) reader.Fail("partitions", 0);
  if (space->kind == placement::Kind::kOrdered) DecodeRanges(json, &reader, space.get());
  DecodeLosses(json, &reader, space.get());
  if (!reader.sound()) {
    return Status(StatusCode::kDataLoss, "'" + reader.wrong() + "' of a namespace");
  }
  if (!state->map.namespaces.emplace(space->id, space).second) {
    return Status(StatusCode::kDataLoss, "two namespaces of one id");
  }
  return OkStatus();
}

Result<ClusterState> DecodeBody(std::string_view body) {
  const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  Reader reader(json);
  ClusterState state;
  state.map.cluster_uuid = reader.Text("cluster_uuid");
  state.map.nodes_expected =
      static_cast<std::uint32_t>(reader.Number("nodes_expected", 1, limits::kNodesMax));
  state.map.epoch = Epoch(reader.Number("epoch", 0, kEpochMax));
  state.map.drops_known_since = state.map.epoch;
  state.next_namespace = NamespaceId(
      static_cast<std::uint32_t>(reader.Number("next_namespace", 1, limits::kNamespacesMax + 1)));
  const Json& nodes = reader.List("nodes", limits::kNodesMax);
  const Json& namespaces = reader.List("namespaces", limits::kNamespacesMax);
  if (!reader.sound()) return Status(StatusCode::kDataLoss, "'" + reader.wrong() + "'");
  for (const Json& node : nodes) TP_RETURN_IF_ERROR(DecodeNode(node, &state));
  for (const Json& space : namespaces) TP_RETURN_IF_ERROR(DecodeNamespace(space, &state));
  TP_RETURN_IF_ERROR(DecodeEntries(json, &state));
  return state;
}

bool IsSameNode(const placement::Node& a, const placement::Node& b) {
  return a.uuid == b.uuid && a.incarnation == b.incarnation &&
         a.control_address == b.control_address && a.host == b.host && a.state == b.state &&
         a.cores == b.cores && a.version == b.version && a.pid == b.pid;
}

// Replaces or adds the node of this index. DecodeNode appends, so it gets a state of its own.
Status ReplaceNode(const Json& entry, ClusterState* state) {
  const bool is_pair = entry.is_array() && entry.size() == 2 && entry[0].is_number_unsigned();
  const auto index = is_pair ? entry[0].get<std::uint64_t>() : UINT64_MAX;
  if (index > state->nodes.size() || index >= limits::kNodesMax) {
    return Status(StatusCode::kDataLoss, "'nodes' of a change");
  }
  ClusterState one;
  TP_RETURN_IF_ERROR(DecodeNode(entry[1], &one));
  one.map.nodes[0].id = NodeId(static_cast<std::uint16_t>(index));
  if (index == state->nodes.size()) {
    state->map.nodes.emplace_back();
    state->nodes.emplace_back();
  }
  state->map.nodes[index] = std::move(one.map.nodes[0]);
  state->nodes[index] = std::move(one.nodes[0]);
  return OkStatus();
}

Status ApplyBody(const Json& json, ClusterState* state) {
  Reader reader(json);
  const Epoch previous(reader.Number("previous", 0, UINT64_MAX));
  const Epoch epoch(reader.Number("epoch", 0, kEpochMax));
  const auto next_namespace =
      static_cast<std::uint32_t>(reader.Number("next_namespace", 1, limits::kNamespacesMax + 1));
  const Json& nodes = reader.List("nodes", limits::kNodesMax);
  const Json& namespaces = reader.List("namespaces", limits::kNamespacesMax);
  const Json& dropped = reader.List("dropped", limits::kNamespacesMax);
  if (!reader.sound()) return Status(StatusCode::kDataLoss, "'" + reader.wrong() + "' of a change");
  if (epoch <= state->map.epoch) return OkStatus();  // The whole state is newer.
  if (previous != state->map.epoch) {
    return Status(StatusCode::kDataLoss, "a change of epoch " + std::to_string(epoch.value()) +
                                             " follows epoch " + std::to_string(previous.value()) +
                                             ", which is not there");
  }
  // Ids are given once. A change that lowers the next id would give an id again.
  if (next_namespace < state->next_namespace.value()) {
    return Status(StatusCode::kDataLoss, "'next_namespace' of a change");
  }
  state->map.epoch = epoch;
  state->map.drops_known_since = epoch;
  state->next_namespace = NamespaceId(next_namespace);
  for (const Json& node : nodes) TP_RETURN_IF_ERROR(ReplaceNode(node, state));
  for (const Json& id : dropped) {
    if (!id.is_number_unsigned()) return Status(StatusCode::kDataLoss, "'dropped' of a change");
    state->map.namespaces.erase(NamespaceId(id.get<std::uint32_t>()));
    EraseEntriesOf(NamespaceId(id.get<std::uint32_t>()), state);
  }
  for (const Json& space : namespaces) {
    if (space.is_object() && space.contains("id") && space["id"].is_number_unsigned()) {
      state->map.namespaces.erase(NamespaceId(space["id"].get<std::uint32_t>()));
    }
    TP_RETURN_IF_ERROR(DecodeNamespace(space, state));
  }
  return DecodeEntries(json, state);
}

// The body of the whole change at the begin of `text`; empty: there is none.
std::string_view BodyOfChange(std::string_view text) {
  const std::string_view magic(kMagic);  // As long as the older one.
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos || end > magic.size() + 40) return {};
  const std::size_t blank = text.rfind(' ', end);
  if (blank == std::string_view::npos) return {};
  std::size_t size = 0;
  const std::string_view digits = text.substr(blank + 1, end - blank - 1);
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), size);
  if (parsed.ec != std::errc() || size == 0 || size > text.size() - end - 1) return {};
  const std::string_view body = text.substr(end + 1, size);
  return IsHeaderOf(text.substr(0, end + 1), body) ? body : std::string_view();
}

// Whether a whole change lies anywhere in `text`: what is before it was whole once.
bool HasWholeChange(std::string_view text) {
  for (std::size_t at = text.find(kMagicStem); at != std::string_view::npos;
       at = text.find(kMagicStem, at + 1)) {
    if (!BodyOfChange(text.substr(at)).empty()) return true;
  }
  return false;
}

}  // namespace

std::string EncodeState(const ClusterState& state) {
  Json nodes = Json::array();
  for (std::size_t i = 0; i < state.nodes.size(); ++i) {
    nodes.push_back(EncodeNode(state.map.nodes[i], state.nodes[i]));
  }
  Json namespaces = Json::array();
  for (const auto& [id, space] : state.map.namespaces)
    namespaces.push_back(EncodeNamespace(*space));
  Json entries = Json::array();
  for (const auto& [id, entry] : state.entries) entries.push_back(EncodeEntry(id, entry));
  const Json json = {{"cluster_uuid", state.map.cluster_uuid},
                     {"nodes_expected", state.map.nodes_expected},
                     {"epoch", state.map.epoch.value()},
                     {"next_namespace", state.next_namespace.value()},
                     {"nodes", nodes},
                     {"namespaces", namespaces},
                     {"entries", entries}};
  const std::string body = json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  return HeaderOf(body) + body;
}

Result<ClusterState> DecodeState(std::string_view text, const std::string& path) {
  const auto damaged = [&path](const std::string& what) {
    return Status(StatusCode::kDataLoss, "the cluster's state '" + path + "' is damaged: " + what,
                  "restore the file, or remove it to begin a new, empty cluster");
  };
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return damaged("it has no first line");
  const std::string_view body = text.substr(end + 1);
  if (!IsHeaderOf(text.substr(0, end + 1), body)) {
    return damaged("its checksum or size is wrong, or it is of another version");
  }
  auto state = DecodeBody(body);
  if (!state.ok()) return damaged(std::string(state.status().what()));
  return state;
}

std::string EncodeChange(const ClusterState& before, const ClusterState& after) {
  Json nodes = Json::array();
  for (std::size_t i = 0; i < after.nodes.size(); ++i) {
    if (i < before.nodes.size() && IsSameNode(before.map.nodes[i], after.map.nodes[i]) &&
        before.nodes[i] == after.nodes[i]) {
      continue;
    }
    nodes.push_back(Json::array({i, EncodeNode(after.map.nodes[i], after.nodes[i])}));
  }
  Json namespaces = Json::array();
  for (const auto& [id, space] : after.map.namespaces) {
    const auto found = before.map.namespaces.find(id);
    if (found == before.map.namespaces.end() || found->second != space) {
      namespaces.push_back(EncodeNamespace(*space));
    }
  }
  Json dropped = Json::array();
  for (const auto& [id, space] : before.map.namespaces) {
    if (!after.map.namespaces.contains(id)) dropped.push_back(id.value());
  }
  Json entries = Json::array();
  for (const auto& [id, entry] : after.entries) {
    const auto found = before.entries.find(id);
    if (found == before.entries.end() || found->second != entry) {
      entries.push_back(EncodeEntry(id, entry));
    }
  }
  const Json json = {{"previous", before.map.epoch.value()},
                     {"epoch", after.map.epoch.value()},
                     {"next_namespace", after.next_namespace.value()},
                     {"nodes", nodes},
                     {"namespaces", namespaces},
                     {"dropped", dropped},
                     {"entries", entries}};
  const std::string body = json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  return HeaderOf(body) + body;
}

Result<std::size_t> ApplyChanges(std::string_view text, const std::string& path,
                                 ClusterState* state) {
  const auto damaged = [&path](const std::string& what) {
    return Status(StatusCode::kDataLoss,
                  "the changes '" + path + ".log' of the cluster's state are damaged: " + what,
                  "restore the file, or remove it: what changed since '" + path +
                      "' was written is lost then");
  };
  std::size_t at = 0;
  while (at < text.size()) {
    const std::string_view body = BodyOfChange(text.substr(at));
    if (body.empty()) {
      if (HasWholeChange(text.substr(at + 1))) return damaged("a change in their middle");
      break;
    }
    const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
    const Status applied = ApplyBody(json, state);
    if (!applied.ok()) return damaged(std::string(applied.what()));
    at = static_cast<std::size_t>(body.data() + body.size() - text.data());
  }
  return at;
}

}  // namespace tidepool::daemon
