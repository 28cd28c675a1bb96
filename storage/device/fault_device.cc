#include "storage/device/fault_device.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "storage/device/device_errors.h"

namespace tidepool::storage {

class FaultQueue final : public DeviceQueue {
 public:
  FaultQueue(FaultDevice* device, unsigned depth)
      : device_(device), depth_(depth), life_(device->life_) {}
  ~FaultQueue() override {
    if (!is_live()) return;
    while (!submitted_.empty()) ExecuteOne();
    std::erase(device_->queues_, this);
  }

  unsigned depth() const override { return depth_; }
  unsigned in_flight() const override {
    return static_cast<unsigned>(waiting_.size() + submitted_.size() + completed_.size());
  }

  bool Start(const DeviceRequest& request) override {
    CheckLive();
    CheckRequest(request, device_->bytes());
    if (in_flight() == depth_) return false;
    waiting_.push_back({request, device_->reap_count_});
    return true;
  }

  bool Submit(unsigned count_max) override {
    CheckLive();
    const std::size_t count = std::min<std::size_t>(count_max, waiting_.size());
    const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(count);
    submitted_.insert(submitted_.end(), waiting_.begin(), end);
    waiting_.erase(waiting_.begin(), end);
    Progress();
    return !waiting_.empty();
  }

  unsigned Reap(absl::FunctionRef<void(const DeviceCompletion&)> done) override {
    CheckLive();
    Progress();
    std::vector<Completed> completed;
    completed.swap(completed_);
    // Some are seen only later.
    while (!completed.empty() && device_->Below(8) == 0) {
      completed_.push_back(std::move(completed.back()));
      completed.pop_back();
    }
    for (const Completed& each : completed) {
      ++device_->reap_count_;
      if (each.outcome.write != nullptr) each.outcome.write->reaped_at = device_->reap_count_;
      done({each.tag, each.outcome.error});
    }
    return static_cast<unsigned>(completed.size());
  }

  void Wait(std::uint64_t) override {
    Submit(depth_);
    if (completed_.empty() && !submitted_.empty()) ExecuteOne();
  }

  int descriptor() const override { return -1; }

  // Loses power: a submitted write may be there in part.
  void Die() {
    for (const Submitted& each : submitted_) {
      const DeviceOperation operation = each.request.operation;
      const bool is_write =
          operation == DeviceOperation::kWrite || operation == DeviceOperation::kWriteThrough;
      if (is_write) device_->AddAtRisk(each.request, /*partly=*/true);
    }
    waiting_.clear();
    submitted_.clear();
    completed_.clear();
  }

 private:
  struct Submitted {
    DeviceRequest request;
    std::uint64_t flush_covers = 0;
  };
  struct Completed {
    std::uint64_t tag = 0;
    FaultDevice::Outcome outcome;
  };

  bool is_live() const { return life_ == device_->life_; }
  void CheckLive() const { TP_CHECK(is_live()); }

  void Progress() {
    // Usually some requests, at times zero or all.
    std::uint64_t count = device_->Below(submitted_.size() + 1);
    if (device_->Below(4) == 0) count = device_->Below(2) * submitted_.size();
    for (; count > 0; --count) ExecuteOne();
  }

  void ExecuteOne() {
    const std::size_t index = device_->Below(submitted_.size());
    const Submitted chosen = submitted_[index];
    submitted_.erase(submitted_.begin() + static_cast<std::ptrdiff_t>(index));
    Completed completed{chosen.request.tag, device_->Execute(chosen.request, chosen.flush_covers)};
    const std::size_t at = device_->Below(completed_.size() + 1);
    completed_.insert(completed_.begin() + static_cast<std::ptrdiff_t>(at), std::move(completed));
  }

