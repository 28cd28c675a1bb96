#include "proto/base/wrong_kind.h"

#include <catch2/catch.hpp>

namespace tidepool {
namespace {

TEST_CASE("AWrongKindIsNamedWithTheRightOnesAndWithWhatItHas") {
  const Status status =
      WrongKind("jobs", Kind::kQueue, "get", MaskOf(Kind::kHash) | MaskOf(Kind::kOrdered));
  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK(status.what() == "namespace 'jobs' is of kind queue; get needs hash or ordered");
  CHECK(status.remedy() == "queues: kvctl push, pop, peek");
  for (int i = 1; i < kKindCount; ++i) {
    CHECK_FALSE(WrongKind("x", static_cast<Kind>(i), "get", MaskOf(Kind::kHash)).remedy().empty());
  }
}

}  // namespace
}  // namespace tidepool
