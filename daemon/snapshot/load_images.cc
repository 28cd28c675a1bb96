#include "daemon/snapshot/load_images.h"

#include <fcntl.h>
#include <grpcpp/client_context.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "daemon/call_bounds.h"
#include "daemon/listed_record.h"
#include "daemon/services/call_deadline.h"
#include "daemon/services/operation_convert.h"
#include "daemon/snapshot/image_format.h"
#include "proto/cluster_file/file_io.h"
#include "proto/convert/grpc_status.h"
#include "proto/manifest/content_hash.h"
#include "tidepool/v1/bulk.grpc.pb.h"

namespace tidepool::daemon::snapshot {
namespace {

constexpr std::size_t kBatchBytes = 1024 * 1024;
constexpr std::uint64_t kReportNs = 200'000'000;

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
  // What fails is told at the end.
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

class Loader {
 public:
  Loader(RequestRouter* router, const placement::Namespace& space,
         const v1::LoadImagesRequest& request, const Report& report)
      : router_(*router), space_(space), request_(request), report_(report) {}

  Status Run() {
    const placement::PlacementMapPtr map = router_.context().map();
    const placement::Node* self = map->FindNode(router_.context().self());
    if (self == nullptr) return Status(StatusCode::kUnavailable, "this node is not in the map");
    self_ = router_.context().channel(*self);
    for (const v1::ImageFile& file : request_.files()) {
      if (const Status status = LoadOne(file); !status.ok()) {
        return Status(status.code(), "'" + file.name() + "': " + std::string(status.what()),
                      std::string(status.remedy()));
      }
    }
    progress_.set_done(true);
    return Tell();
  }

 private:
  Status LoadOne(const v1::ImageFile& image) {
    const std::string path = request_.directory() + "/" + image.name();
    if (image.name().find('/') != std::string::npos) {
      return Status(StatusCode::kInvalidArgument, "this is no name of a file");
    }
    const cluster_file::Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!file.is_open()) {
      if (errno != ENOENT) return cluster_file::FileReadError("read", path, errno);
      return Status(StatusCode::kFailedPrecondition, "it is not to be seen from here",
                    "use a directory of a file system that all nodes share");
    }
    taken_at_ms_ = image.taken_at_ms();
    ImageDecoder decoder;
    manifest::ContentHash hash;
    // Room for the longest item and as much again: what is left of one piece begins the next.
    std::vector<std::byte> room(2 * kItemBytesMax);
    std::size_t held = 0;
    std::uint64_t bytes = 0;
    for (;;) {
      const ssize_t got = read(file.get(), room.data() + held, room.size() - held);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return cluster_file::FileReadError("read", path, errno);
      if (got == 0) break;
      const auto size = static_cast<std::size_t>(got);
      bytes += size;
      if (bytes > image.bytes()) break;
      hash.Add(Bytes(room).subspan(held, size));
      progress_.set_bytes_done(progress_.bytes_done() + size);
      Bytes rest = Bytes(room).first(held + size);
      TP_RETURN_IF_ERROR(Obey(&decoder, &rest));
      held = rest.size();
      std::copy(rest.begin(), rest.end(), room.begin());
      const std::uint64_t now_ns = Clock::Real().MonotonicNs();
      if (now_ns - told_ns_ >= kReportNs) TP_RETURN_IF_ERROR(Tell());
    }
    if (bytes != image.bytes() || !decoder.ended() || held != 0) {
      return Status(StatusCode::kDataLoss, "it has not the size that the manifest says");
    }
    if (hash.Finish().Hex() != image.hash()) return Damaged();
    progress_.set_entries_done(progress_.entries_done() + decoder.items());
    *progress_.mutable_file() = image;
    return Tell();
  }

  static Status Damaged() {
    return Status(StatusCode::kDataLoss,
                  "its content is not what was written: the checksum differs",
                  "restore another snapshot");
  }

  // All whole items. They are views of the room, so they are put before it is used again.
  Status Obey(ImageDecoder* decoder, Bytes* rest) {
    for (;;) {
      ImageItem item;
      const Result<bool> taken = decoder->Next(rest, &item);
      if (!taken.ok()) return taken.status();
      if (!*taken) return Flush();
      TP_RETURN_IF_ERROR(ObeyOne(item));
    }
  }

  Status ObeyOne(const ImageItem& item) {
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
    }
    return OkStatus();
  }

  // What was left of it; 0: for ever. None: its time had come.
  std::optional<std::uint64_t> TtlOf(const ImageItem& item) const {
    if (item.expiry_ms == 0) return 0;
    if (item.expiry_ms <= taken_at_ms_) return std::nullopt;
    return item.expiry_ms - taken_at_ms_;
  }

  Status Put(const ImageItem& item) {
    const std::optional<std::uint64_t> ttl_ms = TtlOf(item);
    if (!ttl_ms.has_value()) return Delete(item.key);
    wire::Operation put;
    put.opcode = wire::Opcode::kPut;
    put.key = item.key;
    put.value = item.value;
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
    return batch_.size() < kCallOperationsMax && batch_bytes_ < kBatchBytes ? OkStatus() : Flush();
  }

  Status Flush() {
    if (batch_.empty()) return OkStatus();
    const auto outcomes = router_.Execute(space_.name, batch_, 0, StepDeadline());
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
    return OkStatus();
  }

  Status BeginLarge(const ImageItem& item) {
    const std::optional<std::uint64_t> ttl_ms = TtlOf(item);
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

  Status Tell() {
    told_ns_ = Clock::Real().MonotonicNs();
    const bool go_on = report_(progress_);
    progress_.clear_file();
    return go_on ? OkStatus() : Status(StatusCode::kCancelled, "the caller went away");
  }

  RequestRouter& router_;
  const placement::Namespace& space_;
  const v1::LoadImagesRequest& request_;
  const Report& report_;
  std::shared_ptr<grpc::Channel> self_;
  v1::ImagesProgress progress_;
  std::uint64_t told_ns_ = 0;
  std::uint64_t taken_at_ms_ = 0;  // Of the present file.
  std::vector<wire::Operation> batch_;
  std::size_t batch_bytes_ = 0;
  std::unique_ptr<LargePut> large_;
};

}  // namespace

Status LoadImages(RequestRouter* router, const placement::Namespace& space,
                  const v1::LoadImagesRequest& request, const Report& report) {
  return Loader(router, space, request, report).Run();
}

}  // namespace tidepool::daemon::snapshot