  FaultDevice* const device_;
  const unsigned depth_;
  const std::uint64_t life_;
  std::vector<Submitted> waiting_;
  std::vector<Submitted> submitted_;
  std::vector<Completed> completed_;
};

FaultDevice::FaultDevice(std::uint64_t bytes, std::uint64_t seed)
    : random_(seed), current_(bytes), durable_(bytes) {
  TP_CHECK(bytes > 0);
  TP_CHECK(bytes % kDeviceBlockBytes == 0);
}

FaultDevice::~FaultDevice() { TP_CHECK(queues_.empty()); }

Result<std::unique_ptr<DeviceQueue>> FaultDevice::OpenQueue(unsigned depth) {
  TP_CHECK(depth >= 1);
  TP_RETURN_IF_ERROR(open_status_);
  auto queue = std::make_unique<FaultQueue>(this, depth);
  queues_.push_back(queue.get());
  return std::unique_ptr<DeviceQueue>(std::move(queue));
}

FaultDevice::Outcome FaultDevice::Execute(const DeviceRequest& request,
                                          std::uint64_t flush_covers) {
  const bool is_write = request.operation == DeviceOperation::kWrite ||
                        request.operation == DeviceOperation::kWriteThrough;
  if (writes_left_.has_value() && *writes_left_ == 0 && (is_write || refused_by_power_)) {
    // The first refused write was under way when the power failed; later writes never began.
    if (!refused_by_power_) AddAtRisk(request, /*partly=*/true);
    refused_by_power_ = true;
    return {ENODEV, nullptr};
  }
  const FaultRule* rule = RuleFor(request);
  if (rule != nullptr) ++counters_.faults;
  const int error = rule != nullptr ? rule->error : 0;
  switch (request.operation) {
    case DeviceOperation::kRead:
      ++counters_.reads;
      counters_.bytes_read += request.bytes;
      std::memcpy(request.data, current_.data() + request.offset, request.bytes);
      if (rule != nullptr && error == 0) {
        request.data[Below(request.bytes)] ^= static_cast<std::byte>(1u << Below(8));
      }
      return {error, nullptr};
    case DeviceOperation::kFlush:
      ++counters_.flushes;
      Flush(flush_covers, error != 0);
      return {error, nullptr};
    default:
      return ExecuteWrite(request, error);
  }
}

FaultDevice::Outcome FaultDevice::ExecuteWrite(const DeviceRequest& request, int error) {
  const bool through = request.operation == DeviceOperation::kWriteThrough;
  ++(through ? counters_.write_throughs : counters_.writes);
  if (writes_left_.has_value()) --*writes_left_;
  if (error == ENOSPC) return {error, nullptr};
  if (error != 0) {
    AddAtRisk(request, /*partly=*/true)->unflushable = true;
    return {error, nullptr};
  }
  counters_.bytes_written += request.bytes;
  if (!through) return {0, AddAtRisk(request, /*partly=*/false)};
  MakeDurable(request.offset, request.data, request.bytes);
  return {0, nullptr};
}

// Stores data for good: no earlier write to these sectors can reappear.
void FaultDevice::MakeDurable(std::uint64_t offset, const std::byte* data, std::size_t bytes) {
  std::memcpy(current_.data() + offset, data, bytes);
  std::memcpy(durable_.data() + offset, data, bytes);
  at_risk_.erase(at_risk_.lower_bound(offset / kFaultSectorBytes),
                 at_risk_.lower_bound((offset + bytes) / kFaultSectorBytes));
}

// A write of which nothing is durable; `partly`: each sector may be missing from it.
FaultDevice::WritePtr FaultDevice::AddAtRisk(const DeviceRequest& request, bool partly) {
  auto write = std::make_shared<Write>();
  write->offset = request.offset;
  write->data.assign(request.data, request.data + request.bytes);
  for (std::uint64_t at = 0; at < request.bytes; at += kFaultSectorBytes) {
    if (partly && Below(2) == 0) continue;
    const std::uint64_t sector = (request.offset + at) / kFaultSectorBytes;
    at_risk_[sector].push_back(write);
    CopySector(sector, *write, &current_);
  }
  return write;
}

void FaultDevice::CopySector(std::uint64_t sector, const Write& from,
                             std::vector<std::byte>* to) const {
  const std::uint64_t at = sector * kFaultSectorBytes;
  std::memcpy(to->data() + at, from.data.data() + (at - from.offset), kFaultSectorBytes);
}

void FaultDevice::Flush(std::uint64_t covers, bool fails) {
  for (auto sector = at_risk_.begin(); sector != at_risk_.end();) {
    std::vector<WritePtr>& writes = sector->second;
    const auto is_covered = [covers](const WritePtr& write) {
      return write->reaped_at != 0 && write->reaped_at <= covers && !write->unflushable;
    };
    if (fails) {
      for (const WritePtr& write : writes) write->unflushable |= is_covered(write);
      ++sector;
      continue;
    }
    const auto last = std::find_if(writes.rbegin(), writes.rend(), is_covered);
    if (last != writes.rend()) {
      CopySector(sector->first, **last, &durable_);
      writes.erase(writes.begin(), last.base());
    }
    sector = writes.empty() ? at_risk_.erase(sector) : std::next(sector);
  }
}

const FaultRule* FaultDevice::RuleFor(const DeviceRequest& request) {
  const bool is_flush = request.operation == DeviceOperation::kFlush;
  const FaultRule* found = nullptr;
  for (RuleState& state : rules_) {
    const FaultRule& rule = state.rule;
    if (rule.operation.has_value() && *rule.operation != request.operation) continue;
    if (rule.error == 0 && request.operation != DeviceOperation::kRead) continue;
    const bool touches =
        is_flush || (request.offset < rule.end && request.offset + request.bytes > rule.begin);
    if (!touches) continue;
    const std::uint64_t number = state.met++;
    if (found == nullptr && number >= rule.skip && number - rule.skip < rule.times) found = &rule;
  }
  return found;
}

void FaultDevice::FlipBit(std::uint64_t offset, unsigned bit) {
  TP_CHECK(offset < current_.size());
  const auto flip = static_cast<std::byte>(1u << bit % 8);
  current_[offset] ^= flip;
  durable_[offset] ^= flip;
}

void FaultDevice::Crash() {
  for (FaultQueue* queue : queues_) queue->Die();
  queues_.clear();
  ++life_;
  ++counters_.crashes;
  // All, nothing, and between: else the extremes, which find different faults, hardly ever come.
  const std::uint64_t mood = Below(4);
  for (const auto& [sector, writes] : at_risk_) {
    const bool keeps = mood == 0 || (mood != 1 && Below(2) == 0);
    ++(keeps ? counters_.sectors_kept : counters_.sectors_lost);
    if (!keeps) continue;
    const WritePtr& kept = mood == 0 ? writes.back() : writes[Below(writes.size())];
    CopySector(sector, *kept, &durable_);
  }
  at_risk_.clear();
  current_ = durable_;
  writes_left_.reset();
  refused_by_power_ = false;
}

}  // namespace tidepool::storage
