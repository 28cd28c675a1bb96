#include "cli/commands/data/client_store.h"

#include <utility>

#include "cli/commands/data/large_value.h"
#include "cli/commands/data/record_call.h"
#include "proto/manifest/keys.h"

namespace tidepool::cli {
namespace {

using stage::StagedRecord;

v1::Operation Make(v1::OperationKind kind, std::string key) {
  v1::Operation operation;
  operation.set_kind(kind);
  operation.set_key(std::move(key));
  return operation;
}

bool Changes(v1::OperationKind kind) {
  return kind == v1::OPERATION_KIND_PUT || kind == v1::OPERATION_KIND_DELETE;
}

bool IsAbsent(const v1::OperationStatus& status) {
  // With a text it is the namespace that is missing.
  return static_cast<StatusCode>(status.code()) == StatusCode::kNotFound &&
         status.message().empty();
}

}  // namespace

NodeId OwnerOf(const placement::Namespace& space, std::string_view key) {
  return space.partitions[space.IndexOf(AsBytes(key))].node;
}

void ClientStore::Execute(
    std::vector<Asked> asked,
    const std::function<void(Record&, const v1::Operation&, v1::OperationResult)>& take) {
  if (asked.empty()) return;
  std::vector<v1::Operation> operations;
  std::vector<v1::Operation> names;  // Names without values, for later steps.
  for (Asked& one : asked) {
    names.push_back(Make(one.operation.kind(), one.operation.key()));
    operations.push_back(std::move(one.operation));
  }
  auto results = ExecuteOn(channel_, space_->name, std::move(operations));
  if (!results.ok()) {
    for (Asked& one : asked) one.record->status = results.status();
    return;
  }
  for (std::size_t i = 0; i < asked.size(); ++i) {
    v1::OperationResult& result = (*results)[i];
    const Status status = StatusOf(result.status(), names[i], space_->name);
    if (!status.ok() && !IsAbsent(result.status())) {
      if (asked[i].record->status.ok()) asked[i].record->status = status;
      continue;
    }
    if (status.ok() && Changes(names[i].kind())) {
      counts_.Add(OwnerOf(*space_, names[i].key()));
    }
    take(*asked[i].record, names[i], std::move(result));
  }
}

void ClientStore::TakeEntry(Record& record, const v1::OperationResult& result) {
  std::string bytes = result.value();
  if (result.value_omitted()) {
    // The entry of a file of more than 60,000 parts.
    v1::ReadValueRequest request;
    request.set_namespace_(space_->name);
    request.set_key(manifest::ManifestKey(record.key));
    const Status read = ReadLargeValue(
        channel_, request, [&](const v1::ReadValueResponse& part) { bytes.append(part.data()); });
    if (!read.ok()) {
      record.status = read;
      return;
    }
  }
  auto entry = manifest::DecodeEntry(AsBytes(bytes));
  record.has_entry = entry.ok();  // An entry of another version counts as absent.
  if (entry.ok()) record.entry = *std::move(entry);
}

void ClientStore::LookUp(std::vector<StagedRecord>* records, std::size_t data_bytes_max) {
  std::vector<Asked> asked;
  const auto look = data_bytes_max == 0 ? v1::OPERATION_KIND_CONTAINS : v1::OPERATION_KIND_GET;
  for (StagedRecord& record : *records) {
    if (!record.status.ok()) continue;
    asked.push_back({&record, Make(look, record.key)});
    asked.push_back({&record, Make(v1::OPERATION_KIND_GET, manifest::ManifestKey(record.key))});
  }
  Execute(std::move(asked),
          [&](Record& record, const v1::Operation& operation, v1::OperationResult result) {
            const bool found = !IsAbsent(result.status());
            if (operation.key() != record.key) {
              if (found) TakeEntry(record, result);
              return;
            }
            record.has_data = found;
            if (!found) return;
            record.data_version = Lsn(result.version());
            record.data_bytes = result.value_bytes();
            if (result.value_bytes() <= data_bytes_max) {
              record.data = std::move(*result.mutable_value());
            }
          });
  if (data_bytes_max > 0) return;
  for (StagedRecord& record : *records) {
    if (record.status.ok() && stage::IsUnchanged(record))
      record.data_bytes = stage::StoredBytes(record);
  }
}

void ClientStore::Put(std::vector<StagedRecord>* records) {
  std::vector<Asked> contents;
  for (StagedRecord& record : *records) {
    if (!record.status.ok()) continue;
    if (record.delete_data) {
      Asked removal{&record, Make(v1::OPERATION_KIND_DELETE, record.key)};
      if (record.delete_entry) removal.operation.set_version(record.data_version.value());
      contents.push_back(std::move(removal));
      record.data_version = Lsn();
    }
    if (record.put_data) {
      Asked put{&record, Make(v1::OPERATION_KIND_PUT, record.key)};
      put.operation.set_value(std::move(record.data));
      contents.push_back(std::move(put));
    }
  }
  Execute(std::move(contents),
          [](Record& record, const v1::Operation& operation, const v1::OperationResult& result) {
            if (operation.kind() != v1::OPERATION_KIND_PUT) return;
            record.data_version = Lsn(result.version());
          });
  // Behind the content: an entry names the version that it describes.
  std::vector<Asked> entries;
  for (StagedRecord& record : *records) {
    if (!record.status.ok()) continue;
    if (record.delete_entry) {
      entries.push_back(
          {&record, Make(v1::OPERATION_KIND_DELETE, manifest::ManifestKey(record.key))});
    }
    if (!record.put_entry) continue;
    record.entry.data_version = record.data_version.value();
    Asked put{&record, Make(v1::OPERATION_KIND_PUT, manifest::ManifestKey(record.key))};
    put.operation.set_value(manifest::EncodeEntry(record.entry));
    put.operation.set_ttl_ms(0);  // For ever, whatever the namespace's default.
    entries.push_back(std::move(put));
  }
  Execute(std::move(entries), [](Record&, const v1::Operation&, const v1::OperationResult&) {});
}

Result<Lsn> ClientStore::Write(const StagedRecord& record, std::uint64_t bytes, const Next& next) {
  v1::WriteValueRequest::Start start;
  start.set_namespace_(space_->name);
  start.set_key(record.key);
  start.set_total_bytes(bytes);
  // A piece is held back, because daemons store the value once all bytes are there, even if this
  // process ends at that moment. Only the last call of `next`, after the last piece, says if the
  // pieces are good.
  std::string held;
  std::string sent;
  bool ended = false;
  const auto advance = [&]() -> Status {
    auto piece = next();
    if (!piece.ok()) return piece.status();
    ended = piece->empty();
    held = *std::move(piece);
    return OkStatus();
  };
  TP_RETURN_IF_ERROR(advance());
  const auto written = WriteLargeValue(channel_, start, [&]() -> Result<std::string_view> {
    sent = std::exchange(held, {});
    if (!ended) TP_RETURN_IF_ERROR(advance());
    return std::string_view(sent);
  });
  if (!written.ok()) return written.status();
  counts_.Add(OwnerOf(*space_, record.key));
  return Lsn(written->version());
}

Status ClientStore::Read(const StagedRecord& record, const Take& take) {
  v1::ReadValueRequest request;
  request.set_namespace_(space_->name);
  request.set_key(record.key);
  Status taken;
  const Status read = ReadLargeValue(channel_, request, [&](const v1::ReadValueResponse& part) {
    if (part.version() != 0 && Lsn(part.version()) != record.data_version) {
      taken =
          Status(StatusCode::kAborted, "its value changed meanwhile", "run the same command again");
    }
    if (taken.ok()) taken = take(AsBytes(part.data()));
  });
  return taken.ok() ? read : taken;
}

}  // namespace tidepool::cli
