#include "client/direct/remote_reader.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "client/direct/remote_lookup.h"
#include "proto/base/limits.h"
#include "proto/base/split_block.h"

namespace tidepool::internal {
namespace {

constexpr std::uint64_t kRemoteSplitBlocksMax = limits::kFilterBytesMax / kSplitBlockBytes;
constexpr int kBlockShiftMin = 12;
constexpr int kBlockShiftMax = 30;
// Bound on known segments; beyond it all are forgotten. 4 M segments of 2 MiB are 8 TiB.
constexpr std::size_t kSegmentsKnownMax = 1u << 22;

}  // namespace

RemoteReader::RemoteReader(std::unique_ptr<transport::MemoryImporter> importer, const Clock& clock)
    : importer_(std::move(importer)), clock_(clock) {}

RemoteReader::~RemoteReader() = default;

RemotePartition* RemoteReader::Open(const storage::DirectView& view) {
  if (view.block_shift < kBlockShiftMin || view.block_shift > kBlockShiftMax ||
      view.split_blocks > kRemoteSplitBlocksMax) {
    return nullptr;
  }
  auto partition = std::make_unique<RemotePartition>();
  partition->view_ = view;
  partition->places_ = storage::BucketPlaces(1ull << view.block_shift);
  auto& core = cores_[view.core_root];
  if (core == nullptr) core = std::make_unique<RemoteCore>();
  partition->core_ = core.get();
  partitions_.push_back(std::move(partition));
  return partitions_.back().get();
}

void RemoteReader::Read(std::span<Item> items) {
  const std::uint64_t until_ns = clock_.MonotonicNs() + kReadNs;
  std::array<std::optional<RemoteLookup>, kItemsMax> lookups;
  const MutableBytes buffer = importer_->buffer();
  const std::size_t slice = buffer.size() / items.size() / 64 * 64;
  for (std::size_t i = 0; i < items.size(); ++i) {
    items[i].read = {};
    if (broken_) continue;
    const storage::DirectView& view = items[i].partition->view();
    if ((view.flags & storage::DirectView::kMayLeave) != 0 && view.split_blocks == 0 &&
        --until_sample_ == 0) {
      until_sample_ = DirectReader::kSampleEvery;
      items[i].read.refusal = DirectRefusal::kSampled;
      continue;
    }
    RemoteCore& core = *items[i].partition->core_;
    if (core.segments.size() > kSegmentsKnownMax) core.segments.clear();
    lookups[i].emplace(items[i], *importer_, buffer.subspan(i * slice, slice));
  }
  for (;;) {
    parts_.clear();
    for (auto& lookup : lookups) {
      if (lookup.has_value() && !lookup->Step(&parts_)) lookup.reset();
    }
    if (parts_.empty()) return;
    ++round_trips_;
    if (importer_->Read(parts_, until_ns)) continue;
    broken_ = true;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (!lookups[i].has_value()) continue;
      items[i].read = {};
      items[i].read.refusal = DirectRefusal::kNoLease;
    }
    return;
  }
}

}  // namespace tidepool::internal
