#include "storage/device/file_device.h"

#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "proto/base/check.h"
#include "proto/base/clock.h"
#include "storage/device/device_errors.h"

namespace tidepool::storage {
namespace {

constexpr unsigned kDepthMax = 4'096;

// Flags, and why no more: with COOP_TASKRUN or DEFER_TASKRUN (5.19, 6.1) completions appear only
// when the thread enters the kernel, which a polling core does not do; SINGLE_ISSUER (6.0) would
// tie the queue to the opening thread. SUBMIT_ALL (5.18) continues behind a refused request; older
// kernels leave the rest to the next Submit.
constexpr unsigned kFlagSets[] = {IORING_SETUP_CLAMP | IORING_SETUP_SUBMIT_ALL, IORING_SETUP_CLAMP,
                                  0};

class FileQueue final : public DeviceQueue {
 public:
  FileQueue(const io_uring& ring, int file, std::uint64_t device_bytes, unsigned depth)
      : ring_(ring), file_(file), device_bytes_(device_bytes), slots_(depth) {
    free_.reserve(depth);
    for (unsigned i = depth; i > 0; --i) free_.push_back(i - 1);
  }

  // The kernel may still be writing into buffers: it must be done with them before their owner goes
  // on.
  ~FileQueue() override {
    DropUnsubmitted();
    while (in_flight() > 0) {
      Await(1'000);
      Reap([](const DeviceCompletion&) {});
    }
    io_uring_queue_exit(&ring_);
  }

  unsigned depth() const override { return static_cast<unsigned>(slots_.size()); }
  unsigned in_flight() const override {
    return static_cast<unsigned>(slots_.size() - free_.size());
  }

  bool Start(const DeviceRequest& request) override {
    CheckRequest(request, device_bytes_);
    if (free_.empty()) return false;
    const unsigned slot = free_.back();
    free_.pop_back();
    slots_[slot] = request;
    waiting_.push_back(slot);
    return true;
  }

  bool Submit(unsigned count_max) override {
    const std::size_t wanted = std::min<std::size_t>(count_max, waiting_.size());
    // Requests that the kernel did not take last time still stand in the ring.
    while (prepared_ < wanted) {
      Prepare(waiting_[prepared_]);
      ++prepared_;
    }
    if (prepared_ == 0) return !waiting_.empty();
    const int taken = broken_ != 0 ? -broken_ : io_uring_submit(&ring_);
    if (taken >= 0) {
      waiting_.erase(waiting_.begin(), waiting_.begin() + taken);
      prepared_ -= static_cast<std::size_t>(taken);
    } else if (taken != -EAGAIN && taken != -EBUSY && taken != -EINTR) {
      // Requests in the ring would go out with any later submission, after their owner saw them
      // fail. Therefore no submission follows.
      broken_ = -taken;
      refused_.insert(refused_.end(), waiting_.begin(), waiting_.end());
      waiting_.clear();
      prepared_ = 0;
    }
    return !waiting_.empty();
  }

  unsigned Reap(absl::FunctionRef<void(const DeviceCompletion&)> done) override {
    unsigned count = 0;
    // Bounded: requests that `done` starts and submits may complete at once, without end.
    for (unsigned left = io_uring_cq_ready(&ring_); left > 0; --left, ++count) {
      const io_uring_cqe& entry = ring_.cq.cqes[*ring_.cq.khead & *ring_.cq.kring_mask];
      const auto slot = static_cast<unsigned>(entry.user_data);
      const int result = entry.res;
      io_uring_cq_advance(&ring_, 1);
      Finish(slot, ErrorOf(slots_[slot], result), done);
    }
    while (!refused_.empty()) {
      const unsigned slot = refused_.back();
      refused_.pop_back();
      Finish(slot, broken_, done);
      ++count;
    }
    return count;
  }

  void Wait(std::uint64_t timeout_ms) override {
    if (in_flight() == 0) return;
    const Deadline deadline = Deadline::AfterMs(timeout_ms);
    while (!HasCompletion()) {
      // More may wait than the kernel takes at once.
      const bool more = Submit(depth());
      if (HasCompletion() || deadline.Passed()) return;
      Await(more ? 1 : deadline.LeftMs());
    }
    Submit(depth());
  }

  int descriptor() const override { return ring_.ring_fd; }

 private:
  bool HasCompletion() const { return io_uring_cq_ready(&ring_) > 0 || !refused_.empty(); }

  void Await(std::uint64_t timeout_ms) {
    pollfd ring{ring_.ring_fd, POLLIN, 0};
    poll(&ring, 1, static_cast<int>(std::min<std::uint64_t>(timeout_ms, 60'000)));
  }

  void Prepare(unsigned slot) {
    const DeviceRequest& request = slots_[slot];
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    // The ring has at least as many entries as the queue is deep.
    TP_CHECK(entry != nullptr);
    switch (request.operation) {
      case DeviceOperation::kRead:
        io_uring_prep_read(entry, file_, request.data, request.bytes, request.offset);
        break;
      case DeviceOperation::kWrite:
      case DeviceOperation::kWriteThrough:
        io_uring_prep_write(entry, file_, request.data, request.bytes, request.offset);
        if (request.operation == DeviceOperation::kWriteThrough) entry->rw_flags = RWF_DSYNC;
        break;
      case DeviceOperation::kFlush:
        io_uring_prep_fsync(entry, file_, IORING_FSYNC_DATASYNC);
        break;
    }
    entry->user_data = slot;
  }

  static int ErrorOf(const DeviceRequest& request, int result) {
    if (result < 0) return -result;
    if (request.operation == DeviceOperation::kFlush) return 0;
    return static_cast<std::uint32_t>(result) == request.bytes ? 0 : EIO;
  }

  void Finish(unsigned slot, int error, absl::FunctionRef<void(const DeviceCompletion&)> done) {
    const DeviceCompletion completion{slots_[slot].tag, error};
    free_.push_back(slot);  // First: `done` may start the next.
    done(completion);
  }

  void DropUnsubmitted() {
    // The kernel may have seen the requests in the ring: submit them and wait for them.
    while (prepared_ > 0 && broken_ == 0) {
      if (Submit(static_cast<unsigned>(prepared_)) && prepared_ > 0) Await(1);
    }
    for (const unsigned slot : waiting_) free_.push_back(slot);
    for (const unsigned slot : refused_) free_.push_back(slot);
    waiting_.clear();
    refused_.clear();
  }

  io_uring ring_;
  const int file_;
  const std::uint64_t device_bytes_;
  std::vector<DeviceRequest> slots_;  // By user_data.
  std::vector<unsigned> free_;
  std::deque<unsigned> waiting_;   // Started but not yet with the kernel, in order.
  std::size_t prepared_ = 0;       // Count of these that stand in the ring.
  std::vector<unsigned> refused_;  // Failed with broken_, to be reaped.
  int broken_ = 0;                 // An errno: the ring takes no more requests.
};

Status RingError(int error, const std::string& description) {
  const std::string what =
      "cannot make an io_uring for '" + description + "': " + std::strerror(error);
  switch (error) {
    case ENOSYS:
    case EPERM:
    case EACCES:
    case EINVAL:
      return Status(StatusCode::kUnimplemented, what,
                    "allow io_uring: Linux 5.10 or newer, sysctl kernel.io_uring_disabled=0, and a "
                    "container's seccomp profile that permits it");
    case ENOMEM:
      return Status(StatusCode::kResourceExhausted, what, "raise ulimit -l (locked memory)");
    case EMFILE:
    case ENFILE:
      return Status(StatusCode::kResourceExhausted, what, "raise ulimit -n (open files)");
    default:
      return Status(StatusCode::kDeviceError, what);
  }
}

}  // namespace

Result<std::unique_ptr<Device>> FileDevice::Open(const std::string& path, std::uint64_t bytes) {
  return OpenAs(O_RDWR, path, bytes);
}

Result<std::unique_ptr<Device>> FileDevice::OpenForReading(const std::string& path,
                                                           std::uint64_t bytes) {
  return OpenAs(O_RDONLY, path, bytes);
}

Result<std::unique_ptr<Device>> FileDevice::OpenAs(int access, const std::string& path,
                                                   std::uint64_t bytes) {
  TP_CHECK(bytes > 0);
  TP_CHECK(bytes % kDeviceBlockBytes == 0);
  const int file = open(path.c_str(), access | O_DIRECT | O_CLOEXEC | O_NOCTTY);
  if (file < 0 && errno == EINVAL) {
    return Status(
        StatusCode::kFailedPrecondition,
        "the file system of '" + path + "' has no direct I/O (O_DIRECT), as tmpfs before Linux 6.6",
        "use a directory on a local disk with ext4 or xfs");
  }
  if (file < 0) return DeviceFileError("open", path, errno);
  std::unique_ptr<FileDevice> device(new FileDevice(file, path, bytes));
  TP_RETURN_IF_ERROR(CheckDeviceFile(file, path, bytes));
  return std::unique_ptr<Device>(std::move(device));
}

FileDevice::FileDevice(int descriptor, const std::string& path, std::uint64_t bytes)
    : descriptor_(descriptor), bytes_(bytes), description_(path + " (file, O_DIRECT, io_uring)") {}

FileDevice::~FileDevice() { close(descriptor_); }

Result<std::unique_ptr<DeviceQueue>> FileDevice::OpenQueue(unsigned depth) {
  TP_CHECK(depth >= 1);
  TP_CHECK(depth <= kDepthMax);
  io_uring ring;
  int error = 0;
  for (const unsigned flags : kFlagSets) {
    io_uring_params parameters;
    std::memset(&parameters, 0, sizeof parameters);
    parameters.flags = flags;
    error = -io_uring_queue_init_params(depth, &ring, &parameters);
    if (error != EINVAL) break;  // Only that says that a flag is not known.
  }
  if (error != 0) return RingError(error, description_);
  return std::unique_ptr<DeviceQueue>(
      std::make_unique<FileQueue>(ring, descriptor_, bytes_, depth));
}

}  // namespace tidepool::storage
