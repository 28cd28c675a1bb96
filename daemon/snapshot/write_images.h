// This node's part of a snapshot: writes an image of each of its partitions, one after the other,
// directly from the store into files.
//
//   services/snapshots_service -> [write_images] -> partition_source (on the owner core), files
#pragma once

#include <functional>

#include "daemon/routing/request_router.h"
#include "tidepool/v1/snapshots.pb.h"

namespace tidepool::daemon::snapshot {

// Returns false to end the work.
using Report = std::function<bool(const v1::ImagesProgress&)>;

// Each file is on disk under its name when it is reported. Unfinished files are removed unless the
// process ends. Blocks; for a gRPC thread.
// Errors, naming the partition: kFailedPrecondition (the directory is not the caller's; part of the
// namespace is lost), kUnavailable, kAborted (partitions move), kResourceExhausted (disk, or
// changes come faster than they can be written), kDataLoss, kDeviceError, kCancelled.
Status WriteImages(const RequestRouter& router, const placement::Namespace& space,
                   const v1::WriteImagesRequest& request, const Report& report);

}  // namespace tidepool::daemon::snapshot
