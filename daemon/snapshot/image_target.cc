#include "daemon/snapshot/image_target.h"

namespace tidepool::daemon::snapshot {

Result<std::unique_ptr<ImageTarget>> ImageTarget::Make(RequestRouter* router,
                                                       const placement::Namespace& space) {
  if (space.kind == Kind::kBloom) return MakeFilterTarget(router, space);
  if ((MaskOf(space.kind) & wire::kItemKinds) != 0) return MakeItemTarget(router, space);
  return MakeRecordTarget(router, space);
}

Result<placement::PartitionPlace> PlaceOf(const RequestRouter& router,
                                          const placement::Namespace& space,
                                          const v1::ImageFile& file) {
  if (file.partition() >= space.partitions.size()) {
    return Status(StatusCode::kInvalidArgument, "the namespace has no such partition");
  }
  const placement::PartitionPlace& place = space.partitions[file.partition()];
  TP_RETURN_IF_ERROR(router.CheckPlace(space, place));
  if (place.node == router.context().self()) return place;
  return Status(StatusCode::kFailedPrecondition, "its partition is another node's",
                "run the same command again");
}

std::optional<std::uint64_t> TtlOf(const ImageItem& item, std::uint64_t taken_at_ms) {
  if (item.expiry_ms == 0) return 0;
  if (item.expiry_ms <= taken_at_ms) return std::nullopt;
  return item.expiry_ms - taken_at_ms;
}

}  // namespace tidepool::daemon::snapshot
