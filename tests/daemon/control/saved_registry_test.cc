#include "daemon/control/saved_registry.h"

#include <catch2/catch.hpp>

namespace tidepool::daemon {
namespace {

TEST_CASE("ANamespaceIsSavedUntilItChanges") {
  SavedRegistry registry;
  const NamespaceId space(3);
  CHECK_FALSE(registry.IsSaved(space, 10));
  registry.MarkSaved(space, 10);
  CHECK(registry.IsSaved(space, 10));
  CHECK_FALSE(registry.IsSaved(space, 11));
  CHECK_FALSE(registry.IsSaved(NamespaceId(4), 10));
  registry.MarkSaved(space, 11);
  CHECK(registry.IsSaved(space, 11));
}

}  // namespace
}  // namespace tidepool::daemon
