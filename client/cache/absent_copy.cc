#include "client/cache/absent_copy.h"

#include <new>
#include <span>
#include <string>
#include <utility>

#include "client/cache/filter_download.h"
#include "client/calls/calls.h"
#include "proto/base/clock.h"
#include "proto/base/split_block.h"
#include "proto/wire/prefilter_ops.h"

namespace tidepool::internal {
namespace {

using wire::Argument;
using wire::Opcode;

// Bound on restarts. A filter that doubles during the download has another generation; it does not
// double more often than this.
constexpr int kTriesMax = 8;

constexpr auto kRelaxed = std::memory_order_relaxed;

// A lane that other threads set bits in.
std::atomic_ref<std::uint32_t> Lane(std::uint32_t& lane) { return std::atomic_ref(lane); }

Result<wire::PrefilterSummary> Describe(const Space& space, std::uint32_t partition,
                                        std::chrono::milliseconds timeout) {
  const CallRef call =
      StartAt(space, partition, Opcode::kPrefilterDescribe, {}, Mode::kSync, timeout);
  const Operation& operation = call.get()->operations()[0];
  if (operation.code != StatusCode::kOk) return call.get()->StatusOf(operation);
  return wire::LoadPrefilterSummary(AsBytes(operation.result));
}

// Returns: kOk; kAborted (another filter has taken its place), and as operations may end.
Status DownloadPartition(const Space& space, std::uint32_t partition,
                         std::chrono::milliseconds timeout, std::vector<std::uint32_t>* lanes) {
  const auto summary = Describe(space, partition, timeout);
  if (!summary.ok()) return summary.status();
  try {
    lanes->assign(summary->shape.split_blocks * kSplitBlockLanes, 0);
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted,
                  "no memory for the prefilter of '" + space.state()->name + "'");
  }
  return DownloadFilter(space, partition,
                        {Opcode::kPrefilterRead, {{Argument::kOperand, summary->generation}}},
                        std::as_writable_bytes(std::span(*lanes)), timeout);
}

}  // namespace

AbsentCopy::Mark AbsentCopy::MarkOf(const Bits& bits, const Place& place, std::string_view key) {
  return {place.hash, place.partition, std::string(bits.ranges != nullptr ? key : "")};
}

void AbsentCopy::AddMark(const Mark& mark, Bits* bits) {
  bits->Add({bits->ranges != nullptr ? bits->ranges->IndexOf(AsBytes(mark.key)) : mark.partition,
             mark.hash});
}

AbsentCopy::Place AbsentCopy::Bits::PlaceOf(std::string_view key) const {
  const Bytes bytes = AsBytes(key);
  const std::uint64_t hash = KeyHash(bytes);
  if (ranges != nullptr) return {ranges->IndexOf(bytes), hash};
  return {placement::PartitionIndexOf(PlacementHash(bytes, hash),
                                      static_cast<std::uint32_t>(partitions.size())),
          hash};
}

bool AbsentCopy::Bits::Contains(const Place& place) const {
  const std::vector<std::uint32_t>& lanes = partitions[place.partition];
  const std::uint64_t count = lanes.size() / kSplitBlockLanes;
  if (count == 0) return false;
  // atomic_ref takes no const; nothing is written.
  auto* at =
      const_cast<std::uint32_t*>(lanes.data() + SplitBlockOf(place.hash, count) * kSplitBlockLanes);
  std::uint32_t missing = 0;
  for (int lane = 0; lane < kSplitBlockLanes; ++lane) {
    missing |= SplitBlockBit(place.hash, lane) & ~Lane(at[lane]).load(kRelaxed);
  }
  return missing == 0;
}

void AbsentCopy::Bits::Add(const Place& place) {
  std::vector<std::uint32_t>& lanes = partitions[place.partition];
  if (lanes.empty()) lanes.assign(kSplitBlockLanes, 0);
  const std::uint64_t count = lanes.size() / kSplitBlockLanes;
  std::uint32_t* at = lanes.data() + SplitBlockOf(place.hash, count) * kSplitBlockLanes;
  for (int lane = 0; lane < kSplitBlockLanes; ++lane) {
    Lane(at[lane]).fetch_or(SplitBlockBit(place.hash, lane), kRelaxed);
  }
}

// True if the copy is too old, and no request for another copy has failed just now.
bool AbsentCopy::MayRefresh(std::uint64_t begun_ns, std::uint64_t now_ns) const {
  const auto age_max_ns = static_cast<std::uint64_t>(use_.age_max.count()) * 1'000'000;
  return now_ns - begun_ns > age_max_ns && now_ns - failed_at_ns_.load(kRelaxed) > age_max_ns;
}

