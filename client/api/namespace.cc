#include "tidepool/namespace.h"

#include "client/engine/space.h"

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

Result<Namespace> Namespace::WithPrefilter(const PrefilterUse& use) const {
  const internal::SpaceState* state = space_->state();
  if (state->options.prefilter != ToString(Prefilter::kAbsent)) {
    return Status(
        StatusCode::kFailedPrecondition,
        "namespace '" + state->name + "' has prefilter '" + state->options.prefilter + "'",
        "make it with prefilter 'absent'");
  }
  auto copy = std::make_shared<internal::AbsentCopy>(use);
  TP_RETURN_IF_ERROR(copy->Refresh(*space_));
  return Namespace(std::make_shared<internal::Space>(space_->engine(), space_->state(), copy,
                                                     space_->promise(), space_->use()));
}

Namespace Namespace::WithPromise(Promise promise, const PromiseUse& use) const {
  return Namespace(std::make_shared<internal::Space>(space_->engine(), space_->state(),
                                                     space_->shared_absent(), promise, use));
}

void Namespace::EndRound() const { space_->EndRound(); }

Status Namespace::RefreshPrefilter() const {
  if (space_->absent() != nullptr) return space_->absent()->Refresh(*space_);
  return Status(StatusCode::kFailedPrecondition, "this handle has no copy of a prefilter",
                "make one by WithPrefilter");
}

PrefilterStats Namespace::prefilter_stats() const {
  return space_->absent() == nullptr ? PrefilterStats() : space_->absent()->stats();
}

}  // namespace tidepool
