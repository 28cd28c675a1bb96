// The node's devices, as its options name them.
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

// The first directory of --nvm-dir, where the node's identity is kept unless --data-dir says
// otherwise; "" without --nvm-dir. It must be there: what names a mistyped directory may not make
// it. Errors: as storage::NvmDirectory::Check.
Result<std::string> FirstNvmDirectory(const Options& options);

// Null without --nvm-dir. Errors: as storage::Volume::Open, one clear line each, and as
// Identity::RememberDevices.
Result<std::unique_ptr<storage::Volume>> OpenVolume(const Options& options, Identity* identity);

}  // namespace tidepool::daemon
