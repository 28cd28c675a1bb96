#include "storage/device/dax_device.h"

#include <fcntl.h>
#include <libpmem2.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "storage/device/device_errors.h"

namespace tidepool::storage {
namespace {

class DaxQueue final : public DeviceQueue {
 public:
  DaxQueue(pmem2_map* map, std::byte* base, std::uint64_t device_bytes, unsigned depth)
      : base_(base),
        device_bytes_(device_bytes),
        depth_(depth),
        copy_(pmem2_get_memcpy_fn(map)),
        drain_(pmem2_get_drain_fn(map)) {}

  unsigned depth() const override { return depth_; }
  unsigned in_flight() const override {
    return static_cast<unsigned>(waiting_.size() + completed_.size());
  }

  bool Start(const DeviceRequest& request) override {
    CheckRequest(request, device_bytes_);
    if (in_flight() == depth_) return false;
    waiting_.push_back(request);
    return true;
  }

  bool Submit(unsigned count_max) override {
    bool has_written = false;
    for (; count_max > 0 && !waiting_.empty(); --count_max) {
      const DeviceRequest request = waiting_.front();
      waiting_.pop_front();
      switch (request.operation) {
        case DeviceOperation::kRead:
          std::memcpy(request.data, base_ + request.offset, request.bytes);
          break;
        case DeviceOperation::kWrite:
        case DeviceOperation::kWriteThrough:
          copy_(base_ + request.offset, request.data, request.bytes,
                PMEM2_F_MEM_NONTEMPORAL | PMEM2_F_MEM_NODRAIN);
          has_written = true;
          break;
        case DeviceOperation::kFlush:
          break;  // The drain below, or that of the Submit which wrote.
      }
      completed_.push_back({request.tag, 0});
    }
    // A drain orders the stores of this processor only: a flush of another thread could not replace
    // it. Writes are therefore reported only after a drain.
    if (has_written) drain_();
    return !waiting_.empty();
  }

  unsigned Reap(absl::FunctionRef<void(const DeviceCompletion&)> done) override {
    // `done` may start and submit more, which the next Reap reports.
    std::vector<DeviceCompletion> completed;
    completed.swap(completed_);
    for (const DeviceCompletion& completion : completed) done(completion);
    return static_cast<unsigned>(completed.size());
  }

  void Wait(std::uint64_t) override { Submit(depth_); }
  int descriptor() const override { return -1; }

 private:
  std::byte* const base_;
  const std::uint64_t device_bytes_;
  const unsigned depth_;
  const pmem2_memcpy_fn copy_;
  const pmem2_drain_fn drain_;
  std::deque<DeviceRequest> waiting_;
  std::vector<DeviceCompletion> completed_;
};

// The mapping of `file`, if stores to it persist by cache line or byte.
int Map(int file, std::uint64_t bytes, pmem2_map** map) {
  pmem2_source* source = nullptr;
  int error = pmem2_source_from_fd(&source, file);
  if (error != 0) return error;
  pmem2_config* config = nullptr;
  error = pmem2_config_new(&config);
  if (error == 0) {
    error = pmem2_config_set_required_store_granularity(config, PMEM2_GRANULARITY_CACHE_LINE);
  }
  if (error == 0) error = pmem2_config_set_length(config, bytes);
  if (error == 0) error = pmem2_map_new(map, config, source);
  pmem2_config_delete(&config);
  pmem2_source_delete(&source);
  return error;
}

}  // namespace

Result<std::unique_ptr<Device>> DaxDevice::Open(const std::string& path, std::uint64_t bytes) {
  TP_CHECK(bytes > 0);
  TP_CHECK(bytes % kDeviceBlockBytes == 0);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY);
  if (file < 0) return DeviceFileError("open", path, errno);
  pmem2_map* map = nullptr;
  const Status checked = CheckDeviceFile(file, path, bytes);
  const int error = checked.ok() ? Map(file, bytes, &map) : 0;
  close(file);  // The mapping does not need it.
  TP_RETURN_IF_ERROR(checked);
  if (error == PMEM2_E_GRANULARITY_NOT_SUPPORTED) {
    return Status(StatusCode::kUnimplemented, "'" + path + "' is not on a file system with DAX");
  }
  if (error != 0) {
    return Status(StatusCode::kDeviceError,
                  "cannot map '" + path + "': " + std::string(pmem2_errormsg()));
  }
  const bool by_byte = pmem2_map_get_store_granularity(map) == PMEM2_GRANULARITY_BYTE;
  return std::unique_ptr<Device>(new DaxDevice(
      map, bytes,
      path + (by_byte ? " (dax, libpmem2, by byte)" : " (dax, libpmem2, by cache line)")));
}

DaxDevice::DaxDevice(pmem2_map* map, std::uint64_t bytes, std::string description)
    : map_(map),
      base_(static_cast<std::byte*>(pmem2_map_get_address(map))),
      bytes_(bytes),
      description_(std::move(description)) {}

DaxDevice::~DaxDevice() { pmem2_map_delete(&map_); }

Result<std::unique_ptr<DeviceQueue>> DaxDevice::OpenQueue(unsigned depth) {
  TP_CHECK(depth >= 1);
  return std::unique_ptr<DeviceQueue>(std::make_unique<DaxQueue>(map_, base_, bytes_, depth));
}

}  // namespace tidepool::storage