bool AbsentCopy::SurelyAbsent(const Space& space, std::string_view key,
                              std::chrono::milliseconds patience) {
  const bool ages = use_.age_max.count() > 0;
  const std::uint64_t now_ns = ages ? Clock::Real().MonotonicNs() : 0;
  for (bool refreshed = false;; refreshed = true) {
    {
      const std::shared_lock lock(mutex_);
      const bool is_young =
          !ages || now_ns <= bits_->begun_ns ||
          now_ns - bits_->begun_ns <= static_cast<std::uint64_t>(use_.age_max.count()) * 1'000'000;
      if (is_young) {
        if (bits_->Contains(bits_->PlaceOf(key))) return false;
        answered_.fetch_add(1, kRelaxed);
        return true;
      }
      if (refreshed || patience.count() <= 0 || !MayRefresh(bits_->begun_ns, now_ns)) return false;
    }
    if (refresher_ == std::this_thread::get_id()) return false;
    // One thread downloads. Other threads ask the owners meanwhile.
    const std::unique_lock refresh(refresh_mutex_, std::try_to_lock);
    if (!refresh.owns_lock() || !RefreshLocked(space, patience).ok()) return false;
  }
}

void AbsentCopy::NoteWrite(std::string_view key, bool streamed) {
  const std::shared_lock lock(mutex_);
  const Place place = bits_->PlaceOf(key);
  bits_->Add(place);
  if (!refreshing_ && !streamed) return;
  const std::lock_guard marks(marks_mutex_);
  if (refreshing_) marks_.push_back(MarkOf(*bits_, place, key));
  if (streamed) streamed_.emplace(place.hash, MarkOf(*bits_, place, key));
}

Status AbsentCopy::Refresh(const Space& space) {
  if (refresher_ == std::this_thread::get_id()) {
    return Status(StatusCode::kAborted, "this thread is downloading the prefilter already",
                  "refresh it outside of Future::Then");
  }
  const std::lock_guard refresh(refresh_mutex_);
  return RefreshLocked(space, {});
}

Status AbsentCopy::RefreshLocked(const Space& space, std::chrono::milliseconds patience) {
  refresher_ = std::this_thread::get_id();
  const Status status = Download(space, patience);
  refresher_ = std::thread::id();
  return status;
}

// Downloads all filters: per range of `fresh`, or per partition. `timeout()` is the time for each
// piece.
template <typename Timeout>
Status AbsentCopy::DownloadAll(const Space& space, const Timeout& timeout, Bits* fresh) {
  const std::uint32_t partitions =
      fresh->ranges != nullptr ? fresh->ranges->size() : space.state()->queues.size();
  fresh->begun_ns = Clock::Real().MonotonicNs();
  fresh->partitions.assign(partitions, {});
  Status status;
  for (std::uint32_t i = 0; i < partitions && status.ok(); ++i) {
    for (int tries = 1;; ++tries) {
      status = DownloadPartition(space, i, timeout(), &fresh->partitions[i]);
      if (status.code() != StatusCode::kAborted || tries == kTriesMax) break;
    }
  }
  return status;
}

Status AbsentCopy::Download(const Space& space, std::chrono::milliseconds patience) {
  using std::chrono::milliseconds;
  const auto until = std::chrono::steady_clock::now() + patience;
  // Time left for the next piece.
  const auto timeout = [&]() -> milliseconds {
    if (patience.count() == 0) return use_.timeout;
    const auto left = std::chrono::ceil<milliseconds>(until - std::chrono::steady_clock::now());
    const milliseconds at_most = use_.timeout.count() > 0 ? std::min(use_.timeout, left) : left;
    return std::max(at_most, milliseconds(1));
  };
  const bool ordered = space.state()->kind == placement::Kind::kOrdered;
  auto fresh = std::make_unique<Bits>();
  {
    const std::lock_guard lock(mutex_);
    refreshing_ = true;
    marks_.clear();
  }
  Status status;
  for (int tries = 1; tries <= kTriesMax; ++tries) {
    if (ordered) fresh->ranges = space.engine()->RangesOf(*space.state());
    status = DownloadAll(space, timeout, fresh.get());
    // A filter that was downloaded after a split lacks the keys that have left it. Whoever has
    // answered under the new term has made the client learn of the split before.
    if (!status.ok() || !ordered || fresh->ranges == space.engine()->RangesOf(*space.state()))
      break;
    status = Status(StatusCode::kAborted, "the ranges of '" + space.state()->name +
                                              "' were split again and again meanwhile");
  }
  const std::lock_guard lock(mutex_);
  refreshing_ = false;
  if (!status.ok()) {
    failed_at_ns_ = Clock::Real().MonotonicNs();
    return status;
  }
  for (const Mark& mark : marks_) AddMark(mark, fresh.get());
  for (const auto& [hash, mark] : streamed_) AddMark(mark, fresh.get());
  bits_ = std::move(fresh);
  refreshes_.fetch_add(1, kRelaxed);
  return status;
}

PrefilterStats AbsentCopy::stats() const {
  PrefilterStats stats;
  stats.answered = answered_.load(kRelaxed);
  stats.downloads = refreshes_.load(kRelaxed);
  const std::shared_lock lock(mutex_);
  if (bits_ == nullptr) return stats;
  for (const auto& lanes : bits_->partitions) stats.bytes += lanes.size() * sizeof(lanes[0]);
  stats.age =
      std::chrono::milliseconds((Clock::Real().MonotonicNs() - bits_->begun_ns) / 1'000'000);
  return stats;
}

}  // namespace tidepool::internal
