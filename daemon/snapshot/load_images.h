// This node's part of a restore: what some files hold.
//
//   services/snapshots_service -> [load_images] -> image_format, image_target
#pragma once

#include "daemon/routing/request_router.h"
#include "daemon/snapshot/write_images.h"
#include "tidepool/v1/snapshots.pb.h"

namespace tidepool::daemon::snapshot {

// Into a namespace that nobody else uses yet. A time to live goes on as it was when the image was
// taken. Each file is checked against its hash by its end, so the namespace means nothing after a
// failure. Of kinds without keys each file is of a partition that this node owns. Blocks; for a
// thread of gRPC's. Errors, with the file: kFailedPrecondition (it is not to be seen here, or its
// partition is another node's), kDataLoss (damaged), kUnimplemented (another format), those of puts
// and pushes, kCancelled.
Status LoadImages(RequestRouter* router, const placement::Namespace& space,
                  const v1::LoadImagesRequest& request, const Report& report);

}  // namespace tidepool::daemon::snapshot
