// Clients, namespaces and files.
#include "tidepool/c/client.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/c/handles.h"

// The result of tidepool_client_describe and tidepool_client_ping.
struct tidepool_nodes {
  static constexpr auto kTag = tidepool::c_api::Tag::kNodes;
  static constexpr const char* kName = "list of nodes";
  tidepool::c_api::Tagged tag{kTag};
  tidepool::ClientDescription cluster;
  std::vector<tidepool::PingResult> pings;
};

struct tidepool_namespace_list {
  static constexpr auto kTag = tidepool::c_api::Tag::kNamespaceList;
  static constexpr const char* kName = "list of namespaces";
  tidepool::c_api::Tagged tag{kTag};
  std::vector<tidepool::NamespaceInfo> namespaces;
  std::vector<std::vector<tidepool_bytes>> split_keys;  // Of each.
  std::vector<tidepool_namespace_options> options;
};

struct tidepool_files {
  static constexpr auto kTag = tidepool::c_api::Tag::kFiles;
  static constexpr const char* kName = "list of files";
  tidepool::c_api::Tagged tag{kTag};
  std::vector<tidepool::ListedFile> files;
};

namespace tidepool::c_api {
namespace {

Status WrongKind(const tidepool_namespace& space, const char* wanted) {
  return Status(StatusCode::kFailedPrecondition,
                "namespace '" + space.space.name() + "' is of kind " +
                    std::string(NamespaceKindName(space.kind)) + ", not " + wanted,
                "use the functions of its kind");
}

Status OpenSpace(Client* client, std::string_view name, NamespaceKind kind, tidepool_open_mode mode,
                 const NamespaceOptions& options, tidepool_namespace** space) {
  const auto open = [&]() -> Result<Namespace> {
    switch (mode) {
      case TIDEPOOL_OPEN:
        return client->OpenNamespace(name, kind, options);
      case TIDEPOOL_CREATE:
        return client->CreateNamespace(name, kind, options);
      case TIDEPOOL_OPEN_OR_CREATE:
        return client->OpenOrCreateNamespace(name, kind, options);
    }
    return BadArgument("mode", "is none of tidepool_open_mode");
  };
  Result<Namespace> opened = open();
  TP_RETURN_IF_ERROR(opened.status());
  return Give(*std::move(opened), space);
}

Status GiveNodes(Client* client, bool ping, tidepool_nodes** out) {
  auto nodes = std::make_unique<tidepool_nodes>();
  if (ping) nodes->pings = client->Ping();
  nodes->cluster = client->Describe();  // Behind the pings, which attach.
  *out = nodes.release();
  return {};
}

}  // namespace

Status CheckKind(const tidepool_namespace* space, NamespaceKind kind) {
  TP_RETURN_IF_ERROR(Check(space));
  if (space->kind == kind) return {};
  return WrongKind(*space, std::string(NamespaceKindName(kind)).c_str());
}

Status CheckMap(const tidepool_namespace* space) {
  TP_RETURN_IF_ERROR(Check(space));
  if (space->kind == NamespaceKind::kHash || space->kind == NamespaceKind::kOrdered) return {};
  return WrongKind(*space, "hash or ordered");
}

Status CheckQueue(const tidepool_namespace* space) {
  TP_RETURN_IF_ERROR(Check(space));
  if (space->kind == NamespaceKind::kQueue || space->kind == NamespaceKind::kPriority) return {};
  return WrongKind(*space, "queue or priority");
}

Status Give(Namespace space, tidepool_namespace** out) {
  *out = new tidepool_namespace(space);
  return {};
}

}  // namespace tidepool::c_api

using namespace tidepool;         // NOLINT: the functions stand outside of every namespace.
using namespace tidepool::c_api;  // NOLINT

