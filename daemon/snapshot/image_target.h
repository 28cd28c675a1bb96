// Who obeys the items of an image, by kind of the namespace.
//
//   load_images -> [image_target] -> record_target, item_target, filter_target
#pragma once

#include <memory>
#include <optional>

#include "daemon/routing/request_router.h"
#include "daemon/snapshot/image_format.h"
#include "tidepool/v1/snapshots.pb.h"

namespace tidepool::daemon::snapshot {

// One thread; blocks. What it is made of must outlive it.
class ImageTarget {
 public:
  // Errors: kUnavailable (this node is not in the map).
  static Result<std::unique_ptr<ImageTarget>> Make(RequestRouter* router,
                                                   const placement::Namespace& space);
  virtual ~ImageTarget() = default;

  // Which file comes next. Errors: kFailedPrecondition (its partition is another node's).
  virtual Status Begin(const v1::ImageFile& file) = 0;
  // Whether it must have looked at all items of a file before it obeys the first.
  virtual bool looks_first() const { return false; }
  virtual Status Look(const ImageItem& /*item*/) { return OkStatus(); }
  // Later, at the next Flush at latest.
  virtual Status Obey(const ImageItem& item) = 0;
  // From here on what items have viewed may go.
  virtual Status Flush() = 0;
};

// Of kinds hash and ordered: puts and deletes, wherever the keys belong.
Result<std::unique_ptr<ImageTarget>> MakeRecordTarget(RequestRouter* router,
                                                      const placement::Namespace& space);
// Of kinds queue and priority: pushes into the partition of the same number, which is here.
std::unique_ptr<ImageTarget> MakeItemTarget(RequestRouter* router,
                                            const placement::Namespace& space);
// Of kind bloom: bits of the partition of the same number, which is here.
std::unique_ptr<ImageTarget> MakeFilterTarget(RequestRouter* router,
                                              const placement::Namespace& space);

// The partition that a file is of, if this node has it. Errors: kInvalidArgument,
// kFailedPrecondition.
Result<placement::PartitionPlace> PlaceOf(const RequestRouter& router,
                                          const placement::Namespace& space,
                                          const v1::ImageFile& file);
// What was left of its time to live when the image was taken; 0: for ever. None: it was over.
std::optional<std::uint64_t> TtlOf(const ImageItem& item, std::uint64_t taken_at_ms);

}  // namespace tidepool::daemon::snapshot
