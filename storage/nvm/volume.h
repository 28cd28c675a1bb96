// Combines the devices of a node: opens, checks and locks them at start, and cuts them into slots.
//
//   daemon/node/node, nvm_tools open it -> [volume] -> cores take slots and open queues on its
//   devices
#pragma once

#include <absl/functional/function_ref.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "proto/base/ids.h"
#include "proto/base/result.h"
#include "storage/device/device.h"
#include "storage/nvm/directory.h"
#include "storage/nvm/layout_plan.h"
#include "storage/nvm/slot_pool.h"
#include "storage/nvm/slot_scan.h"
#include "storage/nvm/superblock.h"

namespace tidepool::storage {

struct VolumeOptions {
  LayoutOptions layout;
  // Opener: `node` is durable elsewhere, and `incarnation` exceeds all earlier incarnations.
  Uuid node{};
  std::uint64_t incarnation = 1;
  // Last incarnation that opened these devices, as known elsewhere; 0: unknown. Used devices that
  // lack this start are an older copy of themselves.
  std::uint64_t incarnation_seen = 0;
  std::string host;
  // The user selects these devices, although the node has used newer devices since
  // (--adopt).
  bool adopt = false;
  // For Open: a device each, in the same order at every start.
  std::vector<std::string> directories;
  // Size of each file. 0: the size of an existing file; for a new file `bytes_default`, but at most
  // 80 % of the free space.
  std::uint64_t bytes = 0;
  std::uint64_t bytes_default = 0;
  // Keeps the slots of the last start until each core has taken its segments (CoreStore::Recover).
  // If false, all slots are free.
  bool keep_slots = false;
};

struct VolumeUsage {
  struct OfDevice {
    DeviceMedium medium = DeviceMedium::kFile;
    std::string description;
    std::uint64_t bytes = 0;
    std::uint64_t used_bytes = 0;  // Slots in use.
  };
  std::vector<OfDevice> devices;
  std::uint64_t slots = 0;
  std::uint64_t slots_used = 0;
};

struct SlotPlace {
  std::size_t device = 0;
  std::uint64_t offset = 0;
};

// Thread-safe. Outlives the queues that are opened on its devices.
//
// 1. A directory belongs to at most one volume of the machine.
// 2. After a failed superblock write no further superblock is written: the next start finds that
// the stop was not clean.
class Volume {
 public:
  // Opens the directories, or makes their files. Errors are a line each, with the directory and
  // a remedy: as NvmDirectory::Open and MakeFile; kInvalidArgument (too small, a directory
  // twice), kResourceExhausted (free space below the minimum), kFailedPrecondition (a file that
  // is not ours, of another format, node, set of directories, count of cores, or size than
  // `bytes`; `incarnation` is not greater than the last start's, or that is before
  // `incarnation_seen` without `adopt`), kDataLoss (damaged), kUnimplemented (no io_uring),
  // kDeviceError.
  static Result<std::unique_ptr<Volume>> Open(const VolumeOptions& options);
  // Opens existing devices, and formats them if necessary: for simulation. `directories` and sizes
  // are ignored.
  static Result<std::unique_ptr<Volume>> OpenDevices(std::vector<std::shared_ptr<Device>> devices,
                                                     const VolumeOptions& options);
  // Opens the present content, whatever its owner and later use, with its slots kept. No file is
  // made or written; calls that write end with kFailedPrecondition. Errors: as Open about
  // directories and files; kNotFound (no daemon has used a directory).
  static Result<std::unique_ptr<Volume>> OpenForReading(std::vector<std::string> directories);
  static Result<std::unique_ptr<Volume>> OpenDevicesForReading(
      std::vector<std::shared_ptr<Device>> devices);
  // Without Close() the next start finds that the stop was not clean.
  ~Volume();
  Volume(const Volume&) = delete;
  Volume& operator=(const Volume&) = delete;

