#include "storage/nvm/volume.h"

#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "proto/base/check.h"
#include "storage/device/device_io.h"
#include "storage/nvm/catalog.h"

namespace tidepool::storage {
namespace {

constexpr unsigned kQueueDepth = 1;
constexpr std::uint64_t kDefaultSharePercent = 80;
constexpr std::uint64_t kVolumeUnitBytes = 1024 * 1024;

std::string Quoted(const std::string& text) { return "'" + text + "'"; }

Status WithName(const Status& status, const std::string& name) {
  std::string remedy(status.remedy());
  if (remedy.empty() && status.code() == StatusCode::kDeviceError) {
    remedy = "see what ails the device; without what is on it: name another --nvm-dir";
  }
  return Status(status.code(), Quoted(name) + ": " + std::string(status.what()), remedy);
}

std::string RemoveText(const std::string& name) {
  return "remove '" + name + "' if nothing in it is needed";
}

}  // namespace

Result<std::unique_ptr<Volume>> Volume::Open(const VolumeOptions& options) {
  std::unique_ptr<Volume> volume(new Volume(options));
  TP_RETURN_IF_ERROR(volume->OpenDirectories());
  for (Member& member : volume->members_) {
    const auto bytes = member.directory->FileBytes();
    if (!bytes.ok()) return bytes.status();
    member.is_fresh = *bytes == 0;
    if (!member.is_fresh) TP_RETURN_IF_ERROR(volume->OpenMember(&member));
  }
  TP_RETURN_IF_ERROR(volume->Begin());
  return volume;
}

std::unique_ptr<Volume> Volume::NewForReading(std::vector<std::string> directories) {
  VolumeOptions options;
  options.directories = std::move(directories);
  options.keep_slots = true;
  std::unique_ptr<Volume> volume(new Volume(options));
  volume->for_reading_ = true;
  volume->failed_ = Status(StatusCode::kFailedPrecondition, "it was opened for reading");
  return volume;
}

Result<std::unique_ptr<Volume>> Volume::OpenForReading(std::vector<std::string> directories) {
  std::unique_ptr<Volume> volume = NewForReading(std::move(directories));
  TP_RETURN_IF_ERROR(volume->OpenDirectories());
  for (Member& member : volume->members_) {
    const auto bytes = member.directory->FileBytes();
    if (!bytes.ok()) return bytes.status();
    if (*bytes == 0) {
      return Status(StatusCode::kNotFound, "there is no " + Quoted(volume->NameOf(member)),
                    "name the --nvm-dir of a daemon");
    }
    TP_RETURN_IF_ERROR(volume->OpenMember(&member));
  }
  TP_RETURN_IF_ERROR(volume->BeginReading());
  return volume;
}

Result<std::unique_ptr<Volume>> Volume::OpenDevicesForReading(
    std::vector<std::shared_ptr<Device>> devices) {
  std::unique_ptr<Volume> volume = NewForReading({});
  for (std::shared_ptr<Device>& device : devices) {
    Member& member = volume->members_.emplace_back();
    member.device = std::move(device);
    TP_RETURN_IF_ERROR(volume->OpenMember(&member));
    if (member.is_fresh) {
      return Status(StatusCode::kNotFound, Quoted(volume->NameOf(member)) + " was never used");
    }
  }
  TP_RETURN_IF_ERROR(volume->BeginReading());
  return volume;
}

Status Volume::BeginReading() {
  std::vector<std::uint64_t> counts;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const Status checked = CheckPlaceInSet(i);
    if (!checked.ok()) return WithName(checked, NameOf(members_[i]));
    counts.push_back(members_[i].found.layout.slot_count);
  }
  slots_ = std::make_unique<SlotPool>(counts);
  const std::lock_guard lock(mutex_);
  return ScanSlots();
}

Result<std::unique_ptr<Volume>> Volume::OpenDevices(std::vector<std::shared_ptr<Device>> devices,
                                                    const VolumeOptions& options) {
  std::unique_ptr<Volume> volume(new Volume(options));
  for (std::shared_ptr<Device>& device : devices) {
    Member& member = volume->members_.emplace_back();
    member.device = std::move(device);
    TP_RETURN_IF_ERROR(volume->OpenMember(&member));
  }
  TP_RETURN_IF_ERROR(volume->Begin());
  return volume;
}

Volume::~Volume() = default;

std::string Volume::NameOf(const Member& member) const {
  return member.directory != nullptr ? member.directory->file_path() : member.device->description();
}

