#include "client/buffers/buffer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "client/calls/durations.h"
#include "proto/base/log.h"

namespace tidepool::internal {
namespace {

// Bound on the failures that a handle remembers until the program asks. With a full queue every
// item may fail.
constexpr std::size_t kFailuresMax = 64 * 1024;
constexpr std::size_t kFailureBytesMax = std::size_t{64} << 20;

BufferedOptions Bounded(BufferedOptions options, std::uint32_t bytes_max) {
  options.operations_max = std::clamp<std::uint32_t>(options.operations_max, 1,
                                                     std::uint32_t{limits::kFrameOperationsMax});
  options.bytes_max = std::clamp<std::uint32_t>(options.bytes_max, 1024, bytes_max);
  options.buffers_in_flight = std::clamp<std::uint32_t>(options.buffers_in_flight, 1, 64);
  options.age_max = std::clamp(options.age_max, std::chrono::milliseconds(0), kTimeoutMax);
  return options;
}

}  // namespace

Buffer::Buffer(std::shared_ptr<Space> space, const BufferedOptions& options)
    : space_(std::move(space)), options_(Bounded(options, kBytesMax)) {}

Buffer::Busy::~Busy() {
  while (!buffer_.deferred_.empty()) {
    const std::function<void()> add = std::move(buffer_.deferred_.front());
    buffer_.deferred_.pop_front();
    add();
  }
  buffer_.busy_ = false;
}

void Buffer::FlushAtEnd() {
  if (pending_ == 0 && failed_ == 0) return;
  const Status status = Flush();
  if (status.ok()) return;
  log::Warn("a buffered handle of namespace '" + space_->state()->name +
            "' was destroyed unflushed: " + status.ToString());
}

void Buffer::Progress() {
  if (busy_) return;
  const Busy busy(this);
  SendOld();
  TakeInAll(false);
}

void Buffer::TakeIn(Flying* flying, std::size_t flying_max) {
  while (!flying->empty()) {
    const CallRef& oldest = flying->front();
    if (!oldest.Done()) {
      if (flying->size() <= flying_max) return;
      oldest.Wait(CallRef::TimePoint::max());
    }
    Settle(oldest);
    flying->pop_front();
  }
}

bool Buffer::IsOld(std::uint64_t since_ns, std::uint64_t now_ns) const {
  return now_ns >= since_ns + static_cast<std::uint64_t>(options_.age_max.count()) * 1'000'000;
}

bool Buffer::HasRoomForFailures() const { return failures_.size() < kFailuresMax; }

void Buffer::Note(BufferedFailure failure) {
  if (failed_ == 0) first_failure_ = failure.status;
  ++failed_;
  ++counts_.failed;
  if (!HasRoomForFailures()) return;
  if (failure_bytes_ + failure.key.size() > kFailureBytesMax) failure.key = {};
  failure_bytes_ += failure.key.size();
  failures_.push_back(std::move(failure));
}

void Buffer::NoteUnnamed(std::uint64_t count, const Status& why) {
  if (failed_ == 0) first_failure_ = why;
  failed_ += count;
  counts_.failed += count;
}

Status Buffer::Flush() {
  if (busy_) {
    return Status(StatusCode::kFailedPrecondition,
                  "a buffered handle was flushed in the middle of one of its own calls",
                  "flush it outside of Future::Then");
  }
  const Busy busy(this);
  SendAll();
  TakeInAll(true);
  AtRest();
  reported_ = std::exchange(failures_, {});
  failure_bytes_ = 0;
  const std::uint64_t failed = std::exchange(failed_, 0);
  const Status first = std::exchange(first_failure_, {});
  if (failed == 0) return {};
  return Status(first.code(),
                std::to_string(failed) +
                    " buffered operations failed; the first: " + std::string(first.what()),
                std::string(first.remedy()));
}

}  // namespace tidepool::internal
