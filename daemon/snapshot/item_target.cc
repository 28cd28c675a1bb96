// The items of a queue's image, pushed in their order.
//
//   image_target -> [item_target] -> core_group, local_values
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/call_bounds.h"
#include "daemon/core/local_values.h"
#include "daemon/routing/call_deadline.h"
#include "daemon/snapshot/image_target.h"
#include "storage/queue_store.h"

namespace tidepool::daemon::snapshot {
namespace {

constexpr std::size_t kItemBatchBytes = 1024 * 1024;

Status StatusOfPush(const OperationOutcome& outcome) {
  if (outcome.code == StatusCode::kOk) return OkStatus();
  if (!outcome.value.empty()) return Status(outcome.code, outcome.value);
  if (outcome.code != StatusCode::kResourceExhausted) {
    return Status(outcome.code, "an item cannot be pushed");
  }
  return Status(outcome.code, "no memory for an item",
                "delete something, or start the daemons with more --memory");
}

// A removal comes after its item. So a first pass collects all removals, and their items are not
// pushed. Holds 8 bytes for each removal.
class ItemTarget final : public ImageTarget {
 public:
  ItemTarget(RequestRouter* router, const placement::Namespace& space)
      : router_(*router), space_(space) {}

  Status Begin(const v1::ImageFile& file) override {
    const Result<placement::PartitionPlace> place = PlaceOf(router_, space_, file);
    if (!place.ok()) return place.status();
    place_ = *place;
    index_ = file.partition();
    taken_at_ms_ = file.taken_at_ms();
    removed_.clear();
    is_sorted_ = false;
    return OkStatus();
  }

  bool looks_first() const override { return true; }
  Status Look(const ImageItem& item) override {
    TP_RETURN_IF_ERROR(CheckItem(item));
    if (item.kind == ImageItem::Kind::kDelete) {
      removed_.push_back(storage::ItemKey::Of(item.key).id());
    }
    return OkStatus();
  }

  Status Obey(const ImageItem& item) override {
    using Kind = ImageItem::Kind;
    // It may have another content than before.
    TP_RETURN_IF_ERROR(
        Look({.kind = item.kind == Kind::kDelete ? Kind::kPut : item.kind, .key = item.key}));
    switch (item.kind) {
      case Kind::kPut:
        return Push(item);
      case Kind::kLargeBegin:
        return BeginLarge(item);
      case Kind::kLargePart:
        if (!large_.has_value()) break;
        return large_->Write(std::string(AsText(item.value)), StepDeadline());
      case Kind::kLargeDrop:
        large_.reset();
        break;
      case Kind::kLargeEnd:
        return EndLarge();
      case Kind::kDelete:
      case Kind::kEnd:
      case Kind::kBlock:
      case Kind::kInsert:
        break;
    }
    return OkStatus();
  }

  Status Flush() override {
    if (batch_.empty()) return OkStatus();
    const auto outcomes = router_.context().cores->Execute(
        place_.core, PartitionId(space_.id, index_), place_.term, batch_, 0, RoomDeadline());
    if (!outcomes.ok()) return outcomes.status();
    for (const OperationOutcome& outcome : *outcomes) {
      TP_RETURN_IF_ERROR(StatusOfPush(outcome));
    }
    batch_.clear();
    batch_bytes_ = 0;
    return OkStatus();
  }

 private:
  std::size_t KeyBytes() const {
    return storage::ItemKey::Make(space_.kind == Kind::kPriority, 0, 0).size;
  }

  Status CheckItem(const ImageItem& item) const {
    using Kind = ImageItem::Kind;
    const bool has_key =
        item.kind == Kind::kPut || item.kind == Kind::kDelete || item.kind == Kind::kLargeBegin;
    const bool is_filters = item.kind == Kind::kBlock || item.kind == Kind::kInsert;
    if (!is_filters && (!has_key || item.key.size() == KeyBytes())) return OkStatus();
    return Status(StatusCode::kDataLoss, "an item of it is none of this kind of namespace");
  }

  // No value: the item is not to be pushed.
  std::optional<wire::Operation> PushOf(const ImageItem& item) {
    if (!std::exchange(is_sorted_, true)) std::sort(removed_.begin(), removed_.end());
    const storage::ItemKey key = storage::ItemKey::Of(item.key);
    const std::optional<std::uint64_t> ttl_ms = TtlOf(item, taken_at_ms_);
    const bool is_gone = std::binary_search(removed_.begin(), removed_.end(), key.id());
    if (is_gone || !ttl_ms.has_value()) return std::nullopt;
    wire::Operation push;
    push.opcode = wire::Opcode::kPush;
    push.set(wire::Argument::kTtlMs, *ttl_ms);
    if (space_.kind == Kind::kPriority) push.set(wire::Argument::kOperand, key.priority());
    return push;
  }

  Status Push(const ImageItem& item) {
    std::optional<wire::Operation> push = PushOf(item);
    if (!push.has_value()) return OkStatus();
    push->value = item.value;
    batch_.push_back(*push);
    batch_bytes_ += item.value.size();
    return batch_.size() < kCallOperationsMax && batch_bytes_ < kItemBatchBytes ? OkStatus()
                                                                                : Flush();
  }

  Status BeginLarge(const ImageItem& item) {
    const std::optional<wire::Operation> push = PushOf(item);
    if (!push.has_value()) return OkStatus();
    TP_RETURN_IF_ERROR(Flush());
    auto writer =
        LocalValueWriter::Begin(*router_.context().cores, place_.core, item.number, RoomDeadline());
    if (!writer.ok()) return writer.status();
    large_ = *std::move(writer);
    large_push_ = *push;
    return OkStatus();
  }

  Status EndLarge() {
    if (!large_.has_value()) return OkStatus();
    TP_RETURN_IF_ERROR(Flush());
    const auto outcome =
        large_->Put(PartitionId(space_.id, index_), place_.term, large_push_, RoomDeadline());
    large_.reset();
    return outcome.ok() ? StatusOfPush(*outcome) : outcome.status();
  }

  RequestRouter& router_;
  const placement::Namespace& space_;
  placement::PartitionPlace place_;  // Place of the present file.
  std::uint32_t index_ = 0;
  std::uint64_t taken_at_ms_ = 0;
  std::vector<std::uint64_t> removed_;  // Ids.
  bool is_sorted_ = false;
  std::vector<wire::Operation> batch_;
  std::size_t batch_bytes_ = 0;
  std::optional<LocalValueWriter> large_;
  wire::Operation large_push_;
};

}  // namespace

std::unique_ptr<ImageTarget> MakeItemTarget(RequestRouter* router,
                                            const placement::Namespace& space) {
  return std::make_unique<ItemTarget>(router, space);
}

}  // namespace tidepool::daemon::snapshot