Status Volume::OpenDirectories() {
  if (options_.directories.empty()) {
    return Status(StatusCode::kInvalidArgument, "--nvm-dir names no directory");
  }
  for (const std::string& path : options_.directories) {
    // Checked before the lock: for a directory that is named twice the lock is ours.
    struct stat info {};
    const bool is_there = stat(path.c_str(), &info) == 0;
    for (const Member& other : members_) {
      if (!is_there || other.directory->device() != info.st_dev ||
          other.directory->inode() != info.st_ino) {
        continue;
      }
      return Status(StatusCode::kInvalidArgument, "--nvm-dir names '" + path + "' twice",
                    "name each directory once, best one on each device");
    }
    auto directory = NvmDirectory::Open(path);
    if (!directory.ok()) return directory.status();
    members_.emplace_back().directory = *std::move(directory);
  }
  return OkStatus();
}

Status Volume::OpenMember(Member* member) {
  std::uint64_t bytes = 0;
  if (member->directory != nullptr) {
    const auto file_bytes = member->directory->FileBytes();
    if (!file_bytes.ok()) return file_bytes.status();
    bytes = *file_bytes / kDeviceBlockBytes * kDeviceBlockBytes;
    const Status foreign(StatusCode::kFailedPrecondition,
                         Quoted(NameOf(*member)) + " is not a file of Tidepool",
                         "remove it, or name another --nvm-dir");
    if (bytes < kSuperblockSlots * kDeviceBlockBytes) return foreign;
    auto device = for_reading_ ? member->directory->OpenFileForReading(bytes)
                               : member->directory->OpenFile(bytes);
    if (!device.ok()) return device.status();
    member->device = *std::move(device);
  }
  auto queue = member->device->OpenQueue(kQueueDepth);
  if (!queue.ok()) return queue.status();
  member->queue = *std::move(queue);
  if (member->directory == nullptr) {
    const auto unformatted = IsUnformatted(member->queue.get());
    if (!unformatted.ok()) return WithName(unformatted.status(), NameOf(*member));
    member->is_fresh = *unformatted;
    if (member->is_fresh) return OkStatus();
  }
  auto superblock = ReadSuperblock(member->queue.get());
  if (superblock.code() == StatusCode::kNotFound) {
    return Status(StatusCode::kFailedPrecondition,
                  Quoted(NameOf(*member)) + " is not a file of Tidepool",
                  "remove it, or name another --nvm-dir");
  }
  if (superblock.code() == StatusCode::kDataLoss) {
    return Status(StatusCode::kDataLoss,
                  Quoted(NameOf(*member)) + ": " + std::string(superblock.status().what()),
                  RemoveText(NameOf(*member)));
  }
  if (!superblock.ok()) return WithName(superblock.status(), NameOf(*member));
  TP_RETURN_IF_ERROR(TakeNewerCatalog(member->queue.get(), &*superblock));
  member->found = *superblock;
  member->current = *superblock;
  if (superblock->layout.device_bytes > member->device->bytes()) {
    return Status(StatusCode::kDataLoss,
                  Quoted(NameOf(*member)) + " was cut off: it has " +
                      std::to_string(member->device->bytes()) + " of its " +
                      std::to_string(superblock->layout.device_bytes) + " bytes",
                  RemoveText(NameOf(*member)));
  }
  return OkStatus();
}

// Uses the present files or makes all of them; then marks the superblocks as in use by this node.
Status Volume::Begin() {
  const auto is_fresh = [](const Member& member) { return member.is_fresh; };
  if (std::any_of(members_.begin(), members_.end(), is_fresh)) {
    for (const Member& member : members_) {
      // Formatted, and never used: an earlier start was interrupted here.
      if (member.is_fresh || member.found.generation == 1) continue;
      const auto fresh = std::find_if(members_.begin(), members_.end(), is_fresh);
      return Status(StatusCode::kFailedPrecondition,
                    "'" + NameOf(*fresh) + "' is missing, but '" + NameOf(member) + "' is there",
                    "name the directories of the last start in the same order, or remove the file "
                    "of each if nothing in them is needed");
    }
    TP_RETURN_IF_ERROR(FormatAll());
  }
  TP_RETURN_IF_ERROR(CheckSet());
  std::vector<std::uint64_t> counts;
  for (const Member& member : members_) counts.push_back(member.found.layout.slot_count);
  slots_ = std::make_unique<SlotPool>(counts);
  const std::lock_guard lock(mutex_);
  if (options_.keep_slots) TP_RETURN_IF_ERROR(ScanSlots());
  for (Member& member : members_) {
    // A killed process may have written the data that was read, without a flush.
    const Status flushed = FlushDevice(member.queue.get());
    if (!flushed.ok()) return WithName(flushed, NameOf(member));
    TP_RETURN_IF_ERROR(UpdateLocked(&member, [this, &member](Superblock& superblock) {
      superblock.incarnation = options_.incarnation;
      superblock.clean_stop = false;
      superblock.host = options_.host.substr(0, kHostBytesMax);
      if (member.directory == nullptr) return;
      superblock.directory_device = member.directory->device();
      superblock.directory_inode = member.directory->inode();
    }));
  }
  return OkStatus();
}

