#include "cli/commands/data/clear.h"

#include <tidepool/bytes_queue.h>

#include <nlohmann/json.hpp>
#include <string>

#include "cli/commands/data/remover.h"
#include "cli/commands/data/scan_records.h"
#include "cli/commands/data/sdk_client.h"
#include "proto/base/kind.h"
#include "proto/convert/staged_keys.h"
#include "proto/manifest/keys.h"
#include "tidepool/v1/bulk.pb.h"
#include "tidepool/v1/namespaces.grpc.pb.h"

namespace tidepool::cli {
namespace {

constexpr std::size_t kItemsPerPop = 1'024;

struct Cleared {
  std::uint64_t records = 0;
  std::uint64_t leased = 0;  // Items that stay until their leases end.
};

// For kinds hash and ordered.
Status ClearRecords(Invocation& run, const v1::DescribeNamespaceResponse& space, Cleared* cleared) {
  const std::string& name = space.namespace_().name();
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  Remover remover(run, name, space.records());
  // The mark goes first: with it, staging would take missing entries of the manifest for losses.
  TP_RETURN_IF_ERROR(remover.Add(manifest::MarkKey(), /*counts=*/false));
  TP_RETURN_IF_ERROR(remover.Finish());
  v1::ScanRequest request;
  request.set_namespace_(name);
  request.set_keys_only(true);
  request.set_include_internal(true);
  Status failure;
  const Status scanned = ScanRecords(**channel, request, [&](const v1::Record& record) {
    const convert::StagedRole role = convert::ParseStagedKey(record.key()).role;
    failure = remover.Add(
        record.key(), role == convert::StagedRole::kPlain || role == convert::StagedRole::kFile);
    return failure.ok();
  });
  if (failure.ok()) failure = remover.Finish();
  cleared->records = remover.removed();
  TP_RETURN_IF_ERROR(failure);
  return scanned;
}

Status PopAll(Invocation& run, const BytesItems& items, Cleared* cleared) {
  for (;;) {
    const Result<ItemBatch> batch = items.PopMany(kItemsPerPop);
    if (!batch.ok()) return batch.status();
    cleared->records += batch->size();
    if (run.out.stderr_is_terminal()) {
      run.out.Progress("\r\x1b[Kremoving  " + std::to_string(cleared->records) + " items");
    }
    TP_RETURN_IF_ERROR(batch->status());
    if (batch->empty()) break;
  }
  const Result<QueueLength> left = items.Length();
  if (!left.ok()) return left.status();
  cleared->leased = left->leased;
  return OkStatus();
}

// For kinds queue and priority.
Status ClearItems(Invocation& run, const v1::DescribeNamespaceResponse& space, Cleared* cleared) {
  Result<Client> client = ConnectSdk(run);
  if (!client.ok()) return client.status();
  const std::string& name = space.namespace_().name();
  Status status;
  if (space.namespace_().kind() == v1::KIND_QUEUE) {
    const Result<BytesQueue> queue = client->Open<BytesQueue>(name);
    status = queue.ok() ? PopAll(run, *queue, cleared) : queue.status();
  } else {
    const Result<BytesPriorityQueue> queue = client->Open<BytesPriorityQueue>(name);
    status = queue.ok() ? PopAll(run, *queue, cleared) : queue.status();
  }
  if (run.out.stderr_is_terminal()) run.out.Progress("\r\x1b[K");
  return status;
}

// For kind bloom: values cannot leave a filter, and only a new filter is empty.
Status ClearFilter(Invocation& run, const v1::DescribeNamespaceResponse& space, Cleared* cleared) {
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  v1::DropNamespaceRequest drop;
  drop.set_name(space.namespace_().name());
  v1::DropNamespaceResponse dropped;
  TP_RETURN_IF_ERROR((*channel)->Call<v1::Namespaces>(&v1::Namespaces::Stub::Drop, drop, &dropped));
  v1::CreateNamespaceRequest create;
  create.set_name(space.namespace_().name());
  create.set_kind(space.namespace_().kind());
  *create.mutable_options() = space.namespace_().options();
  v1::CreateNamespaceResponse created;
  TP_RETURN_IF_ERROR(
      (*channel)->Call<v1::Namespaces>(&v1::Namespaces::Stub::Create, create, &created));
  cleared->records = space.records();
  return OkStatus();
}

}  // namespace

Status ClearNamespace(Invocation& run) {
  const Result<Channel*> channel = run.Connect();
  if (!channel.ok()) return channel.status();
  v1::DescribeNamespaceRequest request;
  request.set_name(run.args.Text("NAMESPACE"));
  v1::DescribeNamespaceResponse space;
  TP_RETURN_IF_ERROR(
      (*channel)->Call<v1::Namespaces>(&v1::Namespaces::Stub::Describe, request, &space));
  const v1::Kind kind = space.namespace_().kind();
  const bool is_queue = kind == v1::KIND_QUEUE || kind == v1::KIND_PRIORITY;
  Cleared cleared;
  const Status status = kind == v1::KIND_BLOOM ? ClearFilter(run, space, &cleared)
                        : is_queue             ? ClearItems(run, space, &cleared)
                                               : ClearRecords(run, space, &cleared);
  const std::string what = is_queue ? " items" : kind == v1::KIND_BLOOM ? " values" : " records";
  if (!status.ok()) {
    if (cleared.records == 0) return status;
    return Status(status.code(),
                  std::to_string(cleared.records) + what +
                      " were removed, then: " + std::string(status.what()),
                  "clear it again; " + std::string(status.remedy()));
  }
  if (cleared.leased > 0) {
    run.out.Note(std::to_string(cleared.leased) +
                 " items are leased: each stays until its holder has acked it");
  }
  run.out.Result(
      {{"name", request.name()}, {"removed", cleared.records}, {"leased", cleared.leased}},
      "cleared " + request.name() + ": " + std::to_string(cleared.records) + what);
  return OkStatus();
}

}  // namespace tidepool::cli
