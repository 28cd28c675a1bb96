// The bits of a filter's image, set in the partition that they are of.
//
//   image_target -> [filter_target] -> storage/bloom_store (on the owner core)
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/core.h"
#include "daemon/routing/call_deadline.h"
#include "daemon/snapshot/image_target.h"
#include "storage/bloom_store.h"
#include "storage/partition.h"

namespace tidepool::daemon::snapshot {
namespace {

// Blocks, and inserts, of a task of some 100 us.
constexpr std::size_t kBlocksMax = 4;
constexpr std::size_t kInsertsMax = 1'024;

// Owned by a task that may outlive its caller.
struct Batch {
  struct Block {
    std::uint64_t number = 0;
    std::string bits;
  };
  std::vector<Block> blocks;
  std::vector<std::uint64_t> inserts;
  Status status;

  bool empty() const { return blocks.empty() && inserts.empty(); }
};

Status NotOfThisFilter() {
  return Status(StatusCode::kDataLoss, "an item of it fits no filter of these options");
}

void Apply(Core& at, PartitionId id, Term term, Batch* batch) {
  const Verdict verdict = at.dispatcher().ownership().Check(id, term);
  if (verdict.kind != Verdict::Kind::kRun || !at.lease().ValidAt(Clock::Real().MonotonicNs())) {
    batch->status = Status(StatusCode::kAborted, "its partition is not served here any more",
                           "run the same command again");
    return;
  }
  storage::BloomStore& store = verdict.partition->bloom();
  for (const Batch::Block& block : batch->blocks) {
    const storage::BlockFilter& filter = store.filter();
    if (block.number >= filter.block_count() || block.bits.size() != filter.block_bytes()) {
      batch->status = NotOfThisFilter();
      return;
    }
    store.UnionBlock(block.number, AsBytes(block.bits));
  }
  for (const std::uint64_t hash : batch->inserts) store.InsertAndTell(hash);
}

class FilterTarget final : public ImageTarget {
 public:
  FilterTarget(RequestRouter* router, const placement::Namespace& space)
      : router_(*router), space_(space) {}

  Status Begin(const v1::ImageFile& file) override {
    const Result<placement::PartitionPlace> place = PlaceOf(router_, space_, file);
    if (!place.ok()) return place.status();
    place_ = *place;
    index_ = file.partition();
    return OkStatus();
  }

  Status Obey(const ImageItem& item) override {
    switch (item.kind) {
      case ImageItem::Kind::kBlock:
        batch_->blocks.push_back({item.number, std::string(AsText(item.value))});
        break;
      case ImageItem::Kind::kInsert:
        batch_->inserts.push_back(item.number);
        break;
      case ImageItem::Kind::kEnd:
        break;
      default:
        return NotOfThisFilter();
    }
    const bool is_full =
        batch_->blocks.size() == kBlocksMax || batch_->inserts.size() == kInsertsMax;
    return is_full ? Flush() : OkStatus();
  }

  Status Flush() override {
    if (batch_->empty()) return OkStatus();
    const auto batch = std::exchange(batch_, std::make_shared<Batch>());
    TP_RETURN_IF_ERROR(router_.context().cores->Run(
        place_.core,
        [batch, id = PartitionId(space_.id, index_), term = place_.term](Core& at) {
          Apply(at, id, term, batch.get());
        },
        StepDeadline()));
    return batch->status;
  }

 private:
  RequestRouter& router_;
  const placement::Namespace& space_;
  placement::PartitionPlace place_;  // Place of the present file.
  std::uint32_t index_ = 0;
  std::shared_ptr<Batch> batch_ = std::make_shared<Batch>();
};

}  // namespace

std::unique_ptr<ImageTarget> MakeFilterTarget(RequestRouter* router,
                                              const placement::Namespace& space) {
  return std::make_unique<FilterTarget>(router, space);
}

}  // namespace tidepool::daemon::snapshot