Status Volume::ScanSlots() {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    auto found = ScanSegmentHeaders(members_[i].device.get(), members_[i].found.layout);
    if (!found.ok()) return WithName(found.status(), NameOf(members_[i]));
    for (FoundSegment& segment : *found) {
      segment.slot = segment.slot * members_.size() + i;
      TP_CHECK(slots_->Take(segment.slot));
      found_segments_.push_back(segment);
    }
  }
  return OkStatus();
}

Result<DeviceQueues> Volume::OpenQueues(unsigned depth) const {
  DeviceQueues queues;
  for (const Member& member : members_) {
    auto queue = member.device->OpenQueue(depth);
    if (!queue.ok()) return queue.status();
    queues.push_back(*std::move(queue));
  }
  return queues;
}

std::vector<FoundSegment> Volume::TakeFoundSegments(CoreId core) {
  const std::lock_guard lock(mutex_);
  std::vector<FoundSegment> taken;
  std::erase_if(found_segments_, [&](const FoundSegment& segment) {
    if (segment.core != core.value()) return false;
    taken.push_back(segment);
    return true;
  });
  return taken;
}

Result<std::uint64_t> Volume::BytesFor(const Member& member) const {
  if (member.directory == nullptr) return member.device->bytes();
  const std::uint64_t least = LayoutBytesMin(options_.layout);
  const std::string cores =
      std::to_string(options_.layout.cores) + (options_.layout.cores == 1 ? " core" : " cores");
  if (options_.bytes != 0) {
    if (options_.bytes >= least) return options_.bytes / kDeviceBlockBytes * kDeviceBlockBytes;
    return Status(
        StatusCode::kInvalidArgument,
        "--nvm-size is too small: " + std::to_string(options_.bytes) + " bytes for " + cores,
        "give at least " + MiBText(least));
  }
  const auto free_bytes = member.directory->FreeBytes();
  if (!free_bytes.ok()) return free_bytes;
  const auto spare_bytes = member.directory->SpareBytes();
  if (!spare_bytes.ok()) return spare_bytes;
  const std::uint64_t usable_bytes =
      std::min(*free_bytes / 100 * kDefaultSharePercent,
               *free_bytes > *spare_bytes ? *free_bytes - *spare_bytes : 0);
  const std::uint64_t bytes =
      std::min(std::max(options_.bytes_default, AlignUp(least, kVolumeUnitBytes)), usable_bytes) /
      kVolumeUnitBytes * kVolumeUnitBytes;
  if (bytes >= least) return bytes;
  return Status(StatusCode::kResourceExhausted,
                "'" + member.directory->path() + "' has " + BytesText(*free_bytes) +
                    " free, too little for " + cores + ", which needs " + BytesText(least) +
                    ": by default a fifth is left free",
                "make room for at least " +
                    MiBText(std::max(least * 100 / kDefaultSharePercent, least + *spare_bytes)) +
                    ", or name another --nvm-dir");
}

Status Volume::FormatAll() {
  Superblock superblock;
  superblock.generation = 1;
  superblock.clean_stop = true;
  superblock.node = options_.node;
  superblock.volume = RandomUuid();
  superblock.device_count = static_cast<std::uint32_t>(members_.size());
  superblock.host = options_.host.substr(0, kHostBytesMax);
  Status status;
  for (std::size_t i = 0; i < members_.size() && status.ok(); ++i) {
    superblock.device = RandomUuid();
    superblock.device_index = static_cast<std::uint32_t>(i);
    status = FormatMember(&members_[i], superblock);
  }
  // Names come last: a file with a name belongs to a set that is complete or was never used.
  for (Member& member : members_) {
    if (member.directory == nullptr) continue;
    if (status.ok()) status = member.directory->PublishFile();
    if (!status.ok()) member.directory->DropFile();
  }
  TP_RETURN_IF_ERROR(status);
  for (Member& member : members_) {
    member.is_fresh = false;
    TP_RETURN_IF_ERROR(OpenMember(&member));
  }
  return OkStatus();
}

