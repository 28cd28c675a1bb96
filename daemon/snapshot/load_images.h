// This node's part of a restore: loads the content of files.
//
//   services/snapshots_service -> [load_images] -> image_format, image_target
#pragma once

#include "daemon/routing/request_router.h"
#include "daemon/snapshot/write_images.h"
#include "tidepool/v1/snapshots.pb.h"

namespace tidepool::daemon::snapshot {

// Loads files into a namespace that no client uses yet. Times to live continue as of the image.
// Each file is checked against its hash at its end, so the namespace is void after a failure. For
// kinds without keys, this node must own the partition of each file. Blocks; for a gRPC thread.
// Errors, naming the file: kFailedPrecondition (not visible here, or its partition is another
// node's), kDataLoss (damaged), kUnimplemented (another format), those of puts and pushes,
// kCancelled.
Status LoadImages(RequestRouter* router, const placement::Namespace& space,
                  const v1::LoadImagesRequest& request, const Report& report);

}  // namespace tidepool::daemon::snapshot