extern "C" {

tidepool_code tidepool_connect(const tidepool_connect_options* options, tidepool_client** client) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(client, "client"));
    ConnectOptions connect;
    TP_RETURN_IF_ERROR(Load(options, &connect));
    Result<Client> connected = Client::Connect(connect);
    TP_RETURN_IF_ERROR(connected.status());
    *client = new tidepool_client{.client = *std::move(connected)};
    return {};
  });
}

tidepool_code tidepool_client_close(tidepool_client* client) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(client));
    client->client.Close();
    return {};
  });
}

void tidepool_client_free(tidepool_client* client) { Free(client); }

tidepool_code tidepool_client_wait_for_all(tidepool_client* client, uint64_t timeout_ms) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(client));
    return client->client.WaitForAll(Duration(timeout_ms));
  });
}

tidepool_code tidepool_client_stats(const tidepool_client* client, tidepool_stats* stats) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(client));
    TP_RETURN_IF_ERROR(CheckOut(stats, "stats"));
    const std::size_t bytes = stats->struct_bytes;
    if (bytes < sizeof(std::size_t)) return BadArgument("stats", "has no struct_bytes");
    const ClientStats from = client->client.Stats();
    const tidepool_stats all = {bytes,
                                from.operations,
                                from.operations_done,
                                from.operations_unknown,
                                from.direct_reads,
                                from.remote_reads,
                                from.operations_requeued,
                                from.frames_sent,
                                from.frames_received,
                                from.bytes_sent,
                                from.bytes_received,
                                from.frames_resent,
                                from.attaches,
                                from.map_refreshes,
                                from.sleeps};
    // A newer program's further fields stay as it has set them.
    std::memcpy(stats, &all, std::min(bytes, sizeof all));
    return {};
  });
}

tidepool_code tidepool_client_describe(tidepool_client* client, tidepool_nodes** nodes) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(nodes, "nodes"));
    TP_RETURN_IF_ERROR(Check(client));
    return GiveNodes(&client->client, false, nodes);
  });
}

tidepool_code tidepool_client_ping(tidepool_client* client, tidepool_nodes** nodes) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(nodes, "nodes"));
    TP_RETURN_IF_ERROR(Check(client));
    return GiveNodes(&client->client, true, nodes);
  });
}

size_t tidepool_nodes_size(const tidepool_nodes* nodes) {
  return Check(nodes).ok() ? nodes->cluster.nodes.size() : 0;
}
const char* tidepool_nodes_cluster_uuid(const tidepool_nodes* nodes) {
  return Check(nodes).ok() ? nodes->cluster.cluster_uuid.c_str() : "";
}
const char* tidepool_nodes_cluster_file(const tidepool_nodes* nodes) {
  return Check(nodes).ok() ? nodes->cluster.cluster_file.c_str() : "";
}
uint64_t tidepool_nodes_epoch(const tidepool_nodes* nodes) {
  return Check(nodes).ok() ? nodes->cluster.epoch : 0;
}

tidepool_code tidepool_nodes_get(const tidepool_nodes* nodes, size_t index, tidepool_node* node) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(nodes));
    TP_RETURN_IF_ERROR(CheckOut(node, "node"));
    TP_RETURN_IF_ERROR(CheckIndex(index, nodes->cluster.nodes.size()));
    const NodeInfo& from = nodes->cluster.nodes[index];
    *node = {from.id,
             from.cores,
             from.local ? 1 : 0,
             from.attached ? 1 : 0,
             from.host.c_str(),
             from.control_address.c_str(),
             from.state.c_str(),
             from.data_path.c_str(),
             TIDEPOOL_OK,
             0};
    for (const PingResult& ping : nodes->pings) {
      if (ping.node != from.id) continue;
      node->ping = ToC(ping.status.code());
      node->round_trip_ns = ping.round_trip_ns;
    }
    return {};
  });
}

void tidepool_nodes_free(tidepool_nodes* nodes) { Free(nodes); }