Status Volume::FormatMember(Member* member, Superblock superblock) const {
  const auto bytes = BytesFor(*member);
  if (!bytes.ok()) return bytes.status();
  auto layout = PlanLayout(*bytes, options_.layout);
  if (!layout.ok()) return layout.status();
  superblock.layout = *layout;
  if (member->directory == nullptr) return FormatDevice(member->device.get(), superblock);
  member->queue.reset();
  member->device.reset();
  superblock.directory_device = member->directory->device();
  superblock.directory_inode = member->directory->inode();
  auto device = member->directory->MakeFile(superblock.layout.device_bytes);
  if (!device.ok()) return device.status();
  return FormatDevice(device->get(), superblock);
}

// Everything before the slots is written with zeros: blocks that were only reserved cost the first
// durable write to each a change of the file system's own log.
Status Volume::FormatDevice(Device* device, const Superblock& superblock) const {
  auto queue = device->OpenQueue(kQueueDepth);
  if (!queue.ok()) return queue.status();
  const BlockBuffer zeros(kVolumeUnitBytes);
  const std::uint64_t end = superblock.layout.slots_begin;
  for (std::uint64_t at = kSuperblockSlots * kDeviceBlockBytes; at < end; at += kVolumeUnitBytes) {
    const Bytes piece = zeros.bytes().first(std::min<std::uint64_t>(kVolumeUnitBytes, end - at));
    TP_RETURN_IF_ERROR(WriteBlocks(queue->get(), at, piece));
  }
  TP_RETURN_IF_ERROR(FlushDevice(queue->get()));
  return WriteSuperblock(queue->get(), superblock);
}

Status Volume::CheckSet() const {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const Status checked = CheckMember(i);
    if (!checked.ok()) return WithName(checked, NameOf(members_[i]));
  }
  return OkStatus();
}

Status Volume::CheckMember(std::size_t index) const {
  const Member& member = members_[index];
  const Superblock& found = member.found;
  const std::string remove = RemoveText(NameOf(member));
  const auto refused = [](const std::string& what, const std::string& remedy) {
    return Status(StatusCode::kFailedPrecondition, what, remedy);
  };
  TP_RETURN_IF_ERROR(CheckOwner(found, options_, remove));
  TP_RETURN_IF_ERROR(CheckPlaceInSet(index));
  const std::uint32_t cores = found.layout.cores;
  if (cores != options_.layout.cores) {
    return refused("it was written with " + std::to_string(cores) + " cores, and this start has " +
                       std::to_string(options_.layout.cores),
                   "give --cores " + std::to_string(cores) + ", or " + remove);
  }
  if (found.layout.slot_bytes != options_.layout.slot_bytes) {
    return refused("its slots have " + std::to_string(found.layout.slot_bytes) + " bytes, not " +
                       std::to_string(options_.layout.slot_bytes),
                   "use the version of kvd that wrote it, or " + remove);
  }
  const std::uint64_t bytes = options_.bytes / kDeviceBlockBytes * kDeviceBlockBytes;
  if (member.directory != nullptr && bytes != 0 && bytes != found.layout.device_bytes) {
    return refused("it has " + std::to_string(found.layout.device_bytes) +
                       " bytes, and --nvm-size says " + std::to_string(options_.bytes),
                   "leave --nvm-size out to use it as it is, or " + remove);
  }
  return OkStatus();
}

// Checks the owner of the device, and whether this is its newest state.
Status Volume::CheckOwner(const Superblock& found, const VolumeOptions& options,
                          const std::string& remove) const {
  const auto refused = [](const std::string& what, const std::string& remedy) {
    return Status(StatusCode::kFailedPrecondition, what, remedy);
  };
  if (found.node != options.node) {
    return refused("belongs to node " + FormatUuid(found.node) + ", and this is node " +
                       FormatUuid(options.node),
                   "give the --data-dir of that node, or " + remove);
  }
  if (found.incarnation >= options.incarnation) {
    return refused("it was last used by start " + std::to_string(found.incarnation) +
                       " of this node, and this is start " + std::to_string(options.incarnation) +
                       ": the node's identity is older than its data",
                   "give the node's own --data-dir; if that is gone for good, give --adopt");
  }
  const bool is_older = found.incarnation != 0 && found.incarnation < options.incarnation_seen;
  if (!is_older || options.adopt) return OkStatus();
  return refused("it is as start " + std::to_string(found.incarnation) +
                     " of this node left it, and start " +
                     std::to_string(options.incarnation_seen) + " has used it since",
                 "put the newest file back; if that is gone for good, give --adopt: what was made "
                 "durable since is lost then");
}

