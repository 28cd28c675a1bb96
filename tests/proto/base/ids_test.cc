#include "proto/base/ids.h"

#include <catch2/catch.hpp>

namespace tidepool {
namespace {

TEST_CASE("APartitionIdCarriesItsNamespaceAndIndex") {
  const PartitionId id(NamespaceId(1'000'000), 4'095);
  CHECK(id.space() == NamespaceId(1'000'000));
  CHECK(id.index() == 4'095);
  CHECK(PartitionId(id.value()) == id);
}

TEST_CASE("AnLsnOfAGreaterTermIsGreaterWhateverTheCounter") {
  const Lsn before(Term(3), (1ull << 44) - 1);
  const Lsn after(Term(4), 0);
  CHECK(before < after);
  CHECK(before.term() == Term(3));
  CHECK(before.counter() == (1ull << 44) - 1);
}

}  // namespace
}  // namespace tidepool
