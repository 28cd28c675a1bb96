#include "tidepool/namespace.h"

#include "client/space.h"

namespace tidepool {

std::string_view NamespaceKindName(NamespaceKind kind) {
  return placement::KindName(static_cast<placement::Kind>(kind));
}

const std::string& Namespace::name() const { return space_->state()->name; }

NamespaceKind Namespace::kind() const { return static_cast<NamespaceKind>(space_->state()->kind); }

std::uint32_t Namespace::partitions() const {
  return static_cast<std::uint32_t>(space_->state()->queues.size());
}

std::uint32_t Namespace::OwnerOf(std::string_view key) const {
  return space_->engine()->OwnerOf(*space_->state(), AsBytes(key));
}

}  // namespace tidepool
