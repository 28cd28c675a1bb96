// Sizes of prefilters, and the replacement of a filter.
#include "storage/prefilter.h"

#include <algorithm>
#include <utility>

#include "proto/base/check.h"

namespace tidepool::storage {
namespace {

// Below this count a rebuild costs as much as its gain.
constexpr std::uint64_t kRemovedMin = 1024;

// Background slices that pass before memory that was refused is asked for again.
constexpr std::uint32_t kSlicesAfterRefusal = 4096;

constexpr FilterShape kSmallest{limits::kFilterBytesMin / kSplitBlockBytes};

// Shape for this many keys, or for fewer where memory is short.
Result<std::unique_ptr<BlockFilter>> MakeFirst(const PrefilterOptions& options,
                                               CoreMemory& memory) {
  FilterShape shape =
      ShapeOfFilter(std::max<std::uint64_t>(options.expected_keys, 1), options.false_positive_rate)
          .value_or(kSmallest);
  for (;;) {
    auto filter = BlockFilter::Create(shape, memory);
    if (filter.ok() || shape == kSmallest) return filter;
    std::uint64_t bytes = shape.bytes() / 2;
    if (bytes > limits::kFilterBlockBytes) bytes -= bytes % limits::kFilterBlockBytes;
    shape.split_blocks = bytes / kSplitBlockBytes;
  }
}

}  // namespace

Result<std::unique_ptr<AbsentFilter>> AbsentFilter::Create(const PrefilterOptions& options,
                                                           CoreMemory& memory) {
  std::unique_ptr<AbsentFilter> made(new AbsentFilter(options, memory));
  auto first = MakeFirst(options, memory);
  if (!first.ok()) return first.status();
  made->filter_ = *std::move(first);
  made->SetDue();
  return made;
}

void AbsentFilter::SetDue() {
  const FilterShape shape = filter_->shape();
  bits_due_ = BitsSetBy(shape, ItemsAtRate(shape, options_.false_positive_rate));
}

bool AbsentFilter::BeginRebuild(std::uint64_t keys) {
  TP_DCHECK(!rebuilding());
  const bool full = filter_->bits_set() >= bits_due_;
  const bool stale = removed_ >= std::max(keys, kRemovedMin);
  if ((!full && !stale) || replaced_ != nullptr) return false;
  if (slices_to_wait_ != 0) {
    --slices_to_wait_;
    return false;
  }
  const auto shape = ShapeOfFilter(std::max({options_.expected_keys, 2 * keys, std::uint64_t{1}}),
                                   options_.false_positive_rate);
  if (shape.ok()) {
    if (auto next = BlockFilter::Create(*shape, memory_); next.ok()) {
      next_ = *std::move(next);
      walk_bucket_ = 0;
      removed_before_ = removed_;
      return true;
    }
  }
  slices_to_wait_ = kSlicesAfterRefusal;
  return false;
}

void AbsentFilter::FinishRebuild() {
  TP_CHECK(rebuilding());
  replaced_ = std::exchange(filter_, std::move(next_));
  removed_ -= removed_before_;
  ++generation_;
  SetDue();
}

bool AbsentFilter::FreeReplaced(absl::FunctionRef<bool()> done) {
  if (replaced_ == nullptr) return false;
  if (replaced_->FreeSlice(done)) return true;
  replaced_.reset();
  return false;
}

bool AbsentFilter::FreeSlice(absl::FunctionRef<bool()> done) {
  for (auto* filter : {&replaced_, &next_, &filter_}) {
    if (*filter != nullptr && (*filter)->FreeSlice(done)) return true;
  }
  return false;
}

std::uint64_t AbsentFilter::allocated_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto* filter : {&replaced_, &next_, &filter_}) {
    if (*filter != nullptr) bytes += (*filter)->allocated_bytes();
  }
  return bytes;
}

PrefilterUsage AbsentFilter::usage() const {
  return {allocated_bytes(), filter_->bits_set(), filter_->EstimatedItems(),
          filter_->EstimatedFalsePositiveRate(), generation_};
}

void AbsentFilter::CheckInvariants() const {
  // A dropped partition's filters are being freed.
  for (const auto* filter : {&next_, &filter_}) {
    if (*filter != nullptr && (*filter)->allocated_bytes() == (*filter)->shape().bytes()) {
      (*filter)->CheckInvariants();
    }
  }
}

Result<std::unique_ptr<AdmissionFilter>> AdmissionFilter::Create(const PrefilterOptions& options,
                                                                 CoreMemory& memory) {
  std::unique_ptr<AdmissionFilter> made(new AdmissionFilter(options, memory));
  auto first = MakeFirst(options, memory);
  if (!first.ok()) return first.status();
  made->layers_.push_back(*std::move(first));
  made->SetDue();
  return made;
}

void AdmissionFilter::SetDue() {
  const FilterShape shape = layers_.back()->shape();
  bits_due_ = BitsSetBy(shape, ItemsAtRate(shape, rate_));
}

bool AdmissionFilter::Sight(std::uint64_t hash) {
  for (std::size_t i = 0; i + 1 < layers_.size(); ++i) {
    if (layers_[i]->Contains(hash)) return true;
  }
  return !layers_.back()->InsertAndTell(hash);
}

void AdmissionFilter::GrowIfDue() {
  const BlockFilter& last = *layers_.back();
  if (last.bits_set() < bits_due_) return;
  if (slices_to_wait_ != 0) {
    --slices_to_wait_;
    return;
  }
  const double rate = std::max(rate_ / 2, limits::kFilterRateMin);
  const auto shape =
      ShapeOfFilter(static_cast<std::uint64_t>(2 * ItemsAtRate(last.shape(), rate_)), rate);
  if (shape.ok()) {
    if (auto layer = BlockFilter::Create(*shape, memory_); layer.ok()) {
      layers_.push_back(*std::move(layer));
      rate_ = rate;
      SetDue();
      return;
    }
  }
  slices_to_wait_ = kSlicesAfterRefusal;
}

bool AdmissionFilter::GrowSlice(absl::FunctionRef<bool()> done) {
  GrowIfDue();
  return layers_.back()->TouchSlice(done);
}

bool AdmissionFilter::FreeSlice(absl::FunctionRef<bool()> done) {
  for (const auto& layer : layers_) {
    if (layer->FreeSlice(done)) return true;
  }
  return false;
}

std::uint64_t AdmissionFilter::allocated_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& layer : layers_) bytes += layer->allocated_bytes();
  return bytes;
}

PrefilterUsage AdmissionFilter::usage() const {
  PrefilterUsage usage;
  usage.bytes = allocated_bytes();
  double known_by_none = 1;
  for (const auto& layer : layers_) {
    usage.bits_set += layer->bits_set();
    usage.keys += layer->EstimatedItems();
    known_by_none *= 1 - layer->EstimatedFalsePositiveRate();
  }
  usage.false_positive_rate = 1 - known_by_none;
  usage.generation = layers_.size() - 1;
  return usage;
}

void AdmissionFilter::CheckInvariants() const {
  TP_CHECK(!layers_.empty());
  for (const auto& layer : layers_) {
    if (layer->allocated_bytes() == layer->shape().bytes()) layer->CheckInvariants();
  }
}

}  // namespace tidepool::storage