std::vector<std::string> Volume::Moves(const std::string& host) const {
  const auto text = [](const std::string& h, std::uint64_t device, std::uint64_t inode) {
    return "host " + h + ", device " + std::to_string(device) + ", inode " + std::to_string(inode);
  };
  const std::string here = host.substr(0, kHostBytesMax);
  std::vector<std::string> moves;
  for (const Member& member : members_) {
    if (member.directory == nullptr || member.found.incarnation == 0) continue;
    const Superblock& found = member.found;
    const NvmDirectory& directory = *member.directory;
    if (found.host == here && found.directory_device == directory.device() &&
        found.directory_inode == directory.inode()) {
      continue;
    }
    moves.push_back(Quoted(NameOf(member)) + ": " +
                    text(found.host, found.directory_device, found.directory_inode) + " -> " +
                    text(here, directory.device(), directory.inode()));
  }
  return moves;
}

Status Volume::CheckStart(const VolumeOptions& options) const {
  for (const Member& member : members_) {
    const std::string name = NameOf(member);
    const Status checked = CheckOwner(member.found, options, RemoveText(name));
    if (!checked.ok()) return WithName(checked, name);
  }
  return OkStatus();
}

Status Volume::CheckPlaceInSet(std::size_t index) const {
  const Superblock& found = members_[index].found;
  if (found.volume == members_[0].found.volume && found.device_index == index &&
      found.device_count == members_.size()) {
    return OkStatus();
  }
  return Status(StatusCode::kFailedPrecondition,
                "it is device " + std::to_string(found.device_index + 1) + " of " +
                    std::to_string(found.device_count) + " of another list of directories",
                "name the directories of the last start in the same order" +
                    (for_reading_ ? "" : ", or " + RemoveText(NameOf(members_[index]))));
}

SlotPlace Volume::Place(std::uint64_t slot) const {
  const std::size_t device = slot % members_.size();
  const std::uint64_t index = slot / members_.size();
  TP_CHECK(index < layout(device).slot_count);
  return {device, layout(device).SlotOffset(index)};
}

VolumeUsage Volume::usage() const {
  VolumeUsage usage;
  usage.slots = slots_->count();
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const Device& device = *members_[i].device;
    const std::uint64_t used = slots_->used_of(i);
    usage.slots_used += used;
    usage.devices.push_back(
        {device.medium(), device.description(), layout(i).device_bytes, used * slot_bytes()});
  }
  return usage;
}

Status Volume::UpdateLocked(Member* member, absl::FunctionRef<void(Superblock&)> change) {
  TP_RETURN_IF_ERROR(failed_);
  Superblock next = member->current;
  change(next);
  ++next.generation;
  const Status written = WriteSuperblock(member->queue.get(), next);
  if (!written.ok()) return failed_ = WithName(written, NameOf(*member));
  member->current = next;
  return OkStatus();
}

Status Volume::Update(std::size_t device, absl::FunctionRef<void(Superblock&)> change) {
  const std::lock_guard lock(mutex_);
  return UpdateLocked(&members_[device], change);
}

Status Volume::RememberCluster(const Uuid& cluster) {
  const std::lock_guard lock(mutex_);
  for (Member& member : members_) {
    if (member.current.cluster == cluster) continue;
    TP_RETURN_IF_ERROR(UpdateLocked(
        &member, [&cluster](Superblock& superblock) { superblock.cluster = cluster; }));
  }
  return OkStatus();
}

Status Volume::WriteCatalog(Bytes content) {
  const std::lock_guard lock(mutex_);
  TP_RETURN_IF_ERROR(failed_);
  Member& first = members_.front();
  const Status written = storage::WriteCatalog(first.queue.get(), content, &first.current);
  if (written.code() == StatusCode::kDeviceError) failed_ = WithName(written, NameOf(first));
  return written;
}

Result<std::vector<std::byte>> Volume::ReadCatalog() {
  const std::lock_guard lock(mutex_);
  const Member& first = members_.front();
  auto content = storage::ReadCatalog(first.queue.get(), first.current);
  if (content.code() != StatusCode::kDataLoss) return content;
  const std::string name = NameOf(first);
  return Status(StatusCode::kDataLoss, Quoted(name) + ": " + std::string(content.status().what()),
                RemoveText(name));
}

Status Volume::Close() {
  const std::lock_guard lock(mutex_);
  for (Member& member : members_) {
    if (member.current.clean_stop) continue;
    TP_RETURN_IF_ERROR(
        UpdateLocked(&member, [](Superblock& superblock) { superblock.clean_stop = true; }));
  }
  return OkStatus();
}

}  // namespace tidepool::storage
