#include "proto/base/unique_fd.h"

#include <fcntl.h>

#include <catch2/catch.hpp>
#include <utility>

namespace tidepool {
namespace {

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }
int OpenNull() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

TEST_CASE("ADescriptorIsClosedWithItsOwner") {
  int fd = -1;
  {
    const UniqueFd owner(OpenNull());
    fd = owner.get();
    REQUIRE(owner.is_open());
    REQUIRE(IsOpen(fd));
  }
  CHECK_FALSE(IsOpen(fd));
}

TEST_CASE("AnObjectWithoutADescriptorClosesNone") {
  UniqueFd none;
  UniqueFd failed(-2);
  CHECK_FALSE(none.is_open());
  CHECK_FALSE(failed.is_open());
  CHECK(failed.get() == -1);
  none.Reset();
  CHECK(failed.Release() == -1);
}

TEST_CASE("AMoveGivesTheDescriptorAwayAndClosesTheFormerOne") {
  UniqueFd first(OpenNull());
  UniqueFd second(OpenNull());
  const int first_fd = first.get();
  const int second_fd = second.get();
  first = std::move(second);
  CHECK_FALSE(IsOpen(first_fd));
  CHECK(IsOpen(second_fd));
  CHECK(first.get() == second_fd);
  CHECK_FALSE(second.is_open());
  UniqueFd& same = first;
  first = std::move(same);
  CHECK(first.get() == second_fd);
  CHECK(IsOpen(second_fd));
}

TEST_CASE("AReleasedDescriptorStaysOpen") {
  int fd = -1;
  {
    UniqueFd owner(OpenNull());
    fd = owner.Release();
    CHECK_FALSE(owner.is_open());
  }
  CHECK(IsOpen(fd));
  const UniqueFd again(fd);
}

}  // namespace
}  // namespace tidepool
