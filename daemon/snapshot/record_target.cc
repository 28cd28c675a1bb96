// The records of an image, put wherever their keys belong now.
//
//   image_target -> [record_target] -> routing/request_router, Bulk.WriteValue
#include <grpcpp/client_context.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/core/call_bounds.h"
#include "daemon/ops/listed_record.h"
#include "daemon/routing/call_deadline.h"
#include "daemon/routing/operation_convert.h"
#include "daemon/snapshot/image_target.h"
#include "proto/convert/grpc_status.h"
#include "proto/convert/staged_keys.h"
#include "proto/manifest/entry.h"
#include "tidepool/v1/bulk.grpc.pb.h"

namespace tidepool::daemon::snapshot {
namespace {

constexpr std::size_t kRecordBatchBytes = 1024 * 1024;

// Returns a staged file's entry without the version of its record. A restored record gets another
// version, so stage-out then compares the content's hash. Returns no value for all other records.
std::optional<std::string> EntryWithoutVersion(const ImageItem& item) {
  if (!AsText(item.key).starts_with(convert::kManifestPrefix)) return std::nullopt;
  Result<manifest::Entry> entry = manifest::DecodeEntry(item.value);
  if (!entry.ok()) return std::nullopt;
  entry->data_version = 0;
  return manifest::EncodeEntry(*entry);
}

// A value that is put in parts, through the gRPC service of this node: it knows every owner.
class LargePut {
 public:
  LargePut(const RequestRouter& router, const std::shared_ptr<grpc::Channel>& self,
           const v1::WriteValueRequest& start)
      : key_(start.start().key()), stub_(v1::Bulk::NewStub(self)) {
    router.context().authorize(call_);
    writer_ = stub_->WriteValue(&call_, &response_);
    open_ = writer_->Write(start);
  }
  ~LargePut() {
    if (finished_) return;
    call_.TryCancel();
    (void)writer_->Finish();
  }
  LargePut(const LargePut&) = delete;
  LargePut& operator=(const LargePut&) = delete;

  const std::string& key() const { return key_; }
  // Failures are reported at the end.
  void Add(Bytes part) {
    for (std::size_t at = 0; open_ && at < part.size();) {
      const Bytes piece = part.subspan(at, std::min(part.size() - at, kCallValueBytesMax));
      v1::WriteValueRequest message;
      message.set_data(piece.data(), piece.size());
      open_ = writer_->Write(message);
      at += piece.size();
    }
  }
  Status Finish() {
    writer_->WritesDone();
    finished_ = true;
    return convert::FromGrpc(writer_->Finish(), "this node");
  }

 private:
  const std::string key_;
  grpc::ClientContext call_;
  std::unique_ptr<v1::Bulk::Stub> stub_;
  v1::WriteValueResponse response_;
  std::unique_ptr<grpc::ClientWriter<v1::WriteValueRequest>> writer_;
  bool open_ = false;
  bool finished_ = false;
};

class RecordTarget final : public ImageTarget {
 public:
  RecordTarget(RequestRouter* router, const placement::Namespace& space,
               std::shared_ptr<grpc::Channel> self)
      : router_(*router), space_(space), self_(std::move(self)) {}

  Status Begin(const v1::ImageFile& file) override {
    taken_at_ms_ = file.taken_at_ms();
    return OkStatus();
  }

  Status Obey(const ImageItem& item) override {
    using Kind = ImageItem::Kind;
    switch (item.kind) {
      case Kind::kPut:
        return Put(item);
      case Kind::kDelete:
        return Delete(item.key);
      case Kind::kLargeBegin:
        return BeginLarge(item);
      case Kind::kLargePart:
        if (large_ != nullptr) large_->Add(item.value);
        break;
      case Kind::kLargeDrop:
        large_.reset();
        break;
      case Kind::kLargeEnd:
        if (large_ == nullptr) break;
        TP_RETURN_IF_ERROR(Flush());
        TP_RETURN_IF_ERROR(large_->Finish());
        large_.reset();
        break;
      case Kind::kEnd:
        break;
      case Kind::kBlock:
      case Kind::kInsert:
        return Status(StatusCode::kDataLoss, "an item of it is none of this kind of namespace");
    }
    return OkStatus();
  }

  Status Flush() override {
    if (batch_.empty()) return OkStatus();
    const auto outcomes = router_.Execute(space_.name, batch_, 0, RoomDeadline());
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      // A key that is not there is gone.
      if (outcomes[i].code == StatusCode::kNotFound && batch_[i].opcode == wire::Opcode::kDelete &&
          outcomes[i].value.empty()) {
        continue;
      }
      TP_RETURN_IF_ERROR(StatusOf(outcomes[i], space_.name, AsText(batch_[i].key)));
    }
    batch_.clear();
    batch_bytes_ = 0;
    entries_.clear();
    return OkStatus();
  }

 private:
  Status Put(const ImageItem& item) {
    const std::optional<std::uint64_t> ttl_ms = TtlOf(item, taken_at_ms_);
    if (!ttl_ms.has_value()) return Delete(item.key);
    wire::Operation put;
    put.opcode = wire::Opcode::kPut;
    put.key = item.key;
    put.value = item.value;
    if (std::optional<std::string> entry = EntryWithoutVersion(item); entry.has_value()) {
      entries_.push_back(*std::move(entry));
      put.value = AsBytes(entries_.back());
    }
    put.value_kind = ValueKindOf(item.value_flags);
    put.set(wire::Argument::kTtlMs, *ttl_ms);
    return Add(put);
  }

  Status Delete(Bytes key) {
    wire::Operation remove;
    remove.opcode = wire::Opcode::kDelete;
    remove.key = key;
    return Add(remove);
  }

  Status Add(const wire::Operation& operation) {
    batch_.push_back(operation);
    batch_bytes_ += operation.key.size() + operation.value.size();
    return batch_.size() < kCallOperationsMax && batch_bytes_ < kRecordBatchBytes ? OkStatus()
                                                                                  : Flush();
  }

  Status BeginLarge(const ImageItem& item) {
    const std::optional<std::uint64_t> ttl_ms = TtlOf(item, taken_at_ms_);
    if (!ttl_ms.has_value()) return Delete(item.key);
    v1::WriteValueRequest message;
    v1::WriteValueRequest::Start* start = message.mutable_start();
    start->set_namespace_(space_.name);
    start->set_key(std::string(AsText(item.key)));
    start->set_total_bytes(item.number);
    start->set_ttl_ms(*ttl_ms);
    large_ = std::make_unique<LargePut>(router_, self_, message);
    return OkStatus();
  }

  RequestRouter& router_;
  const placement::Namespace& space_;
  const std::shared_ptr<grpc::Channel> self_;
  std::uint64_t taken_at_ms_ = 0;  // Time of the present file.
  std::vector<wire::Operation> batch_;
  std::size_t batch_bytes_ = 0;
  std::deque<std::string> entries_;  // Values of `batch_` that no item views.
  std::unique_ptr<LargePut> large_;
};

}  // namespace

Result<std::unique_ptr<ImageTarget>> MakeRecordTarget(RequestRouter* router,
                                                      const placement::Namespace& space) {
  const placement::PlacementMapPtr map = router->context().map();
  const placement::Node* self = map->FindNode(router->context().self());
  if (self == nullptr) return Status(StatusCode::kUnavailable, "this node is not in the map");
  return std::unique_ptr<ImageTarget>(
      new RecordTarget(router, space, router->context().channel(*self)));
}

}  // namespace tidepool::daemon::snapshot
