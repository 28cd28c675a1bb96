// Applies the items of an image, by kind of the namespace.
//
//   load_images -> [image_target] -> record_target, item_target, filter_target
#pragma once

#include <memory>
#include <optional>

#include "daemon/routing/request_router.h"
#include "daemon/snapshot/image_format.h"
#include "tidepool/v1/snapshots.pb.h"

namespace tidepool::daemon::snapshot {

// One thread; blocks. The arguments of Make must outlive it.
class ImageTarget {
 public:
  // Errors: kUnavailable (this node is not in the map).
  static Result<std::unique_ptr<ImageTarget>> Make(RequestRouter* router,
                                                   const placement::Namespace& space);
  virtual ~ImageTarget() = default;

  // Begins a file. Errors: kFailedPrecondition (its partition is another node's).
  virtual Status Begin(const v1::ImageFile& file) = 0;
  // Returns true if all items of a file must be checked before the first is applied.
  virtual bool looks_first() const { return false; }
  virtual Status Look(const ImageItem& /*item*/) { return OkStatus(); }
  // Applies an item, at the next Flush at the latest.
  virtual Status Obey(const ImageItem& item) = 0;
  // Applies all pending items; their views may end after the return.
  virtual Status Flush() = 0;
};

// For kinds hash and ordered: puts and deletes on the owners of the keys.
Result<std::unique_ptr<ImageTarget>> MakeRecordTarget(RequestRouter* router,
                                                      const placement::Namespace& space);
// For kinds queue and priority: pushes into the partition of the same number, which is on this
// node.
std::unique_ptr<ImageTarget> MakeItemTarget(RequestRouter* router,
                                            const placement::Namespace& space);
// For kind bloom: sets bits of the partition of the same number, which is on this node.
std::unique_ptr<ImageTarget> MakeFilterTarget(RequestRouter* router,
                                              const placement::Namespace& space);

// Returns the place of a file's partition on this node. Errors: kInvalidArgument,
// kFailedPrecondition.
Result<placement::PartitionPlace> PlaceOf(const RequestRouter& router,
                                          const placement::Namespace& space,
                                          const v1::ImageFile& file);
// Returns the remaining time to live at the time of the image; 0: for ever; unset: expired.
std::optional<std::uint64_t> TtlOf(const ImageItem& item, std::uint64_t taken_at_ms);

}  // namespace tidepool::daemon::snapshot
