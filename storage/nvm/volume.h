// The devices of a node as one: opened, checked and locked at start, and cut into segment slots.
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
  // Who opens it: durable elsewhere, and an incarnation greater than any before.
  Uuid node{};
  std::uint64_t incarnation = 1;
  // The last one that has opened these devices, as is known elsewhere; 0: none. Devices that were
  // used and know of no such start are an older copy of themselves.
  std::uint64_t incarnation_seen = 0;
  std::string host;
  // The user says that these devices are meant, though the node has used newer ones since
  // (--adopt).
  bool adopt = false;
  // Of Open. One device each; the same directories in the same order at every start.
  std::vector<std::string> directories;
  // Of each file. 0: what an existing file has; of a new one `bytes_default`, but at most 80 % of
  // what is free.
  std::uint64_t bytes = 0;
  std::uint64_t bytes_default = 0;
  // What the last start has left in the slots is kept until each core has taken what it needs
  // (CoreStore::Recover). Else all slots are free.
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
// 1. At most one volume of the machine has a directory.
// 2. After a superblock could not be written nothing writes one again: what it says next time is
//    that the stop was no clean one.
class Volume {
 public:
  // Opens the directories, or makes their files. Errors, each in one line that names the directory
  // and what to do: as NvmDirectory::Open and MakeFile; kInvalidArgument (too small, a directory
  // twice), kResourceExhausted (less free than the least), kFailedPrecondition (a file that is not
  // ours, of another format, node, set of directories or count of cores, of another size than
  // `bytes`; or `incarnation` is not greater than that of the last start, or that is before
  // `incarnation_seen` without `adopt`), kDataLoss (damaged), kUnimplemented (no
  // io_uring), kDeviceError.
  static Result<std::unique_ptr<Volume>> Open(const VolumeOptions& options);
  // The same on devices that are there, formatted if they are not: for simulation. `directories`
  // and sizes are not read.
  static Result<std::unique_ptr<Volume>> OpenDevices(std::vector<std::shared_ptr<Device>> devices,
                                                     const VolumeOptions& options);
  // What is there, whosever it is and however often it was used since, with its slots kept; nothing
  // is made or written, and every call that would ends with kFailedPrecondition. Errors: as Open's
  // about directories and files; kNotFound (no daemon has used a directory).
  static Result<std::unique_ptr<Volume>> OpenForReading(std::vector<std::string> directories);
  static Result<std::unique_ptr<Volume>> OpenDevicesForReading(
      std::vector<std::shared_ptr<Device>> devices);
  // Without Close() the next one finds that the stop was no clean one.
  ~Volume();
  Volume(const Volume&) = delete;
  Volume& operator=(const Volume&) = delete;

  std::size_t device_count() const { return members_.size(); }
  Device& device(std::size_t index) const { return *members_[index].device; }
  // Errors: those of Device::OpenQueue.
  Result<DeviceQueues> OpenQueues(unsigned depth) const;
  const DeviceLayout& layout(std::size_t index) const { return members_[index].found.layout; }
  // As this Open found it: clean_stop, incarnation and checkpoints are those of the last start. On
  // a device that was just formatted the incarnation is 0.
  const Superblock& found(std::size_t index) const { return members_[index].found; }
  std::uint64_t incarnation() const { return options_.incarnation; }
  bool keeps_slots() const { return options_.keep_slots; }
  // What Open found in the slots of durable segments of this core, and took, if it was to keep
  // them; empty when called again. The caller frees what it does not need.
  std::vector<FoundSegment> TakeFoundSegments(CoreId core);
  // "<file>: host a, device 1, inode 2 -> host b, ...", a line for each directory that lies
  // elsewhere than at the last start. Host, device and inode are hints: the node and its starts are
  // the proof.
  std::vector<std::string> Moves(const std::string& host) const;
  // What Open with `options` would say of these devices, but for their count, cores and sizes.
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
  // `slot` must be one.
  SlotPlace Place(std::uint64_t slot) const;
  VolumeUsage usage() const;

  // Each waits for the device, so no owner core calls them. Errors: kDeviceError, after which each
  // further one is refused in the same words, see above.
  //
  // Durably changes what the superblock of `device` says; of it `change` may set the checkpoints
  // only.
  Status Update(std::size_t device, absl::FunctionRef<void(Superblock&)> change);
  // On all devices.
  Status RememberCluster(const Uuid& cluster);
  // On the first device. Errors also: kResourceExhausted, see nvm/catalog.h.
  Status WriteCatalog(Bytes content);
  // Errors: kDataLoss, kDeviceError.
  Result<std::vector<std::byte>> ReadCatalog();
  // Says on all devices that this stop was clean. The caller has made durable what should be.
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