tidepool_code tidepool_namespace_open(tidepool_client* client, const char* name,
                                      tidepool_namespace_kind kind, tidepool_open_mode mode,
                                      const tidepool_namespace_options* options,
                                      tidepool_namespace** space) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(space, "space"));
    TP_RETURN_IF_ERROR(Check(client));
    std::string_view text;
    TP_RETURN_IF_ERROR(Text(name, "name", &text));
    if (kind < TIDEPOOL_HASH || kind > TIDEPOOL_BLOOM) {
      return BadArgument("kind", "is none of tidepool_namespace_kind");
    }
    NamespaceOptions wanted;
    TP_RETURN_IF_ERROR(Load(options, &wanted));
    return OpenSpace(&client->client, text, static_cast<NamespaceKind>(kind), mode, wanted, space);
  });
}

void tidepool_namespace_free(tidepool_namespace* space) { Free(space); }

const char* tidepool_namespace_name(const tidepool_namespace* space) {
  return Check(space).ok() ? space->space.name().c_str() : "";
}

tidepool_code tidepool_namespace_describe(const tidepool_namespace* space,
                                          tidepool_namespace_kind* kind, uint32_t* partitions) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(space));
    if (kind != nullptr) *kind = ToC(space->kind);
    if (partitions != nullptr) *partitions = space->space.partitions();
    return {};
  });
}

tidepool_code tidepool_namespace_owner_of(const tidepool_namespace* space, const void* key,
                                          size_t key_bytes, uint32_t* node) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(space));
    TP_RETURN_IF_ERROR(CheckOut(node, "node"));
    std::string_view text;
    TP_RETURN_IF_ERROR(View(key, key_bytes, "key", &text));
    *node = space->space.OwnerOf(text);
    return {};
  });
}

tidepool_code tidepool_namespace_with_prefilter(const tidepool_namespace* space,
                                                uint64_t age_max_ms, uint64_t timeout_ms,
                                                tidepool_namespace** with) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(with, "with"));
    TP_RETURN_IF_ERROR(Check(space));
    PrefilterUse use;
    TP_RETURN_IF_ERROR(LoadPrefilterUse(age_max_ms, timeout_ms, &use));
    Result<Namespace> made = space->space.WithPrefilter(use);
    TP_RETURN_IF_ERROR(made.status());
    return Give(*std::move(made), with);
  });
}

tidepool_code tidepool_namespace_refresh_prefilter(const tidepool_namespace* space) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(space));
    return space->space.RefreshPrefilter();
  });
}

tidepool_code tidepool_namespace_prefilter_stats(const tidepool_namespace* space,
                                                 tidepool_prefilter_stats* stats) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(space));
    TP_RETURN_IF_ERROR(CheckOut(stats, "stats"));
    const PrefilterStats from = space->space.prefilter_stats();
    *stats = {from.bytes, from.answered, from.downloads,
              static_cast<std::uint64_t>(from.age.count())};
    return {};
  });
}

tidepool_code tidepool_namespace_with_promises(const tidepool_namespace* space, uint32_t promises,
                                               uint64_t cache_bytes_max,
                                               tidepool_namespace** with) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(with, "with"));
    TP_RETURN_IF_ERROR(Check(space));
    Promise promise;
    TP_RETURN_IF_ERROR(LoadPromises(promises, &promise));
    PromiseUse use;
    if (cache_bytes_max != 0) use.cache_bytes_max = cache_bytes_max;
    return Give(space->space.WithPromise(promise, use), with);
  });
}

tidepool_code tidepool_namespace_end_round(const tidepool_namespace* space) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(space));
    space->space.EndRound();
    return {};
  });
}

tidepool_code tidepool_client_drop(tidepool_client* client, const char* name) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(client));
    std::string_view text;
    TP_RETURN_IF_ERROR(Text(name, "name", &text));
    return client->client.Drop(text);
  });
}

tidepool_code tidepool_client_persist(tidepool_client* client, const char* name) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(client));
    std::string_view text;
    TP_RETURN_IF_ERROR(Text(name, "name", &text));
    return client->client.Persist(text);
  });
}

