#include "daemon/node/node_volume.h"

#include <utility>

#include "daemon/config/split_list.h"
#include "proto/base/log.h"

namespace tidepool::daemon {
namespace {

constexpr std::uint64_t kBytesPerMemory = 4;  // Size of a new file per memory, without --nvm-size.

}  // namespace

Result<std::string> FirstNvmDirectory(const Options& options) {
  const std::vector<std::string> directories = SplitList(options.nvm_dir);
  if (directories.empty()) return std::string();
  TP_RETURN_IF_ERROR(storage::NvmDirectory::Check(directories.front()));
  return directories.front();
}

Result<std::unique_ptr<storage::Volume>> OpenVolume(const Options& options, Identity* identity) {
  storage::VolumeOptions volume_options;
  volume_options.directories = SplitList(options.nvm_dir);
  if (volume_options.directories.empty()) return std::unique_ptr<storage::Volume>();
  auto node = storage::ParseUuid(identity->uuid());
  if (!node.ok()) return node.status();
  volume_options.layout.cores = options.cores;
  volume_options.node = *node;
  volume_options.incarnation = identity->incarnation();
  volume_options.keep_slots = true;
  volume_options.incarnation_seen = identity->nvm_incarnation();
  volume_options.host = identity->host();
  volume_options.adopt = options.adopt;
  volume_options.bytes = options.nvm_bytes;
  volume_options.bytes_default = kBytesPerMemory * options.memory_bytes;
  auto volume = storage::Volume::Open(volume_options);
  if (!volume.ok()) return volume;
  for (const std::string& move : (*volume)->Moves(identity->host())) {
    log::Info("a device was moved: " + move);
  }
  if ((*volume)->found(0).incarnation == 0 && identity->nvm_incarnation() != 0) {
    log::Warn("the devices are new; what this node kept on others is not here");
  }
  TP_RETURN_IF_ERROR(identity->RememberDevices());
  for (const auto& device : (*volume)->usage().devices) {
    log::Info("device " + device.description + ", " + FormatSize(device.bytes));
  }
  return volume;
}

}  // namespace tidepool::daemon