  std::size_t device_count() const { return members_.size(); }
  Device& device(std::size_t index) const { return *members_[index].device; }
  // Opens a queue on each device. Errors: as Device::OpenQueue.
  Result<DeviceQueues> OpenQueues(unsigned depth) const;
  const DeviceLayout& layout(std::size_t index) const { return members_[index].found.layout; }
  // State that this Open found: clean_stop, incarnation and checkpoints of the last start. On a
  // device that was just formatted the incarnation is 0.
  const Superblock& found(std::size_t index) const { return members_[index].found; }
  std::uint64_t incarnation() const { return options_.incarnation; }
  bool keeps_slots() const { return options_.keep_slots; }
  // Returns the durable segments of this core that Open found and kept (keep_slots); empty when
  // called again. The caller frees the slots that it does not need.
  std::vector<FoundSegment> TakeFoundSegments(CoreId core);
  // "<file>: host a, device 1, inode 2 -> host b, ...", a line for each directory that lies
  // elsewhere than at the last start. Host, device and inode are hints: the node and its starts are
  // the proof.
  std::vector<std::string> Moves(const std::string& host) const;
  // Returns the result that Open with `options` would have, except for count, cores and sizes.
  Status CheckStart(const VolumeOptions& options) const;
  std::uint64_t slot_bytes() const { return layout(0).slot_bytes; }
  std::uint64_t slot_count() const { return slots_->count(); }
  // At the moment; takes no lock.
  std::uint64_t slots_free() const { return slots_->free(); }

  // Slots are numbered over all devices, see SlotPool.
  std::uint64_t AllocateSlot() { return slots_->Allocate(); }
  void FreeSlot(std::uint64_t slot) { slots_->Free(slot); }
  // Segments of all cores that are on their way to a device: memory that any of them may get.
  std::uint32_t leaving() const { return leaving_.load(std::memory_order_relaxed); }
  void NoteLeaving() { leaving_.fetch_add(1, std::memory_order_relaxed); }
  void NoteLeft() { leaving_.fetch_sub(1, std::memory_order_relaxed); }
  // `slot` must be a slot.
  SlotPlace Place(std::uint64_t slot) const;
  VolumeUsage usage() const;

  // Each call waits for the device, so no owner core calls them. Errors:
  // kDeviceError; each further call then fails with the same text, see above.
  //
  // Durably changes the superblock of `device`; `change` may set only the
  // checkpoints.
  Status Update(std::size_t device, absl::FunctionRef<void(Superblock&)> change);
  // Records the cluster on all devices.
  Status RememberCluster(const Uuid& cluster);
  // Writes the catalog to the first device. Errors also: kResourceExhausted, see nvm/catalog.h.
  Status WriteCatalog(Bytes content);
  // Errors: kDataLoss, kDeviceError.
  Result<std::vector<std::byte>> ReadCatalog();
  // Records a clean stop on all devices. The caller has made all data durable before.
  Status Close();

 private:
  struct Member {
    std::unique_ptr<NvmDirectory> directory;  // Null: OpenDevices.
    std::shared_ptr<Device> device;
    std::unique_ptr<DeviceQueue> queue;  // With mutex_.
    Superblock found;
    Superblock current;  // With mutex_.
    bool is_fresh = false;
  };
  explicit Volume(const VolumeOptions& options) : options_(options) {}
  static std::unique_ptr<Volume> NewForReading(std::vector<std::string> directories);
  Status BeginReading();

  Status OpenDirectories();
  Status OpenMember(Member* member);
  Result<std::uint64_t> BytesFor(const Member& member) const;
  Status FormatAll();
  Status FormatMember(Member* member, Superblock superblock) const;
  Status FormatDevice(Device* device, const Superblock& superblock) const;
  Status CheckMember(std::size_t index) const;
  Status CheckOwner(const Superblock& found, const VolumeOptions& options,
                    const std::string& remove) const;
  Status CheckPlaceInSet(std::size_t index) const;
  Status CheckSet() const;
  Status Begin();
  Status ScanSlots();
  Status UpdateLocked(Member* member, absl::FunctionRef<void(Superblock&)> change);
  std::string NameOf(const Member& member) const;

  const VolumeOptions options_;
  mutable std::mutex mutex_;
  std::vector<Member> members_;
  std::unique_ptr<SlotPool> slots_;
  Status failed_;                             // With mutex_.
  std::vector<FoundSegment> found_segments_;  // With mutex_.
  std::atomic<std::uint32_t> leaving_{0};
  bool for_reading_ = false;
};

}  // namespace tidepool::storage
