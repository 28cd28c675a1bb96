// Opens the node's devices by its options.
//
//   daemon/node/node -> [node_volume] -> storage/nvm/volume
#pragma once

#include <memory>
#include <string>

#include "daemon/config/options.h"
#include "daemon/membership/identity.h"
#include "proto/base/result.h"
#include "storage/nvm/volume.h"

namespace tidepool::daemon {

// Returns the first directory of --nvm-dir, where the node's identity is kept unless --data-dir is
// given; "" without --nvm-dir. The directory must exist: a mistyped path must not create one.
// Errors: those of storage::NvmDirectory::Check.
Result<std::string> FirstNvmDirectory(const Options& options);

// Opens the volume; null without --nvm-dir. Errors: those of storage::Volume::Open and
// Identity::RememberDevices, one clear line each.
Result<std::unique_ptr<storage::Volume>> OpenVolume(const Options& options, Identity* identity);

}  // namespace tidepool::daemon