tidepool_code tidepool_client_migrate(tidepool_client* client, const char* name, const char* node,
                                      uint64_t hold_ms) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(client));
    std::string_view text, to;
    TP_RETURN_IF_ERROR(Text(name, "name", &text));
    TP_RETURN_IF_ERROR(Text(node, "node", &to));
    return client->client.Migrate(text, to, Duration(hold_ms));
  });
}

tidepool_code tidepool_client_list(tidepool_client* client, tidepool_namespace_list** list) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(list, "list"));
    TP_RETURN_IF_ERROR(Check(client));
    Result<std::vector<NamespaceInfo>> listed = client->client.List();
    TP_RETURN_IF_ERROR(listed.status());
    auto handle = std::make_unique<tidepool_namespace_list>();
    handle->namespaces = *std::move(listed);
    handle->split_keys.resize(handle->namespaces.size());
    handle->options.resize(handle->namespaces.size());
    for (std::size_t i = 0; i < handle->namespaces.size(); ++i) {
      Store(handle->namespaces[i].options, &handle->split_keys[i], &handle->options[i]);
    }
    *list = handle.release();
    return {};
  });
}

size_t tidepool_namespace_list_size(const tidepool_namespace_list* list) {
  return Check(list).ok() ? list->namespaces.size() : 0;
}

tidepool_code tidepool_namespace_list_get(const tidepool_namespace_list* list, size_t index,
                                          tidepool_namespace_info* info) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(list));
    TP_RETURN_IF_ERROR(CheckOut(info, "info"));
    TP_RETURN_IF_ERROR(CheckIndex(index, list->namespaces.size()));
    const NamespaceInfo& from = list->namespaces[index];
    *info = {from.name.c_str(),    ToC(from.kind),       from.id,
             from.partitions_down, from.partitions_lost, list->options[index]};
    return {};
  });
}

void tidepool_namespace_list_free(tidepool_namespace_list* list) { Free(list); }

tidepool_code tidepool_client_list_files(tidepool_client* client, const tidepool_namespace* space,
                                         tidepool_files** files) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(files, "files"));
    TP_RETURN_IF_ERROR(Check(client));
    TP_RETURN_IF_ERROR(CheckKind(space, NamespaceKind::kHash));
    Result<std::vector<ListedFile>> listed = client->client.ListFiles(space->space);
    TP_RETURN_IF_ERROR(listed.status());
    auto handle = std::make_unique<tidepool_files>();
    handle->files = *std::move(listed);
    *files = handle.release();
    return {};
  });
}

size_t tidepool_files_size(const tidepool_files* files) {
  return Check(files).ok() ? files->files.size() : 0;
}

tidepool_code tidepool_files_get(const tidepool_files* files, size_t index, tidepool_file* file) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Check(files));
    TP_RETURN_IF_ERROR(CheckOut(file, "file"));
    TP_RETURN_IF_ERROR(CheckIndex(index, files->files.size()));
    const ListedFile& from = files->files[index];
    *file = {{from.path.c_str(), from.path.size()}, from.bytes};
    return {};
  });
}

void tidepool_files_free(tidepool_files* files) { Free(files); }

tidepool_code tidepool_client_read_file(tidepool_client* client, const tidepool_namespace* space,
                                        const void* path, size_t path_bytes,
                                        tidepool_value** content) {
  return Guarded([&]() -> Status {
    TP_RETURN_IF_ERROR(Clear(content, "content"));
    TP_RETURN_IF_ERROR(Check(client));
    TP_RETURN_IF_ERROR(CheckKind(space, NamespaceKind::kHash));
    std::string_view name;
    TP_RETURN_IF_ERROR(View(path, path_bytes, "path", &name));
    Result<std::string> read = client->client.ReadFile(space->space, name);
    TP_RETURN_IF_ERROR(read.status());
    Value value;
    value.bytes = *std::move(read);
    return Give(std::move(value), content);
  });
}

}  // extern "C"
