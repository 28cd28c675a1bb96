#include "daemon/core/reply_cache.h"

#include <utility>

#include "proto/base/check.h"
#include "proto/base/limits.h"

namespace tidepool::daemon {
namespace {
// Enough for the frames that one client has in flight; further frames are freed.
constexpr std::size_t kSpareFramesMax = 32;
}  // namespace

CachedReply* ReplyCache::Find(std::uint64_t frame_id) {
  const auto found = frames_.find(frame_id);
  return found == frames_.end() ? nullptr : found->second.get();
}

CachedReply& ReplyCache::Make(std::uint64_t frame_id, std::size_t groups) {
  TP_CHECK(frame_id >= ack_watermark_);
  std::unique_ptr<CachedReply> frame;
  if (spare_.empty()) {
    frame = std::make_unique<CachedReply>();
  } else {
    frame = std::move(spare_.back());
    spare_.pop_back();
  }
  frame->fates.assign(groups, GroupFate::kUnseen);
  frame->value_bytes = 0;
  frame->commit_position = 0;
  frame->copy_waits.clear();
  const auto [at, added] = frames_.emplace(frame_id, std::move(frame));
  TP_CHECK(added);
  return *at->second;
}

void ReplyCache::Add(CachedReply* frame, const wire::Answer& answer, std::uint16_t group,
                     std::shared_ptr<const storage::ValueReader> taken) {
  std::vector<std::byte>& values = frame->values;
  frame->entries.push_back({answer, group, static_cast<std::uint32_t>(values.size()),
                            static_cast<std::uint32_t>(answer.value.size()), std::move(taken)});
  frame->entries.back().answer.value = {};
  values.insert(values.end(), answer.value.begin(), answer.value.end());
  frame->value_bytes += answer.value.size();
  CountValues(answer.value.size());
  ++entries_;
  if (total_bytes_ != nullptr) *total_bytes_ += sizeof(CachedReply::Entry);
}

void ReplyCache::AddFailure(CachedReply* frame, const wire::Answer& answer, std::uint16_t group) {
  Add(frame, answer, group, nullptr);
  frame->value_bytes += limits::kCachedFailureBytes;
  CountValues(limits::kCachedFailureBytes);
}

void ReplyCache::Uncount(const CachedReply& frame) {
  value_bytes_ -= frame.value_bytes;
  entries_ -= frame.entries.size();
  if (total_bytes_ == nullptr) return;
  *total_bytes_ -= frame.value_bytes + frame.entries.size() * sizeof(CachedReply::Entry);
}

void ReplyCache::ReleaseBelow(std::uint64_t below) {
  if (below <= ack_watermark_) return;
  // Ids are dense, so walking them costs one look-up per finished frame. For a client that jumps
  // far ahead, one pass over the cached frames is cheaper.
  if (below - ack_watermark_ > frames_.size()) {
    for (auto at = frames_.begin(); at != frames_.end();) {
      if (at->first < below) {
        Uncount(*at->second);
        frames_.erase(at++);
      } else {
        ++at;
      }
    }
  } else {
    for (std::uint64_t id = ack_watermark_; id < below; ++id) {
      const auto found = frames_.find(id);
      if (found == frames_.end()) continue;
      Uncount(*found->second);
      if (spare_.size() < kSpareFramesMax &&
          found->second->values.capacity() <= limits::kReplyCacheWarmBytes) {
        found->second->entries.clear();  // Now: they may pin large values.
        found->second->values.clear();
        spare_.push_back(std::move(found->second));
      }
      frames_.erase(found);
    }
  }
  ack_watermark_ = below;
}

}  // namespace tidepool::daemon
